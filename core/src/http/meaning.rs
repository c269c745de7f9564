//! What a head's fields mean for framing and persistence: Host, Content-Length, Transfer-Encoding, Connection, Expect.

use super::head::{BodyFraming, Head, Refusal, Span, Version};
use super::{host, line};

const BAD_REQUEST: Refusal = Refusal::plain(400);
const EXPECTATION_FAILED: Refusal = Refusal::plain(417);

/// What the fields that decide about framing and persistence say, gathered in one pass over them.
#[derive(Default)]
pub(super) struct Meaning {
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
    pub(super) fn note(&mut self, name: &[u8], value: &[u8], head: &mut Head) {
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
    pub(super) fn settle(&self, buffer: &[u8], head: &mut Head) -> Result<(), Refusal> {
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
