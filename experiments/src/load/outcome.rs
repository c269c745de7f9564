//! What a run reports: the object `mpmlab load --json` prints (design, section 5). Fields are only ever added, at
//! the end.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run's figures, over the measured window. Times are seconds, latencies microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// What was asked for.
    pub url: String,
    /// Client threads.
    pub threads: usize,
    /// Connections the plan asked for.
    pub connections_requested: usize,
    /// How many of them were open at least once, from the run's first moment to its last.
    pub connections_opened: usize,
    /// Length of the window as it really was.
    pub duration_s: f64,
    /// Requests answered completely, whatever the status.
    pub requests: u64,
    /// `requests / duration_s`.
    pub rps: f64,
    /// Requests that got no complete answer, by cause. Their sum is `failed`.
    pub errors: Errors,
    /// Answers by status code.
    pub status: BTreeMap<String, u64>,
    /// Bytes of complete answers that were not content: heads, interim responses, chunk framing, trailers.
    pub bytes_header: u64,
    /// Bytes of content in complete answers.
    pub bytes_body: u64,
    /// Of answered and of timed-out requests (these at the time they had waited); all zero if there were none.
    pub latency_us: Latency,
    /// User and system time of the client's threads in the window.
    pub client_cpu_s: f64,
    /// How the load was made.
    pub mode: Mode,
    /// No law of `invalid_because` was broken. Figures of an invalid run are not evidence.
    pub valid: bool,
    /// One sentence per broken law, with its numbers.
    pub invalid_because: Vec<String>,

    // Added to the contract's fields.
    /// Kept connections that the server closed after an answer without having said so, before a byte of the next
    /// answer. HTTP allows it at any time (RFC 9112 section 9.5), so it is no error: the request went again on a
    /// new connection, its latency counting from the first sending. A server that sheds load this way (Apache's
    /// event, mpm-semantics 7.4) shows here and nowhere else.
    pub closed_idle: u64,
    /// Those of `closed_idle` that were a reset instead of an orderly close: the server had not read the request.
    pub closed_idle_reset: u64,
    /// Connections opened in place of a closed one.
    pub connections_reconnected: u64,
    /// Requests in progress when the window began, or started in it. Equals `requests + failed + in_flight`.
    pub started: u64,
    /// Requests that ended without a complete answer.
    pub failed: u64,
    /// Requests in progress when the window ended: neither answered nor failed.
    pub in_flight: u64,
    /// Samples in the latency record: answered and timed-out requests.
    pub latency_samples: u64,
    /// Standard deviation of the latency.
    pub latency_stdev_us: f64,
    /// The run was stopped before its time.
    pub interrupted: bool,
}

/// Failed requests by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// No connection: timed out, unreachable, out of ports or of file descriptors.
    pub connect: u64,
    /// Connection refused: nobody listens there.
    pub refused: u64,
    /// Reset by the server, before or within the answer (on a kept connection before the first byte:
    /// `closed_idle`).
    pub reset: u64,
    /// Closed by the server before the answer was complete (same exception).
    pub closed_early: u64,
    /// No complete answer within the time-out.
    pub timeout: u64,
    /// Not HTTP, or more bytes than the answer announced.
    pub bad_response: u64,
}

impl Errors {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.connect + self.refused + self.reset + self.closed_early + self.timeout + self.bad_response
    }
}

/// A latency distribution in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Shortest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// How the load was made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Connections carried more than one request.
    pub keepalive: bool,
    /// Requests started on schedule rather than when the one before was answered.
    pub open_loop: bool,
    /// Requests per second of the schedule; none in closed loop.
    pub rate: Option<f64>,
}
