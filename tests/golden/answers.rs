//! What a server said to a case: asked for, made comparable, written down.

use super::cases::Case;
use super::harness::{End, talk};
use super::text::{escape, unescape};
use mpmlab_core::http::date;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Follows the bytes of a case that is expected to keep its connection.
const PROBE: &[u8] = b"GET /empty.txt HTTP/1.1\r\nHost: probe.test\r\nConnection: close\r\n\r\n";

/// The end of its answer; no other answer ends like this.
const PROBED: &[u8] = b"ETag: \"0-60dedc0582f35\"\r\nAccept-Ranges: bytes\r\nContent-Length: 0\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n";

/// How the conversation went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The connection stayed: the request after the case was answered.
    Kept,
    /// The server closed.
    Closed,
    /// It did neither in time, or reset the connection. Never recorded.
    Failed(End),
}

/// A comparable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// With what varies replaced.
    pub bytes: Vec<u8>,
    /// What became of the connection.
    pub outcome: Outcome,
}

/// Sends each case to the server of its variant, several at a time.
pub fn ask(
    cases: &[Case],
    piece: usize,
    address: impl Fn(&str) -> SocketAddr + Sync,
) -> BTreeMap<String, Answer> {
    let answers = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let answer = ask_one(case, piece, address(&case.server));
                    answers.lock().unwrap().insert(case.name.clone(), answer);
                }
            });
        }
    });
    answers.into_inner().unwrap()
}

fn ask_one(case: &Case, piece: usize, address: SocketAddr) -> Answer {
    let mut bytes = case.bytes.clone();
    if case.keep {
        bytes.extend_from_slice(PROBE);
    }
    let (said, end) = talk(address, &bytes, piece, case.half_close);
    let mut said = normalised(&said);
    let outcome = match end {
        End::Closed if case.keep && said.ends_with(PROBED) => {
            let start = said.windows(9).rposition(|w| w == b"HTTP/1.1 ").expect("it has a status line");
            said.truncate(start);
            Outcome::Kept
        }
        End::Closed => Outcome::Closed,
        other => Outcome::Failed(other),
    };
    Answer { bytes: said, outcome }
}

/// Replaces what differs from run to run and from server to server.
fn normalised(said: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(said.len());
    let mut date: &[u8] = b"";
    for line in said.split_inclusive(|&b| b == b'\n') {
        if let Some(value) = line.strip_prefix(b"Date: ") {
            date = value;
            out.extend_from_slice(b"Date: *\r\n");
        } else if line.starts_with(b"Server: ") {
            out.extend_from_slice(b"Server: *\r\n");
        } else if let Some(methods) = line.strip_prefix(b"Allow: ") {
            // Apache's order changes with each start.
            let mut methods: Vec<_> = methods.trim_ascii_end().split(|&b| b == b',').collect();
            methods.sort_unstable();
            out.extend_from_slice(b"Allow: ");
            out.extend_from_slice(&methods.join(&b','));
            out.extend_from_slice(b"\r\n");
        } else if line.strip_prefix(b"Last-Modified: ").is_some_and(|value| is_close(value, date)) {
            out.extend_from_slice(b"Last-Modified: {date}\r\n");
        } else {
            out.extend_from_slice(line);
        }
    }
    const INTRODUCED: &[u8] = b"boundary=";
    if let Some(at) = out.windows(INTRODUCED.len()).position(|w| w == INTRODUCED) {
        let at = at + INTRODUCED.len();
        let boundary = out[at..at + 16].to_vec();
        let mut from = 0;
        while let Some(hit) = out[from..].windows(16).position(|w| w == boundary) {
            out[from + hit..from + hit + 16].copy_from_slice(b"-----BOUNDARY---");
            from += hit + 16;
        }
    }
    out
}

/// Whether two dates are the same moment, give or take the second that may pass while a header is made.
fn is_close(one: &[u8], other: &[u8]) -> bool {
    match (date::parse(one), date::parse(other)) {
        (Some(one), Some(other)) => one.abs_diff(other) <= 2,
        _ => false,
    }
}

/// The text of a file of answers, in the order of the cases.
pub fn write(cases: &[Case], answers: &BTreeMap<String, Answer>, heading: &str) -> String {
    let mut text = format!("{heading}\n");
    for case in cases {
        text.push_str(&format!("\n## {}\n{}", case.name, describe(&answers[&case.name])));
    }
    text
}

/// One answer as it stands in the file.
pub fn describe(answer: &Answer) -> String {
    let mut text = String::new();
    for line in answer.bytes.split_inclusive(|&b| b == b'\n') {
        text.push_str(&format!("< {}\n", escape(line)));
    }
    text.push_str(&match answer.outcome {
        Outcome::Kept => "= kept\n".to_owned(),
        Outcome::Closed => "= closed\n".to_owned(),
        Outcome::Failed(end) => format!("= failed: {end:?}\n"),
    });
    text
}

/// Reads a file of answers.
pub fn read(text: &str) -> BTreeMap<String, Answer> {
    let mut answers = BTreeMap::new();
    let mut open: Option<(String, Vec<u8>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            open = Some((name.to_owned(), Vec::new()));
        } else if let Some(bytes) = line.strip_prefix("< ") {
            open.as_mut().expect("inside an answer").1.extend(unescape(bytes));
        } else if let Some(outcome) = line.strip_prefix("= ") {
            let (name, bytes) = open.take().expect("inside an answer");
            let outcome = if outcome == "kept" { Outcome::Kept } else { Outcome::Closed };
            answers.insert(name, Answer { bytes, outcome });
        }
    }
    answers
}

/// What is different, case by case, as text for people. Empty: nothing is.
pub fn differences(
    cases: &[Case],
    expected: &BTreeMap<String, Answer>,
    found: &BTreeMap<String, Answer>,
) -> Vec<String> {
    let mut list = Vec::new();
    for case in cases.iter().filter(|c| found.contains_key(&c.name)) {
        let Some(expected) = expected.get(&case.name) else {
            list.push(format!(
                "## {}\nno answer is recorded: record it (tests/golden/README.md)\n",
                case.name
            ));
            continue;
        };
        let found = &found[&case.name];
        if expected != found {
            let (expected, found) = (describe(expected), describe(found));
            list.push(format!("## {}\nexpected\n{expected}found\n{found}", case.name));
        }
    }
    list
}
