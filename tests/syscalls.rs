//! System calls per request: each model makes those that Apache's model of the same name makes, in number and kind.
//!
//! Twelve cells, model by kind of request. `tests/golden/syscalls-apache-2.4.71.txt` was recorded from Apache by the same
//! counting code. What is counted, and what "equal" means, stands in `syscalls/trace.rs` and `syscalls/profile.rs`.
//!
//! `MPMLAB_RECORD=1` writes the recording; `MPMLAB_TABLE=FILE` writes both sides, call by call, as Markdown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/apache.rs"]
mod apache;
mod harness;
#[path = "syscalls/profile.rs"]
mod profile;
#[path = "syscalls/table.rs"]
mod table;
#[path = "syscalls/trace.rs"]
mod trace;
#[path = "syscalls/traffic.rs"]
mod traffic;

use apache::Apache;
use harness::{Server, children_of, identity, until};
use profile::Profile;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use trace::Tracer;
use traffic::Kind;

const TEMPLATE: &str = include_str!("syscalls/apache.conf.in");
const RECORDED: &str = include_str!("golden/syscalls-apache-2.4.71.txt");
const RECORDED_FROM: &str = "2.4.71";

/// The models that Apache has.
const APACHES: [&str; 3] = ["prefork", "worker", "event"];

/// Requests that are made before it is counted: every thread has its memory and has read the time zone.
const WARM_UP: usize = 24;
/// Requests that are counted.
const COUNTED: usize = 40;

/// A cell is a model and a kind of request.
type Cells = BTreeMap<(&'static str, &'static str), Profile>;

/// A document root that a server without rights may read, with one file of 1 KiB for each kind.
struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        for kind in Kind::ALL {
            let file = folder.path().join(kind.file());
            fs::write(&file, [b'k'; 1024]).unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        Site(folder)
    }

    /// What both servers are told: one process with eight workers, everything else as mpm-semantics 8 has it. No time-out
    /// may pass while it is counted.
    fn directives(&self, mpm: &str) -> Vec<String> {
        let log = self.0.path().join("access.log");
        let workers = if mpm == "prefork" { 1 } else { 8 };
        let mut all = vec![
            "ServerName localhost".to_owned(),
            "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common".to_owned(),
            format!("CustomLog \"{}\" common", log.display()),
            "Timeout 300".to_owned(),
            "KeepAliveTimeout 300".to_owned(),
            "MaxKeepAliveRequests 0".to_owned(),
            "ServerLimit 1".to_owned(),
            "StartServers 1".to_owned(),
            format!("MaxRequestWorkers {workers}"),
        ];
        if mpm != "prefork" {
            all.push(format!("ThreadsPerChild {workers}"));
        }
        all
    }
}

/// A running server of either make.
enum Subject {
    Ours(Server),
    Apache(Apache),
}

impl Subject {
    fn ours(mpm: &str, site: &Site) -> Subject {
        Subject::ours_with(mpm, site, site.directives(mpm))
    }

    fn ours_with(mpm: &str, site: &Site, directives: Vec<String>) -> Subject {
        let directives = [directives, identity()].concat();
        let directives: Vec<&str> = directives.iter().map(String::as_str).collect();
        Subject::Ours(Server::start(mpm, site.0.path(), &directives))
    }

    fn apache(mpm: &str, site: &Site) -> Subject {
        let directives = site.directives(mpm);
        let directives: Vec<&str> = directives.iter().map(String::as_str).collect();
        let types = in_tree("core/data/mime.types");
        Subject::Apache(Apache::start(&TEMPLATE.replace("@MPM@", mpm), site.0.path(), &types, &directives))
    }

    fn addr(&self) -> SocketAddr {
        match self {
            Subject::Ours(server) => server.addr,
            Subject::Apache(apache) => apache.addr,
        }
    }

    /// Its children, as many as there must be.
    fn children(&self, count: usize) -> Vec<i32> {
        let parent = match self {
            Subject::Ours(server) => server.pid,
            Subject::Apache(apache) => apache.pid(),
        };
        until("the children", || {
            let children = children_of(parent);
            (children.len() == count).then(|| children.into_iter().collect())
        })
    }
}

/// The file in the working tree.
fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// One server is traced at a time: another one's strace would take the processors that this one's threads meet on.
static ALONE: Mutex<()> = Mutex::new(());

/// Counts until what is found equals what is expected, at most three times: what else goes on on the machine adds calls to
/// the waiting of threads, and takes none away. The error says why nothing can be counted here.
fn count_patiently(start: impl Fn(&str, &Site) -> Subject, expected: &Cells) -> Result<Cells, String> {
    let mut found = count(&start)?;
    for _ in 0..2 {
        if compare(&found, expected).0.is_empty() {
            break;
        }
        found = count(&start)?;
    }
    Ok(found)
}

/// Counts all kinds of request under all models.
fn count(start: &impl Fn(&str, &Site) -> Subject) -> Result<Cells, String> {
    if !trace::installed() {
        return Err("strace is not installed".to_owned());
    }
    let mut cells = Cells::new();
    for mpm in APACHES {
        let site = Site::new();
        let subject = start(mpm, &site);
        // Answered once, it has a child with a listener.
        Kind::Close.send(subject.addr(), 1);
        let tracer = Tracer::attach(&subject.children(1))?;
        for kind in Kind::ALL {
            kind.send(subject.addr(), WARM_UP + COUNTED + 1);
        }
        let text = tracer.finish();
        for kind in Kind::ALL {
            cells.insert((mpm, kind.name()), trace::profile(&text, &kind.file(), COUNTED));
        }
    }
    Ok(cells)
}

