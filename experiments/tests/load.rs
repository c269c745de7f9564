//! The load generator against small servers whose behaviour is known exactly, so that its counts must be, too.
//!
//! A server answers a fixed quota of requests and falls silent after it. Once every connection waits in that
//! silence, all answers have been read and the server ends the run: no count depends on time.
// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mpmlab_experiments::load::{self, Errors, LoadError, Outcome, Plan};
use nix::libc::linger;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

/// What a server does with a connection after a request.
enum After {
    Keep,
    Close,
    Reset,
}

struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// Requests still to be dealt with before the silence.
    quota: AtomicU64,
    /// Connections that wait in the silence, and how many of them end the run.
    silent: AtomicUsize,
    clients: usize,
    accepted: AtomicU64,
    /// Requests that said `Connection: close`.
    asked_to_close: AtomicU64,
    /// Ends the run.
    stop: AtomicBool,
}

impl Server {
    /// Serves `quota` requests by `serve(stream, number of the request on its connection from 1)`, then is silent.
    fn start(
        clients: usize,
        quota: u64,
        serve: impl Fn(&mut TcpStream, u64) -> After + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            quota: AtomicU64::new(quota),
            silent: AtomicUsize::new(0),
            clients,
            accepted: AtomicU64::new(0),
            asked_to_close: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (state, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                state.accepted.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || state.connection(stream.unwrap(), &*serve));
            }
        });
        Server { address, state }
    }

    fn plan(&self, threads: usize) -> Plan {
        plan(self.address, threads, self.state.clients)
    }

    fn run(&self, plan: &Plan) -> Outcome {
        load::run(plan, &self.state.stop).unwrap()
    }

    fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl State {
    fn connection(&self, mut stream: TcpStream, serve: &dyn Fn(&mut TcpStream, u64) -> After) {
        stream.set_nodelay(true).unwrap();
        for number in 1.. {
            let Some(request) = read_request(&mut stream) else { return };
            if request.contains("Connection: close") {
                self.asked_to_close.fetch_add(1, Ordering::SeqCst);
            }
            let within =
                self.quota.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if within.is_err() {
                if self.silent.fetch_add(1, Ordering::SeqCst) + 1 == self.clients {
                    self.stop.store(true, Ordering::SeqCst);
                }
                assert!(read_request(&mut stream).is_none(), "a second request while the first waits");
                return;
            }
            match serve(&mut stream, number) {
                After::Keep => {}
                After::Close => return,
                After::Reset => {
                    setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).unwrap();
                    return;
                }
            }
        }
    }
}

/// One request head; none when the client closes.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = vec![];
    let mut piece = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(n) if n > 0 => request.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
    Some(String::from_utf8(request).unwrap())
}

