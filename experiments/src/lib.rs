//! mpmlab's laboratory: generates load, runs studies, probes processes, and writes reports.
//!
//! Everything here drives servers from outside, as processes: mpmlab's own no differently from Apache's or nginx's.

pub mod conformance;
pub mod duration;
pub mod interrupt;
pub mod load;
pub mod probe;
pub mod random;
pub mod reason;
pub mod report;
pub mod stats;
pub mod study;
pub mod target;
