//! How many children to start or to retire: the decision of one tick, as pure functions (mpm-semantics 5.2).
//!
//! The parent calls one of them once a second with what the scoreboard says. State between ticks is the spawn rate, which
//! doubles while there is need, and what was already complained about.

use mpmlab_core::config::clamp::Effective;
use mpmlab_core::slot::Status;

/// Most children started in one tick.
const MAX_RATE: usize = 32;

/// What the parent remembers from tick to tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawning {
    /// Children that the next tick may start. Doubles with each tick that starts some, 1 again after one that need not.
    pub rate: usize,
    /// Ticks for which the rate stays as it is: 10 after a graceful restart.
    pub hold_off: usize,
    reported_full: bool,
    reported_near: bool,
}

impl Default for Spawning {
    fn default() -> Spawning {
        Spawning { rate: 1, hold_off: 0, reported_full: false, reported_near: false }
    }
}

impl Spawning {
    fn grow(&mut self) {
        if self.hold_off > 0 {
            self.hold_off -= 1;
        } else {
            self.rate = (self.rate * 2).min(MAX_RATE);
        }
    }
}

/// What one tick does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnPlan {
    /// Slots to start a child in.
    pub start: Vec<usize>,
    /// Ask one child to end?
    pub retire: bool,
    /// What to tell the log.
    pub note: Option<Note>,
}

impl SpawnPlan {
    fn note(note: Note) -> SpawnPlan {
        SpawnPlan { note: Some(note), ..SpawnPlan::default() }
    }
}

/// What a tick has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by Apache's messages")]
pub enum Note {
    ReachedMaxRequestWorkers,
    WithinMinSpareThreads,
    ScoreboardFull,
    Busy { spawning: usize, idle: usize, total: usize, leaving: usize },
}

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
    fn count(&self, test: impl Fn(Status) -> bool) -> usize {
        self.threads.iter().filter(|s| test(**s)).count()
    }

    /// Starting or ready.
    fn idle(&self) -> usize {
        self.count(|s| s == Status::Starting || s == Status::Ready)
    }

    /// Apache's arithmetic: ready counts as active, graceful does not (9.2).
    fn active(&self) -> usize {
        self.count(|s| Status::Ready <= s && s < Status::Graceful)
    }
}

