//! The scenarios, one file per subject.

mod accept;
mod calls;
mod connection;
mod event;
mod lifecycle;
mod listen;
mod pool;
mod proc;
mod spawn;
mod writes;

use super::Vector;

/// Every vector, by subject.
pub(super) const ALL: &[&[Vector]] = &[
    connection::VECTORS,
    spawn::VECTORS,
    lifecycle::VECTORS,
    accept::VECTORS,
    listen::VECTORS,
    event::VECTORS,
    writes::VECTORS,
    calls::VECTORS,
];
