//! What a request in progress needs: input buffer, head, response, output. Lent by the thread, so that an idle
//! connection costs only its own few bytes.

use super::elapsed_us;
use super::output::Output;
use super::patience::Patience;
use crate::config::knobs::LogLines;
use crate::context::ThreadContext;
use crate::http::body::BodyReader;
use crate::http::head::Head;
use crate::http::response::Response;
use crate::log::access::Entry;
use crate::request::Peer;
use crate::sys::READ_SIZE;
use std::time::Instant;

/// The working set of one request after another on one connection.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Bytes received; the current request starts at `at`.
    pub(super) input: Vec<u8>,
    pub(super) at: usize,
    pub(super) head: Head,
    /// Where the current request's head ends in `input`, 0 until it is complete.
    pub(super) head_end: usize,
    /// Where the current request ends in `input`.
    pub(super) request_end: usize,
    pub(super) line_complete: bool,
    /// How long the request may still take to arrive, and how many of its head's bytes have been counted for it.
    pub(super) patience: Patience,
    pub(super) counted: usize,
    /// The last read brought less than it asked for, so that another would find nothing.
    pub(super) drained: bool,
    pub(super) body: BodyReader,
    /// Chosen, not yet emitted: while the body is being read.
    pub(super) response: Option<Response>,
    pub(super) output: Output,
    /// The answer being sent, for the log. Taken when the line is written.
    pub(super) answered: Option<Answered>,
    /// Bytes written that the log and the scoreboard know of. Like mod_logio's counter it belongs to the connection: all bytes of
    /// a common write, and of an interim response, are said of the answer that is logged after they went out.
    accounted: u64,
    /// Log lines of answers whose bytes still wait for a common write.
    pub(super) log: Vec<u8>,
    /// The answers that these are of.
    due: Vec<Due>,
    /// A handler was asked for the answer in hand.
    pub(super) handled: bool,
    /// The head was refused: there is nothing that could be handled.
    pub(super) refused: bool,
    /// The time that the handler took is counted already.
    timed: bool,
    pub(super) started: Option<Instant>,
    /// When the request line was read, microseconds since the epoch: the log's time of the request.
    pub(super) asked_us: Option<i64>,
}

/// What the access log says about a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) header_bytes: u64,
    /// Bytes written or owed before this response.
    pub(super) output_before: u64,
    pub(super) keeps: bool,
}

/// An answer that is to be logged and counted.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Where its line ends in the pending ones.
    line_end: usize,
    /// Bytes on the wire, the request's and its own: what Apache's mod_logio lets the scoreboard count.
    bytes: u64,
}

impl Exchange {
    /// The current request's head. Spans are relative to it.
    pub(super) fn head_bytes(&self) -> &[u8] {
        &self.input[self.at..self.head_end.max(self.at)]
    }

    /// Is there anything unread?
    pub(super) fn has_input(&self) -> bool {
        self.at < self.input.len()
    }

