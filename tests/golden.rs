//! Golden answers: to every recorded request, each model says byte for byte what the real Apache said (README.md beside
//! the recording explains the format and lists the known differences).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "golden/answers.rs"]
mod answers;
#[path = "support/apache.rs"]
mod apache;
#[path = "golden/cases.rs"]
mod cases;
#[path = "golden/fixture.rs"]
mod fixture;
mod harness;
#[path = "golden/text.rs"]
mod text;

use answers::{Answer, ask, differences};
use apache::Apache;
use cases::Case;
use fixture::Fixture;
use harness::{MPMS, Server, identity, talk};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const RECORDED_FROM: &str = "2.4.71";
const CASES: &str = include_str!("golden/cases.txt");
const RECORDED: &str = include_str!("golden/apache-2.4.71.txt");
const TEMPLATE: &str = include_str!("golden/apache.conf.in");

/// The configurations that cases name, given in the same words to Apache and to mpmlab.
const VARIANTS: [(&str, &[&str]); 3] = [
    ("default", &["ServerName localhost", "TraceEnable off", "Timeout 30", "KeepAliveTimeout 30"]),
    ("trace", &["ServerName localhost", "TraceEnable on", "Timeout 30", "KeepAliveTimeout 30"]),
    (
        "limits",
        &[
            "ServerName localhost",
            "TraceEnable off",
            "Timeout 1",
            "KeepAliveTimeout 1",
            "MaxKeepAliveRequests 2",
            "LimitRequestLine 300",
            "LimitRequestFields 10",
            "LimitRequestFieldSize 150",
            "LimitRequestBody 1000",
        ],
    ),
];

/// The file in the working tree, to write to.
fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Asks all variants of one model.
fn ask_mpmlab(mpm: &str, cases: &[Case], piece: usize) -> BTreeMap<String, Answer> {
    let fixture = Fixture::new();
    // Files must be unreadable for the server where Apache found them so.
    let identity = identity();
    let identity: Vec<&str> = identity.iter().map(String::as_str).collect();
    let servers: HashMap<_, _> = VARIANTS
        .iter()
        .map(|(name, directives)| {
            (*name, Server::start(mpm, &fixture.root(), &[*directives, &identity].concat()))
        })
        .collect();
    ask(cases, piece, |variant| servers[variant].addr)
}

fn ask_apache(cases: &[Case]) -> BTreeMap<String, Answer> {
    let fixture = Fixture::new();
    let types = in_tree("core/data/mime.types");
    let servers: HashMap<_, _> = VARIANTS
        .iter()
        .map(|(name, directives)| {
            // Apache chooses a multipart boundary at each start and, one time in sixteen, one that is shorter than
            // ours: then every length would be another.
            let start = || Apache::start(TEMPLATE, &fixture.root(), &types, directives);
            let chosen = std::iter::repeat_with(start).take(20).find(|apache| has_full_boundary(apache.addr));
            (*name, chosen.expect("an Apache with a boundary of 16 digits"))
        })
        .collect();
    ask(cases, usize::MAX, |variant| servers[variant].addr)
}

fn has_full_boundary(addr: SocketAddr) -> bool {
    let request = "GET /1k.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=0-0,9-9\r\n\r\n";
    let (answer, _) = talk(addr, request.as_bytes(), usize::MAX, false);
    let header = String::from_utf8_lossy(&answer).into_owned();
    let (_, rest) = header.split_once("boundary=").expect("a multipart answer");
    rest.chars().take_while(char::is_ascii_hexdigit).count() == 16
}

fn check(who: &str, cases: &[Case], expected: &BTreeMap<String, Answer>, found: &BTreeMap<String, Answer>) {
    let differences = differences(cases, expected, found);
    let count = differences.len();
    assert!(count == 0, "{count} of {} answers of {who} differ:\n\n{}", found.len(), differences.join("\n"));
}

#[test]
fn each_model_answers_as_apache_does_and_as_the_others_do() {
    let cases = cases::parse(CASES);
    assert!(cases.len() >= 90, "{} cases", cases.len());
    let recorded = answers::read(RECORDED);
    // Equal to one recording means equal to each other.
    for &mpm in MPMS.iter() {
        check(mpm, &cases, &recorded, &ask_mpmlab(mpm, &cases, usize::MAX));
    }
}

#[test]
fn it_does_not_matter_in_which_pieces_a_request_arrives() {
    let mut cases = cases::parse(CASES);
    cases.retain(|case| case.bytes.len() < 1000);
    check("event, byte by byte", &cases, &answers::read(RECORDED), &ask_mpmlab("event", &cases, 1));
}

/// With `MPMLAB_RECORD=1` writes the recording; else checks that it still is what the installed Apache says.
#[test]
fn the_recording_is_what_apache_says() {
    let cases = cases::parse(CASES);
    let record = std::env::var_os("MPMLAB_RECORD").is_some();
    let Some(version) = apache::version() else {
        assert!(!record, "apache2 is not installed: nothing to record from");
        eprintln!("skipped: apache2 is not installed");
        return;
    };
    let found = ask_apache(&cases);
    if record {
        let heading = format!(
            "# Answers of Apache/{version} with tests/golden/apache.conf.in to the requests of cases.txt (see README.md)."
        );
        let path = in_tree(&format!("tests/golden/apache-{version}.txt"));
        std::fs::write(path, answers::write(&cases, &found, &heading)).unwrap();
        return;
    }
    let recorded = answers::read(RECORDED);
    if version == RECORDED_FROM {
        check("the installed Apache", &cases, &recorded, &found);
    } else {
        let differences = differences(&cases, &recorded, &found);
        eprintln!("not compared: Apache {version} is installed, {RECORDED_FROM} was recorded");
        eprintln!("{} answers differ:\n\n{}", differences.len(), differences.join("\n"));
    }
}
