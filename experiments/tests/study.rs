//! The study engine by its promises: order, resume, refusals, probes, and a whole small study on installed servers.
#![allow(clippy::unwrap_used, reason = "test helpers may fail loudly like tests")]

use mpmlab_experiments::probe::{cpu, memory, tree};
use mpmlab_experiments::study::factor::{self, Cell, Level};
use mpmlab_experiments::study::order::schedule;
use mpmlab_experiments::study::results::{Record, Results};
use mpmlab_experiments::study::{RunOptions, file, run};
use mpmlab_experiments::target;
use mpmlab_experiments::target::mpmlab::Model;
use mpmlab_experiments::target::process::{Announces, Launch, Server};
use mpmlab_experiments::target::treatment::Pool;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn factors() -> Vec<(String, Vec<Level>)> {
    let text = |names: &[&str]| names.iter().map(|name| Level::Text((*name).to_owned())).collect();
    let numbers = |numbers: &[u64]| numbers.iter().map(|number| Level::Number(*number)).collect();
    vec![
        ("target".to_owned(), text(&["prefork", "worker", "event"])),
        ("connections".to_owned(), numbers(&[1, 64, 256])),
        ("keepalive".to_owned(), vec![Level::Flag(true), Level::Flag(false)]),
        ("size".to_owned(), numbers(&[1024, 10_240])),
    ]
}

/// The settings of a cell without its target.
fn settings(cell: &Cell) -> Cell {
    cell.iter()
        .filter(|(name, _)| *name != factor::TARGET)
        .map(|(name, level)| (name.clone(), level.clone()))
        .collect()
}

// ---- order ----

#[test]
fn every_cell_is_measured_once_in_every_round() {
    let runs = schedule(&factors(), 4, 7);
    assert_eq!(runs.len(), 36 * 4);
    assert!(runs.iter().zip(1..).all(|(run, order)| run.order == order));
    for round in 1..=4 {
        let cells: Vec<&Cell> = runs.iter().filter(|run| run.round == round).map(|run| &run.cell).collect();
        assert_eq!((cells.len(), cells.iter().collect::<BTreeSet<_>>().len()), (36, 36));
    }
}

#[test]
fn within_a_block_all_targets_run_back_to_back() {
    for block in schedule(&factors(), 3, 11).chunk_by(|a, b| (a.round, a.block) == (b.round, b.block)) {
        let targets: BTreeSet<&str> = block.iter().map(|run| factor::target(&run.cell)).collect();
        assert_eq!((block.len(), targets.len()), (3, 3));
        assert!(block.iter().all(|run| settings(&run.cell) == settings(&block[0].cell)));
    }
}

#[test]
fn the_seed_decides_the_order() {
    assert_eq!(schedule(&factors(), 3, 5), schedule(&factors(), 3, 5));
    assert_ne!(schedule(&factors(), 3, 5), schedule(&factors(), 3, 6));
}

#[test]
fn no_target_is_favoured_with_a_place_in_the_block() {
    // 400 rounds of 12 blocks: each target comes first in a third of 4800 blocks. Five standard deviations are 163.
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    for block in schedule(&factors(), 400, 3).chunk_by(|a, b| (a.round, a.block) == (b.round, b.block)) {
        *first.entry(factor::target(&block[0].cell).to_owned()).or_default() += 1;
    }
    assert!(first.values().all(|count| (count - 1600).abs() < 163), "{first:?}");
}

// ---- study files ----

const GOOD: &str = "name = \"mine\"\ntitle = \"T\"\nquestion = \"Q?\"\nrounds = 3\nbudget = \"1m\"\n[factors]\ntarget = [\"event\", \"nginx\"]\nconnections = 8\n";

#[test]
fn what_a_study_file_leaves_out_has_a_default() {
    let study = file::parse("mine.toml", GOOD, None).unwrap();
    assert_eq!((study.rounds, study.budget), (3, Duration::from_secs(60)));
    let names: Vec<&str> = study.factors.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["target", "connections", "keepalive", "size"]);
    assert_eq!(study.factors[1].1, [Level::Number(8)]);
    assert_eq!(study.factors[3].1, [Level::Number(1024)]);
}

