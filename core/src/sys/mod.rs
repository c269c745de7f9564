//! Every system call a connection makes, as functions. The room of `unsafe` in the core.
//!
//! Callers name `sys::read`, never a libc function, so that a counting or simulated twin can replace this module
//! without touching them (the way hubris swaps `arch`: same names, no trait, no cost).

mod linux;

pub use linux::*;

/// How much one read asks for: what Apache asks for, 8,000 of an 8,192-byte bucket (mpm-semantics 8).
pub const READ_SIZE: usize = 8000;
