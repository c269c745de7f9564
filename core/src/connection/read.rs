//! ReadRequest and ReadBody: from bytes to a head, and through a body that nobody wants.

use super::exchange::Exchange;
use super::step::{CloseReason, ConnState, Interest};
use super::{AfterSend, Connection, Flow, Phase};
use crate::context::ThreadContext;
use crate::http::body::{BodyReader, Consumed};
use crate::http::head::{BodyFraming, Parsed, Refusal};
use crate::request;
use crate::slot::Status;
use crate::sys;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Bytes.
    Some,
    /// EAGAIN.
    Nothing,
    /// End of file.
    End,
    /// The connection is broken.
    Failed,
}

/// One read into the input buffer.
pub(super) fn fill(socket: Option<&OwnedFd>, exchange: &mut Exchange) -> Filled {
    let Some(socket) = socket else { return Filled::Failed };
    exchange.compact();
    loop {
        return match sys::read_append(socket.as_raw_fd(), &mut exchange.input, sys::READ_SIZE) {
            Ok(0) => Filled::End,
            Ok(_) => Filled::Some,
            Err(Errno::EAGAIN) => Filled::Nothing,
            Err(Errno::EINTR) => continue,
            Err(_) => Filled::Failed,
        };
    }
}

/// Apache's statuses for a request that did not arrive whole.
const BAD_REQUEST: Refusal = Refusal::plain(400);
const REQUEST_TIMEOUT: Refusal = Refusal::plain(408);

impl Connection {
    /// ReadRequest. Entered with or without bytes in the buffer; leaves with a response chosen (a refusal is one), or
    /// to linger when the client ended without having begun a request.
    pub(super) fn read_request(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        let exchange = self.exchange.get_or_insert_with(|| cx.take_exchange());
        let mut fresh = exchange.has_input();
        loop {
            if fresh {
                if exchange.started.is_none() {
                    exchange.started = Some(Instant::now());
                }
                let at = exchange.at;
                match exchange.head.parse(&mut exchange.input[at..], &cx.server.config) {
                    Parsed::Partial { line_complete } => exchange.line_complete = line_complete,
                    Parsed::Complete(length) => {
                        exchange.head_end = at + length;
                        exchange.request_end = exchange.head_end;
                        return self.handle(cx);
                    }
                    Parsed::Refused(refusal) => {
                        // Whatever follows a head that was not understood is not a request either.
                        exchange.head_end = exchange.input.len();
                        exchange.request_end = exchange.head_end;
                        return self.refuse(cx, refusal);
                    }
                }
            }
            match fill(self.socket.as_ref(), exchange) {
                Filled::Some => fresh = true,
                // Nobody waits, or leaves, while answers to earlier pipelined requests are still owed.
                Filled::Nothing if exchange.output.pending() > 0 => {
                    return Flow::Go(Phase::Send { then: AfterSend::ReadRequest });
                }
                Filled::End if exchange.output.pending() > 0 && !exchange.line_complete => {
                    return Flow::Go(Phase::Send { then: AfterSend::Close });
                }
                Filled::Nothing => {
                    // A later request's line still runs under KeepAliveTimeout, its fields under Timeout
                    // (mpm-semantics 2, step 4a).
                    let config = &cx.server.config;
                    let idle = self.kept > 0 && !exchange.line_complete;
                    let limit = if idle { config.keep_alive_timeout } else { config.timeout };
                    self.phase = Phase::ReadRequest;
                    return self.wait(ConnState::ReadRequest, Interest::Read, limit);
                }
                Filled::End if exchange.line_complete => {
                    exchange.head_end = exchange.input.len();
                    return self.refuse(cx, BAD_REQUEST);
                }
                Filled::End => return self.begin_linger(false, CloseReason::Client),
                Filled::Failed => return Flow::Close(CloseReason::Client),
            }
        }
    }