/// Voluntary context switches per request of all threads of the child, without strace: it would stop them at every call.
fn switches(start: impl Fn(&str, &Site) -> Subject) -> BTreeMap<(&'static str, &'static str), f64> {
    let mut all = BTreeMap::new();
    for mpm in APACHES {
        let site = Site::new();
        let subject = start(mpm, &site);
        for kind in Kind::ALL {
            kind.send(subject.addr(), WARM_UP);
            let child = subject.children(1)[0];
            let before = voluntary_switches(child);
            kind.send(subject.addr(), COUNTED);
            let made = voluntary_switches(child) - before;
            all.insert((mpm, kind.name()), made as f64 / COUNTED as f64);
        }
    }
    all
}

fn voluntary_switches(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    tasks.flatten().filter_map(of).sum()
}

fn recorded() -> Cells {
    let mut cells = Cells::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (cell, profile) = line.split_once(": ").expect("a cell");
        for mpm in APACHES {
            for kind in Kind::ALL {
                if cell == format!("{mpm} {}", kind.name()) {
                    cells.insert((mpm, kind.name()), Profile::parse(profile));
                }
            }
        }
    }
    assert_eq!(cells.len(), 12, "the recording has all cells");
    cells
}

/// One line per cell that is not equal, and the greatest difference between the totals of such cells.
fn compare(found: &Cells, expected: &Cells) -> (Vec<String>, f64) {
    let mut worst: f64 = 0.0;
    let mut lines = Vec::new();
    for (cell, profile) in expected {
        let differences = found[cell].differences(profile);
        if !differences.is_empty() {
            worst = worst.max((found[cell].total() - profile.total()).abs());
            lines.push(format!("{} {}: {}", cell.0, cell.1, differences.join(", ")));
        }
    }
    (lines, worst)
}

/// Apache's ExtendedStatus makes `times` once per request. A server that does not know the directive has nothing to make it for.
fn has_extended_status() -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command.args(["serve", "-t", "--root", "/", "-c", "ExtendedStatus On"]);
    command.output().unwrap().status.success()
}

#[test]
fn each_model_makes_the_system_calls_that_apaches_makes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut expected = recorded();
    if !has_extended_status() {
        eprintln!("not compared: times, which Apache makes for ExtendedStatus");
        expected.values_mut().for_each(|profile| *profile = profile.without("times"));
    }
    let found = match count_patiently(Subject::ours, &expected) {
        Ok(found) => found,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    if let Some(file) = std::env::var_os("MPMLAB_TABLE") {
        let apaches = apache::version().map(|_| switches(Subject::apache)).unwrap_or_default();
        fs::write(file, table::markdown(&found, &expected, &switches(Subject::ours), &apaches)).unwrap();
    }
    let (differences, worst) = compare(&found, &expected);
    let text = differences.join("\n");
    assert!(differences.len() <= 3 && worst <= 1.0, "{} of 12 cells differ:\n{text}", differences.len());
    if !differences.is_empty() {
        eprintln!("{} of 12 cells differ, by a call at most:\n{text}", differences.len());
    }
}

/// With `MPMLAB_RECORD=1` writes the recording; else checks that it still is what the installed Apache does.
#[test]
fn the_recording_is_what_apache_does() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let record = std::env::var_os("MPMLAB_RECORD").is_some();
    let Some(version) = apache::version() else {
        assert!(!record, "apache2 is not installed: nothing to record from");
        return eprintln!("skipped: apache2 is not installed");
    };
    if record {
        let found = count(&Subject::apache).unwrap();
        let mut text = format!(
            "# System calls per request of Apache/{version}, by model and kind of request: medians of {COUNTED} requests, \
             futex the mean (see tests/syscalls.rs).\n"
        );
        for ((mpm, kind), profile) in &found {
            text.push_str(&format!("{mpm} {kind}: {profile}\n"));
        }
        fs::write(in_tree(&format!("tests/golden/syscalls-apache-{version}.txt")), text).unwrap();
        return;
    }
    let expected = recorded();
    let found = match count_patiently(Subject::apache, &expected) {
        Ok(found) => found,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let (differences, _) = compare(&found, &expected);
    if version == RECORDED_FROM {
        assert!(differences.is_empty(), "the installed Apache differs:\n{}", differences.join("\n"));
    } else {
        eprintln!(
            "not compared: Apache {version} is installed, {RECORDED_FROM} was recorded\n{}",
            differences.join("\n")
        );
    }
}

/// Attempts to accept that came to nothing, per connection, of three idle event processes.
fn attempts_in_vain(exclusive: &str) -> Result<f64, String> {
    const PROCESSES: usize = 3;
    let site = Site::new();
    let mut directives = site.directives("event");
    let sizes = ["ServerLimit 3", "StartServers 3", "MaxRequestWorkers 24", "MaxSpareThreads 24"];
    directives.extend(sizes.map(str::to_owned));
    directives.push(format!("LabAcceptExclusive {exclusive}"));
    let subject = Subject::ours_with("event", &site, directives);
    let tracer = Tracer::attach(&subject.children(PROCESSES))?;
    Kind::Close.send(subject.addr(), COUNTED);
    Ok(trace::count(&tracer.finish(), "accept4=EAGAIN") as f64 / COUNTED as f64)
}

// mpm-semantics 7.6, V12: up to P - 1 in vain; an idle process that is slow to wake may find nothing to look at.
#[test]
fn event_wakes_all_its_processes_for_one_connection_unless_told_to_wake_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !trace::installed() {
        return eprintln!("skipped: strace is not installed");
    }
    match (attempts_in_vain("off"), attempts_in_vain("on")) {
        (Ok(off), Ok(on)) => assert!((0.5..=2.0).contains(&off) && on < off / 4.0, "off {off}, on {on}"),
        (off, on) => eprintln!("skipped: {off:?} {on:?}"),
    }
}
