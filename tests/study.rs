//! A study from the command line: interrupted, it keeps its rounds and says how to go on; resumed, it finishes; and no
//! server is left behind either way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use harness::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

/// A folder for everything that a study writes, temporary files too; servers that changed their user can read it.
struct Place {
    folder: tempfile::TempDir,
    file: PathBuf,
    out: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let (file, out) = (folder.path().join("small.toml"), folder.path().join("out"));
        std::fs::write(&file, STUDY).unwrap();
        Place { folder, file, out }
    }

    fn study(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
        command.args(["study", "run"]).arg(&self.file).arg("--out").arg(&self.out).args(more);
        command.env("TMPDIR", self.folder.path().join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the study and waits until some rounds are written.
    fn begun(&self) -> Child {
        let child = self.study(&[]).spawn().unwrap();
        until("some rounds", || (rounds(&self.out) >= 3).then_some(()));
        child
    }

    /// Nothing is left. What cleans up behind a study may outlive it by a moment.
    fn is_left_clean(&self) {
        until("everything to go", || (self.left_behind() == 0).then_some(()));
    }

    /// Processes that have this folder in their command line, and what lies in its folder for temporary files.
    fn left_behind(&self) -> usize {
        let name = self.folder.path().to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
            .filter(|line| String::from_utf8_lossy(line).contains(&name));
        processes.count() + std::fs::read_dir(self.folder.path().join("tmp")).unwrap().count()
    }
}

fn rounds(out: &Path) -> usize {
    std::fs::read_to_string(out.join("results.jsonl")).map_or(0, |text| text.lines().count())
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

#[test]
fn an_interrupted_study_keeps_its_rounds_and_can_be_resumed() {
    let place = Place::new();
    let out = &place.out;
    let child = place.begun();
    assert!(place.left_behind() > 0, "the count sees what runs");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let kept = rounds(out);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!((3..RUNS).contains(&kept), "{kept} rounds");
    let advice = format!("--out {} --resume", out.display());
    assert!(said(&output).contains(&advice), "{}", said(&output));
    assert!(out.join("report.html").exists() && out.join("tidy.csv").exists());
    place.is_left_clean();

    let output = place.study(&["--resume"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(rounds(out), RUNS);
    place.is_left_clean();

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
        Command::new(env!("CARGO_BIN_EXE_mpmlab")).args(["study", "report"]).arg(out).output().unwrap();
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(std::fs::read(out.join("report.html")).unwrap(), report);
}

#[test]
fn a_study_that_is_terminated_or_killed_leaves_only_its_rounds() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL] {
        let place = Place::new();
        let child = place.begun();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        if signal != Signal::SIGKILL {
            assert_eq!(output.status.code(), Some(1), "{signal}: {}", said(&output));
            assert!(said(&output).contains("--resume") && place.out.join("report.html").exists(), "{signal}");
        }
        place.is_left_clean();
        assert!(rounds(&place.out) >= 3);
    }
}
