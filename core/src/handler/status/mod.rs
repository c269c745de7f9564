//! The status page, mod_status's (mpm-semantics 9.4): for people as HTML, with `?auto` for programs.
//!
//! Made from a [`Snapshot`](crate::monitor::Snapshot), a plain value; counted by `count`, written by `auto` and `html`.

mod auto;
mod count;
mod html;
mod number;

use crate::context::ThreadContext;
use crate::handler::error_page::{self, Subject};
use crate::http::head::{Head, Method};
use crate::http::response::{Body, Length, Response};
use crate::monitor::Snapshot;
use crate::request::Peer;
use crate::sys;
use count::Totals;
use std::borrow::Cow;

/// Apache sends a page of more than this before it is complete, and then does not know its length.
const BUFFERED: usize = 8000;
/// Seconds until a browser asks again, if `refresh` does not say.
const REFRESH: i64 = 10;

/// What a page says beyond the snapshot.
struct Page<'a> {
    snapshot: &'a Snapshot,
    totals: Totals,
    /// Our name, as the client calls us.
    name: String,
    /// Our address.
    address: String,
    version: &'a str,
    built: &'a str,
    extended: bool,
    /// Microseconds since the epoch.
    now: i64,
    /// Load averages.
    load: [f64; 3],
    /// Clock ticks in a second, the unit of CPU times.
    tick: f32,
}

impl Page<'_> {
    /// Seconds since statistics began.
    fn uptime(&self) -> i64 {
        ((self.now - self.snapshot.restart_time) / 1_000_000).max(0)
    }

    /// A time of day as Apache writes it, in local time.
    fn time(us: i64) -> String {
        sys::format_local(us / 1_000_000, c"%A, %d-%b-%Y %H:%M:%S %Z")
    }

    /// ` 1 hour 5 seconds`: parts that are zero are left out, so that nothing is left of nothing.
    fn words(seconds: i64) -> String {
        let parts = [
            (seconds / 86_400, "day"),
            (seconds / 3600 % 24, "hour"),
            (seconds / 60 % 60, "minute"),
            (seconds % 60, "second"),
        ];
        let some = parts.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, unit)| format!(" {count} {unit}{}", if *count == 1 { "" } else { "s" })).collect()
    }
}

/// Answers a request, unless its method is another handler's business.
pub fn answer(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], peer: &Peer) -> Option<Response> {
    if !matches!(head.method, Method::Get | Method::Head) {
        return None;
    }
    let Some(monitor) = cx.monitor else {
        return Some(error_page::answer(500, &Subject::default()));
    };
    let snapshot = monitor.snapshot();
    let page = Page {
        totals: count::totals(&snapshot),
        snapshot: &snapshot,
        name: our_name(cx, head, buffer, peer),
        address: peer.local.ip().to_string(),
        version: &cx.server.banner,
        built: &cx.server.built,
        extended: cx.server.config.extended_status,
        now: sys::now_us(),
        load: sys::load_average(),
        tick: sys::clock_ticks() as f32,
    };
    let query = head.query.map(|query| query.of(buffer)).unwrap_or_default();
    let find = |word: &[u8]| query.windows(word.len()).position(|window| window == word);
    let (text, content_type) = match find(b"auto") {
        Some(_) => (auto::render(&page), "text/plain; charset=ISO-8859-1"),
        None => (html::render(&page, find(b"notable").is_none()), "text/html; charset=ISO-8859-1"),
    };
    let mut response = Response::new(200);
    response.refresh = find(b"refresh").map(|at| seconds(&query[at + b"refresh".len()..]));
    response.content_type = Some(Cow::Borrowed(content_type));
    response.length = match text.len() {
        length @ ..=BUFFERED => Length::Known(length as u64),
        _ if head.method == Method::Head => Length::Absent,
        _ => Length::Chunked,
    };
    // The length is told to HEAD as well, unlike that of error pages.
    response.body = if head.method == Method::Head { Body::Empty } else { Body::Memory(text) };
    Some(response)
}

/// The number in `=N`, if there is one and it is positive.
fn seconds(text: &[u8]) -> i64 {
    let digits = text.strip_prefix(b"=").unwrap_or_default();
    let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    let number = std::str::from_utf8(&digits[..end]).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number > 0).unwrap_or(REFRESH)
}

/// UseCanonicalName Off: as the client calls us, or as we are called, or by address.
fn our_name(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], peer: &Peer) -> String {
    match (&head.host, cx.server.host_name()) {
        (Some(host), _) => String::from_utf8_lossy(host.of(buffer)).to_ascii_lowercase(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => peer.local.ip().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_words() {
        for (seconds, words) in [
            (0, ""),
            (1, " 1 second"),
            (62, " 1 minute 2 seconds"),
            (3600, " 1 hour"),
            (86_400 * 2 + 3600 * 3, " 2 days 3 hours"),
        ] {
            assert_eq!(Page::words(seconds), words);
        }
    }

    #[test]
    fn refresh_without_a_sensible_number_is_ten() {
        for (text, expected) in
            [("=3", 3), ("=3&auto", 3), ("", 10), ("=", 10), ("=0", 10), ("=x", 10), ("=-4", 10), ("x=4", 10)]
        {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }
}
