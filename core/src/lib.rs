//! mpmlab's HTTP core: the part that is the same under every concurrency model.
//!
//! # A request's life
//!
//! ```text
//! bytes -> Head -> Response -> Output -> LogLine -> the buffer again, or linger
//! ```
//!
//! 1. A model accepts a socket and makes a [`connection::Connection`] of it. From then on it only calls
//!    [`connection::Connection::advance`] and waits as the returned [`connection::step::Wait`] says.
//! 2. `connection/read.rs` reads bytes into a borrowed buffer until [`http::head`] finds a complete head or refuses.
//! 3. [`request::handle`] turns the head into a [`http::response::Response`]: maps the path to a file, refuses what
//!    leaves the document root, applies conditions and ranges. A refusal is a response made early, not an error.
//! 4. The request body, if any, is read and discarded (`http/body.rs`).
//! 5. `connection/output.rs` writes the header and the body's pieces by the configured strategy.
//! 6. The access log gets its line, and the connection goes on with the next request or lingers and closes.
//!
//! # What the core does not know
//!
//! - **Which model runs.** There is no name, flag or query for it. Inner differences between Apache's models are
//!   knobs ([`config::knobs`]) that a model's card sets.
//! - **Whether anyone waits.** `advance` never blocks on a socket (it may on the disk).
//! - Processes, forks, listeners, epoll: all in the models' crate.
//! - Raw system calls outside [`sys`], which is also the only place with `unsafe`.

pub mod config;
pub mod connection;
pub mod context;
pub mod handler;
pub mod http;
pub mod log;
pub mod monitor;
pub mod report;
pub mod request;
pub mod server;
pub mod slot;
#[allow(unsafe_code, reason = "the one room for raw system calls")]
pub mod sys;
