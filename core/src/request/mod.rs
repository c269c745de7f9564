//! A request head to a response: Apache's request phases, in order.

use crate::context::ThreadContext;
use crate::handler;
use crate::http::head::{Head, Refusal};
use crate::http::response::Response;
use std::net::SocketAddr;

/// What is known about the connection a request came over.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The client.
    pub remote: SocketAddr,
    /// The address it reached us at.
    pub local: SocketAddr,
}

/// Answers a complete head. Never waits on a socket; may open and stat files.
pub fn handle(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], peer: &Peer) -> Response {
    let _ = peer;
    handler::file::serve(cx, head, buffer)
}

/// Answers a head that was refused. `head` holds what was understood before the refusal.
pub fn refuse(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], refusal: Refusal) -> Response {
    let _ = (cx, head, buffer);
    let mut response = Response::new(refusal.status);
    response.close = true;
    response
}
