//! The connection state machine over a socket pair, with a driver that does nothing but wait: what it waits for in
//! each state, and that every way of sending a file puts the same bytes on the wire.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use bench::Bench;
use mpmlab_core::config::knobs::{Accounting, FileSend, LingerStyle};
use mpmlab_core::connection::step::{CloseReason, ConnState, Wake};
use mpmlab_core::slot::Status;
use std::io::Read;

const GET: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_AND_CLOSE: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const STRATEGIES: [FileSend; 3] = [FileSend::Mmap, FileSend::Sendfile, FileSend::Read];

#[test]
fn a_kept_connection_waits_in_keep_alive_and_answers_again() {
    let mut bench = Bench::new(|_| {});
    let mut answer = [0; 4096];
    for _ in 0..3 {
        bench.send(GET);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
        assert_eq!(bench.slot.status(), Status::KeepAlive);
        let got = bench.client.read(&mut answer).unwrap();
        assert!(answer[..got].ends_with(b"\r\n\r\n0123456789"));
    }
    assert_eq!(bench.slot.counters().requests, [3; 3]);
    bench.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(
        bench.advance(Wake::Ready),
        Ok((ConnState::Linger, 2)),
        "a client's close is lingered over as well"
    );
    assert_eq!(bench.advance(Wake::Ready), Err(CloseReason::Client));
}

/// Apache's blocking loop leaves K, and the last request, in the scoreboard until the next head is complete; its asynchronous
/// one shows R (mpm-semantics 9.2).
#[test]
fn a_later_request_that_is_being_read_shows_as_the_accounting_says() {
    for (accounting, status, request) in [
        (Accounting::Sync, Status::KeepAlive, "GET /small.txt HTTP/1.1"),
        (Accounting::Async, Status::Read, ""),
    ] {
        let mut bench = Bench::new(|config| config.knobs.accounting = accounting);
        bench.send(GET);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
        bench.send(&GET[..30]);
        assert_eq!(bench.advance(Wake::Ready).map(|(state, _)| state), Ok(ConnState::ReadRequest));
        assert_eq!(bench.slot.status(), status);
        assert_eq!(bench.slot.request.get(), request.as_bytes());
        assert_eq!(bench.slot.counters().requests, [1; 3], "the new one is not answered yet");
    }
}

/// L while a connection lingers whose head was refused, C after any other answer.
#[test]
fn a_refused_head_is_logged_late() {
    for (request, status) in [(&b"GET / HTTP/1.1\r\n\r\n"[..], Status::Log), (GET_AND_CLOSE, Status::Closing)]
    {
        let mut bench = Bench::new(|_| {});
        bench.send(request);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::Linger, 2)));
        assert_eq!((bench.slot.status(), bench.slot.counters().requests), (status, [1; 3]));
    }
}

#[test]
fn half_a_head_is_told_408_only_if_the_request_line_was_there() {
    for (half, told) in [(&b"GET /small.txt HTTP/1.1\r\nHo"[..], "HTTP/1.1 408 "), (b"GET /sm", "")] {
        let mut bench = Bench::new(|_| {});
        bench.send(half);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, 20)));
        assert_eq!(bench.slot.status(), Status::Read);
        assert!(matches!(bench.advance(Wake::Expired), Ok((ConnState::Linger, _))));
        bench.client.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = bench.text_to_the_end();
        assert!(answer.starts_with(told) && answer.is_empty() == told.is_empty(), "{answer}");
    }
}

