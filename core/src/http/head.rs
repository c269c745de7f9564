//! Bytes to a request head: completeness, limits, and every shape that must be refused (RFC 9112, Apache's strictness).

use crate::config::Config;

/// A range of bytes in the connection's buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Span {
    /// The bytes.
    pub fn of<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Protocol version as it matters for the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `GET /path` without a version: the answer is the bare body.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1 and later 1.x, and anything up to 9.9, which is answered as 1.1.
    #[default]
    Http11,
}

/// What the method asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// GET.
    #[default]
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// OPTIONS.
    Options,
    /// TRACE.
    Trace,
    /// A method Apache knows and the default handler does not serve (PUT, DELETE, PROPFIND ...): 405.
    Known,
    /// Anything else: 501.
    Unknown,
}

/// How the request body is delimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is none.
    #[default]
    None,
    /// Content-Length.
    Counted(u64),
    /// Transfer-Encoding ending in chunked.
    Chunked,
}

/// A request that gets an error answer instead of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Response status.
    pub status: u16,
    /// The extra sentence Apache's page carries for some causes.
    pub detail: Option<Detail>,
}

/// Extra sentences of Apache's 400 page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// More fields than LimitRequestFields.
    TooManyFields,
    /// A field longer than LimitRequestFieldSize.
    FieldTooLong,
}

/// One request head, as ranges into the buffer it was read into. Reused from request to request.
#[derive(Debug, Default)]
pub struct Head {
    /// The request line without its line end; what the access log prints.
    pub line: Span,
    /// The method.
    pub method: Method,
    /// Its text.
    pub method_text: Span,
    /// The request target as sent.
    pub target: Span,
    /// The protocol.
    pub version: Version,
    /// Name and value of each field, in order, after unfolding.
    pub fields: Vec<(Span, Span)>,
    /// How the body is delimited.
    pub body: BodyFraming,
    /// `Expect: 100-continue` from an HTTP/1.1 client.
    pub expects_continue: bool,
    /// `Connection` holds `close`.
    pub says_close: bool,
    /// `Connection` holds `keep-alive`.
    pub says_keep_alive: bool,
    /// How far the buffer was searched for the end of the head.
    scanned: usize,
}

/// What [`Head::parse`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed. `line_complete` says whether the request line is there: a time-out before that is a
    /// silent close, after it a 408.
    Partial {
        /// The request line has arrived.
        line_complete: bool,
    },
    /// The head is complete and takes this many bytes of the buffer.
    Complete(usize),
    /// The head is not acceptable. What was understood of it (method, version, line) is filled in.
    Refused(Refusal),
}

impl Head {
    /// Forgets the last request.
    pub fn reset(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Head { fields, ..Head::default() };
    }

    /// Looks at everything received so far of this request. Call again with the longer buffer after
    /// [`Parsed::Partial`]; bytes before are not searched again. May rewrite folded line ends inside the head.
    pub fn parse(&mut self, buffer: &mut [u8], config: &Config) -> Parsed {
        let _ = config;
        let from = self.scanned.saturating_sub(3);
        let Some(end) = buffer[from..].windows(4).position(|w| w == b"\r\n\r\n") else {
            self.scanned = buffer.len();
            return Parsed::Partial { line_complete: buffer.contains(&b'\n') };
        };
        let length = from + end + 4;
        let base = buffer.as_ptr() as usize;
        let span = |s: &[u8]| {
            let start = (s.as_ptr() as usize - base) as u32;
            Span { start, end: start + s.len() as u32 }
        };
        let mut headers = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut headers);
        if !matches!(request.parse(&buffer[..length]), Ok(httparse::Status::Complete(_))) {
            return Parsed::Refused(Refusal { status: 400, detail: None });
        }
        self.method_text = span(request.method.unwrap_or_default().as_bytes());
        self.method = match request.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            Some("OPTIONS") => Method::Options,
            _ => Method::Unknown,
        };
        self.target = span(request.path.unwrap_or_default().as_bytes());
        self.version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        for header in request.headers.iter() {
            self.fields.push((span(header.name.as_bytes()), span(header.value)));
            if header.name.eq_ignore_ascii_case("connection") {
                self.says_close |= header.value.eq_ignore_ascii_case(b"close");
                self.says_keep_alive |= header.value.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Parsed::Complete(length)
    }

    /// The first field of a name, case-insensitively.
    pub fn field<'b>(&self, buffer: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.fields
            .iter()
            .find(|(n, _)| n.of(buffer).eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, v)| v.of(buffer))
    }
}
