//! The status page for people: mod_status's layout, so that whoever reads the page of one server finds everything on that of
//! the other.

use super::Page;
use super::auto::cpu_load;
use super::count::{is_shown, is_used};
use super::number::{bytes, general, kilobytes, plain};
use crate::http::write::push_html;
use crate::log::access::escaped;
use crate::monitor::{Process, Worker};
use crate::slot::Status;
use std::fmt::Write;

/// Letters of the scoreboard in a line.
const LINE: usize = 64;

/// The whole page; `table` or not is about the workers' details.
pub(super) fn render(page: &Page<'_>, table: bool) -> Vec<u8> {
    let mut out = String::with_capacity(8192);
    // Writing to memory cannot fail.
    let _ = head(page, &mut out);
    if page.extended {
        let _ = traffic(page, &mut out);
    }
    let totals = &page.totals;
    let _ = writeln!(
        out,
        "<dt>{} requests currently being processed, {} workers gracefully restarting, {} idle workers</dt>\n</dl>",
        totals.busy, totals.graceful, totals.idle
    );
    if page.snapshot.asynchronous {
        let _ = connections(page, &mut out);
    } else {
        // Without the table the letters follow on the same line.
        out.pop();
    }
    board(page, &mut out);
    match (page.extended, table) {
        (false, _) => {
            let _ = pids(page, &mut out);
        }
        (true, true) => {
            let _ = details(page, &mut out);
        }
        (true, false) => {
            let _ = details_without_table(page, &mut out);
        }
    }
    out.push_str("</body></html>\n");
    out.into_bytes()
}

fn head(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let (snapshot, uptime) = (page.snapshot, page.uptime());
    out.push_str(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head>\n<title>Apache Status</title>\n</head><body>\n",
    );
    let name = html(page.name.as_bytes());
    writeln!(out, "<h1>Apache Server Status for {name} (via {})</h1>\n", page.address)?;
    writeln!(out, "<dl><dt>Server Version: {}</dt>", page.version)?;
    writeln!(out, "<dt>Server MPM: {}</dt>", snapshot.mpm)?;
    writeln!(out, "<dt>Server Built: {}\n</dt></dl><hr /><dl>", page.built)?;
    writeln!(out, "<dt>Current Time: {}</dt>", Page::time(page.now))?;
    writeln!(out, "<dt>Restart Time: {}</dt>", Page::time(snapshot.restart_time))?;
    writeln!(out, "<dt>Parent Server Config. Generation: {}</dt>", snapshot.config_generation)?;
    writeln!(out, "<dt>Parent Server MPM Generation: {}</dt>", snapshot.generation)?;
    writeln!(out, "<dt>Server uptime: {}</dt>", Page::words(uptime))?;
    let [one, five, fifteen] = page.load;
    writeln!(out, "<dt>Server load: {one:.2} {five:.2} {fifteen:.2}</dt>")
}

/// Known with ExtendedStatus only.
fn traffic(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let (totals, uptime) = (&page.totals, page.uptime());
    writeln!(
        out,
        "<dt>Total accesses: {} - Total Traffic: {} - Total Duration: {}</dt>",
        totals.accesses,
        kilobytes(totals.kbytes),
        totals.duration
    )?;
    write!(out, "<dt>CPU Usage: {}", cpu(totals.cpu, page.tick))?;
    if totals.cpu != [0; 4] {
        write!(out, " - {}% CPU load", general(cpu_load(page), 3))?;
    }
    out.push_str("</dt>\n<dt>");
    let sent = 1024.0 * totals.kbytes as f32;
    if uptime > 0 {
        let (accesses, uptime) = (totals.accesses as f32, uptime as f32);
        let each_second = bytes((sent / uptime) as u64);
        write!(out, "{} requests/sec - {each_second}/second", general((accesses / uptime).into(), 3))?;
    }
    if totals.accesses > 0 {
        let accesses = totals.accesses as f32;
        let joint = if uptime > 0 { " - " } else { "" };
        let each = bytes((sent / accesses) as u64);
        let took = plain((totals.duration as f32 / accesses).into());
        write!(out, "{joint}{each}/request - {took} ms/request")?;
    }
    out.push_str("</dt>\n");
    Ok(())
}