#[test]
fn a_body_is_read_before_the_answer_and_the_next_request_found_behind_it() {
    let mut bench = Bench::new(|_| {});
    bench.send(b"POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::ReadBody, 10)));
    assert_eq!(bench.slot.status(), Status::Write);
    bench.send(b"67890");
    bench.send(GET_AND_CLOSE);
    bench.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(bench.text_to_the_end().matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn eviction_ends_an_idle_connection_by_a_short_linger() {
    let mut bench = Bench::new(|_| {});
    bench.send(GET);
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    assert_eq!(bench.advance(Wake::Evicted), Ok((ConnState::Linger, 2)));
    assert_eq!(bench.advance(Wake::Expired), Err(CloseReason::Evicted));
    let mut answer = Vec::new();
    bench.client.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(b"0123456789"), "the answer already sent must arrive whole");
}

#[test]
fn a_stopping_process_answers_once_more_and_closes() {
    let mut bench = Bench::new(|_| {});
    bench.leaving.begin_graceful();
    bench.send(GET);
    bench.client.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = bench.text_to_the_end();
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
}

#[test]
fn a_process_told_to_end_after_a_promise_breaks_it_as_apache_does_or_keeps_it() {
    for keep in [false, true] {
        let mut bench = Bench::new(|config| config.knobs.keep_promise = keep);
        bench.file("big.bin", &vec![b'x'; 3_000_000]);
        bench.send(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        // The header is out, without `Connection: close`; the socket cannot take the rest.
        assert!(bench.advance(Wake::Ready).is_ok());
        bench.leaving.begin_graceful();
        // The client sends its next request before it has read the whole answer.
        bench.send(GET);
        bench.client.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = bench.text_to_the_end();
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), if keep { 2 } else { 1 });
        assert_eq!(answer.matches("Connection: close").count(), usize::from(keep));
    }
}

#[test]
fn pipelined_answers_in_memory_are_all_sent_before_anyone_waits() {
    for coalesce in [false, true] {
        for count in [1, 4, 5, 6, 12] {
            let mut bench = Bench::new(|config| {
                config.knobs.coalesce = coalesce;
                config.knobs.withhold = false;
            });
            bench.send(&b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count));
            // The last request is only half there: its predecessors must not wait for the other half.
            bench.send(b"GET /missing HTTP/1.1\r\nHo");
            assert!(matches!(bench.advance(Wake::Ready), Ok((ConnState::ReadRequest, _))));
            bench.client.set_nonblocking(true).unwrap();
            let mut early = vec![0; 1 << 16];
            let got = bench.client.read(&mut early).unwrap();
            let early = String::from_utf8_lossy(&early[..got]);
            assert_eq!(early.matches("HTTP/1.1 404 ").count(), count, "coalesce {coalesce}");
        }
    }
}

#[test]
fn every_way_of_sending_puts_the_same_bytes_on_the_wire() {
    let content: Vec<u8> = (0..9_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for file_send in STRATEGIES {
        let mut bench = Bench::new(|c| c.knobs.file_send = file_send);
        bench.file("big.bin", &content);
        bench.send(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        bench.client.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = bench.run_to_the_end();
        let at = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let (first, second) = answer[at..].split_at(content.len());
        assert!(first == content, "{file_send:?}");
        assert!(second.ends_with(b"\r\n\r\n0123456789"), "{file_send:?}");
    }
}

#[test]
fn a_stalled_reader_pins_the_handler_unless_the_kernel_sends_the_file() {
    // mpm-semantics 4.5: mapped and read files count as memory, sendfile ranges do not.
    for (file_send, expected) in
        STRATEGIES.into_iter().zip([ConnState::Output, ConnState::WriteCompletion, ConnState::Output])
    {
        let mut bench = Bench::new(|c| c.knobs.file_send = file_send);
        bench.file("big.bin", &vec![b'x'; 3_000_000]);
        bench.send(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(bench.advance(Wake::Ready), Ok((expected, 300)), "{file_send:?}");
    }
}

#[test]
fn a_file_cut_short_while_it_is_sent_ends_the_connection_not_the_process() {
    for file_send in STRATEGIES {
        let mut bench = Bench::new(|c| c.knobs.file_send = file_send);
        bench.file("shrinking.bin", &vec![b'x'; 3_000_000]);
        bench.send(b"GET /shrinking.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(bench.advance(Wake::Ready).is_ok(), "the socket cannot take it all");
        let path = bench.server.root.join("shrinking.bin");
        std::fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
        bench.client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(bench.run_to_the_end().len() < 3_000_000, "{file_send:?}");
    }
}

#[test]
fn lingering_reads_what_comes_until_the_client_closes() {
    for (style, limit) in [(LingerStyle::WaitFirst, 2), (LingerStyle::ReadFirst, 30)] {
        let mut bench = Bench::new(|c| c.knobs.linger = style);
        bench.send(GET_AND_CLOSE);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::Linger, limit)), "{style:?}");
        assert_eq!(bench.slot.status(), Status::Closing);
        bench.send(&[b'j'; 1000]);
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::Linger, limit)), "{style:?}");
        bench.client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(bench.run_to_the_end().ends_with(b"0123456789"));
    }
}

#[test]
fn max_keep_alive_requests_n_serves_n_plus_one() {
    let mut bench = Bench::new(|c| c.max_keep_alive_requests = 5);
    bench.send(&b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n".repeat(9));
    bench.client.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = bench.text_to_the_end();
    // mpm-semantics V18b.
    let max: Vec<&str> =
        answer.lines().filter_map(|l| l.strip_prefix("Keep-Alive: timeout=5, max=")).collect();
    assert_eq!(max, ["5", "4", "3", "2", "1"]);
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 6);
    assert_eq!(answer.matches("Connection: close").count(), 1);
}
