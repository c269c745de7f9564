//! What a server and the machine do while load runs, read from `/proc`: memory, CPU time, processes, disturbance.
//!
//! Probes only read. They know nothing of studies, and treat every server alike: a root process and what it started.

pub mod cpu;
pub mod host;
pub mod memory;
pub mod tree;