fn plan(address: SocketAddr, threads: usize, connections: usize) -> Plan {
    Plan {
        url: format!("http://{address}/").parse().unwrap(),
        threads,
        connections,
        warmup: Duration::ZERO,
        // Both far beyond what a test takes: the server ends the run.
        duration: Duration::from_secs(100),
        timeout: Duration::from_secs(60),
        keepalive: true,
        headers: vec![],
        cpus: None,
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const HELLO_HEAD: u64 = HELLO.len() as u64 - 5;

fn hello(stream: &mut TcpStream, _: u64) -> After {
    send(stream, HELLO)
}

fn send(stream: &mut TcpStream, text: &str) -> After {
    // The client may be gone when the run ends.
    let _ = stream.write_all(text.as_bytes());
    After::Keep
}

/// The laws hold, whatever the server did: all but those that say the machine is too small or nothing was answered.
fn check(outcome: &Outcome, requests: u64, errors: Errors) {
    assert_eq!((outcome.requests, outcome.errors), (requests, errors), "{outcome:#?}");
    assert_eq!(outcome.failed, errors.total());
    assert_eq!(outcome.started, requests + outcome.failed + outcome.in_flight);
    assert_eq!(outcome.status.values().sum::<u64>(), requests);
    let allowed = |law: &&String| {
        law.contains("client saturated")
            || (requests == 0 && law.contains("no request was answered"))
            // A connection whose requests all fail is made to wait between them.
            || (requests == 0 && law.contains("connections were down"))
    };
    let broken: Vec<_> = outcome.invalid_because.iter().filter(|law| !allowed(law)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn fifty_connections_over_four_threads_are_fifty_and_every_answer_is_counted_once() {
    // claims.md A31
    let server = Server::start(50, 5000, hello);
    let outcome = server.run(&server.plan(4));
    check(&outcome, 5000, Errors::default());
    assert_eq!((outcome.connections_requested, outcome.connections_opened, server.accepted()), (50, 50, 50));
    assert_eq!((outcome.connections_reconnected, outcome.closed_idle, outcome.in_flight), (0, 0, 50));
    assert_eq!((outcome.bytes_header, outcome.bytes_body), (5000 * HELLO_HEAD, 5000 * 5));
    assert_eq!((outcome.status["200"], outcome.latency_samples), (5000, 5000));
    assert!(
        outcome.interrupted
            && outcome.latency_us.min > 0.0
            && outcome.latency_us.p50 <= outcome.latency_us.max
    );
}

#[test]
fn an_announced_close_is_no_error() {
    // claims.md A07: wrk counts these closes among its read errors.
    let server = Server::start(4, 200, |stream, number| {
        if number < 5 {
            return send(stream, HELLO);
        }
        send(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
        After::Close
    });
    let outcome = server.run(&server.plan(2));
    check(&outcome, 200, Errors::default());
    assert_eq!((outcome.closed_idle, outcome.connections_opened), (0, 4));
    assert_eq!(outcome.connections_reconnected, server.accepted() - 4);
    assert!(server.accepted() >= 200 / 5);
}

#[test]
fn a_close_after_the_answer_without_notice_is_counted_apart_and_the_request_goes_again() {
    let server =
        Server::start(3, 60, |stream, number| if number == 1 { send(stream, HELLO) } else { After::Close });
    let outcome = server.run(&server.plan(1));
    // Of 60 requests that arrived, those that were second on their connection were dropped.
    let dropped = outcome.closed_idle;
    check(&outcome, 60 - dropped, Errors::default());
    assert_eq!(outcome.closed_idle_reset, 0);
    // Each drop costs a connection, and every connection but the last ones saw two requests.
    assert_eq!((outcome.connections_reconnected, server.accepted()), (dropped, dropped + 3));
    assert!((28..=30).contains(&dropped), "{dropped}");
}

#[test]
fn a_reset_of_a_kept_connection_before_the_answer_is_told_from_a_close() {
    let server =
        Server::start(3, 60, |stream, number| if number == 1 { send(stream, HELLO) } else { After::Reset });
    let outcome = server.run(&server.plan(1));
    check(&outcome, 60 - outcome.closed_idle, Errors::default());
    assert_eq!(outcome.closed_idle_reset, outcome.closed_idle);
    assert!((28..=30).contains(&outcome.closed_idle), "{}", outcome.closed_idle);
}

#[test]
fn content_delimited_by_the_close_is_complete_with_it() {
    let server = Server::start(4, 40, |stream, _| {
        send(stream, "HTTP/1.0 200 OK\r\n\r\n");
        send(stream, "all of it");
        After::Close
    });
    let outcome = server.run(&server.plan(2));
    check(&outcome, 40, Errors::default());
    assert_eq!((outcome.bytes_header, outcome.bytes_body, outcome.closed_idle), (40 * 19, 40 * 9, 0));
    assert_eq!((outcome.connections_reconnected, server.accepted()), (40, 44));
}

#[test]
fn chunked_answers_in_small_pieces_are_put_together() {
    const ANSWER: &str =
        "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let server = Server::start(2, 30, |stream, _| {
        for piece in ANSWER.as_bytes().chunks(7) {
            send(stream, std::str::from_utf8(piece).unwrap());
        }
        After::Keep
    });
    let outcome = server.run(&server.plan(1));
    check(&outcome, 30, Errors::default());
    assert_eq!(outcome.status["404"], 30);
    assert_eq!((outcome.bytes_header, outcome.bytes_body), (30 * (ANSWER.len() as u64 - 5), 30 * 5));
}

#[test]
fn answers_larger_than_the_buffer_are_counted_to_the_byte() {
    const LENGTH: usize = 3_000_000;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n{}", "x".repeat(LENGTH));
    let server = Server::start(2, 20, move |stream, _| send(stream, &answer));
    let outcome = server.run(&server.plan(2));
    check(&outcome, 20, Errors::default());
    assert_eq!(outcome.bytes_body, 20 * LENGTH as u64);
}

#[test]
fn without_keep_alive_every_request_has_its_connection() {
    let server = Server::start(4, 100, |stream, number| {
        assert_eq!(number, 1, "a connection used twice");
        send(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
        After::Close
    });
    let outcome = server.run(&Plan { keepalive: false, ..server.plan(2) });
    check(&outcome, 100, Errors::default());
    assert_eq!((server.accepted(), outcome.connections_reconnected), (104, 100));
    assert_eq!(server.state.asked_to_close.load(Ordering::SeqCst), 104);
    assert!(!outcome.mode.keepalive && outcome.connections_opened == 4);
}

#[test]
fn a_reset_within_the_answer_is_a_reset() {
    let server = Server::start(2, 10, |stream, _| {
        send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        After::Reset
    });
    let outcome = server.run(&server.plan(1));
    check(&outcome, 0, Errors { reset: 10, ..Errors::default() });
}

#[test]
fn a_close_within_the_answer_is_closed_early_even_on_a_kept_connection() {
    let server = Server::start(2, 20, |stream, number| match number {
        1 => send(stream, HELLO),
        _ => {
            send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            After::Close
        }
    });
    let outcome = server.run(&server.plan(1));
    let cut = outcome.errors.closed_early;
    check(&outcome, 20 - cut, Errors { closed_early: cut, ..Errors::default() });
    assert!((9..=10).contains(&cut) && outcome.closed_idle == 0, "{outcome:#?}");
}

#[test]
fn a_close_of_a_new_connection_before_the_answer_is_closed_early() {
    let server = Server::start(2, 10, |_, _| After::Close);
    let outcome = server.run(&server.plan(1));
    check(&outcome, 0, Errors { closed_early: 10, ..Errors::default() });
    assert_eq!((outcome.closed_idle, server.accepted()), (0, 12));
    assert!(!outcome.valid && outcome.invalid_because[0].contains("no request was answered: 10 failed"));
}

#[test]
fn what_is_not_http_is_a_bad_response() {
    let server = Server::start(2, 10, |stream, _| send(stream, "220 smtp.example.org ready\r\n"));
    let outcome = server.run(&server.plan(1));
    check(&outcome, 0, Errors { bad_response: 10, ..Errors::default() });
}

#[test]
fn a_doubled_answer_is_a_bad_response() {
    let server = Server::start(2, 10, |stream, _| send(stream, &HELLO.repeat(2)));
    let outcome = server.run(&server.plan(1));
    check(&outcome, 0, Errors { bad_response: 10, ..Errors::default() });
}

#[test]
fn a_time_out_is_counted_and_stays_in_the_latencies() {
    let timeout = Duration::from_millis(50);
    // Never answers; the run ends when the fourth connections of three clients wait, after nine time-outs at least.
    let server = Server::start(12, 0, hello);
    let outcome = server.run(&Plan { connections: 3, timeout, ..server.plan(1) });
    let timeouts = outcome.errors.timeout;
    check(&outcome, 0, Errors { timeout: timeouts, ..Errors::default() });
    assert!(timeouts >= 9, "{timeouts}");
    assert_eq!(outcome.latency_samples, timeouts);
    assert!(outcome.latency_us.min >= timeout.as_micros() as f64, "{:?}", outcome.latency_us);
}

#[test]
fn a_closed_port_costs_a_bounded_number_of_counted_attempts() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for keepalive in [true, false] {
        let plan = Plan { keepalive, duration: Duration::from_millis(300), ..plan(address, 2, 10) };
        let outcome = load::run(&plan, &AtomicBool::new(false)).unwrap();
        let refused = outcome.errors.refused;
        assert_eq!(outcome.errors, Errors { refused, ..Errors::default() });
        assert_eq!((outcome.requests, outcome.connections_opened, outcome.failed), (0, 0, refused));
        // A pause of 2, 4 ... 64 ms and then of 100 ms follows each of a connection's attempts.
        let most = 10.0 * (8.0 + outcome.duration_s / 0.1);
        assert!(refused >= 10 && refused as f64 <= most, "{refused} of at most {most}");
        assert!(!outcome.valid);
        let laws = outcome.invalid_because.join("; ");
        assert!(
            laws.contains("no request was answered") && laws.contains("only 0 of 10 connections"),
            "{laws}"
        );
        assert!(!laws.contains("conserved") && !laws.contains("Little"), "{laws}");
    }
}

#[test]
fn a_server_that_goes_away_makes_the_run_invalid() {
    for keepalive in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = Plan { keepalive, ..plan(listener.local_addr().unwrap(), 1, 2) };
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let mut open = vec![];
                for _ in 0..2 {
                    open.push(listener.accept().unwrap().0);
                }
                for stream in &mut open {
                    for _ in 0..if keepalive { 20 } else { 1 } {
                        read_request(stream).unwrap();
                        hello(stream, 1);
                    }
                }
                // Nobody listens any more before the kept connections end, and for longer than all before took.
                drop((listener, open));
                thread::sleep(4 * began.elapsed());
                stop.store(true, Ordering::SeqCst);
            });
            load::run(&plan, &stop).unwrap()
        });
        assert!(outcome.requests >= 2 && outcome.errors.refused > 0 && !outcome.valid, "{outcome:#?}");
        let laws = outcome.invalid_because.join("; ");
        assert!(laws.contains("connections were down for ") && !laws.contains("Little"), "{laws}");
    }
}

