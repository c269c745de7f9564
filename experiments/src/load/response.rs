//! Reads responses from whatever pieces the network delivers (RFC 9112 sections 2, 6, 7). Pure: bytes in, counts
//! out; content is counted, never kept.
use std::fmt;
use std::mem::MaybeUninit;

/// Longest head, chunk extension or trailer section accepted; Apache's own limit on what it sends is far below.
const HEAD_MAX: usize = 64 * 1024;
/// Most header fields in one head.
const FIELDS_MAX: usize = 128;

/// What one complete response was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status code of the final response.
    pub status: u16,
    /// Everything that is not content: heads (interim ones too), chunk framing, trailers.
    pub header_bytes: u64,
    /// Content.
    pub body_bytes: u64,
    /// The server lets the connection be used again (RFC 9112 section 9.3).
    pub reusable: bool,
}

/// The bytes are not a response; the text says at what the reader stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An incremental reader of one response at a time.
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// The answered request was HEAD, so no content follows whatever the head says.
    to_head: bool,
    /// A head's beginning, when it did not arrive in one piece; empty otherwise.
    head: Vec<u8>,
    answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// This many bytes of content are missing.
    Counted(u64),
    Chunked(Chunk),
    /// Content ends where the connection does.
    UntilClose,
    Complete,
}

/// Where in the chunked coding (RFC 9112 section 7.1) the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Size { size: u64, digits: u8 },
    Extension { size: u64, length: usize },
    SizeLf { size: u64 },
    Data { missing: u64 },
    DataCr,
    DataLf,
    Trailer { line_empty: bool, length: usize },
    TrailerLf { line_empty: bool, length: usize },
}

const FIRST_CHUNK: State = State::Chunked(Chunk::Size { size: 0, digits: 0 });

impl Parser {
    /// A reader for the answer to a GET (`to_head` false) or HEAD request.
    pub fn new(to_head: bool) -> Parser {
        Parser { state: State::Head, to_head, head: Vec::new(), answer: Answer::default() }
    }

    /// Forgets the response and waits for the next.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.head.clear();
        self.answer = Answer::default();
    }

    /// Some of the response has arrived.
    pub fn begun(&self) -> bool {
        self.state != State::Head || !self.head.is_empty() || self.answer.header_bytes > 0
    }

    /// The response, once it is complete.
    pub fn complete(&self) -> Option<Answer> {
        (self.state == State::Complete).then_some(self.answer)
    }

    /// Takes the next bytes and says how many of them belonged to this response; fewer than given only when it is
    /// complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            used += match self.state {
                State::Head => self.feed_head(rest)?,
                State::Counted(missing) => {
                    let taken = rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                    self.answer.body_bytes += taken as u64;
                    let missing = missing - taken as u64;
                    self.state = if missing == 0 { State::Complete } else { State::Counted(missing) };
                    taken
                }
                State::Chunked(Chunk::Data { missing }) => {
                    let taken = rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                    self.answer.body_bytes += taken as u64;
                    let missing = missing - taken as u64;
                    self.state =
                        State::Chunked(if missing == 0 { Chunk::DataCr } else { Chunk::Data { missing } });
                    taken
                }
                State::Chunked(chunk) => {
                    self.answer.header_bytes += 1;
                    self.state = framing(chunk, rest[0])?;
                    1
                }
                State::UntilClose => {
                    self.answer.body_bytes += rest.len() as u64;
                    rest.len()
                }
                State::Complete => break,
            };
        }
        Ok(used)
    }

    /// The server closed in good order: completes a response that ends so, and tells whether it did.
    pub fn close(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Complete;
        }
        self.state == State::Complete
    }

    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let before = self.head.len();
        let bytes = &bytes[..bytes.len().min(HEAD_MAX - before)];
        // The usual case, a head in one piece, is parsed where it lies.
        let parsed = if before == 0 {
            parse_head(bytes, self.to_head)?
        } else {
            self.head.extend_from_slice(bytes);
            parse_head(&self.head, self.to_head)?
        };
        let Some(head) = parsed else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            if self.head.len() >= HEAD_MAX {
                return Err(Malformed("head longer than 64 KiB"));
            }
            return Ok(bytes.len());
        };
        self.head.clear();
        self.answer.header_bytes += head.length as u64;
        if let Some(state) = head.content {
            self.answer.status = head.status;
            self.answer.reusable = head.reusable;
            self.state = state;
        }
        Ok(head.length - before)
    }
}

/// What a head says.
struct Head {
    length: usize,
    status: u16,
    /// How the content is delimited; none for an interim response, after which another head follows.
    content: Option<State>,
    reusable: bool,
}

