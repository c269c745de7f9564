//! Request bodies: counted and chunked framing (RFC 9112 sections 6 and 7), as a machine over bytes.
//!
//! Nothing is kept but a few counters, so a body of any length in pieces of any size costs no memory.

use crate::http::head::{BodyFraming, Detail, Refusal};
use crate::http::line::is_token;

/// Follows one request body through the bytes that arrive, keeping none of them.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    /// Bytes left of the counted body or of the chunk.
    left: u64,
    /// Some of it has come.
    begun: bool,
    /// Bytes of the body so far, and how many are allowed. Like Apache this counts what came, not what a chunk's size
    /// announces.
    taken: u64,
    limit: u64,
    /// Bytes of the chunk line or trailer line so far.
    line: usize,
    line_limit: usize,
    /// Blanks behind a chunk size, or the trailer fields so far.
    count: usize,
    trailers_limit: usize,
}

/// What [`BodyReader::consume`] made of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumed {
    /// All were body; more is to come.
    More,
    /// The body ended after this many of the bytes; what follows is the next request.
    Done(usize),
    /// The framing is broken or the limit passed.
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Counted content.
    Counted,
    /// Before the first digit of a chunk size.
    SizeStart,
    /// In the digits.
    Size,
    /// In blanks behind them.
    SizeBlank,
    /// In an extension.
    Extension,
    /// Before the LF of the size line.
    SizeLf,
    /// In a chunk's content.
    Data,
    /// Before the CR behind the content.
    DataCr,
    /// Before its LF.
    DataLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer's name.
    TrailerName,
    /// In the blanks at the start of a folded line, which must not be all there is.
    TrailerFold,
    /// In its value.
    TrailerValue,
    /// Before the LF of a trailer line.
    TrailerLf,
    /// Before the last LF.
    LastLf,
    /// Over.
    Done,
}

/// Apache's answers to a broken chunk and to too large a body lack a Content-Length; to broken trailers they do not,
/// because those are read as header fields are.
const BAD_CHUNK: Refusal = Refusal::detailed(400, Detail::Body);
const TOO_LARGE: Refusal = Refusal::detailed(413, Detail::Body);
const BAD_TRAILER: Refusal = Refusal::plain(400);
const TRAILER_TOO_LONG: Refusal = Refusal::detailed(400, Detail::FieldTooLong);
const TOO_MANY_TRAILERS: Refusal = Refusal::detailed(400, Detail::TooManyFields);

/// Blanks that Apache lets pass between a chunk size and what follows it.
const BLANKS: usize = 10;

impl Default for BodyReader {
    fn default() -> BodyReader {
        BodyReader::new(BodyFraming::None, 0)
    }
}

impl BodyReader {
    /// A reader for one body. `limit` is LimitRequestBody, 0 for none; a counted body over the limit is refused before
    /// it is read, by whoever chose the response.
    pub fn new(framing: BodyFraming, limit: u64) -> BodyReader {
        let (state, left) = match framing {
            BodyFraming::None | BodyFraming::Counted(0) => (State::Done, 0),
            BodyFraming::Counted(left) => (State::Counted, left),
            BodyFraming::Chunked => (State::SizeStart, 0),
        };
        BodyReader {
            state,
            left,
            begun: false,
            taken: 0,
            limit: if limit == 0 { i64::MAX as u64 } else { limit },
            line: 0,
            line_limit: 8190,
            count: 0,
            trailers_limit: 100,
        }
    }

    /// LimitRequestFields (0 = no limit) and LimitRequestFieldSize, for trailers and chunk lines.
    pub fn with_field_limits(mut self, fields: usize, size: usize) -> BodyReader {
        self.trailers_limit = if fields == 0 { usize::MAX } else { fields };
        self.line_limit = size;
        self
    }

    /// Is a line of the framing what comes next, not content?
    pub fn in_line(&self) -> bool {
        !matches!(self.state, State::Counted | State::Data | State::Done)
    }

    /// Has content begun that is not whole yet?
    pub fn in_content(&self) -> bool {
        self.begun && matches!(self.state, State::Counted | State::Data)
    }

