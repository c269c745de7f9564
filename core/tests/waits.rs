//! What a connection waits for and how long, and what it says when that was too long: RequestReadTimeout, the limit of a
//! later request's line, and who has to wait for a slow reader.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use bench::Bench;
use mpmlab_core::config::knobs::{LaterLine, LingerStyle};
use mpmlab_core::config::read_timeout::{ReadTimeout, Stage};
use mpmlab_core::config::{Config, CustomLog};
use mpmlab_core::connection::step::{CloseReason, ConnState, Wake};
use std::io::Read;

const GET: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";

fn without_limits(config: &mut Config) {
    config.read_timeout = ReadTimeout::OFF;
}

/// Reads what the client has got so far.
fn received(bench: &mut Bench) -> String {
    bench.client.set_nonblocking(true).unwrap();
    let mut answer = vec![0; 1 << 16];
    let got = bench.client.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..got]).into_owned()
}

#[test]
fn a_silent_client_has_the_initial_time_and_no_more_than_timeout() {
    for (initial, timeout, limit) in [(20, 300, 20), (20, 7, 7), (0, 300, 300)] {
        let mut bench = Bench::new(|config| {
            config.read_timeout.header = Stage { initial, most: 0, rate: 0 };
            config.timeout = std::time::Duration::from_secs(timeout);
        });
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, limit)));
    }
}

#[test]
fn received_bytes_lengthen_the_wait_up_to_the_maximum() {
    let mut bench = Bench::new(|c| c.read_timeout.header = Stage { initial: 100, most: 400, rate: 1 });
    bench.send(b"GET /small.txt HTTP/1.1\r\nHo");
    let Ok((ConnState::ReadRequest, limit)) = bench.advance(Wake::Ready) else { panic!("it waits") };
    assert!((101..=125).contains(&limit), "25 bytes of a whole line, one second each: {limit}");
    bench.send(&[b"st: a\r\nX: ".as_slice(), &[b'x'; 1000], b"\r\n"].concat());
    let Ok((ConnState::ReadRequest, limit)) = bench.advance(Wake::Ready) else { panic!("it waits") };
    assert!((126..=400).contains(&limit), "{limit}");
}

#[test]
fn a_body_has_a_time_of_its_own() {
    let mut bench = Bench::new(|c| c.read_timeout.body = Stage { initial: 3, most: 0, rate: 0 });
    bench.send(&POST[..30]);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, 20)));
    bench.send(&POST[30..]);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadBody, 3)));
    bench.send(b"0123456789");
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    assert!(received(&mut bench).starts_with("HTTP/1.1 200 "));
}

#[test]
fn idle_time_between_requests_is_not_counted() {
    let mut bench = Bench::new(|c| c.read_timeout.header = Stage { initial: 3, most: 0, rate: 0 });
    bench.send(GET);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    bench.send(b"GET /sm");
    assert_eq!(
        bench.advance(Wake::Ready),
        Ok((ConnState::ReadRequest, 3)),
        "the clock starts with the first byte"
    );
}

#[test]
fn a_later_requests_line_has_the_limit_of_the_knob_and_its_fields_have_timeout() {
    for (later_line, limit) in [(LaterLine::KeepAlive, 5), (LaterLine::Timeout, 300)] {
        let mut bench = Bench::new(|config| {
            without_limits(config);
            config.knobs.later_line = later_line;
        });
        bench.send(GET);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
        bench.send(b"GET /small.txt HT");
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, limit)), "{later_line:?}");
        bench.send(b"TP/1.1\r\nHo");
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, 300)), "{later_line:?}");
    }
}

#[test]
fn a_close_is_short_only_after_a_request_read_time_out() {
    for (limited, limit) in [(true, 2), (false, 30)] {
        for begun in [&b"GET /sm"[..], b"GET /small.txt HTTP/1.1\r\nHo", POST] {
            let mut bench = Bench::new(|config| {
                config.knobs.linger = LingerStyle::ReadFirst;
                if !limited {
                    without_limits(config);
                }
            });
            bench.send(begun);
            assert!(bench.advance(Wake::Ready).is_ok());
            let wait = bench.advance(Wake::Expired);
            assert_eq!(
                wait,
                Ok((ConnState::Linger, limit)),
                "{limited} {:?}",
                String::from_utf8_lossy(begun)
            );
        }
    }
}

#[test]
fn an_idle_end_is_short_under_event() {
    let mut bench = Bench::new(|c| c.knobs.linger = LingerStyle::ReadFirst);
    bench.send(GET);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    assert_eq!(bench.advance(Wake::Expired), Ok((ConnState::Linger, 2)));
    assert_eq!(bench.advance(Wake::Expired), Err(CloseReason::KeepAliveExpired));
}

/// A bench with an access log of status and bytes, and where that is.
fn logging(change: impl FnOnce(&mut Config)) -> (Bench, tempfile::NamedTempFile) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::new(|config| {
        let format = r#"%>s %O %b "%r""#.to_owned();
        config.custom_log = Some(CustomLog { path: log.path().to_owned(), format });
        change(config);
    });
    (bench, log)
}