#[test]
fn bad_study_files_are_refused_with_line_key_and_advice() {
    for (from, to, expected) in [
        ("rounds = 3", "round = 3", "s.toml:4: unknown key `round`; did you mean `rounds`?"),
        ("rounds = 3", "rounds = 0", "s.toml:4: rounds: write a whole number"),
        ("rounds = 3", "rounds = \"3\"", "s.toml:4: rounds: write a whole number"),
        ("rounds = 3\n", "", "s.toml: `rounds` is missing; write rounds = 3"),
        ("\"1m\"", "\"soon\"", "s.toml:5: budget: "),
        ("\"1m\"", "\"0s\"", "s.toml:5: budget: must be longer than 0"),
        ("\"1m\"", "60", "s.toml:5: budget: write a time in quotes"),
        ("\"event\"", "\"evnt\"", "s.toml:7: target: unknown target `evnt`; did you mean `event`?"),
        ("\"event\"", "7", "s.toml:7: target: `7` is not a name"),
        ("\"event\"", "\"event shed\"", "s.toml:7: target: `shed` in target `event shed` is not NAME=VALUE"),
        ("\"event\"", "\"evnt shed=off\"", "s.toml:7: target: unknown target `evnt`; did you mean `event`?"),
        ("rounds = 3", "rounds = 3\npool = \"big\"", "s.toml:5: pool: "),
        ("\"event\"", "\"nginx\"", "s.toml:7: target: `nginx` is there twice"),
        ("target = [\"event\", \"nginx\"]\n", "", "`target` is missing"),
        ("[\"event\", \"nginx\"]", "[]", "s.toml:7: target: has no levels"),
        ("connections", "conections", "s.toml:8: unknown factor `conections`; did you mean `connections`?"),
        ("connections = 8", "connections = 0", "s.toml:8: connections: `0` is not a whole number from 1"),
        ("connections = 8", "connections = [1, 2.5]", "s.toml:8: connections: float cannot be a level"),
        ("connections = 8", "keepalive = \"on\"", "s.toml:8: keepalive: `on` is neither true nor false"),
        ("connections = 8", "connections = 8\nx = ", "s.toml:9: "),
        ("name = \"mine\"", "name = \"My study\"", "s.toml:1: name `My study`: use lower-case"),
        ("question = \"Q?\"", "question = 5", "s.toml:3: question: write text in quotes"),
    ] {
        assert!(GOOD.contains(from), "the case changes nothing: {from}");
        let error =
            file::parse("s.toml", &GOOD.replacen(from, to, 1), Some(&["event", "nginx"])).expect_err(to);
        let message = error.to_string();
        assert!(message.contains(expected), "{to}: {message}");
        assert_eq!((error.exit_status(), message.contains('\n')), (2, false), "{message}");
    }
}

#[test]
fn a_target_with_knobs_is_a_model_of_mpmlab() {
    use mpmlab_experiments::target::{add_variants, known, mpmlab::Model, treatment::Pool};
    let models = [Model { name: "event".into(), sentence: "it".into(), pool: Pool::Threads }];
    let program = std::path::Path::new("mpmlab");
    let mut targets = known(program, &models);
    let before = targets.len();
    add_variants(
        &mut targets,
        program,
        &models,
        &["event".into(), "event shed=off linger=read-first".into()],
    )
    .unwrap();
    assert_eq!(targets.len(), before + 1);
    let added = targets.last().unwrap();
    assert_eq!(added.name(), "event shed=off linger=read-first");
    assert_eq!(added.sentence(), "mpmlab, it, with shed=off, with linger=read-first");
    let refused = add_variants(&mut targets, program, &models, &["apache2 shed=off".into()]).unwrap_err();
    assert!(refused.contains("only mpmlab's own models have knobs, apache2 has none"), "{refused}");
}

// ---- results ----

fn record(order: u32) -> Record {
    Record {
        study: "mine".into(),
        cell: Cell::from([
            ("target".to_owned(), Level::Text("event".into())),
            ("size".to_owned(), Level::Number(7)),
        ]),
        round: 1,
        order,
        started: "2026-01-01T00:00:00.000Z".into(),
        metrics: serde_json::Map::from_iter([("rps".to_owned(), 5.5.into())]),
        valid: true,
        invalid_because: vec![],
    }
}

#[test]
fn a_torn_last_line_is_forgotten_and_the_next_round_has_a_line_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.jsonl");
    let mut results = Results::open(directory.path()).unwrap();
    results.append(&record(1)).unwrap();
    results.append(&record(2)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    let mut results = Results::open(directory.path()).unwrap();
    assert_eq!(results.earlier, [record(1)]);
    results.append(&record(3)).unwrap();
    assert_eq!(Results::open(directory.path()).unwrap().earlier, [record(1), record(3)]);
}

