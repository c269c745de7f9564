//! ReadRequest and ReadBody: from bytes to a head, and through a body that nobody wants.

use super::exchange::Exchange;
use super::step::{CloseReason, ConnState, Interest};
use super::{AfterSend, Connection, Flow, Phase};
use crate::config::knobs::LaterLine;
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

/// Whether a read is made for its own sake or would, in Apache, wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It looks whether there is something.
    Looking,
    /// It waits: if it brings less than it asked for, APR remembers that and waits first the next time.
    Waiting,
}

/// Looks for a pipelined request: in the buffer, then with one read after another. Blank lines are none; like Apache's check it
/// eats them, so that a client that ends its request with one too many is not kept waiting.
pub(super) fn look(socket: Option<&OwnedFd>, exchange: &mut Exchange, cx: &ThreadContext<'_>) -> Filled {
    loop {
        exchange.eat_blank_lines();
        if exchange.request_end < exchange.input.len() {
            return Filled::Some;
        }
        match probe(socket, exchange, cx) {
            Filled::Some => {}
            other => return other,
        }
    }
}

/// One read that looks for a pipelined request.
pub(super) fn probe(socket: Option<&OwnedFd>, exchange: &mut Exchange, cx: &ThreadContext<'_>) -> Filled {
    fill(socket, exchange, Manner::Looking, cx.server.config.knobs.reread)
}

