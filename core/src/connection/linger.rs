//! Lingering close: shut down for writing, then drain what the client still sends, so that a reset does not destroy a
//! response on its way (mpm-semantics 2.1 and 4.2).

use super::step::{CloseReason, ConnState, Interest};
use super::{Connection, Flow, Phase};
use crate::config::knobs::LingerStyle;
use crate::context::ThreadContext;
use crate::slot::Status;
use crate::sys;
use nix::errno::Errno;
use std::time::Instant;

/// A connection that has been shut down for writing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lingering {
    short: bool,
    reason: CloseReason,
    /// Since when the total time counts: from the shutdown when reading first, from the first byte of junk when waiting
    /// first, as Apache's two implementations do.
    since: Option<Instant>,
    /// The next wake-up means readable.
    waited: bool,
}

impl Lingering {
    /// Why the connection is being closed.
    pub(super) fn reason(&self) -> CloseReason {
        self.reason
    }
}

/// Bytes per read: Apache's blocking and asynchronous implementations differ.
const fn read_size(style: LingerStyle) -> usize {
    match style {
        LingerStyle::WaitFirst => 512,
        LingerStyle::ReadFirst => 32_768,
    }
}

impl Connection {
    /// Ends the sending side. The exchange goes back to the thread: draining needs none.
    pub(super) fn start_linger(
        &mut self,
        cx: &mut ThreadContext<'_>,
        short: bool,
        reason: CloseReason,
    ) -> Flow {
        let short = short || self.impatient;
        // The answer to a head that was refused is logged late, after the state says that the connection closes
        // (mpm-semantics 9.2, L).
        let refused = self.exchange.as_deref().is_some_and(|exchange| exchange.refused);
        cx.slot.set(if refused { Status::Log } else { Status::Closing });
        if let Some(exchange) = self.exchange.as_deref_mut() {
            exchange.write_log(cx, &self.peer);
        }
        cx.give_exchange(self.exchange.take());
        if sys::shutdown_write(self.fd()).is_err() {
            return Flow::Close(reason);
        }
        let reads_first = cx.server.config.knobs.linger == LingerStyle::ReadFirst;
        let since = reads_first.then(Instant::now);
        Flow::Go(Phase::Linger(Lingering { short, reason, since, waited: reads_first }))
    }

    /// Linger. Reads and forgets until the client closes, is silent for too long, or has had its total time.
    pub(super) fn linger(&mut self, cx: &mut ThreadContext<'_>, mut state: Lingering) -> Flow {
        let style = cx.server.config.knobs.linger;
        let limits = cx.server.linger_limits(state.short);
        while state.waited {
            if state.since.is_some_and(|since| since.elapsed() > limits.total) {
                return Flow::Close(state.reason);
            }
            match sys::read(self.fd(), cx.drain_buffer(read_size(style))) {
                Ok(0) => return Flow::Close(state.reason),
                Ok(_) => {
                    state.since.get_or_insert_with(Instant::now);
                    state.waited = style == LingerStyle::ReadFirst;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => state.waited = false,
                Err(_) => return Flow::Close(state.reason),
            }
        }
        // Called again only when readable.
        state.waited = true;
        self.phase = Phase::Linger(state);
        self.wait(ConnState::Linger, Interest::Read, limits.silence)
    }
}
