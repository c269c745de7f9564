//! The scenarios, one file per subject.

mod connection;
mod letters;
mod lifecycle;
mod linger;
mod pipeline;
mod readtimeout;
mod spawn;
mod status;
mod timeouts;

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
];
