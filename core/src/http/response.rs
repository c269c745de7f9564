//! A response as a value, and its header bytes in Apache's order.

use crate::http::date;
use crate::http::etag::ETag;
use crate::http::head::Version;
use crate::http::write::{push_decimal, push_hex};
use std::borrow::Cow;
use std::os::fd::OwnedFd;

/// The answer to one request, complete except for what the connection adds: Date, Server, Keep-Alive, Connection.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// `Refresh`, seconds.
    pub refresh: Option<i64>,
    /// `Location`.
    pub location: Option<Vec<u8>>,
    /// `Allow`.
    pub allow: Option<&'static str>,
    /// `Last-Modified`, seconds since the epoch.
    pub last_modified: Option<i64>,
    /// `ETag`.
    pub etag: Option<ETag>,
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
    /// The connection closes without the response saying so: Apache decides these before it parses further, with the
    /// header already made.
    pub hang_up: bool,
    /// The request body is left unread: it is not wanted, or was refused. Otherwise it is read before the answer goes
    /// out, after a 100 if the client expects one, and a broken body takes the answer's place.
    pub skip_body: bool,
    /// It was made before a handler was asked: a broken request body then does not simply take its place, Apache's page
    /// mentions both.
    pub early: bool,
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
    /// Chunked under HTTP/1.1 also when the connection closes, ended by the close before it.
    Chunked,
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
            refresh: None,
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
            hang_up: false,
            skip_body: false,
            early: false,
        }
    }

    /// Appends the header, and content that lies in memory, to `out`; returns the file part left to send. A response of
    /// unknown length is framed here: one chunk when kept under HTTP/1.1, bare otherwise.
    pub fn emit(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<FileBody> {
        let chunked = self.is_chunked(envelope);
        out.reserve(512);
        if envelope.version != Version::Http09 {
            self.emit_header(envelope, chunked, out);
        }
        match self.body {
            _ if self.head_only => None,
            Body::Empty => None,
            Body::Memory(bytes) if chunked => {
                push_hex(out, bytes.len() as u64);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(&bytes);
                out.extend_from_slice(b"\r\n0\r\n\r\n");
                None
            }
            Body::Memory(bytes) => {
                out.extend_from_slice(&bytes);
                None
            }
            Body::File(file) => {
                debug_assert!(!chunked, "the length of a file is known");
                Some(file)
            }
        }
    }

    fn is_chunked(&self, envelope: &Envelope<'_>) -> bool {
        let modern = envelope.version == Version::Http11 && !self.head_only;
        match self.length {
            Length::Known(_) | Length::Absent => false,
            Length::Unknown => modern && envelope.persistence != Persistence::Close,
            Length::Chunked => modern,
        }
    }

    /// The header in Apache's order (htaccess-semantics 7.1): what the connection knows, what the handler said, framing
    /// and persistence, and the type last.
    fn emit_header(&self, envelope: &Envelope<'_>, chunked: bool, out: &mut Vec<u8>) {
        let mut field = |name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        };
        match status_line(self.status) {
            Some(line) => field(line, b""),
            None => field("HTTP/1.1 ", unknown_status(self.status).as_bytes()),
        }
        field("Date: ", envelope.date.as_bytes());
        field("Server: ", envelope.server.as_bytes());
        if let Some(seconds) = self.refresh {
            field("Refresh: ", seconds.to_string().as_bytes());
        }
        if let Some(location) = &self.location {
            field("Location: ", location);
        }
        if let Some(seconds) = self.last_modified {
            field("Last-Modified: ", date::format(seconds).as_bytes());
        }
        if let Some(etag) = &self.etag {
            field("ETag: ", etag.as_bytes());
        }
        if self.accept_ranges {
            field("Accept-Ranges: ", b"bytes");
        }
        if let Some(allow) = self.allow {
            field("Allow: ", allow.as_bytes());
        }
        if let Length::Known(length) = self.length {
            out.extend_from_slice(b"Content-Length: ");
            push_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(range) = &self.content_range {
            out.extend_from_slice(b"Content-Range: ");
            out.extend_from_slice(range.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        match envelope.persistence {
            Persistence::Close => out.extend_from_slice(b"Connection: close\r\n"),
            Persistence::Keep => {}
            Persistence::KeepAnnounced { timeout, max } => {
                out.extend_from_slice(b"Keep-Alive: timeout=");
                push_decimal(out, timeout);
                if let Some(max) = max {
                    out.extend_from_slice(b", max=");
                    push_decimal(out, u64::from(max));
                }
                out.extend_from_slice(b"\r\nConnection: Keep-Alive\r\n");
            }
        }
        if chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if let Some(content_type) = &self.content_type {
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(content_type.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The reason phrase with its status, as in titles of error pages; Apache's wording.
pub fn status_text(status: u16) -> Option<&'static str> {
    status_line(status).map(|line| &line["HTTP/1.1 ".len()..])
}

fn unknown_status(status: u16) -> String {
    format!("{status} Status {status}")
}

/// The status line of every status that is sent or may be configured. The version is always 1.1, also to older clients.
fn status_line(status: u16) -> Option<&'static str> {
    Some(match status {
        100 => "HTTP/1.1 100 Continue",
        101 => "HTTP/1.1 101 Switching Protocols",
        200 => "HTTP/1.1 200 OK",
        201 => "HTTP/1.1 201 Created",
        202 => "HTTP/1.1 202 Accepted",
        203 => "HTTP/1.1 203 Non-Authoritative Information",
        204 => "HTTP/1.1 204 No Content",
        205 => "HTTP/1.1 205 Reset Content",
        206 => "HTTP/1.1 206 Partial Content",
        300 => "HTTP/1.1 300 Multiple Choices",
        301 => "HTTP/1.1 301 Moved Permanently",
        302 => "HTTP/1.1 302 Found",
        303 => "HTTP/1.1 303 See Other",
        304 => "HTTP/1.1 304 Not Modified",
        305 => "HTTP/1.1 305 Use Proxy",
        307 => "HTTP/1.1 307 Temporary Redirect",
        308 => "HTTP/1.1 308 Permanent Redirect",
        400 => "HTTP/1.1 400 Bad Request",
        401 => "HTTP/1.1 401 Unauthorized",
        402 => "HTTP/1.1 402 Payment Required",
        403 => "HTTP/1.1 403 Forbidden",
        404 => "HTTP/1.1 404 Not Found",
        405 => "HTTP/1.1 405 Method Not Allowed",
        406 => "HTTP/1.1 406 Not Acceptable",
        408 => "HTTP/1.1 408 Request Timeout",
        409 => "HTTP/1.1 409 Conflict",
        410 => "HTTP/1.1 410 Gone",
        411 => "HTTP/1.1 411 Length Required",
        412 => "HTTP/1.1 412 Precondition Failed",
        413 => "HTTP/1.1 413 Request Entity Too Large",
        414 => "HTTP/1.1 414 Request-URI Too Long",
        415 => "HTTP/1.1 415 Unsupported Media Type",
        416 => "HTTP/1.1 416 Requested Range Not Satisfiable",
        417 => "HTTP/1.1 417 Expectation Failed",
        421 => "HTTP/1.1 421 Misdirected Request",
        429 => "HTTP/1.1 429 Too Many Requests",
        431 => "HTTP/1.1 431 Request Header Fields Too Large",
        451 => "HTTP/1.1 451 Unavailable For Legal Reasons",
        500 => "HTTP/1.1 500 Internal Server Error",
        501 => "HTTP/1.1 501 Not Implemented",
        502 => "HTTP/1.1 502 Bad Gateway",
        503 => "HTTP/1.1 503 Service Unavailable",
        504 => "HTTP/1.1 504 Gateway Timeout",
        505 => "HTTP/1.1 505 HTTP Version Not Supported",
        507 => "HTTP/1.1 507 Insufficient Storage",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(response: Response, version: Version, persistence: Persistence) -> String {
        let mut out = Vec::new();
        let envelope = Envelope { version, date: "D", server: "S", persistence };
        assert!(response.emit(&envelope, &mut out).is_none());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_stand_in_apaches_order() {
        let mut response = Response::new(206);
        response.location = Some(b"/x".to_vec());
        response.allow = Some("GET");
        response.last_modified = Some(0);
        response.etag = Some(ETag::of_file(1, 0, i64::MAX));
        response.accept_ranges = true;
        response.length = Length::Known(3);
        response.content_range = Some("bytes 0-2/9".to_owned());
        response.content_type = Some(Cow::Borrowed("text/plain"));
        response.body = Body::Memory(b"abc".to_vec());
        assert_eq!(
            emitted(response, Version::Http10, Persistence::KeepAnnounced { timeout: 5, max: Some(7) }),
            "HTTP/1.1 206 Partial Content\r\nDate: D\r\nServer: S\r\nLocation: /x\r\nLast-Modified: Thu, 01 Jan 1970 \
             00:00:00 GMT\r\nETag: \"1-0\"\r\nAccept-Ranges: bytes\r\nAllow: GET\r\nContent-Length: 3\r\n\
             Content-Range: bytes 0-2/9\r\nKeep-Alive: timeout=5, max=7\r\nConnection: Keep-Alive\r\n\
             Content-Type: text/plain\r\n\r\nabc"
        );
    }

    #[test]
    fn an_unknown_length_is_framed_by_chunks_or_by_the_close() {
        let frame = |length, version, persistence| {
            let mut response = Response::new(200);
            response.length = length;
            response.body = Body::Memory(b"0123456789abcdef".to_vec());
            let text = emitted(response, version, persistence);
            (
                text.contains("Transfer-Encoding: chunked\r\n"),
                text.ends_with("\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"),
            )
        };
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(frame(Length::Unknown, Version::Http11, Persistence::Keep), yes);
        assert_eq!(frame(Length::Unknown, Version::Http11, Persistence::Close), no);
        assert_eq!(frame(Length::Chunked, Version::Http11, Persistence::Close), yes);
        assert_eq!(frame(Length::Chunked, Version::Http10, Persistence::Close), no);
    }

    #[test]
    fn http09_gets_the_body_alone_and_head_the_header_alone() {
        let response = || {
            let mut response = Response::new(404);
            response.body = Body::Memory(b"page".to_vec());
            response
        };
        assert_eq!(emitted(response(), Version::Http09, Persistence::Close), "page");
        let mut head = response();
        head.head_only = true;
        head.length = Length::Unknown;
        assert_eq!(
            emitted(head, Version::Http11, Persistence::Keep),
            "HTTP/1.1 404 Not Found\r\nDate: D\r\nServer: S\r\n\r\n"
        );
    }
}
