//! Content producers, one file each.

pub mod file;