/// Processes of a model that holds connections outside of its threads.
fn connections(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    let snapshot = page.snapshot;
    out.push_str(
        "\n<table rules=\"all\" cellpadding=\"1%\">\n\
         <tr><th rowspan=\"2\">Slot</th><th rowspan=\"2\">PID</th><th rowspan=\"2\">Stopping</th>\
         <th colspan=\"2\">Connections</th>\n\
         <th colspan=\"3\">Threads</th><th colspan=\"4\">Async connections</th></tr>\n\
         <tr><th>total</th><th>accepting</th><th>busy</th><th>graceful</th><th>idle</th><th>wait-io</th>\
         <th>writing</th><th>keep-alive</th><th>closing</th></tr>\n",
    );

    let (mut processes, mut stopping) = (0, 0);
    let mut sums = [0; 8];
    for (row, process) in snapshot.processes.iter().enumerate().filter(|(_, process)| process.pid != 0) {
        processes += 1;
        stopping += usize::from(process.quiescing);
        let [busy, graceful, idle] = page.totals.rows[row].map(|count| count as u32);
        let counts = [
            process.connections,
            busy,
            graceful,
            idle,
            process.wait_io,
            process.write_completion,
            process.keep_alive,
            process.lingering_close,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
        let dying = if process.quiescing { "yes" } else { "no" };
        let old = if process.generation == snapshot.generation { "" } else { " (old gen)" };
        let accepting = if process.not_accepting { "no" } else { "yes" };
        write!(out, "<tr><td>{row}</td><td>{}</td><td>{dying}{old}</td>", process.pid)?;
        cells(out, accepting, counts)?;
    }
    write!(out, "<tr><td>Sum</td><td>{processes}</td><td>{stopping}</td>")?;
    cells(out, "&nbsp;", sums)?;
    out.push_str("</table>\n");
    Ok(())
}

fn cells(out: &mut String, accepting: &str, counts: [u32; 8]) -> std::fmt::Result {
    let [total, threads @ ..] = counts;
    write!(out, "<td>{total}</td><td>{accepting}</td>")?;
    for count in threads {
        write!(out, "<td>{count}</td>")?;
    }
    out.push_str("</tr>\n");
    Ok(())
}

/// The scoreboard, a letter each, and what the letters mean.
fn board(page: &Page<'_>, out: &mut String) {
    out.push_str("<pre>");
    let mut written = 0;
    for (row, process) in page.snapshot.processes.iter().enumerate() {
        for (column, worker) in process.workers.iter().enumerate() {
            if is_shown(page.snapshot, row, column, worker) {
                out.push(worker.status.letter());
                written += 1;
                if written % LINE == 0 {
                    out.push('\n');
                }
            }
        }
    }
    out.push_str(
        "</pre>\n<p>Scoreboard Key:<br />\n\
         \"<b><code>_</code></b>\" Waiting for Connection, \n\
         \"<b><code>S</code></b>\" Starting up, \n\
         \"<b><code>R</code></b>\" Reading Request,<br />\n\
         \"<b><code>W</code></b>\" Sending Reply, \n\
         \"<b><code>K</code></b>\" Keepalive (read), \n\
         \"<b><code>D</code></b>\" DNS Lookup,<br />\n\
         \"<b><code>C</code></b>\" Closing connection, \n\
         \"<b><code>L</code></b>\" Logging, \n\
         \"<b><code>G</code></b>\" Gracefully finishing,<br /> \n\
         \"<b><code>I</code></b>\" Idle cleanup of worker, \n\
         \"<b><code>.</code></b>\" Open slot with no current process<br />\n</p>\n",
    );
}

/// Without ExtendedStatus: whose letters they are. A place that the letters leave out has none.
fn pids(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    out.push_str("PID Key: <br />\n<pre>\n");
    let mut written = 0;
    for (row, process) in page.snapshot.processes.iter().enumerate() {
        for (column, worker) in process.workers.iter().enumerate() {
            let shown = is_shown(page.snapshot, row, column, worker);
            if shown && worker.status == Status::Dead {
                continue;
            }
            let letter = if shown { worker.status.letter() } else { ' ' };
            written += 1;
            let end = if written % 3 == 0 { '\n' } else { ',' };
            write!(out, "   {} in state: {letter} {end}", process.pid)?;
        }
    }
    out.push_str(
        "\n</pre>\n<hr />To obtain a full report with current status information you need to use the \
         <code>ExtendedStatus On</code> directive.\n",
    );
    Ok(())
}

/// What one worker's row says.
struct Row<'a> {
    worker: &'a Worker,
    row: usize,
    generation: u32,
    /// `-` for a thread that is gone.
    pid: String,
    /// Seconds since it was last used, milliseconds of its last request and of all.
    times: [i64; 3],
}

