//! HTTP as values: bytes to a head, a response to bytes, and the RFC sections in between. No descriptor in sight,
//! except that a response may own the file it will send.

pub mod body;
pub mod conditional;
pub mod date;
pub mod etag;
pub mod head;
pub mod host;
mod line;
mod meaning;
pub mod mime;
pub mod range;
pub mod response;
pub mod scan;
pub mod write;
