//! The interrupt flag, in processes of their own: a raised flag is never lowered, so other tests must not see it.
#![allow(clippy::unwrap_used, reason = "test helpers may fail loudly like tests")]

use std::io::BufReader;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use mpmlab_experiments::interrupt::on_interrupt;
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;

#[test]
fn the_first_interrupt_raises_the_flag_and_does_not_kill() {
    let flag = on_interrupt();
    assert!(!flag.load(Ordering::Relaxed));
    raise(Signal::SIGINT).expect("a process may signal itself");
    assert!(flag.load(Ordering::Relaxed));
    assert!(std::ptr::eq(flag, on_interrupt()));
}

const HELPER: &str = "MPMLAB_TEST_INTERRUPTED";

/// Not a test of its own: the process that the next ones signal, which runs this binary again with the variable set.
/// Says when it may be signalled and when it was.
#[test]
fn helper_that_waits_to_be_interrupted() {
    if std::env::var_os(HELPER).is_none() {
        return;
    }
    let flag = on_interrupt();
    eprintln!("ready");
    while !flag.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    eprintln!("stopping");
    std::thread::sleep(Duration::from_secs(60));
}

/// The helper, ready, started by a shell after `preparation`; and what it says from then on.
fn helper(preparation: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = Command::new("sh")
        .args(["-c", &format!("{preparation} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_waits_to_be_interrupted", "--nocapture"])
        .env(HELPER, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(line(&mut says), "ready\n");
    (child, says)
}

fn line(from: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

#[test]
fn each_of_the_three_signals_stops_once_and_kills_the_second_time() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut child, mut says) = helper("");
        // Twice in a row, as timeout(1) does, is one request.
        kill(pid(&child), signal).unwrap();
        kill(pid(&child), signal).unwrap();
        assert_eq!(line(&mut says), "stopping\n", "{signal}");
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            kill(pid(&child), signal).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.signal(), Some(signal as i32));
    }
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let (mut child, mut says) = helper("trap '' HUP;");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let has = |mask: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() >> (Signal::SIGHUP as i32 - 1) & 1 == 1
    };
    assert!(has("SigIgn:") && !has("SigCgt:"), "{status}");
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert_eq!(line(&mut says), "stopping\n");
    child.kill().unwrap();
    child.wait().unwrap();
}
