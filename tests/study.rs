//! A study from the command line: interrupted, it keeps its rounds and says how to go on; resumed, it finishes; and no
//! server is left behind either way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use harness::PATIENCE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Three targets that need nothing installed, four cells each, two rounds: 24 runs.
const STUDY: &str = r#"
name = "small"
title = "A small study"
question = "Does it run?"
rounds = 2
budget = "16s"
[factors]
target = ["prefork", "worker", "event"]
connections = [1, 8]
keepalive = [true, false]
"#;
const RUNS: usize = 24;

fn study(arguments: &[&str], file: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command.args(["study", "run"]).arg(file).arg("--out").arg(out).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn rounds(out: &Path) -> usize {
    std::fs::read_to_string(out.join("results.jsonl")).map_or(0, |text| text.lines().count())
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Processes that serve below this folder: none may be left.
fn serving_from(out: &Path) -> usize {
    let name = out.to_string_lossy().into_owned();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(&name))
        .count()
}

#[test]
fn an_interrupted_study_keeps_its_rounds_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("small.toml"), folder.path().join("out"));
    std::fs::write(&file, STUDY).unwrap();

    let child = study(&[], &file, &out).spawn().unwrap();
    let started = Instant::now();
    while rounds(&out) < 3 {
        assert!(started.elapsed() < PATIENCE, "no rounds are written");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let kept = rounds(&out);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!((3..RUNS).contains(&kept), "{kept} rounds");
    let advice = format!("--out {} --resume", out.display());
    assert!(said(&output).contains(&advice), "{}", said(&output));
    assert!(out.join("report.html").exists() && out.join("tidy.csv").exists());
    assert_eq!(serving_from(folder.path()), 0);

    let output = study(&["--resume"], &file, &out).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(rounds(&out), RUNS);
    assert_eq!(serving_from(folder.path()), 0);

    // Every cell of every round once, each with the fields of the contract.
    let text = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        let round: serde_json::Value = serde_json::from_str(line).unwrap();
        for field in ["study", "cell", "round", "order", "started", "metrics", "valid", "invalid_because"] {
            assert!(round.get(field).is_some(), "{field} is missing: {line}");
        }
        let metrics = &round["metrics"];
        for metric in
            ["rps", "p50_us", "p99_us", "pss_bytes", "processes", "threads", "server_cpu_us_per_request"]
        {
            assert!(metrics[metric].as_f64().is_some_and(|value| value > 0.0), "{metric}: {line}");
        }
        assert!(
            seen.insert((round["cell"].to_string(), round["round"].to_string())),
            "measured twice: {line}"
        );
    }
    assert_eq!(seen.len(), RUNS);

    // A report can be made again from the rounds alone, and is the same.
    let report = std::fs::read(out.join("report.html")).unwrap();
    std::fs::remove_file(out.join("report.html")).unwrap();
    let again =
        Command::new(env!("CARGO_BIN_EXE_mpmlab")).args(["study", "report"]).arg(&out).output().unwrap();
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(std::fs::read(out.join("report.html")).unwrap(), report);
}