    /// Takes the next bytes.
    pub fn consume(&mut self, bytes: &[u8]) -> Consumed {
        let mut at = 0;
        while self.state != State::Done {
            // Content is skipped whole; everything else goes byte by byte.
            if matches!(self.state, State::Counted | State::Data) {
                let used = (bytes.len() - at).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= used as u64;
                self.begun |= used > 0;
                at += used;
                self.taken = self.taken.saturating_add(used as u64);
                if self.state == State::Data && self.taken > self.limit {
                    return Consumed::Refused(TOO_LARGE);
                }
                if self.left > 0 {
                    return Consumed::More;
                }
                self.state = if self.state == State::Counted { State::Done } else { State::DataCr };
                continue;
            }
            let Some(&byte) = bytes.get(at) else {
                return Consumed::More;
            };
            at += 1;
            match self.step(byte) {
                Ok(state) => self.state = state,
                Err(refusal) => return Consumed::Refused(refusal),
            }
        }
        Consumed::Done(at)
    }

    /// One byte of the framing.
    fn step(&mut self, byte: u8) -> Result<State, Refusal> {
        match self.state {
            State::SizeStart | State::Size | State::SizeBlank | State::Extension | State::SizeLf => {
                self.line += 1;
                if self.line > self.line_limit {
                    return Err(TOO_LARGE);
                }
                self.size_line(byte)
            }
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => {
                self.line = 0;
                Ok(State::SizeStart)
            }
            State::DataCr | State::DataLf => Err(BAD_CHUNK),
            State::LastLf => {
                if byte == b'\n' {
                    Ok(State::Done)
                } else {
                    Err(BAD_TRAILER)
                }
            }
            State::TrailerStart
            | State::TrailerName
            | State::TrailerFold
            | State::TrailerValue
            | State::TrailerLf => {
                self.line += 1;
                if self.line > self.line_limit + 2 {
                    return Err(TRAILER_TOO_LONG);
                }
                self.trailer_line(byte)
            }
            State::Counted | State::Data | State::Done => Ok(self.state),
        }
    }

    /// `chunk-size [chunk-ext] CRLF`. Leading zeros are free; a size that does not fit is a body that is too large.
    fn size_line(&mut self, byte: u8) -> Result<State, Refusal> {
        match (self.state, byte) {
            (State::SizeLf, b'\n') => {
                self.line = 0;
                self.count = 0;
                self.begun = false;
                Ok(if self.left > 0 { State::Data } else { State::TrailerStart })
            }
            (State::SizeLf, _) | (_, b'\n') => Err(BAD_CHUNK),
            (State::SizeStart, _) if !byte.is_ascii_hexdigit() => Err(BAD_CHUNK),
            (_, b'\r') => Ok(State::SizeLf),
            (_, b';') => Ok(State::Extension),
            (State::Extension, _) if byte == b'\t' || !byte.is_ascii_control() => Ok(State::Extension),
            (State::Size | State::SizeBlank, b' ' | b'\t') => {
                self.count += 1;
                if self.count > BLANKS { Err(BAD_CHUNK) } else { Ok(State::SizeBlank) }
            }
            (State::SizeStart | State::Size, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(BAD_CHUNK)?;
                if self.left > i64::MAX as u64 >> 4 {
                    return Err(TOO_LARGE);
                }
                self.left = self.left << 4 | u64::from(digit);
                Ok(State::Size)
            }
            _ => Err(BAD_CHUNK),
        }
    }