#[test]
fn results_that_are_none_are_refused_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.jsonl");
    std::fs::write(&path, "something else\n").unwrap();
    let error = Results::open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("line 1 is not a round"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
}

// ---- probes ----

/// A child that is killed and waited for when the test ends.
struct Shell(Child);

impl Shell {
    fn run(script: &str) -> Shell {
        Shell(
            Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Waits for the script to say something.
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for process in tree::descendants(self.pid()).unwrap_or_default().iter().rev() {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(process.pid),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        let _ = self.0.wait();
    }
}

/// Looks until `found` gives something; a deadline only so that a failure ends.
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_tree_holds_grandchildren_and_no_strangers() {
    let mut shell = Shell::run("sh -c 'sleep 60 & sleep 60 & echo up; wait' & wait");
    assert_eq!(shell.line(), "up\n");
    // A child is called sh until it has become sleep.
    let tree = until("exec", || {
        let tree = tree::descendants(shell.pid()).unwrap();
        (tree.iter().filter(|process| process.name == "sleep").count() == 2).then_some(tree)
    });
    assert_eq!(tree[0].pid, shell.pid());
    let names: Vec<&str> = tree.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["sh", "sh", "sleep", "sleep"]);
    assert!(tree::descendants(i32::MAX).unwrap().is_empty());
}

#[test]
fn proportional_memory_is_less_than_resident_when_processes_share() {
    let mut shell = Shell::run("sleep 60 & sleep 60 & sleep 60 & echo up; wait");
    assert_eq!(shell.line(), "up\n");
    // exec has happened once all carry the new name.
    let tree = until("exec", || {
        let tree = tree::descendants(shell.pid()).unwrap();
        (tree.iter().filter(|process| process.name == "sleep").count() == 3).then_some(tree)
    });
    let sum = memory::sum(&tree);
    assert_eq!((sum.processes, sum.unreadable), (4, 0));
    assert!(sum.pss_bytes > 0 && sum.pss_bytes < sum.rss_bytes, "{sum:?}");
    let one = memory::sum(&tree[1..2]);
    assert!(one.pss_bytes < sum.pss_bytes && one.rss_bytes < sum.rss_bytes, "{one:?} of {sum:?}");
}

#[test]
fn cpu_time_counts_the_living_the_newborn_and_the_reaped_and_not_the_time_before() {
    let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    // Each step waits for a line: one child that lives and dies within the watch, then one that is born in it and stays.
    let script = format!(
        "{busy}; echo ready; read x; sh -c '{busy}'; echo reaped; read x; sh -c '{busy}; echo born; exec sleep 60'"
    );
    let mut shell = Shell::run(&script);
    assert_eq!(shell.line(), "ready\n");
    let pid = shell.pid();
    let before = cpu::of_process(pid).unwrap();
    assert!(before > Duration::from_millis(1), "the script burns time before it is watched: {before:?}");
    let list = || tree::descendants(pid).unwrap();
    let idle = cpu::Watch::start(&list());
    let nothing = idle.stop(list);
    assert!(nothing < before / 2, "{nothing:?} while waiting, {before:?} before");

    let watch = cpu::Watch::start(&list());
    shell.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(shell.line(), "reaped\n");
    let reaped = watch.stop(list);
    // A tick is the finest there is for the dead.
    assert!(reaped + cpu::clock_tick() * 2 > before / 2, "{reaped:?} for the work of {before:?}");

    let watch = cpu::Watch::start(&list());
    shell.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(shell.line(), "born\n");
    let born = watch.stop(list);
    assert!(born > before / 4, "{born:?} for the work of {before:?}");
}

// ---- processes ----

/// Answers every request with 200 until dropped, so that any process can play a server that is ready.
fn answering() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

fn launch(directory: &Path, script: &str, announces: Announces, processes: usize) -> Launch {
    Launch {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        announces,
        processes,
        log: directory.join("stderr.log"),
        more_logs: vec![],
        probe_path: "/".into(),
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

fn alive(processes: &[tree::Process]) -> usize {
    let now = tree::all().unwrap();
    processes.iter().filter(|p| now.iter().any(|n| n.pid == p.pid && n.state != 'Z')).count()
}

#[test]
fn a_server_is_ready_when_its_line_is_there_and_stops_on_term() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("echo 'listening on http://{} (mpm test, pid 1)' >&2; sleep 60 & wait", answering());
    // The shell alone would leave its child behind: like a real server, it takes it along.
    let script = format!("trap 'kill $!; wait $!; exit 0' TERM; {script}");
    let server =
        Server::start(&launch(directory.path(), &script, Announces::OnStderr, 2), None, &NEVER).unwrap();
    let processes = server.processes();
    assert_eq!(processes.len(), 2);
    assert_eq!(server.stop(), Ok(()));
    assert_eq!(alive(&processes), 0);
}

#[test]
fn what_a_server_leaves_behind_is_killed_and_said() {
    let directory = tempfile::tempdir().unwrap();
    let script = "sh -c 'trap \"\" TERM; sleep 60 & wait' & trap 'exit 0' TERM; wait";
    let launch = launch(directory.path(), script, Announces::Knows(answering()), 3);
    let server = Server::start(&launch, None, &NEVER).unwrap();
    let processes = server.processes();
    assert!(server.stop().unwrap_err().contains("left processes behind"));
    assert_eq!(alive(&processes), 0);
}

#[test]
fn a_dropped_server_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; sleep 60 & sleep 60 & wait";
    let launch = launch(directory.path(), script, Announces::Knows(answering()), 3);
    let server = Server::start(&launch, None, &NEVER).unwrap();
    let processes = server.processes();
    assert_eq!(processes.len(), 3);
    drop(server);
    assert_eq!(alive(&processes), 0);
}

/// Not a test of its own: the part that is killed in the next one, which runs this binary again with the variable set.
#[test]
fn helper_that_starts_a_server_and_waits_to_be_killed() {
    let Some(directory) = std::env::var_os("MPMLAB_TEST_KILLED_STUDY") else { return };
    let script = "trap '' TERM INT HUP; sleep 60 & sleep 60 & wait";
    let launch = launch(Path::new(&directory), script, Announces::Knows(answering()), 3);
    let server = Server::start(&launch, None, &NEVER).unwrap();
    let pids: Vec<String> = server.processes().iter().map(|process| process.pid.to_string()).collect();
    std::fs::write(Path::new(&directory).join("new"), pids.join(" ")).unwrap();
    std::fs::rename(Path::new(&directory).join("new"), Path::new(&directory).join("pids")).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_study_that_is_killed_takes_its_server_along() {
    let directory = tempfile::tempdir().unwrap();
    let mut study = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_starts_a_server_and_waits_to_be_killed"])
        .env("MPMLAB_TEST_KILLED_STUDY", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = until("the server's start", || std::fs::read_to_string(directory.path().join("pids")).ok());
    let server: Vec<tree::Process> = tree::all()
        .unwrap()
        .into_iter()
        .filter(|p| pids.split(' ').any(|pid| pid == p.pid.to_string()))
        .collect();
    assert_eq!(alive(&server), 3);
    study.kill().unwrap();
    study.wait().unwrap();
    until("the end of the server", || (alive(&server) == 0).then_some(()));
}

#[test]
fn a_server_that_does_not_start_is_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let script = "echo first >&2; echo 'no such directive' >&2; exit 3";
    let launch = launch(directory.path(), script, Announces::OnStderr, 1);
    let error = Server::start(&launch, None, &NEVER).unwrap_err();
    assert!(error.contains("exit status: 3") && error.ends_with("no such directive"), "{error}");
}

// ---- a whole study ----

/// The optional targets that are installed here, or a message and nothing.
fn installed(names: &[&str]) -> Vec<String> {
    let known = target::known(Path::new(""), &[]);
    let installed: Vec<String> = known
        .iter()
        .filter(|target| names.contains(&target.name()) && target.installed().is_ok())
        .map(|target| target.name().to_owned())
        .collect();
    if installed.len() < names.len() {
        eprintln!("skipped: of {names:?} only {installed:?} are installed");
        return Vec::new();
    }
    installed
}

/// Two sizes, kept and new connections, one round or more. The first round is always completed, so tests that want all
/// of them ask for one, and no budget has to be guessed for a busy machine.
fn small_study(directory: &Path, targets: &[String], rounds: u32) -> RunOptions {
    let study = directory.join("small.toml");
    let text = format!(
        "name = \"small\"\ntitle = \"T\"\nquestion = \"Q?\"\nrounds = {rounds}\nbudget = \"4s\"\n[factors]\ntarget = {targets:?}\n\
         connections = [4]\nkeepalive = [true, false]\nsize = [1024, 10240]\n"
    );
    std::fs::write(&study, text).unwrap();
    RunOptions {
        out: Some(directory.join("out")),
        quiet: true,
        seed: Some(1),
        ..RunOptions::new(study.to_str().unwrap(), PathBuf::from("mpmlab"), Vec::new())
    }
}

#[test]
fn a_study_on_installed_servers_measures_every_cell_and_goes_on_where_it_was_cut() {
    let targets = installed(&["apache2", "nginx"]);
    if targets.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = small_study(directory.path(), &targets, 1);
    let summary = run(&options, &NEVER).unwrap();
    assert_eq!((summary.done, summary.planned), (8, 8), "{summary:?}");
    let out = directory.path().join("out");
    for name in ["plan.json", "environment.json", "results.jsonl", "tidy.csv", "report.html"] {
        assert!(out.join(name).is_file(), "{name} is missing");
    }
    let path = out.join("results.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let plan: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("plan.json")).unwrap()).unwrap();
    for (line, planned) in text.lines().zip(plan["order"].as_array().unwrap()) {
        let round: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&round["order"], &round["cell"]), (&planned["order"], &planned["cell"]));
        let metrics = &round["metrics"];
        assert!(metrics["requests"].as_u64().unwrap() > 0, "{line}");
        let bytes = metrics["requests"].as_u64().unwrap() * round["cell"]["size"].as_u64().unwrap();
        assert_eq!(metrics["bytes_body"].as_u64(), Some(bytes), "{line}");
        assert_eq!((&metrics["errors"], &metrics["non_2xx"]), (&0.into(), &0.into()), "{line}");
        let processes = if round["cell"]["target"] == "nginx" { 2 } else { 7 };
        assert!(metrics["processes"].as_u64().unwrap() >= processes, "{line}");
        assert!(metrics["pss_bytes"].as_u64() < metrics["rss_bytes"].as_u64(), "{line}");
        assert!(metrics["server_cpu_us_per_request"].as_f64().unwrap() > 0.0, "{line}");
    }

    // As after a kill: three rounds, and half a line.
    let kept: String = text.split_inclusive('\n').take(3).collect();
    std::fs::write(&path, format!("{kept}{}", &text[kept.len()..kept.len() + 40])).unwrap();
    assert_eq!(run(&options, &NEVER).unwrap_err().exit_status(), 2, "a run is not overwritten");
    let resumed = run(&RunOptions { resume: true, seed: None, ..options.clone() }, &NEVER).unwrap();
    assert_eq!((resumed.done, resumed.planned), (8, 8));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&kept), "earlier rounds changed");
    let orders: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["order"].as_u64().unwrap())
        .collect();
    assert_eq!(orders, (1..=8).collect::<Vec<u64>>());
}

