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