    /// Trailers have the syntax and the limits of header fields; they are checked and dropped.
    fn trailer_line(&mut self, byte: u8) -> Result<State, Refusal> {
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::TrailerStart, b' ' | b'\t') if self.count > 0 => Ok(State::TrailerFold),
            (State::TrailerFold, b' ' | b'\t') => Ok(State::TrailerFold),
            (State::TrailerFold, b'\r') => Err(BAD_TRAILER),
            (State::TrailerStart, _) if is_token(byte) => {
                self.count += 1;
                if self.count > self.trailers_limit { Err(TOO_MANY_TRAILERS) } else { Ok(State::TrailerName) }
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerName, _) if is_token(byte) => Ok(State::TrailerName),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerFold | State::TrailerValue, _) if byte == b'\t' || !byte.is_ascii_control() => {
                Ok(State::TrailerValue)
            }
            (State::TrailerLf, b'\n') => {
                self.line = 0;
                Ok(State::TrailerStart)
            }
            _ => Err(BAD_TRAILER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(framing: BodyFraming, limit: u64, bytes: &[u8]) -> Consumed {
        BodyReader::new(framing, limit).consume(bytes)
    }

    #[test]
    fn counted_bodies_end_where_they_say() {
        assert_eq!(whole(BodyFraming::Counted(3), 0, b"abcGET"), Consumed::Done(3));
        assert_eq!(whole(BodyFraming::Counted(3), 0, b"ab"), Consumed::More);
        assert_eq!(whole(BodyFraming::Counted(0), 0, b"GET"), Consumed::Done(0));
        assert_eq!(whole(BodyFraming::None, 0, b"GET"), Consumed::Done(0));
    }

    #[test]
    fn chunked_bodies_end_behind_their_trailers() {
        for body in [
            "3\r\nabc\r\n0\r\n\r\n",
            "0003;x=\"y\"\r\nabc\r\n000\r\nX-A: 1\r\n folded\r\nX-B:\r\n\r\n",
            "3 \t ;a\r\nabc\r\n0\r\n\r\n",
            "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
        ] {
            let all = format!("{body}GET / HTTP/1.1");
            assert_eq!(
                whole(BodyFraming::Chunked, 0, all.as_bytes()),
                Consumed::Done(body.len()),
                "{body:?}"
            );
        }
    }

    #[test]
    fn broken_chunks_are_refused_as_apache_does() {
        for body in [
            "xyz\r\n",
            "-3\r\n",
            "\r\nabc",
            "0x3\r\n",
            " 3\r\n",
            "3\nabc",
            "3\r\nabcdef\r\n",
            "3;a\nabc",
            "3;a\x01b\r\n",
            "3 4\r\n",
            "3           \r\n",
            "3\r\nabc\n",
            "3\r\r\n",
        ] {
            assert_eq!(
                whole(BodyFraming::Chunked, 0, body.as_bytes()),
                Consumed::Refused(BAD_CHUNK),
                "{body:?}"
            );
        }
        for body in ["fffffffffffffffff\r\n", "ffffffffffffffff\r\n", "8000000000000000\r\n"] {
            assert_eq!(
                whole(BodyFraming::Chunked, 0, body.as_bytes()),
                Consumed::Refused(TOO_LARGE),
                "{body:?}"
            );
        }
        let long = format!("3;{}", "a".repeat(9000));
        assert_eq!(whole(BodyFraming::Chunked, 0, long.as_bytes()), Consumed::Refused(TOO_LARGE));
        assert_eq!(whole(BodyFraming::Chunked, 4, b"3\r\nabc\r\n2\r\nde"), Consumed::Refused(TOO_LARGE));
        assert_eq!(whole(BodyFraming::Chunked, 5, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), Consumed::Done(20));
    }

    #[test]
    fn trailers_keep_the_limits_of_fields() {
        let trailers = |text: &str| whole(BodyFraming::Chunked, 0, format!("0\r\n{text}").as_bytes());
        assert_eq!(trailers("no colon\r\n\r\n"), Consumed::Refused(BAD_TRAILER));
        assert_eq!(trailers("X: 1\r\n \r\n\r\n"), Consumed::Refused(BAD_TRAILER));
        assert_eq!(trailers(" folded first\r\n\r\n"), Consumed::Refused(BAD_TRAILER));
        assert_eq!(trailers(&"X: 1\r\n".repeat(101)), Consumed::Refused(TOO_MANY_TRAILERS));
        assert_eq!(trailers(&format!("X: {}", "b".repeat(9000))), Consumed::Refused(TRAILER_TOO_LONG));
        let mut small = BodyReader::new(BodyFraming::Chunked, 0).with_field_limits(1, 10);
        assert_eq!(small.consume(b"0\r\nA: 1\r\nB: 2\r\n\r\n"), Consumed::Refused(TOO_MANY_TRAILERS));
    }

    /// What one reader says to the bytes in pieces of the given sizes.
    fn in_pieces(framing: BodyFraming, bytes: &[u8], sizes: &[usize]) -> Consumed {
        let mut reader = BodyReader::new(framing, 40);
        let (mut at, mut sizes) = (0, sizes.iter().cycle());
        while at < bytes.len() {
            let piece = &bytes[at..bytes.len().min(at + sizes.next().unwrap())];
            match reader.consume(piece) {
                Consumed::More => at += piece.len(),
                Consumed::Done(used) => return Consumed::Done(at + used),
                refused => return refused,
            }
        }
        reader.consume(b"")
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_result(
            parts in proptest::collection::vec("[0-9a-f;]{0,3}|\r\n|[a-z]{1,20}|\n|X: y\r\n|3\r\nabc\r\n|0\r\n\r\n", 0..12),
            sizes in proptest::collection::vec(1usize..7, 1..5),
            counted in any::<bool>(),
        ) {
            let bytes = parts.concat().into_bytes();
            let framing = if counted { BodyFraming::Counted(17) } else { BodyFraming::Chunked };
            let whole = in_pieces(framing, &bytes, &[usize::MAX / 2]);
            prop_assert_eq!(in_pieces(framing, &bytes, &sizes), whole);
        }
    }
}
