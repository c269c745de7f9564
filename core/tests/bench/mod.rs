//! One connection over a socket pair, with a driver that does nothing but wait.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mpmlab_core::config::Config;
use mpmlab_core::connection::Connection;
use mpmlab_core::connection::step::{CloseReason, ConnState, Step, Wake};
use mpmlab_core::context::{Leaving, ThreadContext};
use mpmlab_core::server::Server;
use mpmlab_core::slot::Slot;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

/// One connection with everything that serves it.
pub struct Bench {
    /// The other end.
    pub client: UnixStream,
    conn: Connection,
    /// What the connection reports.
    pub slot: Slot,
    /// Whether the process stops.
    pub leaving: Leaving,
    /// What it works for.
    pub server: Server,
    /// Bytes the client has sent.
    sent: u64,
    _root: tempfile::TempDir,
}

impl Bench {
    /// A connection to a server with one small file, its configuration changed by `change`.
    pub fn new(change: impl FnOnce(&mut Config)) -> Bench {
        Bench::over(UnixStream::pair().unwrap(), change)
    }

    /// The same over a given pair of connected sockets.
    pub fn over((client, socket): (UnixStream, UnixStream), change: impl FnOnce(&mut Config)) -> Bench {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("small.txt"), "0123456789").unwrap();
        let mut config = Config { document_root: root.path().to_owned(), ..Config::default() };
        change(&mut config);
        let server = Server::new(config).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let conn = Connection::new(socket.into(), address, Some(address));
        Bench { client, conn, slot: Slot::default(), leaving: Leaving::new(), server, sent: 0, _root: root }
    }

    /// The client sends.
    pub fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
        self.sent += bytes.len() as u64;
    }

    /// The wait it asks for, or why it closed.
    pub fn advance(&mut self, wake: Wake) -> Result<(ConnState, u64), CloseReason> {
        let mut cx = ThreadContext::new(&self.server, &self.slot, &self.leaving);
        match self.conn.advance(&mut cx, wake) {
            Step::Wait(wait) => Ok((wait.state, wait.limit.as_secs())),
            Step::Closed(reason) => Err(reason),
        }
    }

    /// Advances whenever ready, as prefork would, until the connection closes; returns everything the client received.
    pub fn run_to_the_end(mut self) -> Vec<u8> {
        let mut client = self.client;
        let reader = std::thread::spawn(move || {
            let mut answer = Vec::new();
            // A connection dropped with unread input is reset: what came before still counts.
            let _ = client.read_to_end(&mut answer);
            answer
        });
        let mut cx = ThreadContext::new(&self.server, &self.slot, &self.leaving);
        let mut wake = Wake::Ready;
        while let Step::Wait(wait) = self.conn.advance(&mut cx, wake) {
            wake = cx.poll(&wait);
        }
        let answer = reader.join().unwrap();
        // Both ways, as mod_logio; what was sent and not read as a request is not counted.
        let (counted, received) = (self.slot.counters().bytes[2], answer.len() as u64);
        assert!((received..=received + self.sent).contains(&counted), "{counted} bytes counted, {received} received");
        answer
    }

    /// The same as text.
    pub fn text_to_the_end(self) -> String {
        String::from_utf8(self.run_to_the_end()).unwrap()
    }

    /// Puts a file into the document root.
    pub fn file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.server.root.join(name), bytes).unwrap();
    }
}
