//! How much longer a request may take to arrive: mod_reqtimeout's clock, with its arithmetic to the microsecond.
//!
//! The module works below Apache's readers, so what it does follows how they ask. A line (request line, field, chunk size) is
//! asked for once and waited for in pieces: the time is looked at before it and after each wait, before the read. A
//! body is asked for piece by piece: what has arrived is read first, in time or not. In both, bytes add to the time left
//! *after* the limit of the next wait was fixed, which is why half a line does not lengthen the wait for its other half.

use crate::config::read_timeout::Stage;
use std::time::{Duration, Instant};

/// Less is not waited: what remains of a second is rounded up to it.
const LEAST: Duration = Duration::from_secs(1);

/// The clock of one stage of one request. Stands still until something is waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    running: Option<Running>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    ends: Instant,
    /// `ends` never passes this.
    latest: Option<Instant>,
    per_byte: Duration,
    /// What was left when it was last looked at.
    left: Duration,
}

/// The time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expired;

impl Patience {
    /// Starts the clock of a stage, if it is not running and the stage has a limit.
    pub(super) fn start(&mut self, stage: &Stage, now: Instant) {
        if self.running.is_none() && stage.initial > 0 {
            let after = |seconds: u32| now + Duration::from_secs(u64::from(seconds));
            self.running = Some(Running {
                ends: after(stage.initial),
                latest: (stage.most > 0).then(|| after(stage.most)),
                per_byte: stage.per_byte(),
                left: Duration::from_secs(u64::from(stage.initial)),
            });
        }
    }

    /// The stage is over.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    /// Is there a limit?
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Looks at the clock.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Expired> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let left = running.ends.saturating_duration_since(now);
        if left.is_zero() {
            return Err(Expired);
        }
        running.left = left.max(LEAST);
        Ok(())
    }

    /// Bytes of lines have arrived: each whole line among them adds its time before the next is asked for; half a line
    /// adds its own behind that.
    pub(super) fn lines(&mut self, bytes: &[u8], now: Instant) -> Result<(), Expired> {
        if self.running.is_none() {
            return Ok(());
        }
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole > 0 {
            self.extend(whole);
            self.check(now)?;
        }
        self.extend(bytes.len() - whole);
        Ok(())
    }

    /// Bytes of a body have arrived, and more is wanted.
    pub(super) fn piece(&mut self, length: usize, now: Instant) -> Result<(), Expired> {
        self.extend(length);
        self.check(now)
    }

    fn extend(&mut self, bytes: usize) {
        let Some(running) = &mut self.running else { return };
        let more = running.per_byte.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX));
        let ends = running.ends + more;
        running.ends = running.latest.map_or(ends, |latest| ends.min(latest));
    }

    /// How long the next wait may be: what is left, cut to a millisecond as APR does, or `otherwise`, whichever is less.
    pub(super) fn limit(&self, otherwise: Duration) -> Duration {
        self.running.map_or(otherwise, |running| {
            Duration::from_millis(running.left.as_millis() as u64).min(otherwise)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: Stage = Stage { initial: 2, most: 4, rate: 500 };
    const FAR: Duration = Duration::from_secs(300);

    fn started(stage: Stage) -> (Patience, impl Fn(u64) -> Instant) {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        patience.start(&stage, begin);
        (patience, move |milliseconds| begin + Duration::from_millis(milliseconds))
    }

    fn limit(patience: &Patience) -> u128 {
        patience.limit(FAR).as_millis()
    }

    #[test]
    fn a_trickled_header_waits_as_apaches_does() {
        // Recorded from Apache 2.4.71 with header=2-4,minrate=500: polls of 2000, 1350, 1000 ms, then a 408.
        let (mut patience, at) = started(STAGE);
        assert_eq!(patience.lines(b"GET /small.txt HT", at(0)), Ok(()));
        assert_eq!(limit(&patience), 2000, "half a line does not lengthen the wait for the other half");
        assert_eq!(patience.check(at(700)), Ok(()));
        assert_eq!(patience.lines(b"TP/1.1\r\nHo", at(700)), Ok(()));
        assert_eq!(limit(&patience), 1350, "2000 - 700 + 2 x 25 of the whole line");
        assert_eq!(patience.check(at(1400)), Ok(()));
        assert_eq!(patience.lines(b"st: a\r\nX-A: b", at(1400)), Ok(()));
        assert_eq!(limit(&patience), 1000, "670 ms left: rounded up");
        assert_eq!(patience.check(at(2100)), Err(Expired), "the end is not moved by the rounding");
    }

    #[test]
    fn bytes_never_add_past_the_maximum() {
        let (mut patience, at) = started(STAGE);
        assert_eq!(patience.lines(&[b"x".repeat(9000), b"\n".to_vec()].concat(), at(0)), Ok(()));
        assert_eq!(limit(&patience), 4000);
        assert_eq!(patience.check(at(4000)), Err(Expired));
        let (mut patience, at) = started(Stage { most: 0, ..STAGE });
        assert_eq!(patience.piece(9000, at(0)), Ok(()));
        assert_eq!(limit(&patience), 20_000);
        let (mut patience, at) = started(Stage { rate: 0, ..STAGE });
        assert_eq!(patience.piece(9000, at(500)), Ok(()));
        assert_eq!(limit(&patience), 1500, "without a rate bytes add nothing");
    }

    #[test]
    fn a_body_adds_what_came_before_it_looks_at_the_clock() {
        let (mut patience, at) = started(STAGE);
        assert_eq!(patience.piece(100, at(2100)), Ok(()), "200 ms more saved it");
        assert_eq!(limit(&patience), 1000);
        assert_eq!(patience.piece(40, at(2300)), Err(Expired));
    }

    #[test]
    fn parts_of_a_millisecond_are_cut_and_other_limits_count() {
        let (mut patience, at) = started(STAGE);
        assert_eq!(patience.check(at(200) + Duration::from_micros(1)), Ok(()));
        assert_eq!(limit(&patience), 1799);
        assert_eq!(patience.limit(Duration::from_secs(1)).as_millis(), 1000);
    }

    #[test]
    fn without_a_limit_nothing_expires() {
        let (mut patience, at) = started(Stage::default());
        assert!(!patience.is_running());
        assert_eq!(patience.lines(b"a\nb", at(1_000_000)), Ok(()));
        assert_eq!(limit(&patience), 300_000);
        let (mut patience, _) = started(STAGE);
        patience.stop();
        assert!(!patience.is_running());
    }
}
