//! Bytes to a request head: completeness, limits, and every shape that must be refused (RFC 9112, Apache's strictness).
//!
//! Each byte is searched once for the end of its line, whatever pieces it arrives in; limits apply as soon as they are
//! passed, so that a buffer never holds more than one line, field count times field size, and one read on top. The fields
//! are then parsed by httparse in one go.

use super::{host, line, scan};
use crate::config::Config;
use std::borrow::Cow;

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
    /// What the page says or lacks beyond the status.
    pub detail: Option<Detail>,
    /// The answer that was already chosen, outside a handler, when the request's body turned out to be broken: the page
    /// mentions it.
    pub instead_of: Option<u16>,
}

impl Refusal {
    /// A refusal with nothing special about it.
    pub const fn plain(status: u16) -> Refusal {
        Refusal { status, detail: None, instead_of: None }
    }

    /// A refusal of which more is to be said.
    pub const fn detailed(status: u16, detail: Detail) -> Refusal {
        Refusal { status, detail: Some(detail), instead_of: None }
    }
}

/// What tells refusals of one status apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// More fields than LimitRequestFields.
    TooManyFields,
    /// A field longer than LimitRequestFieldSize.
    FieldTooLong,
    /// Found while reading the request body: Apache's answer then has no Content-Length.
    Body,
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
    /// The target's path, undecoded; empty when an absolute-form target ends with its host; `*` for OPTIONS.
    pub path: Span,
    /// What follows the target's `?`, if there is one.
    pub query: Option<Span>,
    /// The host name of the target or, failing that, the valid one of the Host field. Not lower-cased; may be empty if
    /// the target says so.
    pub host: Option<Span>,
    /// The port given with it.
    pub port: Option<u16>,
    /// The protocol.
    pub version: Version,
    /// Name and value of each field, in order, after unfolding.
    pub fields: Vec<(Span, Span)>,
    /// How the body is delimited.
    pub body: BodyFraming,
    /// `Expect: 100-continue` from an HTTP/1.1 client that has a body to send.
    pub expects_continue: bool,
    /// `Connection` holds `close`.
    pub says_close: bool,
    /// `Connection` holds `keep-alive`.
    pub says_keep_alive: bool,
    /// Something else rules out a second request: both ways of delimiting a body at once (RFC 9112 section 6.1), or an
    /// Expect that no 100 will answer.
    pub must_close: bool,
    /// How far the buffer was searched for line ends.
    scanned: usize,
    /// Where the line that is being received starts.
    line_start: usize,
    /// Where the fields start; 0 while the request line is not there.
    fields_start: usize,
    /// Where the field before `line_start` starts, and where its text ends: a folded line is appended there.
    field: (usize, usize),
    /// Empty lines before the request line.
    blank_lines: u32,
    /// Fields so far.
    field_count: usize,
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

/// Empty lines that Apache lets pass before a request line.
const BLANK_LINES: u32 = 10;

