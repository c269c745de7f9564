//! How long each run may load its server, so that the whole study ends within its budget. Pure arithmetic.
//!
//! What a run costs besides (start, stop, probes) is not known beforehand; it is measured as the study goes, and the
//! windows of the blocks to come are set from what is left.

use std::time::Duration;

/// The shortest measured window that is worth making: about a thousand requests even of a slow server.
pub const LEAST_WINDOW: Duration = Duration::from_millis(100);
/// The shortest warm-up: every connection of a cell has been opened and served.
const LEAST_WARMUP: Duration = Duration::from_millis(50);
/// The longest warm-up: what is not warm by then never will be.
const MOST_WARMUP: Duration = Duration::from_secs(3);

/// One run's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Load that is not counted.
    pub warmup: Duration,
    /// Load that is measured.
    pub window: Duration,
}

impl Slice {
    /// Divides the time for load: a fifth warms up, the rest is measured; neither below its floor.
    pub fn of(time: Duration) -> Slice {
        let warmup = (time / 5).clamp(LEAST_WARMUP, MOST_WARMUP);
        Slice { warmup, window: time.saturating_sub(warmup).max(LEAST_WINDOW) }
    }

    /// The shortest there is.
    pub fn least() -> Slice {
        Slice::of(Duration::ZERO)
    }

    /// Both parts.
    pub fn total(&self) -> Duration {
        self.warmup + self.window
    }
}

/// What is kept back for the report.
pub fn reserve(budget: Duration) -> Duration {
    (budget / 40).min(Duration::from_secs(5))
}

/// The load of each of `runs` runs that are to end within `left`, when each costs `overhead` besides.
pub fn slice(left: Duration, runs: usize, overhead: Duration) -> Slice {
    let each = left / u32::try_from(runs.max(1)).unwrap_or(u32::MAX);
    Slice::of(each.saturating_sub(overhead))
}

/// How many of `units` (rounds or blocks of `runs` runs each) fit into `left` at the shortest window.
pub fn that_fit(left: Duration, runs: usize, overhead: Duration, units: usize) -> usize {
    let each = (Slice::least().total() + overhead).as_secs_f64() * runs as f64;
    // Each is positive: the least slice is.
    units.min((left.as_secs_f64() / each) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_windows_of_a_study_fill_its_budget_and_do_not_exceed_it() {
        for (budget, runs, overhead) in [(200_000, 360, 220), (60_000, 100, 150), (600_000, 40, 300)] {
            let slice = slice(ms(budget), runs, ms(overhead));
            let total = (slice.total() + ms(overhead)) * runs as u32;
            assert!(total <= ms(budget), "{total:?} of {budget} ms");
            assert!(total > ms(budget).mul_f64(0.999), "{total:?} of {budget} ms");
            assert!(slice.window >= slice.warmup * 2);
        }
    }

    #[test]
    fn windows_never_fall_below_the_floor_nor_warm_up_above_the_ceiling() {
        assert_eq!(slice(ms(1), 1000, ms(100)), Slice { warmup: LEAST_WARMUP, window: LEAST_WINDOW });
        assert_eq!(slice(ms(600_000), 1, ms(0)), Slice { warmup: MOST_WARMUP, window: ms(597_000) });
        assert_eq!(slice(ms(1000), 0, ms(0)).window, ms(800));
    }

    #[test]
    fn only_whole_units_fit() {
        // 150 ms of load and 100 ms besides, ten runs: 2.5 s each.
        assert_eq!(that_fit(ms(7499), 10, ms(100), 5), 2);
        assert_eq!(that_fit(ms(7500), 10, ms(100), 5), 3);
        assert_eq!(that_fit(ms(2499), 10, ms(100), 5), 0);
        assert_eq!(that_fit(ms(100_000), 10, ms(100), 5), 5);
    }
}
