//! How often each system call is made per request, and how two such profiles are compared.
//!
//! - A call other than `futex` counts with the **median** over the periods: what a request makes, not what a neighbour on the
//!   machine made of one of forty.
//! - `futex` counts with the **mean** over those periods that made the other calls as the median has it. A hand-off makes three
//!   of them, and two more when the woken thread meets the lock still held: that depends on who is faster, on Apache's side too.
//! - Two cells are **equal** if all other calls have equal medians and the means of `futex` differ by at most one call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How often each call was completed in one period.
pub type Period = BTreeMap<String, u32>;

/// The one call whose number is a matter of timing.
const TIMING: &str = "futex";

/// Calls per request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile(BTreeMap<String, f64>);

impl Profile {
    /// Of some periods, at least one.
    pub fn of(periods: &[Period]) -> Profile {
        let names: BTreeSet<&String> = periods.iter().flat_map(BTreeMap::keys).collect();
        let of = |period: &Period, name: &String| period.get(name).copied().unwrap_or(0);
        let median = |name: &String| {
            let mut counts: Vec<u32> = periods.iter().map(|period| of(period, name)).collect();
            counts.sort_unstable();
            f64::from(counts[counts.len() / 2] + counts[(counts.len() - 1) / 2]) / 2.0
        };
        let mut calls: BTreeMap<String, f64> = names
            .into_iter()
            .filter(|name| *name != TIMING)
            .map(|name| (name.clone(), median(name)))
            .collect();
        let undisturbed =
            |period: &&Period| calls.iter().all(|(name, count)| f64::from(of(period, name)) == *count);
        let timing: Vec<u32> =
            periods.iter().filter(undisturbed).map(|period| of(period, &TIMING.to_owned())).collect();
        assert!(timing.len() * 4 >= periods.len(), "three of four requests were disturbed: {periods:?}");
        let mean = f64::from(timing.iter().sum::<u32>()) / timing.len() as f64;
        calls.insert(TIMING.to_owned(), mean);
        calls.retain(|_, count| *count > 0.0);
        Profile(calls)
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Profile {
        let call = |part: &str| {
            let (name, count) = part.trim().rsplit_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Profile(text.split(',').filter_map(call).collect())
    }

    /// Without a call.
    pub fn without(&self, name: &str) -> Profile {
        Profile(self.0.iter().filter(|(call, _)| *call != name).map(|(call, n)| (call.clone(), *n)).collect())
    }

    /// How often a call is made.
    pub fn count(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// All calls together.
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// The names of all calls.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What differs from another profile, one line each; nothing if they are equal.
    pub fn differences(&self, other: &Profile) -> Vec<String> {
        let names: BTreeSet<&str> = self.names().chain(other.names()).collect();
        let differs = |name: &&str| {
            let by = (self.count(name) - other.count(name)).abs();
            if *name == TIMING { by > 1.0 } else { by > 0.0 }
        };
        let line = |name: &str| format!("{name} {} instead of {}", self.count(name), other.count(name));
        names.into_iter().filter(differs).map(line).collect()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if name == TIMING {
                write!(f, "{comma}{name} {count:.2}")?;
            } else {
                write!(f, "{comma}{name} {count}")?;
            }
        }
        Ok(())
    }
}

#[test]
fn a_disturbed_period_does_not_count_and_futex_is_averaged() {
    let period = |calls: &[(&str, u32)]| calls.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    let usual = |futex| period(&[("read", 2), ("futex", futex)]);
    let disturbed = period(&[("read", 3), ("poll", 1), ("futex", 9)]);
    let found = Profile::of(&[usual(3), disturbed, usual(3), usual(4), usual(3)]);
    assert_eq!(found.to_string(), "futex 3.25, read 2");
    assert_eq!(Profile::parse(&found.to_string()), found);
    assert!(found.differences(&Profile::parse("futex 4.25, read 2")).is_empty());
    assert_eq!(found.differences(&Profile::parse("futex 4.26, read 2")).len(), 1);
    assert_eq!(found.differences(&Profile::parse("futex 3.25, read 1")), ["read 2 instead of 1"]);
    assert_eq!(found.differences(&Profile::parse("futex 3.25, read 2, poll 1")), ["poll 0 instead of 1"]);
}