/// Parses a head, or says that more of it is needed.
fn parse_head(bytes: &[u8], to_head: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("more than 128 header fields")),
        Err(_) => return Err(Malformed("not an HTTP/1 response head")),
    };
    let status = response.code.ok_or(Malformed("no status code"))?;
    if status == 101 {
        return Err(Malformed("101 Switching Protocols, which nobody asked for"));
    }
    if (100..200).contains(&status) {
        return Ok(Some(Head { length, status, content: None, reusable: false }));
    }
    let mut content_length = None;
    let mut coding = None;
    let (mut says_close, mut says_keep) = (false, false);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            for value in tokens(field.value) {
                let value = decimal(value).ok_or(Malformed("Content-Length is not a number"))?;
                if content_length.is_some_and(|before| before != value) {
                    return Err(Malformed("two different Content-Length values"));
                }
                content_length = Some(value);
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coding = tokens(field.value).last().map(|last| last.eq_ignore_ascii_case(b"chunked")).or(coding);
        } else if field.name.eq_ignore_ascii_case("connection") {
            for token in tokens(field.value) {
                says_close |= token.eq_ignore_ascii_case(b"close");
                says_keep |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    // RFC 9112 section 6.3, in its order.
    let content = if to_head || status == 204 || status == 304 {
        State::Complete
    } else if let Some(chunked_last) = coding {
        if chunked_last { FIRST_CHUNK } else { State::UntilClose }
    } else {
        match content_length {
            Some(0) => State::Complete,
            Some(length) => State::Counted(length),
            None => State::UntilClose,
        }
    };
    let persists = if response.version == Some(1) { !says_close } else { says_keep && !says_close };
    let reusable = persists && content != State::UntilClose;
    Ok(Some(Head { length, status, content: Some(content), reusable }))
}

/// The elements of a comma-separated field value.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// One byte of chunk framing.
fn framing(chunk: Chunk, byte: u8) -> Result<State, Malformed> {
    let next = match (chunk, byte) {
        (Chunk::Size { digits: 0, .. }, b'\r' | b';' | b' ' | b'\t') => {
            return Err(Malformed("chunk size missing"));
        }
        (Chunk::Size { size, .. }, b'\r') => Chunk::SizeLf { size },
        (Chunk::Size { size, .. }, b';' | b' ' | b'\t') => Chunk::Extension { size, length: 0 },
        (Chunk::Size { size, digits }, digit) => {
            let value = (digit as char).to_digit(16).ok_or(Malformed("chunk size is not hexadecimal"))?;
            // 15 digits cannot overflow the sum of sizes either.
            if digits == 15 {
                return Err(Malformed("chunk size has more than 15 digits"));
            }
            Chunk::Size { size: size << 4 | u64::from(value), digits: digits + 1 }
        }
        (Chunk::Extension { size, .. }, b'\r') => Chunk::SizeLf { size },
        (Chunk::Extension { .. }, b'\n') => return Err(Malformed("line feed in a chunk extension")),
        (Chunk::Extension { length: HEAD_MAX, .. }, _) => {
            return Err(Malformed("chunk extension longer than 64 KiB"));
        }
        (Chunk::Extension { size, length }, _) => Chunk::Extension { size, length: length + 1 },
        (Chunk::SizeLf { size: 0 }, b'\n') => Chunk::Trailer { line_empty: true, length: 0 },
        (Chunk::SizeLf { size }, b'\n') => Chunk::Data { missing: size },
        (Chunk::DataCr, b'\r') => Chunk::DataLf,
        (Chunk::DataLf, b'\n') => Chunk::Size { size: 0, digits: 0 },
        (Chunk::Trailer { line_empty, length }, b'\r') => Chunk::TrailerLf { line_empty, length },
        (Chunk::Trailer { .. }, b'\n') => return Err(Malformed("line feed in a trailer")),
        (Chunk::Trailer { length: HEAD_MAX, .. }, _) => return Err(Malformed("trailers longer than 64 KiB")),
        (Chunk::Trailer { length, .. }, _) => Chunk::Trailer { line_empty: false, length: length + 1 },
        (Chunk::TrailerLf { line_empty: true, .. }, b'\n') => return Ok(State::Complete),
        (Chunk::TrailerLf { length, .. }, b'\n') => Chunk::Trailer { line_empty: true, length: length + 1 },
        (Chunk::SizeLf { .. } | Chunk::TrailerLf { .. }, _) => {
            return Err(Malformed("carriage return without line feed"));
        }
        (Chunk::DataCr | Chunk::DataLf, _) => return Err(Malformed("chunk longer than its size")),
        (Chunk::Data { .. }, _) => unreachable!("content is taken by feed"),
    };
    Ok(State::Chunked(next))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The outcome of a whole connection's bytes: every answer, and how it ended.
    #[derive(Debug, PartialEq)]
    struct Reading {
        answers: Vec<Answer>,
        end: Result<&'static str, Malformed>,
    }

    /// Feeds `pieces` one after the other, then closes.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, to_head: bool) -> Reading {
        let mut parser = Parser::new(to_head);
        let mut answers = vec![];
        for mut piece in pieces {
            while !piece.is_empty() {
                match parser.feed(piece) {
                    Ok(used) => piece = &piece[used..],
                    Err(malformed) => return Reading { answers, end: Err(malformed) },
                }
                if let Some(answer) = parser.complete() {
                    answers.push(answer);
                    parser.reset();
                }
            }
        }
        let begun = parser.begun();
        let end = if parser.close() {
            answers.extend(parser.complete());
            Ok("ended by close")
        } else if begun {
            Ok("cut short")
        } else {
            Ok("between answers")
        };
        Reading { answers, end }
    }

    fn one(text: &str) -> Reading {
        read([text.as_bytes()], false)
    }

    const KEPT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5;a=b\r\nhello\r\n\
                           A\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
    const CLOSED: &str = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    const UNTIL_CLOSE: &str = "HTTP/1.0 200 OK\r\n\r\nall of it";
    const INTERIM: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";

    #[test]
    fn content_by_length_chunks_close_and_none() {
        let head = |text: &str| (text.find("\r\n\r\n").unwrap() + 4) as u64;
        for (text, status, header_bytes, body_bytes, reusable, end) in [
            (KEPT, 200, head(KEPT), 5, true, "between answers"),
            (CHUNKED, 200, CHUNKED.len() as u64 - 15, 15, true, "between answers"),
            (CLOSED, 404, head(CLOSED), 2, false, "between answers"),
            (UNTIL_CLOSE, 200, head(UNTIL_CLOSE), 9, false, "ended by close"),
            (INTERIM, 204, INTERIM.len() as u64, 0, true, "between answers"),
        ] {
            let answer = Answer { status, header_bytes, body_bytes, reusable };
            assert_eq!(one(text), Reading { answers: vec![answer], end: Ok(end) }, "{text}");
        }
    }

    #[test]
    fn no_content_follows_head_204_and_304_whatever_the_length_says() {
        let to_head = read([&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..]], true);
        assert_eq!((to_head.answers.len(), to_head.answers[0].body_bytes), (1, 0));
        for status in [204, 304] {
            let reading = one(&format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n"));
            assert_eq!((reading.answers.len(), reading.end), (1, Ok("between answers")));
        }
    }

    #[test]
    fn persistence_follows_version_and_connection_header() {
        for (version, connection, reusable) in [
            ("1.1", "", true),
            ("1.1", "Connection: Close\r\n", false),
            ("1.1", "Connection: x, close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ] {
            let reading = one(&format!("HTTP/{version} 200 OK\r\n{connection}Content-Length: 0\r\n\r\n"));
            assert_eq!(reading.answers[0].reusable, reusable, "{version} {connection}");
        }
    }

    #[test]
    fn what_is_cut_short_is_not_an_answer() {
        for text in [KEPT, CHUNKED, CLOSED] {
            for length in 1..text.len() {
                let reading = one(&text[..length]);
                assert_eq!(reading, Reading { answers: vec![], end: Ok("cut short") }, "{length} of {text}");
            }
        }
    }

    #[test]
    fn what_is_not_http_is_malformed() {
        let length = |value: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n");
        let chunks = |value: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{value}");
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
        for text in [
            "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
            "HTTP/1.1 2x0 OK\r\n\r\n".to_owned(),
            "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
            length("five"),
            length("+5"),
            length("5, 6"),
            length("99999999999999999999"),
            chunks("\r\n"),
            chunks("g\r\n"),
            chunks("1234567890abcdef\r\n"),
            chunks("1\r\nxy\r\n"),
            chunks("1\rx"),
            chunks("0\r\n\rx"),
            long,
            many,
        ] {
            assert!(one(&text).end.is_err(), "{:.60}: {:?}", text, one(&text));
        }
        assert_eq!(one(&length("5, 5")).end, Ok("cut short"), "the same length twice is allowed");
    }

    /// Pieces of real responses in any order, sometimes with a byte changed, so that both kinds of end occur.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![KEPT, CHUNKED, CLOSED, INTERIM, UNTIL_CLOSE]);
        let change = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
        (prop::collection::vec(part, 1..5), change).prop_map(|(parts, change)| {
            let mut bytes = parts.concat().into_bytes();
            if let Some((index, byte)) = change {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_reads_the_same(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let whole = read([&bytes[..]], false);
            prop_assert_eq!(read(pieces, false), read(bytes.chunks(1), false));
            prop_assert_eq!(read(bytes.chunks(1), false), whole);
        }

        #[test]
        fn no_bytes_make_it_panic_or_take_more_than_given(bytes in prop::collection::vec(any::<u8>(), 0..200), framing in any::<bool>()) {
            let mut parser = Parser::new(false);
            if framing {
                parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").expect("a sound head");
            }
            if let Ok(used) = parser.feed(&bytes) {
                prop_assert!(used <= bytes.len());
                prop_assert!(used == bytes.len() || parser.complete().is_some());
            }
        }
    }
}