#[test]
fn what_is_answered_during_the_warm_up_is_not_counted() {
    let server = Server::start(4, 100, hello);
    let outcome = server.run(&Plan { warmup: Duration::from_secs(100), ..server.plan(2) });
    assert_eq!((outcome.requests, outcome.in_flight, outcome.connections_opened), (0, 4, 4));
    assert!(outcome.interrupted && !outcome.valid);
    assert!(outcome.invalid_because[0].contains("stopped before a request was answered"), "{outcome:#?}");
}

#[test]
fn requests_under_way_when_the_window_begins_belong_to_it() {
    // A request arrives after its thread's warm-up began, so an answer held for as long as the warm-up lasts comes
    // after it, however slow the machine is.
    let warmup = Duration::from_millis(20);
    let server = Server::start(4, 4, move |stream, _| {
        thread::sleep(warmup);
        send(stream, HELLO)
    });
    let outcome = server.run(&Plan { warmup, ..server.plan(2) });
    check(&outcome, 4, Errors::default());
    assert_eq!((outcome.started, outcome.in_flight), (8, 4));
}

#[test]
fn a_run_ends_by_itself_and_is_valid() {
    let server = Server::start(4, u64::MAX, hello);
    let plan = Plan {
        duration: Duration::from_millis(200),
        warmup: Duration::from_millis(50),
        headers: vec![("X-Test".into(), "yes".into())],
        ..server.plan(2)
    };
    let outcome = server.run(&plan);
    assert!(outcome.valid && !outcome.interrupted, "{outcome:#?}");
    assert!(outcome.requests > 0 && outcome.duration_s >= 0.2 && outcome.in_flight == 4);
    assert!((outcome.rps - outcome.requests as f64 / outcome.duration_s).abs() < 1e-6);
}

#[test]
fn threads_can_be_pinned_to_a_core_that_exists_and_to_no_other() {
    let server = Server::start(2, 10, hello);
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let usable = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let outcome = server.run(&Plan { cpus: Some(vec![usable]), ..server.plan(2) });
    check(&outcome, 10, Errors::default());
    let unusable =
        (0..CpuSet::count()).rev().find(|cpu| !allowed.is_set(*cpu).unwrap()).unwrap_or(CpuSet::count());
    match load::run(&Plan { cpus: Some(vec![usable, unusable]), ..server.plan(2) }, &server.state.stop) {
        Err(LoadError::Plan(why)) => {
            assert!(why.contains(&format!("core {unusable} cannot be used")), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fewer_connections_than_threads_are_refused_in_one_line() {
    let refused = load::run(&plan("127.0.0.1:1".parse().unwrap(), 4, 2), &AtomicBool::new(false));
    let line = refused.expect_err("2 connections over 4 threads").to_string();
    assert!(line.contains("2 is fewer than the 4 threads") && !line.contains('\n'), "{line}");
}
