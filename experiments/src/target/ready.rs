//! One plain request, to see whether a server answers and with how many bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Bytes after the blank line.
    pub body: usize,
}

/// How long a request may wait for each step.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET path` on a connection of its own.
pub fn fetch(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let line = bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?;
    let status = std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()?;
    Some(Answer { status, body: bytes.len() - head - 4 })
}

#[cfg(test)]
mod tests {
    use super::{Answer, parse};

    #[test]
    fn only_a_whole_head_is_an_answer() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(parse(answer), Some(Answer { status: 200, body: 3 }));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
    }
}
