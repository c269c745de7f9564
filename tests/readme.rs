//! Every command of the README is run, as it stands there.
//!
//! A command that is already the test suite itself is checked to be what CI calls. The long study is run word for word in
//! CI; elsewhere with a small budget, through the binary under test, so that `cargo test` does not take minutes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const BY_CARGO: &str = "cargo run --release -- ";

/// The command lines of the README's `sh` blocks, block by block.
fn blocks() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let blocks: Vec<Vec<String>> = text
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap_or_default())
        .map(|block| {
            let code = block.lines().map(|l| l.split(" # ").next().unwrap_or_default().trim());
            code.filter(|l| !l.is_empty()).map(str::to_owned).collect()
        })
        .collect();
    assert!(blocks.len() >= 3, "the README shows how to run, test and serve");
    blocks
}

fn mpmlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command.args(arguments).current_dir(ROOT).stdin(Stdio::null());
    command
}

/// May every account go down to this folder?
fn anyone_can_enter(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    folder.ancestors().all(|above| above.metadata().is_ok_and(|m| m.permissions().mode() & 0o001 != 0))
}

/// Runs to the end and asserts success.
fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {err}");
}

#[test]
fn every_command_works_as_written() {
    let ci = std::env::var_os("CI").is_some();
    let mut ran = 0;
    for block in blocks() {
        // A server of a block runs until the block ends, as it would in the reader's other terminal.
        let mut servers = Vec::new();
        for line in block {
            ran += 1;
            let Some(arguments) = line.strip_prefix(BY_CARGO) else {
                assert_eq!(line, "cargo test --workspace", "an unknown kind of command in the README");
                let script = std::fs::read_to_string(Path::new(ROOT).join(".ci/run")).unwrap();
                assert!(script.lines().any(|l| l == line), ".ci/run must call the README's test command");
                continue;
            };
            let arguments: Vec<&str> = arguments.split_whitespace().collect();
            match arguments[..] {
                ["serve", ..] => {
                    let mut command = mpmlab(&arguments);
                    if !anyone_can_enter(Path::new(ROOT)) {
                        // A clone in a private folder: as root, the server would rightly refuse to serve from it as www-data.
                        command.args(["-c", "User root"]);
                    }
                    servers.push(harness::Server::spawn(command));
                }
                ["study", "run", ..] if ci => {
                    let mut command = Command::new("sh");
                    command.args(["-c", &line]).current_dir(ROOT).stdin(Stdio::null());
                    succeeds(command);
                }
                ["study", "run", ..] => {
                    let out = tempfile::tempdir().unwrap();
                    let out = out.path().join("run");
                    let short = ["--budget", "20s", "--out", out.to_str().unwrap()];
                    succeeds(mpmlab(&[&arguments[..], &short].concat()));
                    assert!(out.join("report.html").exists());
                }
                _ => succeeds(mpmlab(&arguments)),
            }
        }
    }
    assert!(ran >= 5, "{ran} commands found");
}

#[test]
fn what_the_readme_points_to_exists() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let mut links = 0;
    for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        links += 1;
        assert!(Path::new(ROOT).join(target).exists(), "the README links to {target}");
    }
    assert!(links > 3, "the README says where to read on");
}
