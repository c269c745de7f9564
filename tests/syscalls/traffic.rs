//! Requests of four kinds, for a file of their kind's own, one at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A new connection, one request that keeps it; then the client leaves.
    Fresh,
    /// The next request on a kept connection, after the server has gone idle.
    Kept,
    /// The next request on a kept connection, in the socket before the last one is answered.
    Pipelined,
    /// A new connection for one request that closes it.
    Close,
}

/// How long the client thinks: the server is idle again when the next thing happens.
const THINKS: Duration = Duration::from_millis(10);
/// What the server reads at once: a request of just this length is read alone, although others follow it in the socket.
const READ_SIZE: usize = 8000;
/// Requests that are in the socket at once: few enough for the kernel to take them all, so that none is cut in two.
const AHEAD: usize = 4;

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Fresh, Kind::Kept, Kind::Pipelined, Kind::Close];

    /// Its name in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fresh => "fresh",
            Kind::Kept => "kept",
            Kind::Pipelined => "pipelined",
            Kind::Close => "close",
        }
    }

    /// The file its requests ask for.
    pub fn file(self) -> String {
        format!("{}.txt", self.name())
    }

    fn request(self, more: &str) -> Vec<u8> {
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n", self.file()).into_bytes()
    }

    /// Makes `count` requests, every one answered.
    pub fn send(self, addr: SocketAddr, count: usize) {
        match self {
            Kind::Fresh => {
                for _ in 0..count {
                    let mut stream = connect(addr);
                    stream.write_all(&self.request("")).unwrap();
                    answer(&mut stream);
                    std::thread::sleep(THINKS);
                    drop(stream);
                    std::thread::sleep(THINKS);
                }
            }
            Kind::Kept => {
                let mut stream = connect(addr);
                for _ in 0..count {
                    stream.write_all(&self.request("")).unwrap();
                    answer(&mut stream);
                    std::thread::sleep(THINKS);
                }
            }
            Kind::Pipelined => {
                let mut stream = connect(addr);
                let bare = self.request("X-Padding: \r\n").len();
                let padding = "x".repeat(READ_SIZE - bare);
                let request = self.request(&format!("X-Padding: {padding}\r\n"));
                stream.set_nodelay(true).unwrap();
                let ahead = AHEAD.min(count);
                stream.write_all(&request.repeat(ahead)).unwrap();
                for answered in 1..=count {
                    answer(&mut stream);
                    if answered + ahead <= count {
                        stream.write_all(&request).unwrap();
                    }
                }
            }
            Kind::Close => {
                for _ in 0..count {
                    let mut stream = connect(addr);
                    stream.write_all(&self.request("Connection: close\r\n")).unwrap();
                    // The client has all it wants, and leaves before the server has looked whether it has.
                    answer(&mut stream);
                    drop(stream);
                    std::thread::sleep(THINKS);
                }
            }
        }
    }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(super::harness::PATIENCE)).unwrap();
    stream
}

/// Reads one answer, and not a byte more.
fn answer(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0u8];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).expect("a body");
}
