//! From a chosen response to bytes owed, sent and logged: persistence, coalescing, the access log.

use super::exchange::Answered;
use super::output::{Manner, Progress};
use super::step::{CloseReason, ConnState, Interest};
use super::{AfterSend, Connection, Flow, Phase, is_gone, read};
use crate::config::Config;
use crate::context::ThreadContext;
use crate::http::head::{Head, Version};
use crate::http::response::{Envelope, Length, Persistence, Response};
use crate::slot::Status;

/// A response made in memory waits for the pipelining check if it is smaller than this (mpm-semantics 8).
const SMALL_RESPONSE: usize = 4096;

/// Keep or close, by Apache's rule (mpm-semantics 2, "The KA decision").
///
/// `kept` counts the responses after which the connection was kept already: MaxKeepAliveRequests N serves N + 1.
pub(super) fn persistence(
    config: &Config,
    head: &Head,
    response: &Response,
    kept: u32,
    stopping: bool,
) -> Persistence {
    let left = match config.max_keep_alive_requests {
        0 => None,
        max => Some(max.saturating_sub(kept)),
    };
    let length_is_told = match response.length {
        Length::Known(_) | Length::Absent => true,
        Length::Unknown | Length::Chunked => head.version == Version::Http11,
    };
    let client_stays = match head.version {
        Version::Http09 => false,
        Version::Http10 => head.says_keep_alive,
        Version::Http11 => true,
    };
    let keep = !response.close
        && config.keep_alive
        && !config.keep_alive_timeout.is_zero()
        && left != Some(0)
        && length_is_told
        && !head.says_close
        && client_stays
        && !stopping;
    match keep {
        false => Persistence::Close,
        // Announced only to a client that sent the token.
        true if head.says_keep_alive => {
            Persistence::KeepAnnounced { timeout: config.keep_alive_timeout.as_secs(), max: left }
        }
        true => Persistence::Keep,
    }
}

impl Connection {
    /// Turns a response into bytes owed. `body_unread` says that a request body was left in the socket, so that what
    /// follows cannot be told from it: the connection must close.
    pub(super) fn respond(
        &mut self,
        cx: &mut ThreadContext<'_>,
        mut response: Response,
        body_unread: bool,
    ) -> Flow {
        let exchange = self.exchange.as_deref_mut().expect("holds the request");
        response.close |= body_unread && !response.hang_up;
        let persistence =
            persistence(&cx.server.config, &exchange.head, &response, self.kept, cx.leaving.stopping());
        let keeps = persistence != Persistence::Close && !response.hang_up;
        let envelope = Envelope {
            version: exchange.head.version,
            date: cx.clock.date(),
            server: &cx.server.banner,
            persistence,
        };
        let status = response.status;
        let queued = exchange.output.memory_mut().len();
        let output_before = exchange.output.total() + exchange.output.pending() as u64;
        let file = response.emit(&envelope, exchange.output.memory_mut());
        let emitted = &exchange.output.memory_mut()[queued..];
        let logged = cx.server.access_log.is_some();
        let header_bytes = if logged { header_length(emitted, exchange.head.version) } else { 0 };
        let emitted_bytes = emitted.len() as u64;
        let small = file.is_none() && emitted.len() < SMALL_RESPONSE;
        exchange.output.begin(file);
        exchange.answered = Some(Answered { status, header_bytes, output_before, keeps });
        if !keeps {
            return Flow::Go(Phase::Send { then: AfterSend::Close });
        }
        self.kept += 1;
        if small {
            self.defer(cx, emitted_bytes)
        } else {
            Flow::Go(Phase::Send { then: AfterSend::Next { probed: false } })
        }
    }

    /// A small answer made in memory: look for a pipelined request first, then write, the order of Apache's calls. With
    /// more input at hand, up to FlushMaxPipelined answers of together less than 4096 bytes wait for one common write; one
    /// more is written, and they with it, before anybody looks.
    fn defer(&mut self, cx: &mut ThreadContext<'_>, emitted: u64) -> Flow {
        let exchange = self.exchange.as_deref_mut().expect("holds the request");
        let deferred = exchange.output.defer();
        let config = &cx.server.config;
        let waits = config.knobs.coalesce;
        let full = config.flush_max_pipelined.is_some_and(|most| deferred > most)
            || exchange.output.pending() >= SMALL_RESPONSE;
        if waits && full {
            return Flow::Go(Phase::Send { then: AfterSend::Next { probed: false } });
        }
        let more = match read::look(self.socket.as_ref(), exchange, cx) {
            read::Filled::Some => true,
            read::Filled::Nothing | read::Filled::End => false,
            read::Filled::Failed => return Flow::Close(CloseReason::Client),
        };
        if more && waits {
            exchange.format_log(cx, &self.peer, Some(emitted));
            exchange.end_handler(cx, true);
            return Flow::Go(Phase::NextRequest { probed: true });
        }
        Flow::Go(Phase::Send { then: AfterSend::Next { probed: !more } })
    }

    /// Send. Entered with bytes owed; leaves when all are with the kernel.
    ///
    /// When the handler leaves with bytes still owed, Apache looks for a pipelined request and tries the socket once more
    /// before anybody waits.
    pub(super) fn send(&mut self, cx: &mut ThreadContext<'_>, then: AfterSend) -> Flow {
        let fd = self.fd();
        let exchange = self.exchange.as_deref_mut().expect("holds the output");
        // Writing makes APR forget that the last read was short.
        exchange.drained &= !cx.server.config.knobs.reread;
        match exchange.output.write(fd, Manner::of(cx.server)) {
            Ok(Progress::Done) => {}
            Ok(Progress::Blocked { just_left: true, .. }) => {
                let unprobed = then == AfterSend::Next { probed: false };
                if !unprobed || exchange.request_end < exchange.input.len() {
                    return Flow::Go(Phase::Send { then });
                }
                return match read::probe(self.socket.as_ref(), exchange, cx) {
                    read::Filled::Failed => Flow::Close(CloseReason::Client),
                    _ => Flow::Go(Phase::Send { then: AfterSend::Next { probed: true } }),
                };
            }
            Ok(Progress::Blocked { in_handler, .. }) => {
                let state = if in_handler { ConnState::Output } else { ConnState::WriteCompletion };
                if !in_handler {
                    exchange.end_handler(cx, false);
                }
                return self.wait(state, Interest::Write, cx.server.config.timeout);
            }
            Err(errno) if is_gone(errno) => return Flow::Close(CloseReason::Client),
            Err(errno) => return Flow::Close(CloseReason::Error(errno as i32)),
        }
        if matches!(then, AfterSend::ReadRequest | AfterSend::ReadBody) {
            exchange.write_lines(cx);
        } else {
            cx.slot.set(Status::Log);
            exchange.write_log(cx, &self.peer);
            exchange.output.close_file();
        }
        match then {
            AfterSend::Next { probed } => Flow::Go(Phase::NextRequest { probed }),
            AfterSend::Close => self.begin_linger(false, CloseReason::Finished),
            AfterSend::Retire => self.begin_linger(false, CloseReason::Retired),
            AfterSend::ReadRequest => Flow::Go(Phase::ReadRequest),
            AfterSend::ReadBody => Flow::Go(Phase::ReadBody),
        }
    }
}

/// Where the header ends in an emitted response: the log tells body bytes from wire bytes.
fn header_length(emitted: &[u8], version: Version) -> u64 {
    if version == Version::Http09 {
        return 0;
    }
    emitted.windows(4).position(|w| w == b"\r\n\r\n").map_or(emitted.len(), |at| at + 4) as u64
}
