//! A count as the parent's ticks see it: one value per second, although nobody outside knows when the ticks are.
//!
//! The count is looked at often. Changes that follow each other closely are one step, because the parent starts its children back
//! to back; the time between two steps is a whole number of ticks of one second, give or take what a busy machine adds.

use super::Trouble;
use super::bench::LOOK;
use std::time::{Duration, Instant};

/// Changes closer than this belong to one tick.
const BURST: Duration = Duration::from_millis(450);

/// One step of a count: when it began, and the value it settled at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    began: Duration,
    value: usize,
}

/// Follows `count` until it has settled at `last`, and says its value at every tick, the present one first: `1,2,4,8`.
///
/// # Errors
/// It does not get there within `limit`; the message has the values so far.
pub(super) fn per_tick(
    count: &mut dyn FnMut() -> usize,
    last: usize,
    limit: Duration,
) -> Result<String, Trouble> {
    follow(count, &|value, quiet| value == last && quiet > BURST, limit)
}

/// Follows `count` until it has not changed for as long as `quiet`, and says its value at every tick up to its last change.
///
/// # Errors
/// It goes on changing.
pub(super) fn until_quiet(
    count: &mut dyn FnMut() -> usize,
    quiet: Duration,
    limit: Duration,
) -> Result<String, Trouble> {
    follow(count, &|_, since| since > quiet, limit)
}

fn follow(
    count: &mut dyn FnMut() -> usize,
    done: &dyn Fn(usize, Duration) -> bool,
    limit: Duration,
) -> Result<String, Trouble> {
    let start = Instant::now();
    let mut steps = vec![Step { began: Duration::ZERO, value: count() }];
    let mut changed = Duration::ZERO;
    loop {
        let (now, value) = (start.elapsed(), count());
        let step = steps.last_mut().expect("there is a first one");
        if value != step.value {
            // The first value is where the curve starts, not a step of it.
            if steps.len() > 1 && now - changed < BURST {
                steps.last_mut().expect("there are two").value = value;
            } else {
                steps.push(Step { began: now, value });
            }
            changed = now;
        } else if done(value, now - changed) {
            return Ok(text(&steps));
        }
        if now > limit {
            return Err(Trouble::failed(format!("{} and no end", text(&steps))));
        }
        std::thread::sleep(LOOK);
    }
}

/// The value at each tick. The first value stands once, however long it held: the first tick's place in its second is chance.
fn text(steps: &[Step]) -> String {
    let mut values = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let ticks = match steps.get(index + 1) {
            Some(next) if index > 0 => (next.began - step.began).as_secs_f64().round().max(1.0) as usize,
            _ => 1,
        };
        values.extend(std::iter::repeat_n(step.value.to_string(), ticks));
    }
    values.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_repeated_for_each_tick_it_holds() {
        let step = |millis, value| Step { began: Duration::from_millis(millis), value };
        assert_eq!(text(&[step(0, 1), step(300, 2), step(1310, 4), step(2340, 8)]), "1,2,4,8");
        assert_eq!(text(&[step(0, 5), step(900, 4), step(2920, 3), step(3940, 2)]), "5,4,4,3,2");
    }
}
