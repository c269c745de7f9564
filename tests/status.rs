//! The scoreboard and the status page: the same memory, letters, keys, headings and counts as Apache's, asked of both.
//!
//! Where apache2 is not installed, what it says is taken from mpm-semantics 9 and the comparison says that it skips.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/apache.rs"]
mod apache;
mod harness;
#[path = "status/memory.rs"]
mod memory;
#[path = "status/monitors.rs"]
mod monitors;
#[path = "status/site.rs"]
mod site;

use harness::client::Client;
use harness::{Server, get, talk, until};
use memory::workers;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use site::{Site, Target};
use std::collections::BTreeSet;

/// The models that Apache has, too.
const APACHES: [&str; 3] = ["prefork", "worker", "event"];

/// Is there an Apache to compare with?
fn has_apache() -> bool {
    let there = apache::version().is_some();
    if !there {
        eprintln!("skipped: apache2 is not installed");
    }
    there
}

/// Names of the lines, in order. Lines that depend on how long the server has run, and how much it has worked, are left
/// out: a unit test has them.
fn keys(text: &str) -> Vec<String> {
    let names = text.lines().skip(1).map(|line| line.split_once(':').expect("a key").0.to_owned());
    names.filter(|name| !matches!(name.as_str(), "CPULoad" | "ReqPerSec" | "BytesPerSec")).collect()
}

/// mpm-semantics 9.4.
fn expected_keys(asynchronous: bool, extended: bool) -> Vec<&'static str> {
    let mut keys = vec![
        "ServerVersion",
        "ServerMPM",
        "Server Built",
        "CurrentTime",
        "RestartTime",
        "ParentServerConfigGeneration",
        "ParentServerMPMGeneration",
        "ServerUptimeSeconds",
        "ServerUptime",
        "Load1",
        "Load5",
        "Load15",
    ];
    if extended {
        keys.extend(["Total Accesses", "Total kBytes", "Total Duration"]);
        keys.extend(["CPUUser", "CPUSystem", "CPUChildrenUser", "CPUChildrenSystem"]);
        keys.extend(["Uptime", "BytesPerReq", "DurationPerReq"]);
    }
    keys.extend(["BusyWorkers", "GracefulWorkers", "IdleWorkers"]);
    if asynchronous {
        keys.extend(["Processes", "Stopping", "ConnsTotal", "ConnsAsyncWaitIO", "ConnsAsyncWriting"]);
        keys.extend(["ConnsAsyncKeepAlive", "ConnsAsyncClosing"]);
    }
    keys.push("Scoreboard");
    keys
}

/// The `?auto` text once a request has been counted.
fn auto_after_one_request(target: &Target, extended: bool) -> String {
    target.get("/f.txt").unwrap();
    until("a request is counted", || {
        target.status("?auto").filter(|text| !extended || text.contains("DurationPerReq"))
    })
}

#[test]
fn auto_has_apaches_keys_in_apaches_order() {
    let compare = has_apache();
    let site = Site::new();
    for mpm in APACHES {
        for extended in [true, false] {
            let more: &[&str] = if extended { &[] } else { &["ExtendedStatus Off"] };
            let expected = expected_keys(mpm == "event", extended);
            let ours = auto_after_one_request(&site.mpmlab(mpm, more), extended);
            assert_eq!(keys(&ours), expected, "{mpm}, extended {extended}");
            assert!(ours.contains(&format!("\nServerMPM: {mpm}\n")), "{ours}");
            if compare {
                let theirs = auto_after_one_request(&site.apache(mpm, more), extended);
                assert_eq!(keys(&theirs), expected, "Apache, {mpm}, extended {extended}");
                assert_eq!(theirs.lines().next(), ours.lines().next());
            }
        }
    }
}