#[test]
fn a_study_that_is_stopped_keeps_its_rounds_and_says_how_to_go_on() {
    let targets = installed(&["nginx"]);
    if targets.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = small_study(directory.path(), &targets, 1);
    let results = directory.path().join("out/results.jsonl");
    let stop = AtomicBool::new(false);
    let lines = || std::fs::read_to_string(&results).unwrap_or_default().lines().count();
    let summary = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&options, &stop).unwrap());
        until("the first round", || (lines() >= 1).then_some(()));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(summary.interrupted && (1..4).contains(&summary.done), "{summary:?}");
    assert_eq!(lines(), summary.done);
    assert!(summary.report.is_some_and(|report| report.is_file()));
    let last = summary.remarks.last().unwrap();
    assert!(last.starts_with(&format!("stopped after {} of 4 runs; resume with: ", summary.done)), "{last}");
    let resumed = run(&RunOptions { resume: true, seed: None, ..options.clone() }, &NEVER).unwrap();
    assert_eq!((resumed.done, resumed.interrupted), (4, false));
}

/// Not a test of its own: a study that the next ones signal, which run this binary again with the variables set.
#[test]
fn helper_that_runs_a_study_until_it_is_signalled() {
    let Some(directory) = std::env::var_os("MPMLAB_TEST_SIGNALLED_STUDY") else { return };
    let target = std::env::var("MPMLAB_TEST_TARGET").unwrap();
    let mut options = small_study(Path::new(&directory), &[target], 50);
    options.budget = Some(Duration::from_secs(120));
    let summary = run(&options, mpmlab_experiments::interrupt::on_interrupt()).unwrap();
    assert!(summary.interrupted && summary.report.is_some(), "{summary:?}");
    assert!(summary.remarks.last().unwrap().contains("resume with: "), "{summary:?}");
}

