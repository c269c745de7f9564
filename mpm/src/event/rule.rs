//! May event's process accept? A pure function of its load (mpm-semantics 4.4).
//!
//! The manual gives a limit on connections; what 2.4 computes is this: with no idle worker, no; else if connections that are
//! not lingering are fewer than ThreadsPerChild and AsyncRequestWorkerFactor for each idle worker, yes. The factor is truncated to an integer.

/// What the accept rule looks at (mpm-semantics 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Idle workers.
    pub idle: usize,
    /// Connections of the process.
    pub connections: usize,
    /// Of these, lingering.
    pub lingering: usize,
    /// Are accepts switched off at the moment?
    pub disabled: bool,
    /// ThreadsPerChild.
    pub threads: usize,
    /// AsyncRequestWorkerFactor, truncated, at least 1.
    pub factor: usize,
}

/// What the rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take a connection.
    Accept,
    /// Too many connections, but idle workers: leave idle connections alone.
    Above,
    /// No idle worker: the process is busy, idle connections must go.
    Busy,
}

/// May a process in this state accept? One worker's worth of room more is needed to switch accepts on again than to keep
/// them on.
pub fn may_accept(load: Load) -> Verdict {
    if load.idle == 0 {
        return Verdict::Busy;
    }
    let active = load.connections.saturating_sub(load.lingering);
    let room = load.threads + (load.idle - usize::from(load.disabled)) * load.factor;
    if active == 0 || active < room { Verdict::Accept } else { Verdict::Above }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(idle: usize, active: usize, disabled: bool) -> Load {
        // Lingering connections do not count: two more of them change nothing.
        Load { idle, connections: active + 2, lingering: 2, disabled, threads: 4, factor: 2 }
    }

    // mpm-semantics V3.
    #[test]
    fn switching_on_again_needs_more_room_than_staying_on() {
        assert_eq!(may_accept(load(1, 4, false)), Verdict::Accept);
        assert_eq!(may_accept(load(1, 4, true)), Verdict::Above);
    }

    // mpm-semantics V4.
    #[test]
    fn without_an_idle_worker_the_process_is_busy() {
        for active in [0, 1, 100] {
            assert_eq!(may_accept(load(0, active, false)), Verdict::Busy);
        }
    }

    // mpm-semantics V5 and 7.3.
    #[test]
    fn above_the_limit_with_idle_workers_is_not_busy() {
        assert_eq!(may_accept(load(2, 8, false)), Verdict::Above);
        assert_eq!(may_accept(load(3, 8, true)), Verdict::Above);
    }

    // mpm-semantics V6: an idle process stops at TPC x (1 + F).
    #[test]
    fn an_idle_process_takes_threads_times_one_plus_factor() {
        for (factor, most) in [(1, 8), (2, 12)] {
            let taken = (0..).take_while(|&connections| {
                let load = Load { connections, lingering: 0, factor, ..load(4, 0, false) };
                may_accept(load) == Verdict::Accept
            });
            assert_eq!(taken.count(), most);
        }
    }
}
