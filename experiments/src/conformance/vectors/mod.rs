//! The scenarios, one file per subject.

mod connection;
mod lifecycle;
mod limits;
mod restart;
mod spawn;

use super::Vector;

/// Every vector, by subject.
pub(super) const ALL: &[&[Vector]] =
    &[connection::VECTORS, spawn::VECTORS, limits::VECTORS, lifecycle::VECTORS, restart::VECTORS];