/// The workers that have something to tell.
fn rows<'a>(page: &'a Page<'_>) -> impl Iterator<Item = Row<'a>> {
    let processes = page.snapshot.processes.iter().enumerate();
    processes.flat_map(move |(row, process)| {
        let used = process.workers.iter().filter(|worker| is_used(worker));
        used.map(move |worker| one_row(page, row, process, worker))
    })
}

fn one_row<'a>(page: &Page<'_>, row: usize, process: &Process, worker: &'a Worker) -> Row<'a> {
    // Where threads say whose they are, a row may mix two processes.
    let (pid, generation) = match worker.pid {
        0 => (process.pid, process.generation),
        pid => (pid, worker.generation),
    };
    let pid = if worker.status == Status::Dead { "-".to_owned() } else { pid.to_string() };
    let counters = &worker.counters;
    let took = match counters.start_time {
        0 => 0,
        start => ((counters.stop_time - start) / 1000).max(0),
    };
    let times = [(page.now - counters.last_used) / 1_000_000, took, counters.duration / 1000];
    Row { worker, row, generation, pid, times }
}

fn details(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    out.push_str(
        "\n\n<table border=\"0\"><tr><th>Srv</th><th>PID</th><th>Acc</th><th>M</th><th>CPU\n</th><th>SS</th>\
         <th>Req</th><th>Dur</th><th>Conn</th><th>Child</th><th>Slot</th><th>Client</th><th>Protocol</th>\
         <th>VHost</th><th>Request</th></tr>\n\n",
    );
    for Row { worker, row, generation, pid, times: [idle, took, all] } in rows(page) {
        let [by_connection, by_process, by_slot] = worker.counters.requests;
        write!(out, "<tr><td><b>{row}-{generation}</b></td><td>{pid}</td>")?;
        write!(out, "<td>{by_connection}/{by_process}/{by_slot}</td>")?;
        let letter = worker.status.letter();
        match worker.status {
            Status::Ready | Status::Dead | Status::Graceful | Status::IdleKill => {
                write!(out, "<td>{letter}\n</td>")?;
            }
            _ => write!(out, "<td><b>{letter}</b>\n</td>")?,
        }
        let ticks: i64 = worker.times.iter().sum();
        write!(out, "<td>{:.2}</td><td>{idle}</td><td>{took}</td><td>{all}</td>", ticks as f32 / page.tick)?;
        let [by_connection, by_process, by_slot] = worker.counters.bytes.map(|bytes| bytes as f32);
        write!(out, "<td>{:.1}</td><td>{:.2}</td>", by_connection / 1024.0, by_process / 1_048_576.0)?;
        writeln!(
            out,
            "<td>{:.2}\n</td><td>{}</td><td>{}</td><td nowrap>{}</td><td nowrap>{}</td></tr>\n",
            by_slot / 1_048_576.0,
            html(&worker.client),
            html(&worker.protocol),
            html(&worker.vhost),
            request(worker),
        )?;
    }
    out.push_str("</table>\n <hr /> <table>\n");
    for (at, (name, meaning)) in KEY.iter().enumerate() {
        // Two lines of Apache's text lack their blank.
        let blank = if matches!(at, 4 | 5) { "" } else { " " };
        writeln!(out, "{blank}<tr><th>{name}</th><td>{meaning}</td></tr>")?;
    }
    out.push_str(" </table>\n");
    Ok(())
}

/// What the columns mean.
const KEY: [(&str, &str); 11] = [
    ("Srv", "Child Server number - generation"),
    ("PID", "OS process ID"),
    ("Acc", "Number of accesses this connection / this child / this slot"),
    ("M", "Mode of operation"),
    ("CPU", "CPU usage, number of seconds"),
    ("SS", "Seconds since beginning of most recent request"),
    ("Req", "Milliseconds required to process most recent request"),
    ("Dur", "Sum of milliseconds required to process all requests"),
    ("Conn", "Kilobytes transferred this connection"),
    ("Child", "Megabytes transferred this child"),
    ("Slot", "Total megabytes transferred this slot"),
];