/// A study of one target in a process of its own, with a round written, and its directory of temporary files.
fn study_to_signal(directory: &Path, target: &str) -> (Child, PathBuf) {
    let temporary = directory.join("tmp with blanks");
    std::fs::create_dir(&temporary).unwrap();
    let study = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_runs_a_study_until_it_is_signalled"])
        .env("MPMLAB_TEST_SIGNALLED_STUDY", directory)
        .env("MPMLAB_TEST_TARGET", target)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the first round", || (rounds_written(directory) >= 1).then_some(()));
    (study, temporary)
}

fn rounds_written(directory: &Path) -> usize {
    std::fs::read_to_string(directory.join("out/results.jsonl")).unwrap_or_default().lines().count()
}

fn signal(study: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(study.id() as i32), signal).unwrap();
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_study_that_is_killed_leaves_neither_servers_nor_temporary_files() {
    use nix::sys::signal::Signal::{SIGCONT, SIGKILL, SIGSTOP};
    for (target, program) in [("nginx", "nginx"), ("apache2", "apache2"), ("apache2-prefork", "apache2")] {
        if installed(&[target]).is_empty() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        // What a link in there leads to is not ours.
        let other = directory.path().join("other");
        std::fs::write(&other, "x").unwrap();
        let (mut study, temporary) = study_to_signal(directory.path(), target);
        // Held still in the middle of a round, so that what is seen running is what is running when it is killed.
        let running = until("a running server", || {
            signal(&study, SIGSTOP);
            let all = tree::descendants(study.id() as i32).unwrap();
            let is_up = all.iter().filter(|process| process.name == program).count() >= 2;
            if !is_up {
                signal(&study, SIGCONT);
            }
            is_up.then_some(all)
        });
        let scratch = std::fs::read_dir(&temporary).unwrap().next().unwrap().unwrap().path();
        std::os::unix::fs::symlink(directory.path(), scratch.join("link")).unwrap();
        signal(&study, SIGKILL);
        study.wait().unwrap();
        until("the end of server and watchdog", || (alive(&running) == 0).then_some(()));
        assert!(is_empty(&temporary) && other.exists(), "{target}: {}", scratch.display());
    }
}

