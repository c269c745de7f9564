//! Reclaim: how children that were told to end are made to end (mpm-semantics 6).
//!
//! Polls with growing sleeps and acts at fixed times: TERM at once and silently, TERM with a warning at 3, 5 and 7 s, KILL
//! at 9 s, and gives up at 10 s.

use nix::sys::signal::Signal;
use std::time::Duration;

/// One step of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// When, counted from the start.
    pub at: Duration,
    /// What every child that is left gets.
    pub signal: Signal,
    /// Is the log told?
    pub warns: bool,
}

const fn action(seconds: u64, signal: Signal, warns: bool) -> Action {
    Action { at: Duration::from_secs(seconds), signal, warns }
}

/// The steps in order. A HUP restart, which has signalled already, leaves the first one out.
pub const SCHEDULE: [Action; 5] = [
    action(0, Signal::SIGTERM, false),
    action(3, Signal::SIGTERM, true),
    action(5, Signal::SIGTERM, true),
    action(7, Signal::SIGTERM, true),
    action(9, Signal::SIGKILL, true),
];

/// When to stop waiting for what is left.
pub const GIVE_UP: Duration = Duration::from_secs(10);

/// The sleep after `previous`: 16 ms, then four times as long each time, at most 1 s.
pub fn next_sleep(previous: Option<Duration>) -> Duration {
    match previous {
        None => Duration::from_millis(16),
        Some(previous) => (previous * 4).min(Duration::from_secs(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_to_a_second() {
        let mut sleeps = vec![next_sleep(None)];
        for _ in 0..4 {
            sleeps.push(next_sleep(sleeps.last().copied()));
        }
        let millis: Vec<u128> = sleeps.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [16, 64, 256, 1000, 1000]);
    }
}
