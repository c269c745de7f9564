//! The scenarios, one file per subject.

mod accept;
mod calls;
mod connection;
mod letters;
mod lifecycle;
mod linger;
mod pipeline;
mod readtimeout;
mod spawn;
mod status;
mod timeouts;
mod event;
mod listen;
mod pool;
mod proc;
mod writes;

use super::Vector;

/// Every vector, by subject.
pub(super) const ALL: &[&[Vector]] = &[
    connection::VECTORS,
    linger::VECTORS,
    pipeline::VECTORS,
    timeouts::VECTORS,
    readtimeout::VECTORS,
    status::VECTORS,
    letters::VECTORS,
    spawn::VECTORS,
    lifecycle::VECTORS,
    accept::VECTORS,
    listen::VECTORS,
    event::VECTORS,
    writes::VECTORS,
    calls::VECTORS,
];
