//! A response as a value, and its header bytes in Apache's order.

use crate::http::head::Version;
use std::borrow::Cow;
use std::os::fd::OwnedFd;

/// The answer to one request, complete except for what the connection adds: Date, Server, Keep-Alive, Connection.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// `Location`.
    pub location: Option<String>,
    /// `Allow`.
    pub allow: Option<&'static str>,
    /// `Last-Modified`, seconds since the epoch.
    pub last_modified: Option<i64>,
    /// `ETag`, with quotes.
    pub etag: Option<String>,
    /// `Accept-Ranges: bytes`.
    pub accept_ranges: bool,
    /// How the length is told.
    pub length: Length,
    /// `Content-Range` (value without the field name).
    pub content_range: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<Cow<'static, str>>,
    /// The content; not sent for HEAD (see `head_only`).
    pub body: Body,
    /// The request was HEAD: headers as for GET, no content.
    pub head_only: bool,
    /// The status forces the connection to close.
    pub close: bool,
}

/// How a response's length is told to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// `Content-Length`.
    Known(u64),
    /// No content by definition (304), or a HEAD answer that leaves it open.
    Absent,
    /// Chunked when the connection is kept under HTTP/1.1, ended by the close otherwise.
    Unknown,
}

/// Where the content comes from.
#[derive(Debug)]
pub enum Body {
    /// Nothing.
    Empty,
    /// Text made on the spot.
    Memory(Vec<u8>),
    /// A file, whole or in parts.
    File(FileBody),
}

/// An open file and the pieces of it to send, in order.
#[derive(Debug)]
pub struct FileBody {
    /// The file.
    pub file: OwnedFd,
    /// What to send; never empty.
    pub pieces: Vec<Piece>,
}

/// One piece of a file response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes between parts of a multipart/byteranges body.
    Memory(Vec<u8>),
    /// Bytes of the file.
    File {
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
    },
}

/// What becomes of the connection after a response, and whether the client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It closes: `Connection: close`.
    Close,
    /// It stays, and a client that did not ask is not told.
    Keep,
    /// It stays: `Keep-Alive: timeout=, max=` and `Connection: Keep-Alive`.
    KeepAnnounced {
        /// KeepAliveTimeout in seconds.
        timeout: u64,
        /// Requests left; `None` without a limit.
        max: Option<u32>,
    },
}

/// What the connection adds to a response.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// Protocol of the request; HTTP/0.9 gets no header at all.
    pub version: Version,
    /// `Date`.
    pub date: &'a str,
    /// `Server`.
    pub server: &'a str,
    /// `Keep-Alive` and `Connection`.
    pub persistence: Persistence,
}

impl Response {
    /// A response with nothing but a status.
    pub fn new(status: u16) -> Response {
        Response {
            status,
            location: None,
            allow: None,
            last_modified: None,
            etag: None,
            accept_ranges: false,
            length: Length::Absent,
            content_range: None,
            content_type: None,
            body: Body::Empty,
            head_only: false,
            close: false,
        }
    }

    /// Appends the header, and content that lies in memory, to `out`; returns the file part left to send. A response of
    /// unknown length is framed here: one chunk when kept under HTTP/1.1, bare otherwise.
    pub fn emit(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<FileBody> {
        use std::io::Write;
        let _ = write!(
            out,
            "HTTP/1.1 {} OK\r\nDate: {}\r\nServer: {}\r\n",
            self.status, envelope.date, envelope.server
        );
        if let Length::Known(n) = self.length {
            let _ = write!(out, "Content-Length: {n}\r\n");
        }
        match envelope.persistence {
            Persistence::Close => out.extend_from_slice(b"Connection: close\r\n"),
            Persistence::Keep => {}
            Persistence::KeepAnnounced { timeout, .. } => {
                let _ = write!(out, "Keep-Alive: timeout={timeout}\r\nConnection: Keep-Alive\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        match self.body {
            Body::Memory(bytes) if !self.head_only => {
                out.extend_from_slice(&bytes);
                None
            }
            Body::File(file) if !self.head_only => Some(file),
            _ => None,
        }
    }
}
