//! What the status page adds up, and which slots count for it (mpm-semantics 9.4, "Rules").

use crate::monitor::{Process, Snapshot, Worker};
use crate::slot::Status;

/// Sums over the whole scoreboard.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Totals {
    /// Workers that do something. Includes the one that serves the page.
    pub busy: usize,
    /// Workers that finish gracefully.
    pub graceful: usize,
    /// Workers of the current generation that wait.
    pub idle: usize,
    /// Requests.
    pub accesses: u64,
    /// Bytes on the wire, in units of 1,024.
    pub kbytes: u64,
    /// Time spent on requests, milliseconds.
    pub duration: i64,
    /// CPU times: of the parent and of each child once.
    pub cpu: [i64; 4],
    /// Workers of each process: busy, graceful, idle.
    pub rows: Vec<[usize; 3]>,
}

/// A slot without a thread is shown only if the present configuration could put one there.
pub(super) fn is_shown(snapshot: &Snapshot, row: usize, column: usize, worker: &Worker) -> bool {
    worker.status != Status::Dead || (row < snapshot.limit && column < snapshot.threads)
}

/// Has the slot anything to tell beyond its state?
pub(super) fn is_used(worker: &Worker) -> bool {
    worker.counters.requests[2] != 0 || !matches!(worker.status, Status::Ready | Status::Dead)
}

/// Adds up.
pub(super) fn totals(snapshot: &Snapshot) -> Totals {
    let mut totals = Totals { cpu: snapshot.parent_times, ..Totals::default() };
    let (mut bytes, mut duration) = (0, 0);
    for (row, process) in snapshot.processes.iter().enumerate() {
        let mut counts = [0; 3];
        // Every thread notes the times of its whole process: the latest are taken.
        let mut cpu = [0; 4];
        for (column, worker) in process.workers.iter().enumerate() {
            if !is_shown(snapshot, row, column, worker) {
                continue;
            }
            count_worker(snapshot, process, worker, &mut counts, &mut totals.idle);
            if is_used(worker) {
                if worker.times.iter().zip(&cpu).any(|(new, old)| new > old) {
                    cpu = worker.times;
                }
                totals.accesses += worker.counters.requests[2];
                duration += worker.counters.duration;
                bytes += worker.counters.bytes[2];
                totals.kbytes += bytes / 1024;
                bytes %= 1024;
            }
        }
        for (sum, ticks) in totals.cpu.iter_mut().zip(cpu) {
            *sum += ticks;
        }
        totals.busy += counts[0];
        totals.graceful += counts[1];
        totals.rows.push(counts);
    }
    totals.duration = duration / 1000;
    totals
}

/// Only threads of live processes that are to go on count.
fn count_worker(
    snapshot: &Snapshot,
    process: &Process,
    worker: &Worker,
    counts: &mut [usize; 3],
    idle: &mut usize,
) {
    if process.quiescing || process.pid == 0 {
        return;
    }
    match worker.status {
        Status::Ready => {
            counts[2] += 1;
            *idle += usize::from(process.generation == snapshot.generation);
        }
        Status::Dead | Status::Starting | Status::IdleKill => {}
        Status::Graceful => counts[1] += 1,
        _ => counts[0] += 1,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::slot::Counters;

    /// A worker in a state that has answered `requests` with `bytes` in all.
    pub(in super::super) fn worker(status: Status, requests: u64, bytes: u64, times: [i64; 4]) -> Worker {
        Worker {
            status,
            pid: 0,
            generation: 0,
            counters: Counters {
                requests: [0, 0, requests],
                bytes: [0, 0, bytes],
                duration: 700 * requests as i64,
                ..Counters::default()
            },
            times,
            client: b"192.0.2.1".to_vec(),
            protocol: b"http/1.1".to_vec(),
            vhost: b"www:80".to_vec(),
            request: b"GET /<a> HTTP/1.1".to_vec(),
        }
    }

    #[test]
    fn the_living_are_counted_and_bytes_by_the_kilobyte() {
        use Status::*;
        let process = |pid, generation, quiescing, workers| Process {
            pid,
            generation,
            quiescing,
            workers,
            ..Process::default()
        };
        let snapshot = Snapshot {
            limit: 4,
            threads: 2,
            generation: 1,
            parent_times: [1, 2, 30, 40],
            processes: vec![
                process(
                    10,
                    1,
                    false,
                    vec![worker(Ready, 3, 1500, [5, 6, 0, 0]), worker(Write, 1, 600, [7, 1, 0, 0])],
                ),
                process(
                    11,
                    0,
                    false,
                    vec![worker(Ready, 0, 0, [9, 9, 9, 9]), worker(Graceful, 2, 2048, [0, 1, 0, 0])],
                ),
                process(12, 0, true, vec![worker(Write, 1, 1, [0; 4]), worker(Ready, 0, 0, [0; 4])]),
                process(0, 0, false, vec![worker(Dead, 5, 1024, [0; 4]), worker(Starting, 0, 0, [0; 4])]),
            ],
            ..Snapshot::default()
        };
        let totals = totals(&snapshot);
        assert_eq!((totals.busy, totals.graceful, totals.idle), (1, 1, 1));
        assert_eq!(totals.rows, [[1, 0, 1], [0, 1, 1], [0; 3], [0; 3]]);
        assert_eq!((totals.accesses, totals.kbytes, totals.duration), (12, 5, 8));
        assert_eq!(totals.cpu, [8, 4, 30, 40], "7 and 1 came after 5 and 6");
    }

    #[test]
    fn places_beyond_the_configuration_show_only_the_living() {
        let snapshot = Snapshot { limit: 2, threads: 3, ..Snapshot::default() };
        let dead = worker(Status::Dead, 1, 1, [0; 4]);
        assert!(is_shown(&snapshot, 1, 2, &dead));
        assert!(!is_shown(&snapshot, 2, 0, &dead) && !is_shown(&snapshot, 0, 3, &dead));
        assert!(is_shown(&snapshot, 2, 3, &worker(Status::Graceful, 0, 0, [0; 4])));
    }
}
