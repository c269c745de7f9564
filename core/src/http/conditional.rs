//! Conditional requests (RFC 9110 section 13), decided as Apache's ap_meets_conditions does (htaccess-semantics 7.2).

use super::date;
use super::etag::{ETag, list_holds};
use super::head::{Head, Method};

/// What is known about the thing asked for.
#[derive(Debug, Clone, Copy)]
pub struct Validators {
    /// Its tag.
    pub etag: ETag,
    /// When it was changed, seconds since the epoch.
    pub modified: i64,
    /// The time of the request, likewise.
    pub now: i64,
}

/// What the conditions make of a response that would be a 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// A date is a strong validator only when the file has rested for a minute (RFC 9110 section 8.8.2.2).
const RESTED: i64 = 60;

impl Validators {
    /// Weighs the conditional fields. The order is Apache's, and so is the rule that 304 needs every field that is
    /// there to agree: a matching If-None-Match beside an If-Modified-Since that is too old gives 200.
    pub fn judge(&self, head: &Head, buffer: &[u8]) -> Verdict {
        // Most requests have no such field: one look at the first letters spares six searches.
        if !head
            .fields
            .iter()
            .any(|(name, _)| matches!(name.of(buffer), [b'i' | b'I', b'f' | b'F', b'-', ..]))
        {
            return Verdict::Proceed;
        }
        let ranged = head.field(buffer, "range").is_some();
        let reads = matches!(head.method, Method::Get | Method::Head);
        if let Some(list) = head.joined(buffer, "if-match")
            && *list != *b"*"
            && !list_holds(&list, &self.etag, false)
        {
            return Verdict::Failed;
        }
        if let Some(date) = head.field(buffer, "if-unmodified-since").and_then(date::parse)
            && self.modified > date
        {
            return Verdict::Failed;
        }
        let mut unchanged = None;
        if let Some(list) = head.joined(buffer, "if-none-match") {
            let weakly = reads && !ranged;
            if *list == *b"*" || list_holds(&list, &self.etag, weakly) {
                if !reads {
                    return Verdict::Failed;
                }
                unchanged = Some(true);
            } else {
                unchanged = Some(false);
            }
        }
        if reads && let Some(date) = head.field(buffer, "if-modified-since").and_then(date::parse) {
            let fresh_enough = date >= self.modified && date <= self.now;
            let certain = !ranged || self.now >= self.modified + RESTED;
            unchanged = Some(unchanged != Some(false) && fresh_enough && certain);
        }
        if unchanged == Some(true) && !self.range_applies(head, buffer) {
            unchanged = Some(false);
        }
        if unchanged == Some(true) { Verdict::NotModified } else { Verdict::Proceed }
    }

    /// Whether If-Range, if there is one, lets the Range field count: the very tag, strong, or the very date.
    pub fn range_applies(&self, head: &Head, buffer: &[u8]) -> bool {
        let Some(condition) =
            head.field(buffer, "if-range").filter(|_| head.field(buffer, "range").is_some())
        else {
            return true;
        };
        if condition.first() == Some(&b'"') {
            return condition == self.etag.as_bytes();
        }
        date::parse(condition) == Some(self.modified) && self.now >= self.modified + RESTED
    }
}
