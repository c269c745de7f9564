//! Flaws of Apache's that a knob turns off: the same scenarios, mpmlab alone.

use super::{lifecycle, restart};
use crate::conformance::{APACHES, Bench, EVERY, Seen, Vector};
use nix::sys::signal::Signal;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "knob-stop-signal",
        says: "with the knob, TERM reaches event's worker that waits for its client too: see stop-behind-a-blocked-worker",
        source: "mpm-semantics 7.9",
        setup: &[],
        knobs: &["stop-signal=on"],
        expect: &[(APACHES, "the held one: closed; ended after 0-3 s; 0 warnings, 0 kills")],
        differs: None,
        run: lifecycle::stop_behind_a_hold,
    },
    Vector {
        id: "knob-stop-retiring",
        says: "with the knobs, a graceful stop that has run out of time ends its children at once: see graceful-stop-is-bounded",
        source: "mpm-semantics 6",
        setup: &["GracefulShutdownTimeout 2"],
        knobs: &["stop-retiring=on", "stop-signal=on"],
        expect: &[(APACHES, "ended after 1-5 s")],
        differs: None,
        run: lifecycle::graceful_stop_bounded,
    },
    Vector {
        id: "knob-restart-signals",
        says: "with the knob, TERM during a restart is obeyed after it: see a-signal-during-a-restart-is-lost",
        source: "mpm-semantics 6",
        setup: &[],
        knobs: &["restart-signals=kept"],
        expect: &[("event", "ended")],
        differs: None,
        run: restart::signal_is_lost,
    },
    Vector {
        id: "knob-broken-restart",
        says: "with the knob, a restart that finds a broken configuration goes on with the one it had, and says so",
        source: "manual, Stopping and Restarting",
        setup: &[],
        knobs: &["broken-restart=keep"],
        expect: &[(EVERY, "generation 1: 200; generation 2: 200; the broken line is named 2 times")],
        differs: None,
        run: broken_restart,
    },
];

fn broken_restart(bench: &mut Bench) -> Seen {
    bench.reconfigure("MaxKeepAliveRequests 100", "MaxKeepAliveReqests 100")?;
    let mut seen = Vec::new();
    for signal in [Signal::SIGUSR1, Signal::SIGHUP] {
        bench.restart(signal)?;
        let status = bench.get("/small")?.status;
        seen.push(format!("generation {}: {status}", bench.board()?.generation));
    }
    let named = bench.logged("MaxKeepAliveReqests");
    Ok(format!("{}; the broken line is named {named} times", seen.join("; ")))
}
