//! A client that keeps its connection, holds a server with half a request, and looks without waiting.

use super::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One connection, with what was read and not used yet.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub fn ask(&mut self) {
        self.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    }

    /// Sends half a request: it holds whoever serves it, under every model (mpm-semantics 7.7).
    pub fn hold(&mut self) {
        self.send("GET / HTTP/1.1\r\nHost: te");
    }

    /// Sends the other half.
    pub fn release(&mut self) {
        self.send("st\r\n\r\n");
    }

    /// One whole answer, or `None` at the end of the connection.
    pub fn answer(&mut self) -> Option<String> {
        loop {
            if let Some(answer) = self.take_answer() {
                return Some(answer);
            }
            let mut chunk = [0u8; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(got) => self.buffer.extend_from_slice(&chunk[..got]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    fn take_answer(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.buffer).into_owned();
        let head = text.find("\r\n\r\n")? + 4;
        let length: usize = text[..head]
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0);
        (self.buffer.len() >= head + length).then(|| {
            let answer: Vec<u8> = self.buffer.drain(..head + length).collect();
            String::from_utf8_lossy(&answer).into_owned()
        })
    }

    pub fn get(&mut self) -> String {
        self.ask();
        let answer = self.answer().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        answer
    }

    /// Has the answer begun to arrive? Does not wait.
    pub fn has_answer(&mut self) -> bool {
        self.look() == Seen::Data
    }

    /// Has the server closed it? Does not wait. Closes this side, too, so that nobody lingers for it.
    pub fn is_closed(&mut self) -> bool {
        let closed = self.look() == Seen::Closed;
        if closed {
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        closed
    }

    fn look(&mut self) -> Seen {
        self.stream.set_nonblocking(true).unwrap();
        let seen = match self.stream.peek(&mut [0u8]) {
            Ok(0) => Seen::Closed,
            Ok(_) => Seen::Data,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Seen::Nothing,
            Err(_) => Seen::Closed,
        };
        self.stream.set_nonblocking(false).unwrap();
        seen
    }
}

#[derive(PartialEq, Eq)]
enum Seen {
    Nothing,
    Data,
    Closed,
}
