//! What the parent tells the log about its decisions, in Apache's words (mpm-semantics 5.2).

use super::{Parent, online_cores};
use crate::process::spare::Note;
use mpmlab_core::config::LogLevel;

impl Parent {
    pub(super) fn log_started(&self) {
        let ratio = self.setup.server.config.accepting.cores_per_bucket;
        if ratio > 0 {
            let text = format!(
                "Using {} listeners bucket(s) based on {} online CPU cores and a ratio of {ratio}",
                self.buckets(),
                online_cores()
            );
            self.say(LogLevel::Info, 2819, &text);
        }
        let text = format!("{} configured -- resuming normal operations", self.setup.server.banner);
        self.say(LogLevel::Notice, self.mpm.card().messages.resuming, &text);
        let number = self.mpm.card().messages.accept_mutex;
        if number != 0 {
            let name = self.mutexes.first().map_or("none", |mutex| mutex.mechanism().name());
            self.say(LogLevel::Debug, number, &format!("Accept mutex: {name} (default: pthread)"));
        }
    }

    pub(super) fn report(&self, note: Note) {
        let numbers = self.mpm.card().messages;
        match note {
            Note::ReachedMaxRequestWorkers => self.say(
                LogLevel::Error,
                numbers.reached,
                "server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            ),
            Note::WithinMinSpareThreads => self.say(
                LogLevel::Error,
                numbers.near,
                "server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers setting",
            ),
            Note::ScoreboardFull => {
                self.say(LogLevel::Error, numbers.full, "scoreboard is full, not at MaxRequestWorkers");
            }
            // Apache's sentence lacks the space, too.
            Note::IncreaseServerLimit => self.say(
                LogLevel::Error,
                numbers.full,
                "scoreboard is full, not at MaxRequestWorkers.Increase ServerLimit.",
            ),
            Note::BusyProcesses { spawning, idle, total } => self.busy(
                "or Min/MaxSpareServers",
                spawning,
                &format!("there are {idle} idle, and {total} total children"),
            ),
            Note::BusyThreads { spawning, idle, total } => self.busy(
                "ThreadsPerChild or Min/MaxSpareThreads",
                spawning,
                &format!("there are around {idle} idle threads, and {total} total children"),
            ),
            Note::BusyActive { spawning, idle, active, leaving } => self.busy(
                "ThreadsPerChild or Min/MaxSpareThreads",
                spawning,
                &format!(
                    "there are around {idle} idle threads, {active} active children, and {leaving} children that are \
                     shutting down"
                ),
            ),
        }
    }

    fn busy(&self, raise: &str, spawning: usize, there_are: &str) {
        let text = format!(
            "server seems busy, (you may need to increase StartServers, {raise}), spawning {spawning} children, {there_are}"
        );
        self.say(LogLevel::Info, self.mpm.card().messages.busy, &text);
    }
}
