//! The scenarios, one file per subject.

mod accept;
mod calls;
mod connection;
mod event;
mod letters;
mod lifecycle;
mod limits;
mod linger;
mod listen;
mod pipeline;
mod pool;
mod proc;
mod readtimeout;
mod restart;
mod spawn;
mod status;
mod timeouts;
mod writes;

use super::Vector;

/// Every vector, by subject.
pub(super) const ALL: &[&[Vector]] = &[
    connection::VECTORS,
    pipeline::VECTORS,
    linger::VECTORS,
    timeouts::VECTORS,
    readtimeout::VECTORS,
    accept::VECTORS,
    listen::VECTORS,
    event::VECTORS,
    writes::VECTORS,
    calls::VECTORS,
    spawn::VECTORS,
    limits::VECTORS,
    lifecycle::VECTORS,
    restart::VECTORS,
    letters::VECTORS,
    status::VECTORS,
];
