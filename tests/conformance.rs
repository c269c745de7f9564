//! The conformance vectors, run as a user runs them: on mpmlab under every model, and on the installed Apache.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mpmlab_experiments::conformance::{self, catalogue};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mpmlab")).arg("conformance").args(arguments).output().unwrap()
}

/// The rows of a run, each judged; panics with those that fail.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[arguments, &["--json", "--jobs", "10"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let rows = value["rows"].as_array().unwrap().clone();
    let failed: Vec<_> = rows.iter().filter(|row| row["verdict"] == "fail").collect();
    assert!(failed.is_empty(), "{} rows fail:\n{failed:#?}", failed.len());
    assert!(output.status.success(), "{said}");
    for row in rows.iter().filter(|row| row["verdict"] == "skip") {
        println!("skipped: {} under {}: {}", row["vector"], row["model"], row["seen"]);
    }
    rows
}

fn count(rows: &[Value], verdict: &str) -> usize {
    rows.iter().filter(|row| row["verdict"] == verdict).count()
}

#[test]
fn mpmlab_does_what_apache_was_measured_to_do() {
    let rows = rows(&[]);
    let names = |model: &str| rows.iter().filter(|row| row["model"] == model).count();
    for model in ["prefork", "worker", "event"] {
        assert!(names(model) >= 30, "{model} has {} rows", names(model));
    }
    assert!(count(&rows, "pass") * 10 >= rows.len() * 9, "too many rows were skipped");
}

#[test]
fn apache_does_what_apache_was_measured_to_do() {
    if !Path::new("/usr/sbin/apache2").exists() {
        println!("skipped: apache2 is not installed");
        return;
    }
    let rows = rows(&["--target", "apache2"]);
    assert_eq!(count(&rows, "differs"), 0);
}

#[test]
fn the_guide_lists_the_vectors_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/vectors.md");
    let page = catalogue::markdown();
    assert!(page.matches("\n## ").count() >= 60);
    if std::env::var_os("MPMLAB_RECORD").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/guide/vectors.md is not what the vectors say; MPMLAB_RECORD=1 writes it anew"
    );
}

#[test]
fn every_vector_that_the_guide_names_exists() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let text = std::fs::read_to_string(guide.join("models.md")).unwrap();
    let named: Vec<&str> =
        text.split("vectors.md#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(named.len() >= 30, "{named:?}");
    for id in named {
        assert!(conformance::all().any(|vector| vector.id == id), "{id}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_in_a_line() {
    for (arguments, expected) in [
        (&["--mpm", "nosuch"][..], "--mpm nosuch: mpmlab has"),
        (&["--only", "no-such-vector"], "no vector's name contains it"),
        (&["--target", "apache2", "--mpm", "fork"], "apache2 has prefork, worker, event"),
    ] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
}
