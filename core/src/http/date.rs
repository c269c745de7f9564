//! HTTP dates (RFC 9110 section 5.6.7), and a clock that formats the Date header once a second.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall clock of one thread. Reading it costs no system call (vDSO); formatting happens when the second changes.
#[derive(Debug)]
pub struct Clock {
    now: SystemTime,
    second: u64,
    text: String,
}

impl Clock {
    /// A clock showing the present.
    pub fn new() -> Clock {
        let mut clock = Clock { now: UNIX_EPOCH, second: u64::MAX, text: String::new() };
        clock.tick();
        clock
    }

    /// Reads the time. Called once per request.
    #[inline]
    pub fn tick(&mut self) {
        self.now = SystemTime::now();
        let second = self.now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        if second != self.second {
            self.second = second;
            self.text = httpdate::fmt_http_date(self.now);
        }
    }

    /// Microseconds since the epoch at the last tick.
    pub fn now_us(&self) -> i64 {
        self.now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as i64
    }

    /// The last tick as text for the Date header.
    pub fn date(&self) -> &str {
        &self.text
    }

    /// A monotonic reading for measuring durations.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}