fn details_without_table(page: &Page<'_>, out: &mut String) -> std::fmt::Result {
    out.push_str("<hr /><h2>Server Details</h2>\n\n");
    for Row { worker, row, generation, pid, times: [idle, took, all] } in rows(page) {
        let [by_connection, by_process, by_slot] = worker.counters.requests;
        write!(out, "<b>Server {row}-{generation}</b> ({pid}): {by_connection}|{by_process}|{by_slot} [")?;
        out.push_str(state(worker.status));
        write!(out, "] {}\n {idle} {took} {all}(", cpu(worker.times, page.tick))?;
        let [by_connection, by_process, by_slot] = worker.counters.bytes.map(bytes);
        writeln!(out, "{by_connection}|{by_process}|{by_slot})")?;
        let (client, protocol, vhost) = (html(&worker.client), html(&worker.protocol), html(&worker.vhost));
        let request = request(worker);
        writeln!(out, " <i>{client} {{{request}}}</i> <i>({protocol})</i> <b>[{vhost}]</b><br />\n")?;
    }
    Ok(())
}

fn state(status: Status) -> &'static str {
    match status {
        Status::Ready => "Ready",
        Status::Starting => "Starting",
        Status::Read => "<b>Read</b>",
        Status::Write => "<b>Write</b>",
        Status::KeepAlive => "<b>Keepalive</b>",
        Status::Log => "<b>Logging</b>",
        Status::Dns => "<b>DNS lookup</b>",
        Status::Closing => "<b>Closing</b>",
        Status::Dead => "Dead",
        Status::Graceful => "Graceful",
        Status::IdleKill => "Dying",
    }
}

/// `u1 s.5 cu0 cs0`, seconds.
fn cpu(times: [i64; 4], tick: f32) -> String {
    let [user, system, children_user, children_system] = times.map(|t| plain((t as f32 / tick).into()));
    format!("u{user} s{system} cu{children_user} cs{children_system}")
}

/// The request line, made printable. Clients choose it.
fn request(worker: &Worker) -> String {
    let mut printable = Vec::with_capacity(worker.request.len());
    escaped(&worker.request, &mut printable);
    html(&printable)
}

fn html(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_html(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::count::tests::worker;
    use super::super::count::totals;
    use super::*;
    use crate::monitor::Snapshot;

    fn page(snapshot: &Snapshot) -> Page<'_> {
        Page {
            snapshot,
            totals: totals(snapshot),
            name: "a<b>".to_owned(),
            address: "127.0.0.1".to_owned(),
            version: "v",
            built: "b",
            extended: true,
            now: snapshot.restart_time + 4_000_000,
            load: [0.0; 3],
            tick: 100.0,
        }
    }

    #[test]
    fn what_clients_choose_is_escaped() {
        let mut evil = worker(Status::Write, 1, 0, [0; 4]);
        evil.request = b"GET /<script>\x1b\" HTTP/1.1".to_vec();
        let process = Process { pid: 7, workers: vec![evil], ..Process::default() };
        let snapshot = Snapshot { processes: vec![process], ..Snapshot::default() };
        for table in [true, false] {
            let text = String::from_utf8(render(&page(&snapshot), table)).unwrap();
            assert!(text.contains("GET /&lt;script&gt;\\x1b\\&quot; HTTP/1.1"), "{text}");
            assert!(text.contains("Status for a&lt;b&gt; (via 127.0.0.1)") && !text.contains("<script>"));
        }
    }

    #[test]
    fn letters_stand_in_lines_of_64() {
        let workers = vec![worker(Status::Ready, 0, 0, [0; 4]); 100];
        let process = Process { pid: 7, workers, ..Process::default() };
        let snapshot = Snapshot { processes: vec![process], ..Snapshot::default() };
        let text = String::from_utf8(render(&page(&snapshot), true)).unwrap();
        assert!(
            text.contains(&format!("</dl><pre>{}\n{}</pre>\n", "_".repeat(64), "_".repeat(36))),
            "{text}"
        );
    }
}
