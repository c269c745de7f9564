//! The models' own mechanisms, one row each.

use crate::ParkSet;
use crate::process::scoreboard::Layout;
use mpmlab_core::config::knobs::KnobValue;
use mpmlab_core::connection::step::ConnState;
use mpmlab_core::knobs;

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
        stop_signal: bool = "on", "stop-signal", directive "LabStopSignal", levels ["on", "off"],
            lean "on",
            changes "children that are killed when the server stops";
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