#[test]
fn a_first_request_that_never_came_is_logged_and_a_later_one_is_not() {
    for begun in [&b""[..], b"GET /sm"] {
        let (mut bench, log) = logging(|_| {});
        bench.send(begun);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, 20)));
        assert!(matches!(bench.advance(Wake::Expired), Ok((ConnState::Linger, _))));
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "408 0 - \"-\"\n");
        assert_eq!(received(&mut bench), "", "no bytes are sent");
        assert_eq!(bench.slot.counters().requests, [0; 3], "and nothing is counted");
    }
    let (mut bench, log) = logging(|_| {});
    bench.send(GET);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    bench.send(b"GE");
    assert!(matches!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, _))));
    assert!(matches!(bench.advance(Wake::Expired), Ok((ConnState::Linger, _))));
    assert_eq!(std::fs::read_to_string(log.path()).unwrap().lines().count(), 1);
}

#[test]
fn half_a_head_gets_a_whole_408_and_its_line_in_the_log() {
    let (mut bench, log) = logging(|_| {});
    bench.send(b"GET /small.txt HTTP/1.1\r\nHo");
    assert!(matches!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, _))));
    assert!(matches!(bench.advance(Wake::Expired), Ok((ConnState::Linger, _))));
    let answer = received(&mut bench);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("Connection: close\r\n"), "{answer}");
    let line = std::fs::read_to_string(log.path()).unwrap();
    assert!(line.starts_with(&format!("408 {} ", answer.len())), "{line}");
}

#[test]
fn a_common_write_is_said_of_the_last_answer_in_it() {
    // Recorded from Apache 2.4.71: bytes of 0, 0, 0, 0 and all five, 0 and both.
    let (mut bench, log) = logging(|_| {});
    let requests = b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(7);
    bench.send(&requests);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    let answers = received(&mut bench);
    let one = answers.len() / 7;
    let log = std::fs::read_to_string(log.path()).unwrap();
    let sent: Vec<usize> = log.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(sent, [0, 0, 0, 0, 5 * one, 0, 2 * one]);
    let content: Vec<&str> = log.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert!(content.iter().all(|c| *c == content[0] && *c != "-"), "%b is each answer's own: {content:?}");
    let counters = bench.slot.counters();
    assert_eq!((counters.requests[2], counters.bytes[2]), (7, (requests.len() + answers.len()) as u64));
}

#[test]
fn what_is_left_of_a_map_below_the_threshold_waits_without_a_worker() {
    // mpm-semantics 4.5: only what is in memory keeps the handler; once it has left, nothing brings it back.
    for (threshold, state) in [(65_535, ConnState::Output), (8 << 20, ConnState::WriteCompletion)] {
        let mut bench = Bench::new(|c| c.flush_max_threshold = threshold);
        bench.file("big.bin", &vec![b'x'; 9_000_000]);
        bench.send(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(bench.advance(Wake::Ready), Ok((state, 300)), "{threshold}");
        let mut some = vec![0; 1 << 20];
        for _ in 0..8 {
            let got = bench.client.read(&mut some).unwrap();
            assert!(got > 0);
            assert_eq!(bench.advance(Wake::Ready), Ok((state, 300)), "{threshold}");
        }
    }
}

#[test]
fn half_a_request_withholds_the_answers_before_it_until_it_is_whole_or_given_up() {
    // Recorded from Apache 2.4.71, prefork and worker; event writes every answer at once.
    let missing = b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n";
    for (rest, wake, answers) in [(&missing[10..], Wake::Ready, 2), (b"", Wake::Expired, 1)] {
        let mut bench = Bench::new(|_| {});
        bench.send(missing);
        bench.send(&missing[..10]);
        assert!(matches!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, _))));
        assert_eq!(received(&mut bench), "");
        bench.send(rest);
        assert!(bench.advance(wake).is_ok());
        assert_eq!(received(&mut bench).matches("HTTP/1.1 404 ").count(), answers);
    }
    let mut bench = Bench::new(|_| {});
    bench.send(missing);
    bench.send(&POST[..POST.len() - 4]);
    bench.send(b"\r\n\r\n");
    assert!(matches!(bench.advance(Wake::Ready), Ok((ConnState::ReadBody, _))));
    assert_eq!(received(&mut bench), "");
}

#[test]
fn blank_lines_behind_a_request_do_not_hold_its_answer_back() {
    for (coalesce, request, answer) in [
        (true, &b"GET /missing"[..], "404"),
        (false, b"GET /missing", "404"),
        (true, b"GET /small.txt", "200"),
    ] {
        let mut bench = Bench::new(|c| c.knobs.coalesce = coalesce);
        bench.send(&[request, b" HTTP/1.1\r\nHost: a\r\n\r\n\r\n\n"].concat());
        assert_eq!(
            bench.advance(Wake::Ready),
            Ok((ConnState::KeepAlive, 5)),
            "nobody waits for half a request"
        );
        assert!(received(&mut bench).starts_with(&format!("HTTP/1.1 {answer} ")));
    }
}
