//! What a thread says in its scoreboard slot, and when: mpm-semantics 9.2 and 9.3.
//!
//! Without ExtendedStatus a change of state is one byte. With it, texts go along with the state: the client when a connection
//! begins, the request when its head is complete; and each request is timed and counted, with one `times` call.

use crate::config::knobs::Accounting;
use crate::context::ThreadContext;
use crate::request::Peer;
use crate::slot::{Slot, Status};
use crate::sys;
use std::io::Write;
use std::net::IpAddr;

/// The protocol of every connection, as Apache's core names it.
const PROTOCOL: &[u8] = b"http/1.1";

impl ThreadContext<'_> {
    /// The thread is between two connections: ready, or in a process that ends graceful.
    pub fn report_idle(&self, status: Status) {
        self.slot.set(status);
        if self.extended() && status == Status::Ready {
            self.slot.end_connection(sys::now_us());
        }
    }

    /// The head of a connection's first request is waited for.
    pub(crate) fn report_connection(&self, peer: &Peer, kept: u32) {
        self.slot.set(Status::Read);
        if !self.extended() {
            return;
        }
        report_client(self.slot, peer.remote.ip());
        self.slot.request.set(b"");
        self.slot.vhost.set(b"");
        self.slot.protocol.set(PROTOCOL);
        if self.accounting() == Accounting::Async {
            self.slot.set_connection_count(kept);
        }
    }

    /// The head of a later request is waited for. Apache's blocking loop says nothing new, so the slot still shows K and the
    /// last request; its asynchronous one begins as with a new connection.
    pub(crate) fn report_next(&self, peer: &Peer, kept: u32) {
        match self.accounting() {
            Accounting::Sync => self.slot.set(Status::KeepAlive),
            Accounting::Async => self.report_connection(peer, kept),
        }
    }

    /// A head is complete, or was refused: the request, by its first line. `kept` counts the ones before it.
    pub(crate) fn report_request(&self, status: Status, line: &[u8], peer: &Peer, kept: u32) {
        self.slot.set(status);
        if !self.extended() {
            return;
        }
        report_client(self.slot, peer.remote.ip());
        self.report_line(line);
        self.report_host(peer);
        self.slot.protocol.set(PROTOCOL);
        if self.accounting() == Accounting::Async && status == Status::Write {
            self.slot.set_connection_count(kept + 1);
        }
    }

    /// The handler begins, at the time of the clock's last tick.
    pub(crate) fn report_begin(&self) {
        if self.extended() {
            self.slot.begin_request(self.clock.now_us());
        }
    }

    /// The handler has ended, or everything is written, or both. Apache's blocking loop measures at both ends and adds both
    /// times, its asynchronous one at the first.
    pub(crate) fn report_end(&self, handled: bool, written: bool) {
        let written = written && self.accounting() == Accounting::Sync;
        if self.extended() && (handled || written) {
            self.slot.end_request(sys::now_us(), i64::from(handled) + i64::from(written));
        }
    }

    /// A request is answered and logged: it counts.
    pub(crate) fn report_answered(&self, bytes: u64) {
        if !self.extended() {
            return;
        }
        if self.server.config.knobs.request_times {
            self.slot.times.set(sys::times());
        }
        self.slot.count_request(bytes);
    }

    fn extended(&self) -> bool {
        self.server.config.extended_status
    }

    fn accounting(&self) -> Accounting {
        self.server.config.knobs.accounting
    }

    /// The request line, without a password in its URL; of a long one the beginning, or with SeeRequestTail the end.
    fn report_line(&self, line: &[u8]) {
        const ROOM: usize = 63;
        if line.is_empty() {
            return self.slot.request.set(b"NULL");
        }
        let without = without_password(line);
        let line = without.as_deref().unwrap_or(line);
        let skipped = if self.server.config.see_request_tail { line.len().saturating_sub(ROOM) } else { 0 };
        self.slot.request.set(&line[skipped..]);
    }

    /// `name:port`: the server's name, and the port the client came to.
    fn report_host(&self, peer: &Peer) {
        let mut text = [0; 32];
        let room = text.len();
        let mut rest = &mut text[..];
        // What does not fit is cut off.
        let _ = match self.server.host_name() {
            Some(name) => write!(rest, "{name}:{}", peer.local.port()),
            None => write!(rest, "{}:{}", peer.local.ip(), peer.local.port()),
        };
        let used = room - rest.len();
        self.slot.vhost.set(&text[..used]);
    }
}

fn report_client(slot: &Slot, client: IpAddr) {
    let mut text = [0; 64];
    let room = text.len();
    let mut rest = &mut text[..];
    // The longest address has 39 characters.
    let _ = write!(rest, "{client}");
    let used = room - rest.len();
    slot.client.set(&text[..used]);
    slot.client64.set(&text[..used]);
}

