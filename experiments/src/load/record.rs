//! What one thread saw in its window: counters and latencies; merged over the threads afterwards.
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::client::Cause;
use super::outcome::{Errors, Latency};
use super::response::Answer;

/// Finest latency told apart, and the longest: 64 ns to an hour, three digits.
const FINEST_NS: u64 = 64;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Counters and latencies of a window.
pub(super) struct Record {
    latencies: Histogram<u64>,
    /// Sum of all latencies: the mean is exact where the histogram rounds.
    pub(super) latency_sum_ns: u64,
    latency_min_ns: u64,
    latency_max_ns: u64,
    /// Requests in progress at the window's beginning or started since.
    pub(super) started: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    /// Failed requests that are in the latency record at the time they had waited.
    pub(super) timed_out: u64,
    pub(super) errors: Errors,
    /// Of `errors.connect`: the client's own side had nothing left to connect with.
    pub(super) exhausted: u64,
    /// By code, 100 to 599; code 0 is any other.
    statuses: Vec<u64>,
    pub(super) bytes_header: u64,
    pub(super) bytes_body: u64,
    pub(super) closed_idle: u64,
    pub(super) closed_idle_reset: u64,
    pub(super) reconnected: u64,
    /// Time connections spent outside any latency: connecting where that is not part of it, backing off, and in
    /// requests that failed at once.
    pub(super) outside_ns: u64,
    /// Of `outside_ns`, the time because of failures (see `laws`).
    pub(super) down_ns: u64,
}

impl Record {
    pub(super) fn new() -> Record {
        Record {
            latencies: Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, 3)
                .expect("three digits between fixed bounds are a legal histogram"),
            latency_sum_ns: 0,
            latency_min_ns: u64::MAX,
            latency_max_ns: 0,
            started: 0,
            answered: 0,
            failed: 0,
            timed_out: 0,
            errors: Errors::default(),
            exhausted: 0,
            statuses: vec![0; 600],
            bytes_header: 0,
            bytes_body: 0,
            closed_idle: 0,
            closed_idle_reset: 0,
            reconnected: 0,
            outside_ns: 0,
            down_ns: 0,
        }
    }

    /// A complete answer.
    pub(super) fn answer(&mut self, answer: &Answer, latency: Duration) {
        self.answered += 1;
        let code = usize::from(answer.status);
        self.statuses[if code < 600 { code } else { 0 }] += 1;
        self.bytes_header += answer.header_bytes;
        self.bytes_body += answer.body_bytes;
        self.latency(latency);
    }

    /// A request lost for `cause`; `waited` since its latency began to run, if it had. One that ran into its
    /// time-out stays in the latency record: leaving it out would flatter the server.
    pub(super) fn fail(&mut self, cause: Cause, waited: Option<Duration>, timed_out: bool) {
        self.failed += 1;
        match cause {
            Cause::Connect => self.errors.connect += 1,
            Cause::Exhausted => {
                self.errors.connect += 1;
                self.exhausted += 1;
            }
            Cause::Refused => self.errors.refused += 1,
            Cause::Reset => self.errors.reset += 1,
            Cause::ClosedEarly => self.errors.closed_early += 1,
            Cause::Timeout => self.errors.timeout += 1,
            Cause::BadResponse => self.errors.bad_response += 1,
        }
        match waited {
            Some(waited) if timed_out => {
                self.timed_out += 1;
                self.latency(waited);
            }
            Some(waited) => self.outside(waited),
            None => {}
        }
    }

    /// Time of a connection that is in no latency.
    fn outside(&mut self, time: Duration) {
        self.outside_ns += nanoseconds(time);
    }

    /// Time of a connection that is in no latency, between requests; `down` if because of failures.
    pub(super) fn between(&mut self, time: Duration, down: bool) {
        self.outside(time);
        if down {
            self.down_ns += nanoseconds(time);
        }
    }

    fn latency(&mut self, latency: Duration) {
        let ns = nanoseconds(latency);
        self.latencies.saturating_record(ns);
        self.latency_sum_ns += ns;
        self.latency_min_ns = self.latency_min_ns.min(ns);
        self.latency_max_ns = self.latency_max_ns.max(ns);
    }

    /// Adds another thread's record.
    pub(super) fn merge(&mut self, other: &Record) {
        self.latencies.add(&other.latencies).expect("all records have the same bounds");
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_min_ns = self.latency_min_ns.min(other.latency_min_ns);
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.started += other.started;
        self.answered += other.answered;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.errors.connect += other.errors.connect;
        self.errors.refused += other.errors.refused;
        self.errors.reset += other.errors.reset;
        self.errors.closed_early += other.errors.closed_early;
        self.errors.timeout += other.errors.timeout;
        self.errors.bad_response += other.errors.bad_response;
        self.exhausted += other.exhausted;
        for (sum, count) in self.statuses.iter_mut().zip(&other.statuses) {
            *sum += count;
        }
        self.bytes_header += other.bytes_header;
        self.bytes_body += other.bytes_body;
        self.closed_idle += other.closed_idle;
        self.closed_idle_reset += other.closed_idle_reset;
        self.reconnected += other.reconnected;
        self.outside_ns += other.outside_ns;
        self.down_ns += other.down_ns;
    }

    /// Latencies recorded.
    pub(super) fn samples(&self) -> u64 {
        self.latencies.len()
    }

    /// Answers by status code, those that occurred.
    pub(super) fn statuses(&self) -> BTreeMap<String, u64> {
        let occurred = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        occurred.map(|(code, count)| (format!("{code:03}"), *count)).collect()
    }

    /// The distribution and its standard deviation, in microseconds.
    pub(super) fn latency_us(&self) -> (Latency, f64) {
        if self.samples() == 0 {
            return (Latency::default(), 0.0);
        }
        // The histogram answers with the upper edge of a bucket, which may lie beyond the longest latency seen.
        let quantile = |q| {
            microseconds(
                self.latencies.value_at_quantile(q).clamp(self.latency_min_ns, self.latency_max_ns) as f64
            )
        };
        let latency = Latency {
            mean: microseconds(self.latency_sum_ns as f64 / self.samples() as f64),
            min: microseconds(self.latency_min_ns as f64),
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: microseconds(self.latency_max_ns as f64),
        };
        (latency, microseconds(self.latencies.stdev()))
    }
}

