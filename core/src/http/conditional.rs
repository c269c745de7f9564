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
            && !list.starts_with(b"*")
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
            if list.starts_with(b"*") || list_holds(&list, &self.etag, weakly) {
                if !reads {
                    return Verdict::Failed;
                }
                unchanged = Some(true);
            } else {
                unchanged = Some(false);
            }
        }
        if reads && let Some(text) = head.field(buffer, "if-modified-since") {
            // What is no date counts as one that is too old.
            let fresh_enough =
                date::parse(text).is_some_and(|date| date >= self.modified && date <= self.now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::http::head::Parsed;
    use Verdict::{Failed, NotModified, Proceed};

    /// A file changed 1994-11-06 08:49:37, asked for `age` seconds later. What applies without `age` is also recorded
    /// from Apache (tests/golden).
    fn judge(method: &str, fields: &str, age: i64) -> (Verdict, bool) {
        const MODIFIED: i64 = 784_111_777;
        let mut buffer = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n").into_bytes();
        let mut head = Head::default();
        assert!(matches!(head.parse(&mut buffer, &Config::default()), Parsed::Complete(_)), "{fields}");
        let now = MODIFIED + age;
        let etag = ETag::of_file(1, MODIFIED * 1_000_000, now * 1_000_000);
        let validators = Validators { etag, modified: MODIFIED, now };
        (validators.judge(&head, &buffer), validators.range_applies(&head, &buffer))
    }

    #[test]
    fn every_field_that_is_there_must_agree_on_304() {
        let tag = "\"1-2c9253feeaa40\"";
        let equal = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
        let older = "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT";
        for (method, fields, verdict) in [
            ("GET", "X: y".to_owned(), Proceed),
            ("GET", format!("If-None-Match: {tag}"), NotModified),
            ("GET", format!("If-None-Match: \"a\"\r\nIf-None-Match: W/{tag}"), NotModified),
            ("GET", format!("If-None-Match: {tag}\r\n{older}"), Proceed),
            ("HEAD", format!("If-None-Match: {tag}\r\n{equal}"), NotModified),
            ("GET", format!("If-None-Match: \"a\"\r\n{equal}"), Proceed),
            ("POST", format!("If-None-Match: {tag}"), Failed),
            ("GET", format!("If-None-Match: {tag}\r\nIf-Modified-Since: x"), Proceed),
            ("GET", "If-None-Match: *x".to_owned(), NotModified),
            ("POST", equal.to_owned(), Proceed),
            ("GET", format!("If-Match: {tag}"), Proceed),
            ("GET", format!("If-Match: W/{tag}"), Failed),
            ("GET", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT".to_owned(), Failed),
            ("GET", format!("If-None-Match: W/{tag}\r\nRange: bytes=0-1"), Proceed),
            ("GET", format!("If-None-Match: {tag}\r\nRange: bytes=0-1\r\nIf-Range: \"x\""), Proceed),
        ] {
            assert_eq!(judge(method, &fields, 3600).0, verdict, "{method} {fields}");
        }
    }

    #[test]
    fn a_date_is_no_strong_validator_for_a_minute() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let ranged = format!("Range: bytes=0-1\r\nIf-Modified-Since: {date}");
        assert_eq!(judge("GET", &ranged, 59).0, Proceed);
        assert_eq!(judge("GET", &ranged, 60).0, NotModified);
        let if_range = format!("Range: bytes=0-1\r\nIf-Range: {date}");
        assert!(!judge("GET", &if_range, 59).1);
        assert!(judge("GET", &if_range, 60).1);
    }

    #[test]
    fn dates_in_the_future_do_not_count() {
        let later = "If-Modified-Since: Sun, 06 Nov 1994 09:49:37 GMT";
        assert_eq!(judge("GET", later, 3599).0, Proceed);
        assert_eq!(judge("GET", later, 3600).0, NotModified);
    }

    #[test]
    fn a_weak_tag_matches_only_weakly() {
        let weak = "W/\"1-2c9253feeaa40\"";
        assert_eq!(judge("GET", &format!("If-None-Match: {weak}"), 0).0, NotModified);
        assert_eq!(judge("GET", &format!("If-Match: {weak}"), 0).0, Failed);
    }
}
