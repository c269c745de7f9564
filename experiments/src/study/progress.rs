//! How far a study is, on standard error: a bar with the time left, or a plain line now and then where there is no
//! terminal.

use super::show::minutes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// How often a plain line is printed.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// The progress of one run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    last_line: Instant,
    quiet: bool,
}

impl Progress {
    /// Of `total` runs; `quiet` shows nothing at all.
    pub fn new(total: usize, quiet: bool) -> Progress {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:30} run {pos} of {len}, {prefix} left  {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar
        });
        Progress { bar, total, last_line: Instant::now(), quiet }
    }

    /// `done` runs are behind, `left` is ahead, `now` is being measured.
    pub fn show(&mut self, done: usize, left: Duration, now: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(minutes(left));
            bar.set_message(now.to_owned());
            bar.set_position(done as u64);
        } else if self.last_line.elapsed() >= PLAIN_EVERY {
            self.last_line = Instant::now();
            self.say(&format!("run {done} of {}, {} left", self.total, minutes(left)));
        }
    }

    /// A line that stays, above the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None if !self.quiet => eprintln!("{line}"),
            None => {}
        }
    }

    /// Removes the bar.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
