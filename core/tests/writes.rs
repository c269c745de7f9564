//! How many writes answers take: over sockets that keep each write apart.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;

use bench::Bench;
use mpmlab_core::config::Config;
use mpmlab_core::config::knobs::FileSend;
use mpmlab_core::connection::step::{ConnState, Wake};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// A bench whose client receives what was written piece by piece.
fn in_pieces(change: impl FnOnce(&mut Config)) -> Bench {
    let (client, socket) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    Bench::over((UnixStream::from(client), UnixStream::from(socket)), change)
}

/// The writes that have arrived.
fn writes(bench: &mut Bench) -> Vec<String> {
    bench.client.set_nonblocking(true).unwrap();
    let mut piece = vec![0; 1 << 20];
    let mut all = Vec::new();
    while let Ok(got @ 1..) = bench.client.read(&mut piece) {
        all.push(String::from_utf8_lossy(&piece[..got]).into_owned());
    }
    all
}

#[test]
fn pipelined_answers_share_writes_as_far_as_the_limit_goes() {
    // Recorded from Apache 2.4.71: 12 pipelined 404s under prefork, and under event the same whatever the limit says.
    for (coalesce, limit, expected) in [
        (true, Some(4), &[5, 5, 2][..]),
        (true, Some(2), &[3, 3, 3, 3]),
        (true, Some(0), &[1; 12]),
        (false, Some(4), &[1; 12]),
        (false, None, &[1; 12]),
    ] {
        let mut bench = in_pieces(|config| {
            config.knobs.coalesce = coalesce;
            config.flush_max_pipelined = limit;
        });
        bench.send(&b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(12));
        assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
        let counts: Vec<usize> =
            writes(&mut bench).iter().map(|write| write.matches("HTTP/1.1 404 ").count()).collect();
        assert_eq!(counts, expected, "coalesce {coalesce}, FlushMaxPipelined {limit:?}");
    }
}

#[test]
fn answers_of_together_4096_bytes_wait_no_longer() {
    let mut bench = in_pieces(|config| config.flush_max_pipelined = None);
    bench.send(&b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(40));
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    let writes = writes(&mut bench);
    let (last, full) = writes.split_last().unwrap();
    assert!(!full.is_empty() && full.iter().all(|write| (4096..4096 + 500).contains(&write.len())));
    assert!(last.len() < 4096);
}

#[test]
fn a_file_that_is_read_is_written_whenever_the_threshold_is_passed() {
    for (threshold, read, content) in
        [(65_535, 0, &[72_000, 72_000, 56_000][..]), (20_000, 16_384, &[32_624, 32_624, 32_624])]
    {
        let mut bench = in_pieces(|config| {
            config.knobs.file_send = FileSend::Read;
            config.flush_max_threshold = threshold;
            config.read_buffer_size = read;
        });
        bench.file("file.bin", &vec![b'x'; 200_000]);
        bench.send(b"GET /file.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(bench.advance(Wake::Ready).is_ok());
        let lengths: Vec<usize> = writes(&mut bench).iter().map(|write| write.matches('x').count()).collect();
        assert_eq!(lengths[..content.len()], *content, "FlushMaxThreshold {threshold}");
    }
}

#[test]
fn a_threshold_of_nothing_sends_the_header_before_the_file() {
    let mut bench = in_pieces(|config| config.flush_max_threshold = 0);
    bench.send(b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(bench.advance(Wake::Ready), Ok((ConnState::KeepAlive, 5)));
    let writes = writes(&mut bench);
    assert!(writes[0].ends_with("\r\n\r\n"), "{writes:?}");
    assert_eq!(writes[1..], ["0123456789"]);
}