const BAD_REQUEST: Refusal = Refusal::plain(400);
const URI_TOO_LONG: Refusal = Refusal::plain(414);
const EXPECTATION_FAILED: Refusal = Refusal::plain(417);
const FIELD_TOO_LONG: Refusal = Refusal::detailed(400, Detail::FieldTooLong);
const TOO_MANY_FIELDS: Refusal = Refusal::detailed(400, Detail::TooManyFields);

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
        match self.advance(buffer, config) {
            Ok(Some(length)) => Parsed::Complete(length),
            Ok(None) => Parsed::Partial { line_complete: self.fields_start > 0 },
            Err(refusal) => Parsed::Refused(refusal),
        }
    }

    /// Takes every whole line there is. `Ok(Some)`: the head is complete.
    fn advance(&mut self, buffer: &mut [u8], config: &Config) -> Result<Option<usize>, Refusal> {
        // Apache's line buffer holds the limit and two bytes, one of them for its NUL: one byte more than the limit
        // passes.
        let line_limit = config.limit_request_line.saturating_add(1);
        let field_limit = config.limit_request_field_size.saturating_add(1);
        while let Some(found) = scan::find(&buffer[self.scanned..], b'\n') {
            let end = self.scanned + found;
            let start = self.line_start;
            self.scanned = end + 1;
            self.line_start = end + 1;
            let in_fields = self.fields_start > 0;
            // A line end is CR LF; a bare LF is how requests are smuggled.
            let text_end = match end.checked_sub(1) {
                Some(cr) if cr >= start && buffer[cr] == b'\r' => cr,
                _ => return Err(BAD_REQUEST),
            };
            let length = text_end - start;
            if length > if in_fields { field_limit } else { line_limit } {
                return Err(if in_fields { FIELD_TOO_LONG } else { URI_TOO_LONG });
            }
            if !in_fields {
                if length == 0 {
                    self.blank_lines += 1;
                    if self.blank_lines > BLANK_LINES {
                        return Err(BAD_REQUEST);
                    }
                    continue;
                }
                self.fields_start = end + 1;
                let line = span(start, text_end);
                match line::parse(buffer, line, self) {
                    Ok(false) => {}
                    Ok(true) => return Ok(Some(end + 1)),
                    Err(_) => {
                        let head = line::asks_for_head(line.of(buffer));
                        self.method = if head { Method::Head } else { Method::Get };
                        return Err(BAD_REQUEST);
                    }
                }
            } else if length == 0 {
                self.parse_fields(buffer, end + 1)?;
                return Ok(Some(end + 1));
            } else if matches!(buffer[start], b' ' | b'\t') {
                self.unfold(buffer, start, text_end, field_limit)?;
            } else {
                self.field_count += 1;
                if config.limit_request_fields > 0 && self.field_count > config.limit_request_fields {
                    return Err(TOO_MANY_FIELDS);
                }
                self.field = (start, text_end);
            }
        }
        self.scanned = buffer.len();
        // The line is not whole, yet may be too long already. Its CR may have come before its LF: one byte of grace.
        let length = buffer.len() - self.line_start;
        match self.fields_start {
            0 if length > line_limit + 1 => Err(URI_TOO_LONG),
            1.. if length > field_limit + 1 => Err(FIELD_TOO_LONG),
            _ => Ok(None),
        }
    }

    /// Joins a folded line to the field before it, in place: its text moves up behind one space, and the bytes that this
    /// frees become spaces before its line end, where they mean nothing (RFC 9112 section 5.2).
    fn unfold(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        text_end: usize,
        field_limit: usize,
    ) -> Result<(), Refusal> {
        let (field_start, field_end) = self.field;
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let text = buffer[start..text_end].iter().position(|b| !is_blank(b)).map(|skip| start + skip);
        let (Some(text), 1..) = (text, field_end) else {
            return Err(BAD_REQUEST);
        };
        let kept = buffer[field_start..field_end].iter().rposition(|b| !is_blank(b)).map_or(0, |at| at + 1);
        let joint = field_start + kept;
        buffer[joint] = b' ';
        let moved = text_end - text;
        buffer.copy_within(text..text_end, joint + 1);
        let new_end = joint + 1 + moved;
        buffer[new_end..text_end].fill(b' ');
        if new_end - field_start > field_limit {
            return Err(FIELD_TOO_LONG);
        }
        self.field.1 = new_end;
        Ok(())
    }

    /// The field block, `end` included, once its last line is there.
    fn parse_fields(&mut self, buffer: &[u8], end: usize) -> Result<(), Refusal> {
        // Clearing httparse's table costs as much as parsing a few fields does, so it is no larger than it must be.
        match self.field_count {
            0..=8 => self.parse_fields_into(buffer, end, &mut [httparse::EMPTY_HEADER; 8]),
            9..=32 => self.parse_fields_into(buffer, end, &mut [httparse::EMPTY_HEADER; 32]),
            count => self.parse_fields_into(buffer, end, &mut vec![httparse::EMPTY_HEADER; count]),
        }
    }

    fn parse_fields_into<'b>(
        &mut self,
        buffer: &'b [u8],
        end: usize,
        table: &mut [httparse::Header<'b>],
    ) -> Result<(), Refusal> {
        let block = &buffer[self.fields_start..end];
        let Ok(httparse::Status::Complete((length, fields))) = httparse::parse_headers(block, table) else {
            return Err(BAD_REQUEST);
        };
        debug_assert_eq!(length, block.len(), "both parsers see the same lines");
        let base = buffer.as_ptr() as usize;
        let within = |part: &[u8]| {
            let start = part.as_ptr() as usize - base;
            span(start, start + part.len())
        };
        let mut meaning = Meaning::default();
        self.fields.reserve(fields.len());
        for field in fields {
            // An empty value may point anywhere.
            let value = if field.value.is_empty() { Span::default() } else { within(field.value) };
            self.fields.push((within(field.name.as_bytes()), value));
            meaning.note(field.name.as_bytes(), field.value, self);
        }
        meaning.settle(buffer, self)
    }

    /// The first field of a name, case-insensitively.
    pub fn field<'b>(&self, buffer: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.values(buffer, name).next()
    }

    /// Every field of a name, in order.
    pub fn values<'b>(&self, buffer: &'b [u8], name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields
            .iter()
            .filter(move |(n, _)| n.of(buffer).eq_ignore_ascii_case(name.as_bytes()))
            .map(move |(_, v)| v.of(buffer))
    }

    /// All fields of a name as one value, joined by `, ` as RFC 9110 section 5.3 allows. Copies only if there are several.
    pub fn joined<'b>(&self, buffer: &'b [u8], name: &str) -> Option<Cow<'b, [u8]>> {
        let mut values = self.values(buffer, name);
        let mut joined = Cow::Borrowed(values.next()?);
        for value in values {
            let all = joined.to_mut();
            all.extend_from_slice(b", ");
            all.extend_from_slice(value);
        }
        Some(joined)
    }

    /// Whether the method is CONNECT, whose target is no path.
    pub(super) fn method_text_is_connect(&self, buffer: &[u8]) -> bool {
        self.method == Method::Known && self.method_text.of(buffer) == b"CONNECT"
    }
}

fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}

/// What the fields that decide about framing and persistence say, gathered in one pass over them.
#[derive(Default)]
struct Meaning {
    hosts: u32,
    /// Which of the fields the first Host is.
    host_at: usize,
    lengths: u32,
    length: Option<u64>,
    codings: u32,
    chunked_last: bool,
    expects: u32,
}

impl Meaning {
    /// Takes note of one field.
    fn note(&mut self, name: &[u8], value: &[u8], head: &mut Head) {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                self.host_at = head.fields.len() - 1;
            }
            6 if name.eq_ignore_ascii_case(b"expect") => self.expects += 1,
            10 if name.eq_ignore_ascii_case(b"connection") => {
                head.says_close |= has_token(value, b"close");
                head.says_keep_alive |= has_token(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                self.lengths += 1;
                self.length = decimal(value);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.codings += 1;
                let last = value.rsplit(|&b| b == b',').next().unwrap_or_default().trim_ascii();
                self.chunked_last = last.eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
    }

    /// Draws the conclusions, in Apache's order of refusals.
    fn settle(&self, buffer: &[u8], head: &mut Head) -> Result<(), Refusal> {
        let modern = head.version == Version::Http11;
        match head.fields.get(self.host_at).filter(|_| self.hosts > 0) {
            None if modern => return Err(BAD_REQUEST),
            None => {}
            // The target's host wins, and then nobody looks at the field.
            Some(_) if head.host.is_some() => {}
            Some(_) if self.hosts > 1 => return Err(BAD_REQUEST),
            Some((_, value)) if value.of(buffer).is_empty() && modern => return Err(BAD_REQUEST),
            Some((_, value)) if value.of(buffer).is_empty() => {}
            Some(&(_, value)) => {
                let host = host::parse(value.of(buffer)).ok_or(BAD_REQUEST)?;
                head.host = Some(Span { start: value.start, end: value.start + host.length as u32 });
                head.port = host.port;
            }
        }
        // Two lengths, even equal ones, and any coding that does not end in chunked leave the end of the body open.
        if self.lengths > 1 || (self.lengths == 1 && self.length.is_none()) {
            return Err(BAD_REQUEST);
        }
        if self.codings > 0 {
            if !self.chunked_last {
                return Err(BAD_REQUEST);
            }
            head.body = BodyFraming::Chunked;
            head.must_close |= self.lengths > 0;
        } else if let Some(length) = self.length {
            head.body = BodyFraming::Counted(length);
        }
        if self.expects > 0
            && let Some(value) = head.joined(buffer, "expect").filter(|v| !v.is_empty())
        {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(EXPECTATION_FAILED);
            }
            let has_body = !matches!(head.body, BodyFraming::None | BodyFraming::Counted(0));
            head.expects_continue = modern && has_body;
            head.must_close |= !head.expects_continue;
        }
        Ok(())
    }
}

