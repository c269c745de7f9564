//! Logs: the access log's formats and the error log's lines.

pub mod access;