/// Microseconds to the nanosecond, so that no more digits are printed than were measured.
fn microseconds(ns: f64) -> f64 {
    ns.round() / 1e3
}

/// 584 years fit.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Answer {
        Answer { status, header_bytes: 10, body_bytes: 100, reusable: true }
    }

    #[test]
    fn merging_equals_recording_in_one_place() {
        let (mut a, mut b, mut both) = (Record::new(), Record::new(), Record::new());
        for i in 1..=1000u64 {
            let part = if i % 3 == 0 { &mut a } else { &mut b };
            for record in [part, &mut both] {
                record.started += 1;
                match i % 10 {
                    0 => record.fail(Cause::Timeout, Some(Duration::from_millis(i)), true),
                    1 => record.fail(Cause::Reset, Some(Duration::from_micros(i)), false),
                    _ => record.answer(&answer(200 + (i % 2) as u16 * 204), Duration::from_micros(i)),
                }
            }
        }
        a.merge(&b);
        assert_eq!(a.latency_us(), both.latency_us());
        assert_eq!(a.statuses(), both.statuses());
        assert_eq!(
            (a.started, a.answered, a.failed, a.errors),
            (both.started, both.answered, both.failed, both.errors)
        );
        assert_eq!((a.answered, a.errors.timeout, a.errors.reset, a.samples()), (800, 100, 100, 900));
        assert_eq!((a.bytes_header, a.bytes_body), (8_000, 80_000));
        assert_eq!(a.outside_ns, both.outside_ns);
    }

    #[test]
    fn quantiles_are_within_a_thousandth_and_never_beyond_the_extremes() {
        let mut record = Record::new();
        for us in 1..=10_000 {
            record.answer(&answer(200), Duration::from_micros(us));
        }
        let (latency, _) = record.latency_us();
        assert_eq!((latency.mean, latency.min, latency.max), (5000.5, 1.0, 10_000.0));
        for (seen, expected) in
            [(latency.p50, 5000.0), (latency.p75, 7500.0), (latency.p90, 9000.0), (latency.p99, 9900.0)]
        {
            assert!((seen / expected - 1.0f64).abs() <= 1e-3, "{seen} for {expected}");
        }
        let mut single = Record::new();
        single.answer(&answer(200), Duration::from_nanos(123_457));
        let (latency, stdev) = single.latency_us();
        assert_eq!((latency.p50, latency.p999, latency.max), (123.457, 123.457, 123.457));
        assert!(stdev < 0.1, "a single latency does not deviate: {stdev}");
    }

    #[test]
    fn a_time_out_stays_in_the_latency_record_and_another_failure_does_not() {
        let mut record = Record::new();
        record.fail(Cause::Timeout, Some(Duration::from_secs(2)), true);
        record.fail(Cause::ClosedEarly, Some(Duration::from_secs(1)), false);
        assert_eq!((record.samples(), record.latency_us().0.max), (1, 2e6));
        assert_eq!((record.failed, record.outside_ns), (2, 1_000_000_000));
    }
}
