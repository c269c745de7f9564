//! How many children to start or to retire: the decision of one tick, as pure functions (mpm-semantics 5.2).
//!
//! The parent calls one of them once a second with what the scoreboard says. State between ticks is the spawn rate, which
//! doubles while there is need, and what was already complained about. With several buckets (1.3) worker and event decide for
//! each bucket by itself, with its share of every number; slot i belongs to bucket i mod B.

use mpmlab_core::config::clamp::Effective;
use mpmlab_core::slot::Status;
use std::collections::BTreeSet;

/// Most children started in one tick, by all buckets together.
const MAX_RATE: usize = 32;

/// What the parent remembers from tick to tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawning {
    /// Children that the next tick may start, for each bucket (prefork: one for all). Doubles with each tick that starts
    /// some, 1 again after one that need not.
    pub rate: Vec<usize>,
    /// Ticks for which the rate stays as it is: 10 after a graceful restart.
    pub hold_off: usize,
    /// Rows whose process was seen quiescing at a tick: Apache's parent marks them with quiescing = 2.
    noticed: BTreeSet<usize>,
    /// The bucket whose child prefork retires next.
    rotation: usize,
    reported_full: bool,
    reported_near: bool,
}

impl Default for Spawning {
    fn default() -> Spawning {
        Spawning {
            rate: vec![1],
            hold_off: 0,
            noticed: BTreeSet::new(),
            rotation: 0,
            reported_full: false,
            reported_near: false,
        }
    }
}

impl Spawning {
    /// A child in this row was short of something: start them slowly (mpm-semantics 5.1).
    pub fn was_sick(&mut self, row: usize) {
        let bucket = row % self.rate.len();
        self.rate[bucket] = 1;
    }

    /// One rate per bucket. They are kept over restarts; buckets that a restart adds begin with the highest there is, so
    /// that they fill as fast as the others.
    fn with_buckets(&mut self, buckets: usize) {
        let highest = self.rate.iter().copied().max().unwrap_or(1);
        self.rate.resize(buckets.max(1), highest);
    }

    fn grow(&mut self, bucket: usize) {
        if self.hold_off > 0 {
            self.hold_off -= 1;
        } else {
            self.rate[bucket] = (self.rate[bucket] * 2).min((MAX_RATE / self.rate.len()).max(1));
        }
    }
}

/// What one tick does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnPlan {
    /// Slots to start a child in.
    pub start: Vec<usize>,
    /// Buckets of which one child each is asked to end.
    pub retire: Vec<usize>,
    /// What to tell the log.
    pub notes: Vec<Note>,
}

/// What a tick has to say, in the words of the model that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by Apache's messages")]
pub enum Note {
    ReachedMaxRequestWorkers,
    WithinMinSpareThreads,
    /// As worker says it.
    ScoreboardFull,
    /// As event says it.
    IncreaseServerLimit,
    /// As prefork says it.
    BusyProcesses {
        spawning: usize,
        idle: usize,
        total: usize,
    },
    /// As worker says it.
    BusyThreads {
        spawning: usize,
        idle: usize,
        total: usize,
    },
    /// As event says it.
    BusyActive {
        spawning: usize,
        idle: usize,
        active: usize,
        leaving: usize,
    },
}

/// From this rate on a tick that starts children says that the server seems busy.
const BUSY_RATE: usize = 8;

/// One process row as the decision sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Is there a process?
    pub present: bool,
    /// Is it on its way out?
    pub quiescing: bool,
    /// Has it switched its listeners off?
    pub not_accepting: bool,
    /// Is it of the running generation?
    pub current: bool,
    /// Its threads.
    pub threads: Vec<Status>,
}

impl Row {
    fn count(&self, per_child: usize, test: impl Fn(Status) -> bool) -> usize {
        self.threads.iter().take(per_child).filter(|s| test(**s)).count()
    }

    /// Ready, starting, or not begun yet: a child that was just forked must not make the parent fork more (9.2: the order
    /// of the states decides).
    fn idle(&self, per_child: usize) -> usize {
        self.count(per_child, |s| s <= Status::Ready)
    }

    /// Apache's arithmetic: ready counts as active, graceful does not (9.2).
    fn active(&self, per_child: usize) -> usize {
        self.count(per_child, |s| Status::Ready <= s && s < Status::Graceful)
    }

    /// Are all its threads at work or ready to? Once a child was, the server can run on this machine (5.1).
    pub fn healthy(&self, per_child: usize) -> bool {
        self.present && self.active(per_child) == per_child
    }
}

