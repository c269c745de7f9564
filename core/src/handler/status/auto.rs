//! The status page for programs (`?auto`): one `Key: value` per line, in mod_status's order. Monitoring reads it by these
//! names.

use super::Page;
use super::count::is_shown;
use super::number::plain;
use std::fmt::Write;

/// The whole text.
pub(super) fn render(page: &Page<'_>) -> Vec<u8> {
    let mut out = String::with_capacity(2048);
    // Writing to memory cannot fail.
    let _ = server(page, &mut out);
    if page.extended {
        let _ = traffic(page, &mut out);
    }
    let _ = workers(page, &mut out);
    out.into_bytes()
}

fn server(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let (snapshot, uptime) = (page.snapshot, page.uptime());
    writeln!(out, "{}", page.name)?;
    writeln!(out, "ServerVersion: {}", page.version)?;
    writeln!(out, "ServerMPM: {}", snapshot.mpm)?;
    writeln!(out, "Server Built: {}", page.built)?;
    writeln!(out, "CurrentTime: {}", Page::time(page.now))?;
    writeln!(out, "RestartTime: {}", Page::time(snapshot.restart_time))?;
    writeln!(out, "ParentServerConfigGeneration: {}", snapshot.config_generation)?;
    writeln!(out, "ParentServerMPMGeneration: {}", snapshot.generation)?;
    writeln!(out, "ServerUptimeSeconds: {uptime}")?;
    writeln!(out, "ServerUptime:{}", Page::words(uptime))?;
    for (minutes, load) in [1, 5, 15].iter().zip(page.load) {
        writeln!(out, "Load{minutes}: {load:.2}")?;
    }
    Ok(())
}

/// Known with ExtendedStatus only. Quotients in single precision, as in Apache.
fn traffic(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let (totals, uptime) = (&page.totals, page.uptime());
    writeln!(out, "Total Accesses: {}", totals.accesses)?;
    writeln!(out, "Total kBytes: {}", totals.kbytes)?;
    writeln!(out, "Total Duration: {}", totals.duration)?;
    for (name, ticks) in ["User", "System", "ChildrenUser", "ChildrenSystem"].iter().zip(totals.cpu) {
        writeln!(out, "CPU{name}: {}", plain((ticks as f32 / page.tick).into()))?;
    }
    if totals.cpu != [0; 4] {
        writeln!(out, "CPULoad: {}", plain(cpu_load(page)))?;
    }
    writeln!(out, "Uptime: {uptime}")?;
    let kilobytes = 1024.0 * totals.kbytes as f32;
    if uptime > 0 {
        writeln!(out, "ReqPerSec: {}", plain((totals.accesses as f32 / uptime as f32).into()))?;
        writeln!(out, "BytesPerSec: {}", plain((kilobytes / uptime as f32).into()))?;
    }
    if totals.accesses > 0 {
        let accesses = totals.accesses as f32;
        writeln!(out, "BytesPerReq: {}", plain((kilobytes / accesses).into()))?;
        writeln!(out, "DurationPerReq: {}", plain((totals.duration as f32 / accesses).into()))?;
    }
    Ok(())
}

/// Percent of the time since statistics began.
pub(super) fn cpu_load(page: &Page<'_>) -> f64 {
    let ticks: i64 = page.totals.cpu.iter().sum();
    f64::from(ticks as f32 / page.tick / page.uptime() as f32) * 100.0
}

fn workers(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let (snapshot, totals) = (page.snapshot, &page.totals);
    writeln!(out, "BusyWorkers: {}", totals.busy)?;
    writeln!(out, "GracefulWorkers: {}", totals.graceful)?;
    writeln!(out, "IdleWorkers: {}", totals.idle)?;
    if snapshot.asynchronous {
        let live = || snapshot.processes.iter().filter(|process| process.pid != 0);
        writeln!(out, "Processes: {}", live().count())?;
        writeln!(out, "Stopping: {}", live().filter(|process| process.quiescing).count())?;
        writeln!(out, "ConnsTotal: {}", live().map(|process| process.connections).sum::<u32>())?;
        writeln!(out, "ConnsAsyncWaitIO: {}", live().map(|process| process.wait_io).sum::<u32>())?;
        writeln!(out, "ConnsAsyncWriting: {}", live().map(|process| process.write_completion).sum::<u32>())?;
        writeln!(out, "ConnsAsyncKeepAlive: {}", live().map(|process| process.keep_alive).sum::<u32>())?;
        writeln!(out, "ConnsAsyncClosing: {}", live().map(|process| process.lingering_close).sum::<u32>())?;
    }
    let mut letters = String::new();
    for (row, process) in snapshot.processes.iter().enumerate() {
        let shown = process.workers.iter().enumerate();
        let shown = shown.filter(|(column, worker)| is_shown(snapshot, row, *column, worker));
        letters.extend(shown.map(|(_, worker)| worker.status.letter()));
    }
    writeln!(out, "Scoreboard: {letters}")
}