    /// Steps over the answered request.
    pub(super) fn finish_request(&mut self) {
        self.at = self.request_end.clamp(self.at, self.input.len());
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        }
        self.request_end = self.at;
        self.head_end = 0;
        self.line_complete = false;
        self.patience.stop();
        self.counted = 0;
        self.started = None;
        self.asked_us = None;
        self.handled = false;
        self.refused = false;
        self.timed = false;
        self.head.reset();
    }

    /// Counts blank lines that follow the request as part of it.
    pub(super) fn eat_blank_lines(&mut self) {
        while let Some(rest) = self.input.get(self.request_end..) {
            self.request_end += match rest {
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] => 1,
                _ => return,
            };
        }
    }

    /// Makes room at the front, so that a pipelining client cannot grow the buffer without end.
    pub(super) fn compact(&mut self) {
        if self.at > 0 {
            self.input.drain(..self.at);
            self.head_end = self.head_end.saturating_sub(self.at);
            self.request_end = self.request_end.saturating_sub(self.at);
            self.at = 0;
        }
    }

    /// The handler is done with the answer in hand, which may be `written` as well: its time counts.
    pub(super) fn end_handler(&mut self, cx: &ThreadContext<'_>, written: bool) {
        if self.handled {
            cx.report_end(!self.timed, written);
            self.timed = true;
        }
    }

    /// Formats the log line of the answer in hand, if the server keeps a log, and notes that it is to be counted. `owed` is given
    /// for an answer that waits for a common write; otherwise what was really written counts.
    pub(super) fn format_log(&mut self, cx: &ThreadContext<'_>, peer: &Peer, owed: Option<u64>) {
        let Some(answered) = self.answered.take() else { return };
        let (sent, own) = match owed {
            Some(owed) => (0, owed),
            None => (self.account(), self.output.total().saturating_sub(answered.output_before)),
        };
        self.format_line(cx, peer, &answered, sent, own.saturating_sub(answered.header_bytes));
        self.due.push(Due { line_end: self.log.len(), bytes: self.received() + sent });
    }

    /// Bytes written since the last time.
    fn account(&mut self) -> u64 {
        let total = self.output.total();
        total - std::mem::replace(&mut self.accounted, total)
    }

    /// Bytes of the request in hand.
    fn received(&self) -> u64 {
        self.request_end.max(self.head_end).saturating_sub(self.at) as u64
    }

    /// The line of a client that began no request in time: a 408 of which nothing was sent, and which is not counted
    /// (mpm-semantics 1.4).
    pub(super) fn log_silence(&mut self, cx: &ThreadContext<'_>, peer: &Peer) {
        self.head.reset();
        self.head_end = self.at;
        let nothing = Answered { status: 408, header_bytes: 0, output_before: 0, keeps: false };
        self.format_line(cx, peer, &nothing, 0, 0);
    }

    fn format_line(
        &mut self,
        cx: &ThreadContext<'_>,
        peer: &Peer,
        answered: &Answered,
        sent: u64,
        sent_body: u64,
    ) {
        let Some(log) = &cx.server.access_log else { return };
        log.format(
            &Entry {
                server: cx.server,
                peer,
                head: &self.head,
                bytes: &self.input[self.at..],
                status: answered.status,
                sent,
                sent_body,
                received: self.received(),
                now_us: self.asked_us.unwrap_or_else(|| cx.clock.now_us()),
                took_us: self.started.map_or(0, elapsed_us),
                keeps: answered.keeps,
            },
            &mut self.log,
        );
    }

    /// Writes the pending log lines and counts their requests; the answer in hand, if there is one, is done.
    pub(super) fn write_log(&mut self, cx: &ThreadContext<'_>, peer: &Peer) {
        let answered = self.answered.is_some();
        self.format_log(cx, peer, None);
        if !answered && !self.due.is_empty() {
            let sent = self.account();
            self.due.last_mut().expect("not empty").bytes += sent;
        }
        self.write_lines(cx);
        if answered {
            self.end_handler(cx, true);
        }
    }

    /// Writes the log lines there are and counts their requests: for each `write` and `times`, in this order (mpm-semantics 8).
    pub(super) fn write_lines(&mut self, cx: &ThreadContext<'_>) {
        let together = cx.server.config.knobs.log_lines == LogLines::Together;
        let mut written = 0;
        for (index, due) in self.due.iter().enumerate() {
            let end = if together && index == 0 { self.log.len() } else { due.line_end };
            if let Some(log) = &cx.server.access_log
                && end > written
            {
                log.write(&self.log[written..end]);
                written = end;
            }
            cx.report_answered(due.bytes);
        }
        // A client that asked nothing has a line and no request to count.
        if let Some(log) = &cx.server.access_log
            && self.log.len() > written
        {
            log.write(&self.log[written..]);
        }
        self.due.clear();
        self.log.clear();
    }

    /// Ready for another connection. A buffer that grew past the ordinary size is freed, so that one large request head
    /// does not stay in memory for the life of the thread.
    pub(crate) fn recycle(&mut self) {
        self.input.clear();
        self.input.shrink_to(2 * READ_SIZE);
        self.at = 0;
        self.request_end = 0;
        self.finish_request();
        self.body = BodyReader::default();
        self.response = None;
        self.drained = false;
        self.accounted = 0;
        self.output.recycle();
        self.answered = None;
        self.log.clear();
        self.due.clear();
    }
}