/// One read into the input buffer.
fn fill(socket: Option<&OwnedFd>, exchange: &mut Exchange, manner: Manner, reread: bool) -> Filled {
    let Some(socket) = socket else { return Filled::Failed };
    exchange.compact();
    exchange.drained = false;
    loop {
        return match sys::read_append(socket.as_raw_fd(), &mut exchange.input, sys::READ_SIZE) {
            Ok(0) => Filled::End,
            Ok(got) => {
                exchange.drained = got < sys::READ_SIZE && (manner == Manner::Waiting || !reread);
                Filled::Some
            }
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
        let server = cx.server;
        let config = &server.config;
        let stage = &config.read_timeout.header;
        // With a limit on the stage mod_reqtimeout waits itself, and lets Apache's readers only look.
        let manner = if stage.initial > 0 { Manner::Looking } else { Manner::Waiting };
        let exchange = self.exchange.get_or_insert_with(|| cx.take_exchange());
        if exchange.patience.is_running() && exchange.patience.check(Instant::now()).is_err() {
            return Flow::Go(self.request_timed_out(cx));
        }
        let mut fresh = exchange.has_input();
        loop {
            if fresh {
                if exchange.started.is_none() {
                    exchange.started = Some(Instant::now());
                }
                let at = exchange.at;
                match exchange.head.parse(&mut exchange.input[at..], config) {
                    Parsed::Partial { line_complete } => {
                        exchange.line_complete = line_complete;
                        let now = Instant::now();
                        exchange.patience.start(stage, exchange.started.unwrap_or(now));
                        if line_complete && exchange.asked_us.is_none() {
                            cx.clock.tick();
                            exchange.asked_us = Some(cx.clock.now_us());
                        }
                        let counted = std::mem::replace(&mut exchange.counted, exchange.input.len() - at);
                        if exchange.patience.lines(&exchange.input[at + counted..], now).is_err() {
                            return Flow::Go(self.request_timed_out(cx));
                        }
                    }
                    Parsed::Complete(length) => {
                        exchange.head_end = at + length;
                        exchange.request_end = exchange.head_end;
                        exchange.patience.stop();
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
            let filled = match std::mem::take(&mut exchange.drained) {
                true => Filled::Nothing,
                false => fill(self.socket.as_ref(), exchange, manner, config.knobs.reread),
            };
            match filled {
                Filled::Some => fresh = true,
                // Nobody leaves, and without Apache's flaw nobody waits, while answers to earlier pipelined requests are
                // still owed.
                Filled::Nothing if exchange.output.pending() > 0 && !config.knobs.withhold => {
                    return Flow::Go(Phase::Send { then: AfterSend::ReadRequest });
                }
                Filled::End if exchange.output.pending() > 0 && !exchange.line_complete => {
                    return Flow::Go(Phase::Send { then: AfterSend::Close });
                }
                Filled::Nothing => {
                    // A later request's line may still run under KeepAliveTimeout, its fields run under Timeout
                    // (mpm-semantics 2, step 4a).
                    let later = self.kept > 0 && !exchange.line_complete;
                    let limit = match config.knobs.later_line {
                        LaterLine::KeepAlive if later => config.keep_alive_timeout,
                        _ => config.timeout,
                    };
                    // The first request's clock runs from the start, a later one's from its first byte.
                    if self.kept == 0 {
                        exchange.patience.start(stage, Instant::now());
                    }
                    let limit = exchange.patience.limit(limit);
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
        exchange.asked_us.get_or_insert(cx.clock.now_us());
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
        if exchange.output.pending() > 0 && (exchange.head.expects_continue || !config.knobs.withhold) {
            return Flow::Go(Phase::Send { then: AfterSend::ReadBody });
        }
        Flow::Go(Phase::ReadBody)
    }

    /// ReadBody. Entered with the response chosen; bytes behind the head may already be there.
    pub(super) fn read_body(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        let server = cx.server;
        let (config, reread) = (&server.config, server.config.knobs.reread);
        let exchange = self.exchange.as_deref_mut().expect("holds the head");
        let entered = Instant::now();
        // A line of the framing is not read if its time is up; content that has come counts first.
        let in_line = exchange.body.in_line() && exchange.patience.is_running();
        if in_line && exchange.patience.check(entered).is_err() {
            return Flow::Go(self.body_timed_out(cx));
        }
        loop {
            let head_end = exchange.head_end;
            let came = exchange.input.len() - head_end;
            match exchange.body.consume(&exchange.input[head_end..]) {
                Consumed::More => {
                    let now = Instant::now();
                    exchange.patience.start(&config.read_timeout.body, entered);
                    let patience = &mut exchange.patience;
                    let in_time = match exchange.body.in_line() {
                        _ if came == 0 => Ok(()),
                        true => patience.lines(&exchange.input[head_end..], now),
                        false => patience.piece(came, now),
                    };
                    exchange.input.truncate(head_end);
                    if in_time.is_err() {
                        return Flow::Go(self.body_timed_out(cx));
                    }
                }
                Consumed::Done(length) => {
                    exchange.request_end = head_end + length;
                    exchange.patience.stop();
                    let response = exchange.response.take().expect("chosen before the body is read");
                    return self.respond(cx, response, false);
                }
                Consumed::Refused(refusal) => {
                    exchange.request_end = exchange.input.len();
                    return self.refuse(cx, refusal);
                }
            }
            // Behind content that it has got, Apache looks for more before it asks for more. Of a line mod_reqtimeout
            // waits for the rest itself.
            let looks = reread && came > 0 && exchange.body.in_content();
            let waits_itself = reread && exchange.body.in_line() && exchange.patience.is_running();
            let manner = if waits_itself { Manner::Looking } else { Manner::Waiting };
            let mut filled = match std::mem::take(&mut exchange.drained) && !looks && !waits_itself {
                true => Filled::Nothing,
                false => fill(self.socket.as_ref(), exchange, manner, reread),
            };
            if filled == Filled::Nothing && looks {
                filled = fill(self.socket.as_ref(), exchange, manner, reread);
            }
            match filled {
                Filled::Some => {}
                Filled::Nothing => {
                    let limit = exchange.patience.limit(config.timeout);
                    self.phase = Phase::ReadBody;
                    return self.wait(ConnState::ReadBody, Interest::Read, limit);
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

    /// Time is up in ReadRequest: 408 once the request line is there. Before that nothing is sent, but a client that
    /// never made a request leaves a line in the log.
    pub(super) fn request_timed_out(&mut self, cx: &mut ThreadContext<'_>) -> Phase {
        let exchange = self.exchange.as_deref_mut().expect("held while a request is read");
        self.impatient |= exchange.patience.is_running();
        if !exchange.line_complete {
            if exchange.output.pending() > 0 {
                return Phase::Send { then: AfterSend::Close };
            }
            if self.kept == 0 {
                cx.slot.set(Status::Log);
                cx.clock.tick();
                exchange.log_silence(cx, &self.peer);
            }
            return Phase::StartLinger { short: false, reason: CloseReason::TimedOut };
        }
        exchange.head_end = exchange.input.len();
        self.phase_of_refusal(cx, REQUEST_TIMEOUT)
    }

    /// Time is up in ReadBody: 408 in place of the response that was chosen.
    pub(super) fn body_timed_out(&mut self, cx: &mut ThreadContext<'_>) -> Phase {
        self.impatient |= self.exchange.as_ref().is_some_and(|exchange| exchange.patience.is_running());
        self.phase_of_refusal(cx, REQUEST_TIMEOUT)
    }

    fn phase_of_refusal(&mut self, cx: &mut ThreadContext<'_>, refusal: Refusal) -> Phase {
        match self.refuse(cx, refusal) {
            Flow::Go(phase) => phase,
            Flow::Wait(_) | Flow::Close(_) => Phase::Closed(CloseReason::TimedOut),
        }
    }
}
