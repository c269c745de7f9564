//! Content producers, one file each.

pub mod dir;
pub mod error_page;
pub mod file;
pub mod status;
pub mod trace;