fn number(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// prefork: one slot per process. One decision for all buckets; only the one to retire comes from each bucket in turn.
pub fn prefork(slots: &[Status], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let slots = &slots[..slots.len().min(number(limits.limit))];
    let idle = slots.iter().filter(|s| matches!(s, Status::Starting | Status::Ready)).count();
    let mut plan = SpawnPlan::default();
    state.with_buckets(1);
    let rate = state.rate[0];
    let free = slots.iter().enumerate().filter(|(_, s)| **s == Status::Dead).map(|(slot, _)| slot);
    let free: Vec<usize> = free.take(rate).collect();
    if idle > number(limits.max_spare) {
        plan.retire.push(state.rotation % number(limits.buckets).max(1));
        state.rotation = state.rotation.wrapping_add(1);
        state.rate[0] = 1;
    } else if idle >= number(limits.min_spare) {
        state.rate[0] = 1;
    } else if free.is_empty() {
        if !std::mem::replace(&mut state.reported_full, true) {
            plan.notes.push(Note::ReachedMaxRequestWorkers);
        }
        state.rate[0] = 1;
    } else {
        if rate >= BUSY_RATE {
            let total = slots.iter().filter(|s| **s != Status::Dead).count();
            plan.notes.push(Note::BusyProcesses { spawning: free.len(), idle, total });
        }
        plan.start = free;
        state.grow(0);
    }
    plan
}

/// worker: a new process may take the slot of a dying one, and starts threads where the old ones are gone.
pub fn worker(rows: &[Row], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let buckets = number(limits.buckets).max(1);
    state.with_buckets(buckets);
    let mut plan = SpawnPlan::default();
    for bucket in 0..buckets {
        worker_bucket(bucket, rows, limits, state, &mut plan);
    }
    plan
}

fn worker_bucket(
    bucket: usize,
    rows: &[Row],
    limits: &Effective,
    state: &mut Spawning,
    plan: &mut SpawnPlan,
) {
    let (buckets, per_child) = (state.rate.len(), number(limits.threads_per_child));
    let rate = state.rate[bucket];
    let own = || rows.iter().enumerate().take(number(limits.limit)).skip(bucket).step_by(buckets);
    let present = || own().map(|(_, row)| row).filter(|row| row.present);
    let idle: usize = present().filter(|r| !r.quiescing && r.current).map(|r| r.idle(per_child)).sum();
    let active: usize = present().map(|r| r.active(per_child)).sum();
    // The threads of a process that has gone wholly, or of one that is going.
    let dead = |row: &Row| row.count(per_child, |s| s == Status::Dead);
    let all_dead =
        |row: &Row| row.count(per_child, |s| matches!(s, Status::Dead | Status::Graceful)) == per_child;
    if idle > number(limits.max_spare) / buckets {
        plan.retire.push(bucket);
        state.rate[bucket] = 1;
        return;
    }
    if idle >= number(limits.min_spare) / buckets {
        state.rate[bucket] = 1;
        return;
    }
    // Wholly dead ones first: there a new process can start more threads sooner.
    let candidates = own().filter(|(_, r)| dead(r) > 0 && (!r.present || r.quiescing));
    let (wholly, partly): (Vec<_>, Vec<_>) = candidates.partition(|(_, r)| all_dead(r));
    let start: Vec<usize> = wholly.into_iter().chain(partly).map(|(slot, _)| slot).take(rate).collect();
    if start.is_empty() {
        state.rate[bucket] = 1;
        if !saturated(active, idle, limits, state, plan) {
            plan.notes.push(Note::ScoreboardFull);
        }
        return;
    }
    if rate >= BUSY_RATE {
        let total = present().count();
        plan.notes.push(Note::BusyThreads { spawning: start.len(), idle, total });
    }
    plan.start.extend(start);
    state.grow(bucket);
}

/// event: a slot is free only when its process is gone, but dying ones may exceed the limit up to ServerLimit.
pub fn event(rows: &[Row], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let buckets = number(limits.buckets).max(1);
    state.with_buckets(buckets);
    state.noticed.retain(|&row| rows.get(row).is_some_and(|r| r.present && r.quiescing));
    let mut plan = SpawnPlan::default();
    for bucket in 0..buckets {
        event_bucket(bucket, rows, limits, state, &mut plan);
    }
    plan
}

fn event_bucket(bucket: usize, rows: &[Row], limits: &Effective, state: &mut Spawning, plan: &mut SpawnPlan) {
    let (buckets, per_child) = (state.rate.len(), number(limits.threads_per_child));
    let (limit, rate) = (number(limits.limit), state.rate[bucket]);
    let own = || rows.iter().enumerate().skip(bucket).step_by(buckets);
    let present = || own().map(|(_, row)| row).filter(|row| row.present);
    state.noticed.extend(own().filter(|(_, r)| r.present && r.quiescing).map(|(row, _)| row));
    let usable = |r: &&Row| !r.quiescing && !r.not_accepting && r.current;
    let idle: usize = present().filter(usable).map(|r| r.idle(per_child)).sum();
    let active_threads: usize = present().map(|r| r.active(per_child)).sum();
    // Those of all buckets, and those that buckets before this one start in this tick.
    let total = rows.iter().filter(|r| r.present).count() + plan.start.len();
    let active = total - state.noticed.len();
    if idle > number(limits.max_spare) / buckets {
        // One that is dying already makes room soon: wait for it, unless there is room enough (vector V7).
        if active == total || number(limits.server_limit).saturating_sub(total) > limit {
            plan.retire.push(bucket);
        }
        state.rate[bucket] = 1;
        return;
    }
    if idle >= number(limits.min_spare) / buckets {
        state.rate[bucket] = 1;
        return;
    }
    if saturated(active_threads, idle, limits, state, plan) {
        state.rate[bucket] = 1;
        return;
    }
    let free: Vec<usize> = own().filter(|(_, r)| !r.present).map(|(slot, _)| slot).take(rate).collect();
    if free.is_empty() {
        state.rate[bucket] = 1;
        plan.notes.push(Note::IncreaseServerLimit);
        return;
    }
    let room = limit.saturating_sub(active);
    if room == 0 {
        // The rate begins anew and does not grow. Apache raises hold_off for that, and lowers it in the same tick.
        state.rate[bucket] = 1;
        return;
    }
    let start: Vec<usize> = free.into_iter().take(room).collect();
    if rate >= BUSY_RATE {
        plan.notes.push(Note::BusyActive { spawning: start.len(), idle, active, leaving: total - active });
    }
    plan.start.extend(start);
    state.grow(bucket);
}

/// Are all MaxRequestWorkers there? Then one of two messages, each once.
fn saturated(
    active: usize,
    idle: usize,
    limits: &Effective,
    state: &mut Spawning,
    plan: &mut SpawnPlan,
) -> bool {
    if active < number(limits.max_request_workers) / state.rate.len() {
        return false;
    }
    let (reported, note) = if idle == 0 {
        (&mut state.reported_full, Note::ReachedMaxRequestWorkers)
    } else {
        (&mut state.reported_near, Note::WithinMinSpareThreads)
    };
    if !std::mem::replace(reported, true) {
        plan.notes.push(note);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(start: i64, spare: (i64, i64), per_child: i64, limit: i64, server_limit: i64) -> Effective {
        Effective {
            start_servers: start,
            min_spare: spare.0,
            max_spare: spare.1,
            threads_per_child: per_child,
            thread_limit: per_child,
            server_limit,
            max_request_workers: limit * per_child,
            limit,
            max_connections_per_child: 0,
            async_factor: 2,
            buckets: 1,
        }
    }

    fn row(threads: &[Status]) -> Row {
        Row {
            present: true,
            quiescing: false,
            not_accepting: false,
            current: true,
            threads: threads.to_vec(),
        }
    }

    fn absent(threads: usize) -> Row {
        Row { present: false, threads: vec![Status::Dead; threads], ..row(&[]) }
    }

    type Decide = fn(&[Row], &Effective, &mut Spawning) -> SpawnPlan;

    /// Runs ticks with 60 connections held; says how many processes there were before each.
    fn growth_of_threads(decide: Decide, ticks: usize) -> Vec<usize> {
        let limits = limits(1, (1, 1000), 2, 60, 60);
        let mut state = Spawning::default();
        let mut processes = 1;
        (0..ticks)
            .map(|_| {
                let held = 60usize;
                let rows: Vec<Row> = (0..60)
                    .map(|slot| {
                        let thread = |t| if slot * 2 + t < held { Status::Write } else { Status::Ready };
                        if slot < processes { row(&[thread(0), thread(1)]) } else { absent(2) }
                    })
                    .collect();
                let before = processes;
                processes += decide(&rows, &limits, &mut state).start.len();
                before
            })
            .collect()
    }

    // mpm-semantics V1: worker and event with TPC 2.
    #[test]
    fn threaded_models_double_every_tick() {
        for decide in [worker as Decide, event as Decide] {
            assert_eq!(growth_of_threads(decide, 7), [1, 2, 4, 8, 16, 32, 32]);
        }
    }

    // mpm-semantics V1 and 5.2: 64 processes with 4 idle are fewer than MinSpareServers 5, so a rate-32 tick overshoots.
    #[test]
    fn prefork_doubles_every_tick_and_overshoots() {
        let limits = limits(1, (5, 10), 1, 80, 80);
        let mut state = Spawning::default();
        let mut slots = vec![Status::Dead; 80];
        slots[0] = Status::Write;
        let mut counts = Vec::new();
        for _ in 0..8 {
            let alive = slots.iter().filter(|s| **s != Status::Dead).count();
            counts.push(alive);
            for slot in prefork(&slots, &limits, &mut state).start {
                slots[slot] = if slot < 60 { Status::Write } else { Status::Ready };
            }
        }
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64, 80]);
    }

    // mpm-semantics V2.
    #[test]
    fn a_held_off_rate_stays_for_ten_ticks() {
        let limits = limits(1, (100, 1000), 1, 1000, 1000);
        let mut state = Spawning { rate: vec![2], hold_off: 10, ..Spawning::default() };
        let slots = vec![Status::Dead; 1000];
        let started: Vec<usize> = (0..13).map(|_| prefork(&slots, &limits, &mut state).start.len()).collect();
        assert_eq!(started, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 8]);
    }

    // mpm-semantics V7.
    #[test]
    fn event_retires_only_when_dying_processes_leave_room() {
        let idle = row(&[Status::Ready; 25]);
        let check = |active: usize, total: usize, server_limit: i64| {
            let limits = limits(2, (25, 75), 25, 6, server_limit);
            let rows: Vec<Row> = (0..server_limit as usize)
                .map(|slot| match slot {
                    slot if slot < active => idle.clone(),
                    slot if slot < total => Row { quiescing: true, ..idle.clone() },
                    _ => absent(25),
                })
                .collect();
            !event(&rows, &limits, &mut Spawning::default()).retire.is_empty()
        };
        assert!(check(6, 6, 16));
        assert!(check(5, 6, 16));
        assert!(!check(5, 6, 6));
    }

    #[test]
    fn spare_workers_are_retired_and_the_rate_starts_again() {
        let limits = limits(1, (1, 3), 2, 10, 10);
        let rows = vec![row(&[Status::Ready; 2]), row(&[Status::Ready; 2])];
        let mut state = Spawning { rate: vec![16], ..Spawning::default() };
        assert_eq!(worker(&rows, &limits, &mut state).retire, [0]);
        assert_eq!(state.rate, [1]);
    }

    #[test]
    fn saturation_is_reported_once_and_a_full_scoreboard_every_tick() {
        let full = limits(1, (1, 3), 2, 1, 1);
        let busy = vec![row(&[Status::Write; 2])];
        for (decide, note) in
            [(worker as Decide, Note::ScoreboardFull), (event as Decide, Note::IncreaseServerLimit)]
        {
            let mut state = Spawning::default();
            assert_eq!(decide(&busy, &full, &mut state).notes, [Note::ReachedMaxRequestWorkers]);
            assert_eq!(decide(&busy, &full, &mut state).notes, []);
            // mpm-semantics V18: MaxRequestWorkers was not lowered with the limit, so the test above cannot hold.
            let squeezed = Effective { max_request_workers: 100, ..full };
            let mut state = Spawning::default();
            for _ in 0..3 {
                assert_eq!(decide(&busy, &squeezed, &mut state).notes, [note]);
            }
        }
    }

    // mpm-semantics 9.2: "idle is status <= 2". Threads that a new child has not made yet, and nothing beyond TPC.
    #[test]
    fn a_child_that_has_just_begun_is_idle_as_a_whole() {
        let limits = Effective { thread_limit: 64, ..limits(1, (2, 8), 2, 4, 4) };
        let begun = row(&[Status::Dead; 64]);
        for decide in [worker as Decide, event as Decide] {
            let plan = decide(&[begun.clone(), absent(64)], &limits, &mut Spawning::default());
            assert_eq!(plan, SpawnPlan::default());
            let fewer = Row { threads: vec![Status::Write; 64], ..begun.clone() };
            assert_eq!(decide(&[fewer, absent(64)], &limits, &mut Spawning::default()).start, [1]);
        }
    }

    // mpm-semantics 5.2: active = limit already, so none is started, and the rate begins anew without growing.
    #[test]
    fn event_at_its_limit_waits_with_rate_one() {
        let limits = Effective { max_request_workers: 100, ..limits(1, (2, 8), 2, 2, 6) };
        let busy = row(&[Status::Write; 2]);
        let rows = [busy.clone(), busy, absent(2), absent(2), absent(2), absent(2)];
        let mut state = Spawning { rate: vec![16], hold_off: 3, ..Spawning::default() };
        for _ in 0..3 {
            assert_eq!(event(&rows, &limits, &mut state).start, [0usize; 0]);
            assert_eq!((state.rate.as_slice(), state.hold_off), ([1].as_slice(), 3));
        }
    }

    // mpm-semantics 5.2: each bucket has its share of every number, at most 32 / B children, and retires its own child.
    #[test]
    fn buckets_decide_for_themselves() {
        let limits = Effective { buckets: 2, ..limits(2, (8, 20), 2, 100, 100) };
        for decide in [worker as Decide, event as Decide] {
            // Bucket 0 (even rows) has 2 of at least 4 idle threads, bucket 1 has 12 of at most 10.
            let rows: Vec<Row> = (0..100)
                .map(|slot| match slot {
                    0 => row(&[Status::Ready; 2]),
                    slot if slot % 2 == 1 && slot < 12 => row(&[Status::Ready; 2]),
                    _ => absent(2),
                })
                .collect();
            let mut state = Spawning { rate: vec![2, 8], ..Spawning::default() };
            let plan = decide(&rows, &limits, &mut state);
            assert_eq!((plan.start.as_slice(), plan.retire.as_slice()), ([2, 4].as_slice(), [1].as_slice()));
            assert_eq!(state.rate, [4, 1]);
        }
        let empty = vec![absent(2); 100];
        for decide in [worker as Decide, event as Decide] {
            let mut state = Spawning::default();
            let started: Vec<usize> =
                (0..6).map(|_| decide(&empty, &limits, &mut state).start.len()).collect();
            assert_eq!(started, [2, 4, 8, 16, 32, 32]);
            assert_eq!(state.rate, [16, 16]);
        }
    }

    #[test]
    fn prefork_retires_from_the_buckets_in_turn() {
        let limits = Effective { buckets: 3, ..limits(3, (3, 6), 1, 20, 20) };
        let idle = vec![Status::Ready; 10];
        let mut state = Spawning::default();
        let retired: Vec<Vec<usize>> = (0..4).map(|_| prefork(&idle, &limits, &mut state).retire).collect();
        assert_eq!(retired, [[0], [1], [2], [0]]);
    }

    // mpm-semantics 5.2: the parent notices a quiescing process at the tick of the process's bucket.
    #[test]
    fn event_counts_a_quiescing_process_as_active_until_its_bucket_is_looked_at() {
        let limits = Effective { buckets: 2, ..limits(2, (2, 3), 2, 4, 4) };
        let idle = row(&[Status::Ready; 2]);
        let dying = Row { quiescing: true, ..idle.clone() };
        // Rows 0 and 2 are bucket 0 with 4 idle threads of at most 1; row 1 of bucket 1 is dying.
        let rows = [idle.clone(), dying, idle, absent(2)];
        let mut state = Spawning::default();
        // At the first tick bucket 0 does not know yet, and kills; bucket 1 has nobody left and starts one.
        let plan = event(&rows, &limits, &mut state);
        assert_eq!((plan.retire.as_slice(), plan.start.as_slice()), ([0].as_slice(), [3].as_slice()));
        // At the second it does, and waits: 4 - 3 is not above the limit.
        assert_eq!(event(&rows, &limits, &mut state).retire, [0usize; 0]);
    }

    #[test]
    fn a_sick_child_slows_its_bucket_down() {
        let mut state = Spawning { rate: vec![8, 16], ..Spawning::default() };
        state.was_sick(3);
        assert_eq!(state.rate, [8, 1]);
    }

    // mpm-semantics 5.2, slot squatting.
    #[test]
    fn worker_squats_in_dying_slots_and_event_does_not() {
        let limits = limits(1, (1, 3), 2, 2, 2);
        let dying = Row { quiescing: true, ..row(&[Status::Write, Status::Dead]) };
        let rows = vec![dying.clone(), absent(2)];
        let mut state = Spawning { rate: vec![2], ..Spawning::default() };
        assert_eq!(worker(&rows, &limits, &mut state).start, [1, 0]);
        let mut state = Spawning { rate: vec![2], ..Spawning::default() };
        assert_eq!(event(&rows, &limits, &mut state).start, [1]);
    }

    // mpm-semantics 7.2: threads of a process that does not accept are not spare.
    #[test]
    fn event_does_not_count_idle_threads_behind_closed_listeners() {
        let limits = limits(1, (2, 8), 4, 2, 2);
        let closed = Row { not_accepting: true, ..row(&[Status::Ready; 4]) };
        let plan = event(&[closed, absent(4)], &limits, &mut Spawning::default());
        assert_eq!(plan.start, [1]);
    }
}