/// A page without what differs from run to run: cells' contents, numbers, names, and rows beyond the first of a kind.
fn skeleton(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in page.lines() {
        let mut line = line.to_owned();
        for variable in
            ["Server Version: ", "Server MPM: ", "Server Built: ", "Time: ", "uptime: ", "traffic"]
        {
            if let Some(at) = line.find(variable) {
                line.truncate(at + variable.len());
            }
        }
        if let Some(at) = line.find("<pre>") {
            line.truncate(at + "<pre>".len());
        }
        let mut plain = String::new();
        for c in line.chars() {
            match c {
                // Loads, counts, process ids; APR leaves out the zero before a point.
                '0'..='9' | '.' if plain.ends_with('#') => {}
                '0'..='9' => plain.push('#'),
                '.' if plain.ends_with(char::is_alphanumeric) => plain.push('.'),
                '.' => plain.push('#'),
                c => plain.push(c),
            }
        }
        // Known only when time has passed or CPU time was used.
        let unsteady = ["CPU Usage", "requests/sec", "/request", "% CPU load"];
        if unsteady.iter().any(|text| plain.contains(text)) || plain == "<dt></dt>" {
            continue;
        }
        if plain.starts_with("<tr><td>") || plain.contains(" in state: ") || plain.starts_with("</td>") {
            plain = plain.split_inclusive('>').map(|part| &part[part.find('<').unwrap_or(0)..]).collect();
            plain.retain(|c| c != '#');
        }
        // How many workers have something to tell differs, and with it the number of empty lines.
        let row = plain.starts_with("<tr><td>") || plain.starts_with("</td><td>") || plain.starts_with(" #");
        if !plain.is_empty() && lines.last() != Some(&plain) && !(row && lines.contains(&plain)) {
            lines.push(plain);
        }
    }
    lines
}

#[test]
fn the_page_has_apaches_layout() {
    if !has_apache() {
        return;
    }
    let site = Site::new();
    for mpm in APACHES {
        for (query, more) in [
            ("", &[][..]),
            ("?notable", &[]),
            ("", &["ExtendedStatus Off"]),
            ("?notable", &["ExtendedStatus Off"]),
        ] {
            // Of the first page one worker has something to tell: the one that makes it.
            let ours = skeleton(&site.mpmlab(mpm, more).status(query).unwrap());
            let theirs = skeleton(&site.apache(mpm, more).status(query).unwrap());
            let details = |line: &String| !line.contains("[") && !line.contains("state: ");
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (ours.into_iter().filter(details).collect(), theirs.into_iter().filter(details).collect());
            assert_eq!(ours, theirs, "{mpm} {query} {more:?}");
        }
    }
}

#[test]
fn monitoring_reads_it_unchanged() {
    let site = Site::new();
    for mpm in APACHES {
        let target = site.mpmlab(mpm, &[]);
        for _ in 0..5 {
            target.get("/f.txt").unwrap();
        }
        let text = until("five requests are counted and somebody is idle", || {
            let text = target.status("?auto")?;
            let [accesses, _, _, idle] = monitors::munin(&text);
            (accesses >= 5 && idle >= 1).then_some(text)
        });
        let [accesses, kbytes, busy, idle] = monitors::munin(&text);
        assert!((5..50).contains(&kbytes), "{text}");
        assert!(busy >= 1, "{text}");
        let collectd = monitors::collectd(&text);
        assert_eq!((collectd["Accesses:"], collectd["kBytes:"]), (accesses, kbytes));
        assert_eq!((collectd["BusyWorkers:"], collectd["IdleWorkers:"]), (busy, idle));
        assert_eq!(collectd["_"], idle, "{text}");
        let letters: u64 = collectd.iter().filter(|(key, _)| key.chars().count() == 1).map(|(_, n)| n).sum();
        assert_eq!(letters, if mpm == "prefork" { 4 } else { 8 }, "limit times threads, {text}");
        let exporter = monitors::exporter(&text);
        assert_eq!(exporter["Total Accesses"], accesses as f64);
        for key in ["ServerVersion", "Uptime", "CPUUser", "Load1", "ParentServerConfigGeneration"] {
            assert!(exporter.contains_key(key), "{key} is not in {text}");
        }
        assert_eq!(exporter.contains_key("ConnsAsyncKeepAlive"), mpm == "event", "{text}");
    }
}

/// Waits until a worker shows this letter, requests of its connection, and request.
fn shows(target: &Target, letter: char, on_connection: u64, request: &str) -> memory::Worker {
    until(
        &format!("a worker shows {letter} {on_connection} {request:?}: {:?}", workers(target.pid())),
        || {
            workers(target.pid()).into_iter().find(|worker| {
                (worker.letter, worker.requests[0], worker.request.as_str())
                    == (letter, on_connection, request)
            })
        },
    )
}

