//! The concurrency models, and the process management they share.