#[cfg(test)]
mod tests {
    use super::super::count::tests::worker;
    use super::super::count::totals;
    use super::*;
    use crate::monitor::{Process, Snapshot};
    use crate::slot::Status;

    /// A server that has run for `seconds`, in which one of two workers has answered three requests.
    fn text(asynchronous: bool, extended: bool, seconds: i64) -> String {
        let workers = vec![
            worker(Status::Write, 3, 2 * 1024, [1, 2, 0, 0]),
            worker(Status::Ready, 0, 0, [0; 4]),
            worker(Status::Dead, 0, 0, [0; 4]),
        ];
        let process = Process {
            pid: 7,
            generation: 2,
            workers,
            connections: 9,
            wait_io: 1,
            write_completion: 2,
            keep_alive: 3,
            lingering_close: 4,
            ..Process::default()
        };
        let snapshot = Snapshot {
            mpm: "model",
            asynchronous,
            limit: 1,
            threads: 2,
            config_generation: 3,
            generation: 2,
            restart_time: 1_000_000,
            parent_times: [0, 0, 0, 1],
            processes: vec![process],
        };
        let page = Page {
            totals: totals(&snapshot),
            snapshot: &snapshot,
            name: "name".to_owned(),
            address: "127.0.0.1".to_owned(),
            version: "v/1",
            built: "then",
            extended,
            now: 1_000_000 * (1 + seconds),
            load: [0.5, 1.25, 10.0],
            tick: 100.0,
        };
        let text = String::from_utf8(render(&page)).unwrap();
        // Local times depend on where the test runs.
        let steady = text.lines().filter(|line| !line.contains("Time: "));
        steady.map(|line| format!("{line}\n")).collect()
    }

    const HEAD: &str = "name\nServerVersion: v/1\nServerMPM: model\nServer Built: then\n\
        ParentServerConfigGeneration: 3\nParentServerMPMGeneration: 2\n";
    const LOADS: &str = "Load1: 0.50\nLoad5: 1.25\nLoad15: 10.00\n";
    const WORKERS: &str = "BusyWorkers: 1\nGracefulWorkers: 0\nIdleWorkers: 1\n";
    const CPU: &str = "CPUUser: .01\nCPUSystem: .02\nCPUChildrenUser: 0\nCPUChildrenSystem: .01\n";

    #[test]
    fn every_line_stands_in_its_place() {
        let uptime = "ServerUptimeSeconds: 64\nServerUptime: 1 minute 4 seconds\n";
        let traffic = format!(
            "Total Accesses: 3\nTotal kBytes: 2\nTotal Duration: 2\n{CPU}CPULoad: .0625\nUptime: 64\n\
             ReqPerSec: .046875\nBytesPerSec: 32\nBytesPerReq: 682.667\nDurationPerReq: .666667\n"
        );
        let connections = "Processes: 1\nStopping: 0\nConnsTotal: 9\nConnsAsyncWaitIO: 1\nConnsAsyncWriting: 2\n\
            ConnsAsyncKeepAlive: 3\nConnsAsyncClosing: 4\n";
        let board = "Scoreboard: W_\n";
        assert_eq!(
            text(true, true, 64),
            format!("{HEAD}{uptime}{LOADS}{traffic}{WORKERS}{connections}{board}")
        );
        assert_eq!(text(false, false, 64), format!("{HEAD}{uptime}{LOADS}{WORKERS}{board}"));
    }

    #[test]
    fn a_server_without_a_past_has_no_rates() {
        let fresh = text(false, true, 0);
        assert!(fresh.contains("ServerUptimeSeconds: 0\nServerUptime:\nLoad1"), "{fresh}");
        assert!(fresh.contains("CPULoad: inf\nUptime: 0\nBytesPerReq: 682.667\n"), "{fresh}");
    }
}