    /// A complete head: choose the response, then see to the body.
    fn handle(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        cx.clock.tick();
        let exchange = self.exchange.as_deref_mut().expect("holds the head");
        exchange.handled = true;
        cx.report_request(Status::Write, exchange.head.line.of(exchange.head_bytes()), &self.peer, self.kept);
        cx.report_begin();
        let response = request::handle(cx, &exchange.head, exchange.head_bytes(), &self.peer);
        let framing = exchange.head.body;
        // A body is read before the answer, so that the next request can be found behind it, and because Apache's handler
        // asks for it first; not if the answer was made before the handler and the client waits for a go-ahead.
        let unwanted = response.skip_body;
        if framing == BodyFraming::None || unwanted {
            return self.respond(cx, response, unwanted && framing != BodyFraming::None);
        }
        exchange.response = Some(response);
        let config = &cx.server.config;
        exchange.body = BodyReader::new(framing, config.limit_request_body)
            .with_field_limits(config.limit_request_fields, config.limit_request_field_size);
        if exchange.head.expects_continue {
            exchange.output.interim(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if exchange.output.pending() > 0 {
            return Flow::Go(Phase::Send { then: AfterSend::ReadBody });
        }
        Flow::Go(Phase::ReadBody)
    }

    /// ReadBody. Entered with the response chosen; bytes behind the head may already be there.
    pub(super) fn read_body(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        let exchange = self.exchange.as_deref_mut().expect("holds the head");
        loop {
            let head_end = exchange.head_end;
            match exchange.body.consume(&exchange.input[head_end..]) {
                Consumed::More => exchange.input.truncate(head_end),
                Consumed::Done(length) => {
                    exchange.request_end = head_end + length;
                    let response = exchange.response.take().expect("chosen before the body is read");
                    return self.respond(cx, response, false);
                }
                Consumed::Refused(refusal) => {
                    exchange.request_end = exchange.input.len();
                    return self.refuse(cx, refusal);
                }
            }
            match fill(self.socket.as_ref(), exchange) {
                Filled::Some => {}
                Filled::Nothing => {
                    self.phase = Phase::ReadBody;
                    return self.wait(ConnState::ReadBody, Interest::Read, cx.server.config.timeout);
                }
                Filled::End => return self.refuse(cx, BAD_REQUEST),
                Filled::Failed => return Flow::Close(CloseReason::Client),
            }
        }
    }

    /// Answers with an error and closes.
    fn refuse(&mut self, cx: &mut ThreadContext<'_>, mut refusal: Refusal) -> Flow {
        cx.clock.tick();
        let exchange = self.exchange.as_deref_mut().expect("holds what was read");
        if !exchange.handled {
            // No handler was asked: Apache answers and logs at once.
            exchange.refused = true;
            let line = exchange.head.line.of(exchange.head_bytes());
            cx.report_request(Status::Log, line, &self.peer, self.kept);
        }
        refusal.instead_of =
            exchange.response.take().filter(|chosen| chosen.early).map(|chosen| chosen.status);
        let response = request::refuse(cx, &exchange.head, exchange.head_bytes(), refusal);
        self.respond(cx, response, true)
    }

    /// Timeout in ReadRequest: 408 once the request line is there, silence before.
    pub(super) fn request_timed_out(&mut self, cx: &mut ThreadContext<'_>) -> Phase {
        let Some(exchange) = self.exchange.as_deref_mut().filter(|e| e.line_complete) else {
            return Phase::StartLinger { short: self.kept > 0, reason: CloseReason::TimedOut };
        };
        exchange.head_end = exchange.input.len();
        self.phase_of_refusal(cx, REQUEST_TIMEOUT)
    }

    /// Timeout in ReadBody: 408 in place of the response that was chosen.
    pub(super) fn body_timed_out(&mut self, cx: &mut ThreadContext<'_>) -> Phase {
        self.phase_of_refusal(cx, REQUEST_TIMEOUT)
    }

    fn phase_of_refusal(&mut self, cx: &mut ThreadContext<'_>, refusal: Refusal) -> Phase {
        match self.refuse(cx, refusal) {
            Flow::Go(phase) => phase,
            Flow::Wait(_) | Flow::Close(_) => Phase::Closed(CloseReason::TimedOut),
        }
    }
}