fn number(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// prefork: one slot per process.
pub fn prefork(slots: &[Status], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let slots = &slots[..slots.len().min(number(limits.limit))];
    let idle = slots.iter().filter(|s| matches!(s, Status::Starting | Status::Ready)).count();
    let free = slots.iter().enumerate().filter(|(_, s)| **s == Status::Dead).map(|(slot, _)| slot);
    let free: Vec<usize> = free.take(state.rate).collect();
    if idle > number(limits.max_spare) {
        state.rate = 1;
        return SpawnPlan { retire: true, ..SpawnPlan::default() };
    }
    if idle >= number(limits.min_spare) {
        state.rate = 1;
        return SpawnPlan::default();
    }
    if free.is_empty() {
        state.rate = 1;
        let first = !std::mem::replace(&mut state.reported_full, true);
        return SpawnPlan { note: first.then_some(Note::ReachedMaxRequestWorkers), ..SpawnPlan::default() };
    }
    let total = slots.iter().filter(|s| **s != Status::Dead).count();
    let note = (state.rate >= 8).then_some(Note::Busy { spawning: free.len(), idle, total, leaving: 0 });
    state.grow();
    SpawnPlan { start: free, retire: false, note }
}

/// worker: a new process may take the slot of a dying one, and starts threads where the old ones are gone.
pub fn worker(rows: &[Row], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let per_child = number(limits.threads_per_child);
    let rows = &rows[..rows.len().min(number(limits.limit))];
    let idle: usize = rows.iter().filter(|r| r.present && !r.quiescing && r.current).map(Row::idle).sum();
    let active: usize = rows.iter().map(Row::active).sum();
    if idle > number(limits.max_spare) {
        state.rate = 1;
        return SpawnPlan { retire: true, ..SpawnPlan::default() };
    }
    if idle >= number(limits.min_spare) {
        state.rate = 1;
        return SpawnPlan::default();
    }
    let dead = |row: &Row| row.threads.iter().take(per_child).filter(|s| **s == Status::Dead).count();
    let candidates = rows.iter().enumerate().filter(|(_, r)| dead(r) > 0 && (!r.present || r.quiescing));
    let (wholly, partly): (Vec<_>, Vec<_>) =
        candidates.partition(|(_, r)| dead(r) == per_child.min(r.threads.len()));
    let start: Vec<usize> = wholly.into_iter().chain(partly).map(|(slot, _)| slot).take(state.rate).collect();
    if start.is_empty() {
        state.rate = 1;
        return match saturation(active, idle, limits, state) {
            Some(plan) => plan,
            None => SpawnPlan::note(Note::ScoreboardFull),
        };
    }
    let total = rows.iter().filter(|r| r.present).count();
    let note = (state.rate >= 8).then_some(Note::Busy { spawning: start.len(), idle, total, leaving: 0 });
    state.grow();
    SpawnPlan { start, retire: false, note }
}

/// event: a slot is free only when its process is gone, but dying ones may exceed the limit up to ServerLimit.
pub fn event(rows: &[Row], limits: &Effective, state: &mut Spawning) -> SpawnPlan {
    let limit = number(limits.limit);
    let usable = |r: &&Row| r.present && !r.quiescing && !r.not_accepting && r.current;
    let idle: usize = rows.iter().filter(usable).map(Row::idle).sum();
    let active_threads: usize = rows.iter().filter(|r| r.present).map(Row::active).sum();
    let total = rows.iter().filter(|r| r.present).count();
    let active = rows.iter().filter(|r| r.present && !r.quiescing).count();
    if idle > number(limits.max_spare) {
        state.rate = 1;
        // One that is dying already makes room soon: wait for it, unless there is room enough (vector V7).
        let retire = active == total || number(limits.server_limit).saturating_sub(total) > limit;
        return SpawnPlan { retire, ..SpawnPlan::default() };
    }
    if idle >= number(limits.min_spare) {
        state.rate = 1;
        return SpawnPlan::default();
    }
    if let Some(plan) = saturation(active_threads, idle, limits, state) {
        state.rate = 1;
        return plan;
    }
    let free: Vec<usize> =
        rows.iter().enumerate().filter(|(_, r)| !r.present).map(|(slot, _)| slot).collect();
    if free.is_empty() {
        state.rate = 1;
        return SpawnPlan::note(Note::ScoreboardFull);
    }
    let room = limit.saturating_sub(active);
    if room == 0 {
        state.rate = 1;
        state.hold_off += 1;
        return SpawnPlan::default();
    }
    let start: Vec<usize> = free.into_iter().take(state.rate.min(room)).collect();
    let busy = Note::Busy { spawning: start.len(), idle, total: active, leaving: total - active };
    let note = (state.rate >= 8).then_some(busy);
    state.grow();
    SpawnPlan { start, retire: false, note }
}

/// All MaxRequestWorkers are there: the two messages, each once, and nothing else to do.
fn saturation(active: usize, idle: usize, limits: &Effective, state: &mut Spawning) -> Option<SpawnPlan> {
    if active < number(limits.max_request_workers) {
        return None;
    }
    let (reported, note) = if idle == 0 {
        (&mut state.reported_full, Note::ReachedMaxRequestWorkers)
    } else {
        (&mut state.reported_near, Note::WithinMinSpareThreads)
    };
    let first = !std::mem::replace(reported, true);
    Some(SpawnPlan { note: first.then_some(note), ..SpawnPlan::default() })
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
        let mut state = Spawning { rate: 2, hold_off: 10, ..Spawning::default() };
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
            event(&rows, &limits, &mut Spawning::default()).retire
        };
        assert!(check(6, 6, 16));
        assert!(check(5, 6, 16));
        assert!(!check(5, 6, 6));
    }

    #[test]
    fn spare_workers_are_retired_and_the_rate_starts_again() {
        let limits = limits(1, (1, 3), 2, 10, 10);
        let rows = vec![row(&[Status::Ready; 2]), row(&[Status::Ready; 2])];
        let mut state = Spawning { rate: 16, ..Spawning::default() };
        assert!(worker(&rows, &limits, &mut state).retire);
        assert_eq!(state.rate, 1);
    }

    #[test]
    fn saturation_is_reported_once_and_a_full_scoreboard_every_tick() {
        let full = limits(1, (1, 3), 2, 1, 1);
        let busy = vec![row(&[Status::Write; 2])];
        for decide in [worker as Decide, event as Decide] {
            let mut state = Spawning::default();
            assert_eq!(decide(&busy, &full, &mut state).note, Some(Note::ReachedMaxRequestWorkers));
            assert_eq!(decide(&busy, &full, &mut state).note, None);
            // mpm-semantics V18: MaxRequestWorkers was not lowered with the limit, so the test above cannot hold.
            let squeezed = Effective { max_request_workers: 100, ..full };
            let mut state = Spawning::default();
            for _ in 0..3 {
                assert_eq!(decide(&busy, &squeezed, &mut state).note, Some(Note::ScoreboardFull));
            }
        }
    }

    // mpm-semantics 5.2, slot squatting.
    #[test]
    fn worker_squats_in_dying_slots_and_event_does_not() {
        let limits = limits(1, (1, 3), 2, 2, 2);
        let dying = Row { quiescing: true, ..row(&[Status::Write, Status::Dead]) };
        let rows = vec![dying.clone(), absent(2)];
        let mut state = Spawning { rate: 2, ..Spawning::default() };
        assert_eq!(worker(&rows, &limits, &mut state).start, [1, 0]);
        let mut state = Spawning { rate: 2, ..Spawning::default() };
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