#[test]
fn a_study_that_is_terminated_ends_like_an_interrupted_one() {
    use nix::sys::signal::Signal::{SIGHUP, SIGTERM};
    if installed(&["nginx"]).is_empty() {
        return;
    }
    for by in [SIGTERM, SIGHUP] {
        let directory = tempfile::tempdir().unwrap();
        let (mut study, temporary) = study_to_signal(directory.path(), "nginx");
        signal(&study, by);
        // The helper judges the summary.
        assert!(study.wait().unwrap().success(), "{by}");
        assert!(rounds_written(directory.path()) >= 1 && directory.path().join("out/report.html").is_file());
        assert!(is_empty(&temporary), "{by}");
    }
}

#[test]
fn the_first_round_is_whole_however_short_the_budget_and_the_cut_is_said() {
    let targets = installed(&["nginx"]);
    if targets.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut options = small_study(directory.path(), &targets, 2);
    options.budget = Some(Duration::from_millis(1));
    let summary = run(&options, &NEVER).unwrap();
    assert_eq!(summary.done, 4, "one round of four cells");
    assert!(
        summary.remarks.iter().any(|line| line.contains("4 of 8 runs were not made")),
        "{:?}",
        summary.remarks
    );
}

/// The models that the shipped studies name.
fn models() -> Vec<Model> {
    let model = |name: &str, pool| Model { name: name.into(), sentence: "A model.".into(), pool };
    vec![model("prefork", Pool::Processes), model("worker", Pool::Threads), model("event", Pool::Threads)]
}

#[test]
fn a_refused_study_leaves_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    // No mpmlab is there to serve with.
    let mut options = RunOptions::new("quick", directory.path().join("missing"), models());
    options.out = Some(out.clone());
    options.quiet = true;
    let error = run(&options, &NEVER).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(!out.exists());
    // A file stands where the directory should be made.
    std::fs::write(&out, "x").unwrap();
    options.out = Some(out.join("below"));
    options.program = "/bin/true".into();
    let error = run(&options, &NEVER).unwrap_err();
    assert_eq!(error.exit_status(), 2, "{error}");
    let expected = format!("{}: cannot be created: not a directory; choose", out.join("below").display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}