/// `GET http://user:password@host/ HTTP/1.1` without `:password`; `None` if there is none.
fn without_password(line: &[u8]) -> Option<Vec<u8>> {
    let target = line.iter().position(|&b| b == b' ')? + 1;
    let scheme = line[target..].windows(3).position(|window| window == b"://")?;
    let start = target + scheme + 3;
    if !line[target..target + scheme].iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let length = line[start..].iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b' '));
    let authority = &line[start..length.map_or(line.len(), |length| start + length)];
    let at = authority.iter().rposition(|&b| b == b'@')?;
    let colon = authority[..at].iter().position(|&b| b == b':')?;
    Some([&line[..start + colon], &line[start + at..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::Leaving;
    use crate::server::Server;
    use std::net::SocketAddr;

    fn with(change: impl FnOnce(&mut Config), check: impl FnOnce(&ThreadContext<'_>, &Peer)) {
        let root = tempfile::tempdir().unwrap();
        let mut config = Config { document_root: root.path().to_owned(), ..Config::default() };
        change(&mut config);
        let server = Server::new(config).unwrap();
        let (slot, leaving) = (Slot::default(), Leaving::new());
        let peer = Peer {
            remote: SocketAddr::from(([192, 0, 2, 7], 4000)),
            local: SocketAddr::from(([127, 0, 0, 1], 8080)),
        };
        check(&ThreadContext::new(&server, &slot, &leaving), &peer);
    }

    fn texts(slot: &Slot) -> [String; 4] {
        [slot.client64.get(), slot.protocol.get(), slot.vhost.get(), slot.request.get()]
            .map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn texts_go_along_with_the_state() {
        with(
            |config| config.server_name = Some("www.example.test:80".to_owned()),
            |cx, peer| {
                cx.report_connection(peer, 0);
                assert_eq!(texts(cx.slot), ["192.0.2.7", "http/1.1", "", ""]);
                cx.report_request(Status::Write, b"GET / HTTP/1.1", peer, 0);
                let full = ["192.0.2.7", "http/1.1", "www.example.test:8080", "GET / HTTP/1.1"];
                assert_eq!(texts(cx.slot), full);
                cx.slot.set(Status::KeepAlive);
                cx.report_next(peer, 1);
                assert_eq!((cx.slot.status(), texts(cx.slot)), (Status::KeepAlive, full.map(str::to_owned)));
            },
        );
    }

    #[test]
    fn the_asynchronous_loop_begins_anew_with_each_request() {
        with(
            |config| config.knobs.accounting = Accounting::Async,
            |cx, peer| {
                cx.report_request(Status::Write, b"GET / HTTP/1.1", peer, 1);
                assert_eq!(
                    (texts(cx.slot)[2].as_str(), cx.slot.counters().requests[0]),
                    ("127.0.0.1:8080", 2)
                );
                cx.report_next(peer, 2);
                assert_eq!((cx.slot.status(), cx.slot.counters().requests[0]), (Status::Read, 2));
                assert_eq!(texts(cx.slot), ["192.0.2.7", "http/1.1", "", ""]);
            },
        );
    }

    #[test]
    fn without_extended_status_only_the_state_is_told() {
        with(
            |config| config.extended_status = false,
            |cx, peer| {
                cx.report_connection(peer, 0);
                cx.report_request(Status::Write, b"GET / HTTP/1.1", peer, 0);
                cx.report_begin();
                cx.report_end(true, true);
                cx.report_answered(100);
                cx.report_idle(Status::Ready);
                assert_eq!((cx.slot.status(), cx.slot.counters()), (Status::Ready, Default::default()));
                assert_eq!(texts(cx.slot), ["", "", "", ""]);
            },
        );
    }

    #[test]
    fn a_long_line_shows_its_beginning_or_its_end_and_never_a_password() {
        let line = [b"GET /".to_vec(), vec![b'x'; 100], b" HTTP/1.1".to_vec()].concat();
        for tail in [false, true] {
            with(
                |config| config.see_request_tail = tail,
                |cx, _| {
                    cx.report_line(&line);
                    let shown = cx.slot.request.get();
                    assert_eq!(shown, if tail { &line[line.len() - 63..] } else { &line[..63] });
                    cx.report_line(b"GET http://u:p@h/a:b@c HTTP/1.1");
                    assert_eq!(cx.slot.request.get(), b"GET http://u@h/a:b@c HTTP/1.1");
                    cx.report_line(b"GET /a://b:c@d HTTP/1.1");
                    assert_eq!(cx.slot.request.get(), b"GET /a://b:c@d HTTP/1.1");
                },
            );
        }
    }
}
