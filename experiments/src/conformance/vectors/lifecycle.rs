//! Stopping, restarting, dying (mpm-semantics 6).

use crate::conformance::bench::span;
use crate::conformance::{Bench, Seen, Vector};
use nix::sys::signal::Signal;
use std::time::Instant;

pub(super) const VECTORS: &[Vector] = &[Vector {
    id: "stop-behind-a-blocked-worker",
    says: "TERM ends prefork and worker at once; event's worker that waits for its client is killed after 9 s",
    source: "mpm-semantics 7.9, V15",
    setup: &[],
    knobs: &[],
    expect: &[("prefork worker", "ended after 0-2 s"), ("event", "ended after 9-12 s")],
    differs: None,
    run: stop_behind_a_hold,
}];

fn stop_behind_a_hold(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    let start = Instant::now();
    bench.signal(Signal::SIGTERM);
    bench.wait_for_end()?;
    Ok(format!("ended after {}", span(start.elapsed(), if bench.model == "event" { 9..12 } else { 0..2 })))
}
