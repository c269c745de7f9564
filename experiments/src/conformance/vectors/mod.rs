//! The scenarios, one file per subject.

mod connection;
mod lifecycle;
mod spawn;

use super::Vector;

/// Every vector, by subject.
pub(super) const ALL: &[&[Vector]] = &[connection::VECTORS, spawn::VECTORS, lifecycle::VECTORS];
