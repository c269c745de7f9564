//! The models' own mechanisms, one row each.

use crate::ParkSet;
use crate::kit::handoff::IdleOrder;
use crate::kit::lot::WakeUp;
use crate::kit::monitor::HandOff;
use crate::process::scoreboard::Layout;
use mpmlab_core::config::knobs::KnobValue;
use mpmlab_core::connection::step::ConnState;
use mpmlab_core::{knob_words, knobs};

impl KnobValue for ParkSet {
    fn parse(text: &str) -> Option<ParkSet> {
        match text {
            "none" => Some(ParkSet::NONE),
            "all" => Some(ParkSet::ALL),
            list => list.split(',').try_fold(ParkSet::NONE, |set, word| {
                let state = ConnState::ALL.into_iter().find(|state| state.name() == word.trim())?;
                Some(set.with(state))
            }),
        }
    }

    fn print(&self) -> String {
        match *self {
            ParkSet::NONE => "none".to_owned(),
            ParkSet::ALL => "all".to_owned(),
            set => {
                let names = ConnState::ALL.into_iter().filter(|state| set.holds(*state)).map(ConnState::name);
                names.collect::<Vec<_>>().join(",")
            }
        }
    }
}

knob_words! {
    /// When the scoreboard learns how many connections event has parked (`LabAsyncCounters`, `async-counters`).
    pub enum AsyncCounters {
        /// When a time-out has passed, and at no other time, as Apache does: they may be stale for long.
        OnExpiry = "on-expiry",
        /// Whenever a connection is taken, parked or closed.
        Always = "always",
    }
}

knob_words! {
    /// What becomes of signals to the parent that arrive while a restart is being carried out.
    pub enum RestartSignals {
        /// They are forgotten when the new run begins, TERM too.
        Lost = "lost",
        /// They are obeyed afterwards.
        Kept = "kept",
    }
}

knob_words! {
    /// What a restart with a configuration that cannot be used does.
    pub enum BrokenRestart {
        /// The server ends with the message.
        Exit = "exit",
        /// It goes on with the configuration it had.
        Keep = "keep",
    }
}

knobs! {
    /// The models' knobs with their settings.
    pub struct ModelKnobs {
        /// The states in which event parks a connection with its listener instead of waiting on a worker.
        park: ParkSet = "write-completion,keep-alive,linger", "park", directive "LabPark",
            levels ["none", "keep-alive", "write-completion,keep-alive,linger",
                "read-request,write-completion,keep-alive,linger", "all"],
            lean "all",
            changes "workers that are held by clients which only wait";
        /// With no idle worker, event drops kept connections, their requests unanswered, instead of letting them wait.
        shed: bool = "on", "shed", directive "LabShed", levels ["on", "off"],
            lean "off",
            changes "connections that are closed unanswered when all workers are busy";
        /// An immediate stop also signals event's workers; off, as in Apache, one that waits for its client is killed after 9 s.
        stop_signal: bool = "off", "stop-signal", directive "LabStopSignal", levels ["off", "on"],
            lean "on",
            changes "children that are killed when the server stops";
        /// TERM ends a threaded child even if it is retiring already; off, as in Apache, it is deaf then, and killed after 9 s.
        stop_retiring: bool = "off", "stop-retiring", directive "LabStopRetiring", levels ["off", "on"],
            lean "on",
            changes "retiring children that are killed when the server stops";
        /// What listener and workers hand work over with: the C library's mutex and condition variable, or parking_lot's.
        hand_off: HandOff = "pthread", "hand-off", directive "LabHandOff", levels ["pthread", "parking-lot"],
            lean "parking-lot",
            changes "futex calls per hand-off";
        /// Which of several idle workers gets the next work: the one that has been idle for longest, or the last to become idle.
        idle_order: IdleOrder = "fifo", "idle-order", directive "LabIdleOrder", levels ["fifo", "lifo"],
            lean "fifo",
            changes "threads that take part when load is low";
        /// What a worker ends event's listener's wait with.
        wake_up: WakeUp = "pipe", "wake-up", directive "LabWakeUp", levels ["pipe", "eventfd"],
            lean "eventfd",
            changes "descriptors per process; the calls per wake-up are two either way";
        /// Of event's processes the kernel wakes one per new connection; off, as in Apache 2.4, all that are idle, in vain but one.
        accept_exclusive: bool = "off", "accept-exclusive", directive "LabAcceptExclusive", levels ["off", "on"],
            lean "on",
            changes "accept4 calls that return EAGAIN";
        /// When the scoreboard learns how many connections event has parked.
        async_counters: AsyncCounters = "on-expiry", "async-counters", directive "LabAsyncCounters",
            levels ["on-expiry", "always"],
            lean "on-expiry",
            changes "how old the status page's counts of parked connections are";
        /// A signal to the parent that arrives while a restart is carried out: lost, as in Apache, TERM too, or kept.
        restart_signals: RestartSignals = "lost", "restart-signals", directive "LabRestartSignals",
            levels ["lost", "kept"], lean "kept",
            changes "stops that have no effect";
        /// A restart that finds an unusable configuration: the server exits, as in Apache, or keeps the one it had.
        broken_restart: BrokenRestart = "exit", "broken-restart", directive "LabBrokenRestart",
            levels ["exit", "keep"], lean "keep",
            changes "servers that a misspelled directive ends";
        /// Where the scoreboard's rows lie: one behind the other as Apache's, readable as such, or on cache lines of their own.
        scoreboard_layout: Layout = "packed", "scoreboard-layout", directive "LabScoreboardLayout",
            levels ["packed", "padded"],
            lean "padded",
            changes "cache lines that two workers write to";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpmlab_core::config::knobs::faults;

    #[test]
    fn the_table_is_sound() {
        assert_eq!(faults(&mut ModelKnobs::default()), Vec::<String>::new());
        assert_eq!(ModelKnobs::default().park, ParkSet::EVENT);
    }
}