/// Digits and nothing else, at most `i64::MAX` as in Apache.
fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |n, &byte| {
        let digit = byte.checked_sub(b'0').filter(|d| *d < 10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit)).filter(|n| *n <= i64::MAX as u64)
    })
}

/// Whether a list holds a token. As in Apache's ap_find_token, anything that is not a token character separates, and a
/// word that `token` starts with counts too: `Connection: clo` closes.
fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|&b| !line::is_token(b)).any(|word| {
        !word.is_empty() && word.len() <= token.len() && word.eq_ignore_ascii_case(&token[..word.len()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

    fn parse(text: &str) -> (Parsed, Head, Vec<u8>) {
        let mut buffer = text.as_bytes().to_vec();
        let mut head = Head::default();
        let parsed = head.parse(&mut buffer, &Config::default());
        (parsed, head, buffer)
    }

    fn good(text: &str) -> (Head, Vec<u8>) {
        let (parsed, head, buffer) = parse(text);
        assert_eq!(parsed, Parsed::Complete(text.len()), "{text:?}");
        (head, buffer)
    }

    fn status(text: &str) -> u16 {
        match parse(text).0 {
            Parsed::Refused(refusal) => refusal.status,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_head_is_taken_apart() {
        let (head, buffer) = good("POST /a?b HTTP/1.0\r\nHost: Example.test:81\r\ncontent-LENGTH: 7\r\n\r\n");
        assert_eq!(
            (head.method, head.version, head.body),
            (Method::Post, Version::Http10, BodyFraming::Counted(7))
        );
        assert_eq!(head.line.of(&buffer), b"POST /a?b HTTP/1.0");
        assert_eq!(head.target.of(&buffer), b"/a?b");
        assert_eq!(head.path.of(&buffer), b"/a");
        assert_eq!(head.query.unwrap().of(&buffer), b"b");
        assert_eq!((head.host.unwrap().of(&buffer), head.port), (&b"Example.test"[..], Some(81)));
        assert_eq!(head.field(&buffer, "HOST"), Some(&b"Example.test:81"[..]));
    }

    #[test]
    fn the_hosts_of_absolute_targets_win() {
        let (head, buffer) = good("GET HTTP://other.test:99999?x HTTP/1.1\r\nHost: a:1\r\n\r\n");
        assert_eq!((head.host.unwrap().of(&buffer), head.port), (&b"other.test"[..], Some(34_463)));
        assert_eq!((head.path.of(&buffer), head.query.unwrap().of(&buffer)), (&b""[..], &b"x"[..]));
        let (head, buffer) = good("GET http:///p HTTP/1.1\r\nHost: a#\r\nHost: b\r\n\r\n");
        assert_eq!(
            (head.host.unwrap().of(&buffer), head.port, head.path.of(&buffer)),
            (&b""[..], None, &b"/p"[..])
        );
        let (head, buffer) = good("GET http:/p HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.host.unwrap().of(&buffer), head.path.of(&buffer)), (&b"a"[..], &b"/p"[..]));
        let (head, buffer) = good("GET https://b%:7/p HTTP/1.1\r\nHost: a:1\r\n\r\n");
        assert_eq!(
            (head.host.unwrap().of(&buffer), head.port, head.path.of(&buffer)),
            (&b"a"[..], Some(1), &b"/p"[..])
        );
    }

    #[test]
    fn http09_ends_with_its_line() {
        let (parsed, head, _) = parse("GET /x\r\nHost: a\r\n\r\n");
        assert_eq!((parsed, head.version), (Parsed::Complete(8), Version::Http09));
        assert_eq!((status("POST /x\r\n"), status("GET \r\n"), status("GET\r\n")), (400, 400, 400));
    }

    #[test]
    fn folded_lines_join_the_field_before_them() {
        let (head, buffer) =
            good(&format!("{GET}X-A: b  \r\n   c\r\n\td \r\nX-B:\r\n  e\r\nConnection: keep-alive\r\n\r\n"));
        assert_eq!(head.field(&buffer, "x-a"), Some(&b"b c d"[..]));
        assert_eq!(head.field(&buffer, "x-b"), Some(&b"e"[..]));
        assert!(head.says_keep_alive);
        assert_eq!(status("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400);
        assert_eq!(status(&format!("{GET}X: b\r\n \t\r\n\r\n")), 400);
    }

    #[test]
    fn bodies_that_could_be_read_in_two_ways_are_refused_or_end_the_connection() {
        let (head, _) = good(&format!("{GET}Content-Length: 3\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"));
        assert_eq!((head.body, head.must_close), (BodyFraming::Chunked, true));
        for fields in [
            "Content-Length: 3\r\nContent-Length: 3",
            "Content-Length: 3, 3",
            "Content-Length: +3",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Content-Length: zz\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: chunked,",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding:",
            "Transfer-Encoding : chunked",
            "X: y\nTransfer-Encoding: chunked",
        ] {
            assert_eq!(status(&format!("{GET}{fields}\r\n\r\n")), 400, "{fields:?}");
        }
    }

    #[test]
    fn expectations_count_where_a_body_follows() {
        let expect = "Expect: 100-Continue\r\n";
        let of = |text: String| {
            let (head, _) = good(&text);
            (head.expects_continue, head.must_close)
        };
        assert_eq!(of(format!("{GET}{expect}Content-Length: 3\r\n\r\n")), (true, false));
        assert_eq!(of(format!("{GET}{expect}\r\n")), (false, true));
        assert_eq!(of(format!("{GET}{expect}Content-Length: 0\r\n\r\n")), (false, true));
        assert_eq!(of(format!("GET / HTTP/1.0\r\n{expect}Content-Length: 3\r\n\r\n")), (false, true));
        assert_eq!(of(format!("{GET}Expect:\r\n\r\n")), (false, false));
        assert_eq!(status(&format!("{GET}Expect: 200-ok\r\n\r\n")), 417);
    }

    #[test]
    fn connection_tokens_are_found_in_lists_and_in_every_field() {
        let says = |fields: &str| {
            let (head, _) = good(&format!("{GET}{fields}\r\n\r\n"));
            (head.says_close, head.says_keep_alive)
        };
        assert_eq!(says("Connection: TE, Keep-Alive"), (false, true));
        assert_eq!(says("Connection: keep-alive\r\nconnection: x;close"), (true, true));
        assert_eq!(says("Connection: closed, xclose"), (false, false));
        assert_eq!(says("Connection: clo"), (true, false));
        assert_eq!(says("Proxy-Connection: close"), (false, false));
    }

    #[test]
    fn limits_hold_before_the_end_is_there() {
        let line = |n: usize| format!("GET /{}", "a".repeat(n - 5));
        assert_eq!(parse(&format!("{}\r\n", line(8191))).0, Parsed::Complete(8193));
        assert_eq!(status(&format!("{}\r\n", line(8192))), 414);
        assert_eq!(parse(&line(8192)).0, Parsed::Partial { line_complete: false });
        assert_eq!(status(&line(8193)), 414);
        let refused = |text: &str| match parse(text).0 {
            Parsed::Refused(refusal) => refusal.detail,
            other => panic!("{other:?}"),
        };
        good(&format!("{GET}X: {}\r\n\r\n", "b".repeat(8188)));
        assert_eq!(refused(&format!("{GET}X: {}\r\n\r\n", "b".repeat(8189))), Some(Detail::FieldTooLong));
        assert_eq!(refused(&format!("{GET}X: {}", "b".repeat(9000))), Some(Detail::FieldTooLong));
        assert_eq!(
            refused(&format!("{GET}X: {0}\r\n {0}\r\n\r\n", "b".repeat(5000))),
            Some(Detail::FieldTooLong)
        );
        good(&format!("{GET}{}\r\n", "X: b\r\n".repeat(99)));
        assert_eq!(refused(&format!("{GET}{}", "X: b\r\n".repeat(100))), Some(Detail::TooManyFields));
        good(&format!("{}{GET}\r\n", "\r\n".repeat(10)));
        assert_eq!(status(&"\r\n".repeat(11)), 400);
    }

    /// What one parser says to the bytes arriving in pieces of the given sizes, and what it understood.
    fn in_pieces(bytes: &[u8], sizes: &[usize]) -> (Parsed, String) {
        let config = Config {
            limit_request_line: 60,
            limit_request_field_size: 40,
            limit_request_fields: 6,
            ..Config::default()
        };
        let (mut head, mut buffer, mut at) = (Head::default(), Vec::new(), 0);
        let mut sizes = sizes.iter().cycle();
        loop {
            let piece = &bytes[at..bytes.len().min(at + sizes.next().unwrap())];
            buffer.extend_from_slice(piece);
            at += piece.len();
            let parsed = head.parse(&mut buffer, &config);
            if at == bytes.len() || !matches!(parsed, Parsed::Partial { .. }) {
                let fields: Vec<_> = head
                    .fields
                    .iter()
                    .map(|(n, v)| {
                        (String::from_utf8_lossy(n.of(&buffer)).into_owned(), v.of(&buffer).to_vec())
                    })
                    .collect();
                let seen =
                    (head.method, head.version, head.body, head.must_close, head.says_close, head.port);
                return (parsed, format!("{seen:?} {fields:?}"));
            }
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_result(
            parts in proptest::collection::vec(
                "GET / HTTP/1.1\r\nHost: a\r\n|\r\n|\r|\n| |[a-zA-Z:/]{1,9}|Content-Length: [0-9]{0,3}\r\n|X: [ -~]{0,30}\r\n|\r\n [a-z]{0,3}|\r\n\r\n",
                0..14,
            ),
            sizes in proptest::collection::vec(1usize..9, 1..5),
        ) {
            let bytes = parts.concat().into_bytes();
            prop_assert_eq!(in_pieces(&bytes, &sizes), in_pieces(&bytes, &[usize::MAX / 2]));
        }

        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), sizes in proptest::collection::vec(1usize..50, 1..5)) {
            in_pieces(&bytes, &sizes);
            let mut after_line = GET.as_bytes().to_vec();
            after_line.extend_from_slice(&bytes);
            in_pieces(&after_line, &sizes);
        }
    }
}
