//! A client that says exactly what it is told to, and tells apart every way in which a server can react.

use super::Trouble;
use super::bench::PATIENCE;
use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// One connection to the server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The header as it came, without the status line.
    pub header: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.header.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Does the answer say that the connection will close?
    pub fn closes(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a server did next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It answered.
    Answer(Answer),
    /// It closed the connection in an orderly way, before a whole answer.
    Closed,
    /// It reset the connection.
    Reset,
    /// Nothing, for as long as was waited.
    Silence,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Answer(answer) => write!(f, "{}", answer.status),
            Reply::Closed => f.write_str("closed"),
            Reply::Reset => f.write_str("reset"),
            Reply::Silence => f.write_str("silence"),
        }
    }
}

impl Client {
    /// Connects.
    pub(super) fn dial(address: SocketAddr) -> Result<Client, Trouble> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .map_err(|error| Trouble::failed(format!("cannot connect: {}", crate::reason::reason(&error))))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::new() })
    }

    /// Sends bytes.
    pub fn send(&mut self, text: &str) -> Result<(), Trouble> {
        self.stream
            .write_all(text.as_bytes())
            .map_err(|error| Trouble::failed(format!("cannot send: {}", crate::reason::reason(&error))))
    }

    /// Asks for a path and for the connection to be kept, without waiting for the answer.
    pub fn ask(&mut self, path: &str) -> Result<(), Trouble> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"))
    }

    /// Asks for a path on this connection, which stays open.
    pub fn get(&mut self, path: &str) -> Result<Answer, Trouble> {
        self.ask(path)?;
        self.answer()
    }

    /// Sends the body that [`Bench::hold`](super::Bench::hold) announced.
    pub fn release(&mut self) -> Result<(), Trouble> {
        self.send(&"x".repeat(100))
    }

    /// The next answer; there must be one.
    pub fn answer(&mut self) -> Result<Answer, Trouble> {
        match self.reply(PATIENCE) {
            Reply::Answer(answer) => Ok(answer),
            other => Err(Trouble::failed(format!("no answer: {other}"))),
        }
    }

    /// The next answer, which is one to HEAD: it ends with its header, whatever length it states.
    pub fn answer_to_head(&mut self) -> Result<Answer, Trouble> {
        match self.reply_to(PATIENCE, false) {
            Reply::Answer(answer) => Ok(answer),
            other => Err(Trouble::failed(format!("no answer: {other}"))),
        }
    }

    /// What the server does next, if it does something in time.
    pub fn reply(&mut self, limit: Duration) -> Reply {
        self.reply_to(limit, true)
    }

    fn reply_to(&mut self, limit: Duration, with_body: bool) -> Reply {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((answer, length)) = parse(&self.buffer, with_body) {
                self.buffer.drain(..length);
                return Reply::Answer(answer);
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                return Reply::Silence;
            };
            // Zero would mean no limit, and is excluded.
            let _ = self.stream.set_read_timeout(Some(left));
            let mut part = [0; 16384];
            match self.stream.read(&mut part) {
                Ok(0) => return Reply::Closed,
                Ok(n) => self.buffer.extend_from_slice(&part[..n]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Reply::Silence,
                    ErrorKind::Interrupted => {}
                    _ => return Reply::Reset,
                },
            }
        }
    }

    /// Has anything come that was not read yet? What is there stays there.
    pub fn waiting(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        // Back to what every other word expects.
        let _ = self.stream.set_nonblocking(false);
        peeked.is_ok()
    }

    /// How the connection ends: nothing may come before.
    pub fn end(&mut self) -> Reply {
        self.reply(PATIENCE)
    }

    /// Sends a byte every so often for as long as the server takes them, `limit` at most. How long that was, or nothing if the
    /// server still takes them.
    pub fn babble(&mut self, every: Duration, limit: Duration) -> Option<Duration> {
        let start = Instant::now();
        while start.elapsed() < limit {
            // What an end of the connection that is no longer there gets is a reset, and the next byte after that finds it.
            if self.stream.write_all(b"x").is_err() {
                return Some(start.elapsed());
            }
            std::thread::sleep(every);
        }
        None
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The client's own port, to find the connection in the server's tables.
    pub fn port(&self) -> Result<u16, Trouble> {
        Ok(self.stream.local_addr()?.port())
    }

    /// Lets the kernel hold at most about this many unread bytes, so that a big answer blocks early.
    pub fn small_window(&mut self, bytes: usize) -> Result<(), Trouble> {
        nix::sys::socket::setsockopt(&self.stream, nix::sys::socket::sockopt::RcvBuf, &bytes)
            .map_err(|errno| Trouble::failed(errno.desc()))
    }
}

/// A complete answer at the start of `bytes`, and its length. Bodies are counted by Content-Length; an answer without one and
/// without a body of its own (1xx, 204, 304, or to HEAD) ends with its header.
fn parse(bytes: &[u8], with_body: bool) -> Option<(Answer, usize)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, header) = text.split_once("\r\n").unwrap_or((&text, ""));
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer { status, header: header.to_owned(), body: Vec::new() };
    let bodyless = !with_body || status < 200 || status == 204 || status == 304;
    let length = answer.field("Content-Length").and_then(|value| value.parse().ok()).filter(|_| !bodyless);
    let end = head + 4 + length.unwrap_or(0);
    answer.body = bytes.get(head + 4..end)?.to_vec();
    Some((answer, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole_and_no_further() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcHTTP/1.1 304 Not Modified\r\n\r\n";
        let (first, length) = parse(two, true).unwrap();
        assert_eq!((first.status, first.text(), first.closes()), (200, "abc".to_owned(), true));
        let (second, rest) = parse(&two[length..], true).unwrap();
        assert_eq!((second.status, second.body.len(), length + rest), (304, 0, two.len()));
        assert_eq!(parse(&two[..length - 1], true), None);
    }
}