/// One connection's life, as it stands in the scoreboard (mpm-semantics 9.2).
fn a_connections_life(target: &Target, mpm: &str) {
    let asynchronous = mpm == "event";
    let request = "GET /f.txt HTTP/1.1";
    let mut client = Client::connect(target.addr());
    client.send("GET /f.txt HT");
    // The letter comes first, the texts follow.
    until("a reading worker shows its client and no host yet", || {
        let reading = shows(target, 'R', 0, "");
        let texts = (reading.client.as_str(), reading.protocol.as_str(), reading.vhost.as_str());
        (texts == ("127.0.0.1", "http/1.1", "")).then_some(())
    });
    client.send("TP/1.1\r\nHost: test\r\n\r\n");
    client.answer().unwrap();
    if !asynchronous {
        // 34 bytes came, and the length of header and content went.
        let kept = shows(target, 'K', 1, request);
        assert_eq!(kept.vhost, format!("localhost:{}", target.addr().port()));
        assert!(kept.bytes[0] > 34 + 1024 + 200 && kept.bytes[0] < 34 + 1024 + 300, "{kept:?}");
        assert_eq!(kept.bytes[0], kept.bytes[1].min(kept.bytes[2]));
    }
    client.send("GET /f.txt HT");
    if asynchronous {
        shows(target, 'R', 1, "");
    }
    client.send("TP/1.1\r\nHost: test\r\n\r\n");
    client.answer().unwrap();
    client.send("POST /f.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab");
    shows(target, 'W', if asynchronous { 3 } else { 2 }, "POST /f.txt HTTP/1.1");
    client.send("cd");
    client.answer().unwrap();
    client.send("GET /f.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    client.answer().unwrap();
    if !asynchronous {
        shows(target, 'C', 4, request);
    }
    drop(client);
    // An answer to a head that is refused is logged late: L while the connection lingers.
    let mut refused = Client::connect(target.addr());
    refused.send("GET / HTTP/1.1\r\n\r\n");
    refused.answer().unwrap();
    if !asynchronous {
        shows(target, 'L', 1, "GET / HTTP/1.1");
    }
    drop(refused);
    let total = || workers(target.pid()).iter().map(|worker| worker.requests[2]).sum::<u64>();
    until("everything is counted", || (total() == 5).then_some(()));
    let resting = until("everybody is idle", || {
        let all = workers(target.pid());
        all.iter().all(|worker| "._".contains(worker.letter)).then_some(all)
    });
    assert!(resting.iter().all(|worker| worker.requests[0] == 0 && worker.bytes[0] == 0), "{resting:?}");
}

#[test]
fn a_connection_shows_in_shared_memory_what_it_shows_under_apache() {
    let compare = has_apache();
    let site = Site::new();
    for mpm in APACHES {
        a_connections_life(&site.mpmlab(mpm, &[]), mpm);
        if compare {
            a_connections_life(&site.apache(mpm, &[]), mpm);
        }
    }
}

#[test]
fn without_extended_status_only_letters_are_written() {
    let site = Site::new();
    for mpm in APACHES {
        let target = site.mpmlab(mpm, &["ExtendedStatus Off"]);
        let mut client = Client::connect(target.addr());
        client.send("GET /f.txt HT");
        let reading = shows(&target, 'R', 0, "");
        assert_eq!((reading.client.as_str(), reading.protocol.as_str()), ("", ""));
        client.send("TP/1.1\r\nHost: test\r\n\r\n");
        client.answer().unwrap();
        assert!(
            workers(target.pid()).iter().all(|worker| worker.requests == [0; 3] && worker.bytes == [0; 3])
        );
    }
}

fn value(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number {key} in\n{text}"))
}

/// Statistics outlive a graceful restart, not the other one; both generations are counted (mpm-semantics 9.4).
fn restarts(target: &Target) {
    for _ in 0..20 {
        target.get("/f.txt").unwrap();
    }
    let of_generation = |number: u64| {
        until(&format!("generation {number}"), || {
            target.status("?auto").filter(|text| value(text, "ParentServerMPMGeneration") == number)
        })
    };
    let first = of_generation(0);
    assert!(value(&first, "Total Accesses") >= 20, "{first}");
    assert_eq!(value(&first, "ParentServerConfigGeneration"), 1);
    kill(Pid::from_raw(target.pid()), Signal::SIGUSR1).unwrap();
    let graceful = of_generation(1);
    assert!(value(&graceful, "Total Accesses") > 20, "{graceful}");
    assert_eq!(value(&graceful, "ParentServerConfigGeneration"), 2);
    kill(Pid::from_raw(target.pid()), Signal::SIGHUP).unwrap();
    let fresh = of_generation(2);
    assert!(value(&fresh, "Total Accesses") < 20, "{fresh}");
    assert_eq!(value(&fresh, "ParentServerConfigGeneration"), 3);
}

#[test]
fn a_graceful_restart_keeps_the_statistics_and_a_hard_one_resets_them() {
    let compare = has_apache();
    let site = Site::new();
    for mpm in APACHES {
        restarts(&site.mpmlab(mpm, &[]));
        if compare {
            restarts(&site.apache(mpm, &[]));
        }
    }
}

#[test]
fn named_memory_is_removed_with_the_server() {
    let site = Site::new();
    for mpm in APACHES {
        let target = site.mpmlab(mpm, &[]);
        let place = memory::place(target.pid());
        assert!(place.exists());
        drop(target);
        assert!(!place.exists(), "{} outlived the server", place.display());
    }
}

#[test]
fn rows_on_cache_lines_of_their_own_serve_as_well() {
    let site = Site::new();
    let target = site.mpmlab("event", &["LabScoreboardLayout padded"]);
    let text = auto_after_one_request(&target, true);
    assert_eq!(keys(&text), expected_keys(true, true));
    let size = std::fs::read(memory::place(target.pid())).unwrap().len();
    assert_eq!(size, 64 + 4 * 64 + 4 * 8 * 384);
}

#[test]
fn location_require_and_methods_do_as_in_apache() {
    let more = [
        "<Location /server-status/denied>",
        "Require all denied",
        "</Location>",
        "<Location /server-status/denied/open>",
        "Require ip 10.0.0.0/8 127",
        "</Location>",
        "<Location /server-status/denied/open/plain>",
        "SetHandler none",
        "</Location>",
    ];
    let ask = |target: &Target, request: &str| {
        let text = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (answer, _) = talk(target.addr(), text.as_bytes(), usize::MAX, false);
        let answer = String::from_utf8(answer).unwrap();
        let (header, body) = answer.split_once("\r\n\r\n").unwrap();
        // Names and order of the fields; the methods stand in an order of their own.
        let fields = header.lines().map(|line| match line.split_once(": ") {
            Some((name @ ("Date" | "Server" | "Content-Length" | "Allow"), _)) => name.to_owned(),
            _ => line.to_owned(),
        });
        (fields.collect::<Vec<_>>(), body.is_empty(), body.starts_with("<!DOCTYPE"))
    };
    let requests = [
        ("GET /server-status", 200),
        ("GET /server-status/", 200),
        ("GET /server-status/anything?auto", 200),
        ("GET //server-status?auto&refresh=7", 200),
        ("GET /server-status?refresh", 200),
        ("GET /server-statusx", 404),
        ("GET /server-status/denied", 403),
        ("GET /server-status/denied/open?auto", 200),
        ("GET /server-status/denied/open/plain", 404),
        ("GET /server-status/denied/../x?notable", 200),
        ("HEAD /server-status?auto", 200),
        ("POST /server-status", 404),
        ("OPTIONS /server-status", 200),
    ];
    let compare = has_apache();
    let site = Site::new();
    let ours = site.mpmlab("worker", &more);
    let theirs = compare.then(|| site.apache("worker", &more));
    for (request, status) in requests {
        let answer = ask(&ours, request);
        assert!(answer.0[0].starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer:?}");
        if let Some(theirs) = &theirs {
            assert_eq!(answer, ask(theirs, request), "{request}");
        }
    }
}

/// A page that does not fit Apache's buffer has no length.
#[test]
fn a_long_page_is_sent_in_chunks() {
    let site = tempfile::tempdir().unwrap();
    let mut lines: Vec<&str> = site::STATUS.to_vec();
    lines.extend([
        "User root",
        "ServerLimit 120",
        "MaxRequestWorkers 9000",
        "ThreadsPerChild 64",
        "ExtendedStatus Off",
    ]);
    let server = Server::start("worker", site.path(), &lines);
    let (status, header, body) = get(server.addr, "/server-status");
    assert_eq!(status, 200);
    assert!(header.contains("Transfer-Encoding: chunked") && !header.contains("Content-Length"), "{header}");
    assert!(body.ends_with(b"</body></html>\n\r\n0\r\n\r\n"));
    let (_, header, body) = get(server.addr, "/server-status?auto&x");
    assert_eq!(header.contains("Content-Length"), body.len() <= 8000, "{header}");
}

/// Debian's own file, unchanged, where there is one.
#[test]
fn debians_status_conf_works_as_it_is() {
    let path = "/etc/apache2/mods-available/status.conf";
    if !std::path::Path::new(path).exists() {
        eprintln!("skipped: {path} is not there");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "-c", "User root", "-f", path, "--root"])
        .arg(root.path());
    let server = Server::spawn(command);
    let (status, _, body) = get(server.addr, "/server-status?auto");
    let names: BTreeSet<String> = keys(&String::from_utf8(body).unwrap()).into_iter().collect();
    assert_eq!(status, 200);
    assert!(names.contains("Total Accesses") && names.contains("ConnsAsyncWaitIO"), "{names:?}");
}
