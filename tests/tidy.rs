//! The repository's own rules, as the map states them: rooms for unsafe, one responsibility per file, dependencies that
//! point one way, nothing unfinished.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every Rust file of the workspace with its path relative to the root and its text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["src", "core", "mpm", "experiments", "tests", "fuzz"]
        .iter()
        .map(|d| Path::new(ROOT).join(d))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() && !entry.ends_with("target") {
                folders.push(entry);
            } else if entry.extension().is_some_and(|e| e == "rs") {
                let name = entry.strip_prefix(ROOT).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    assert!(found.len() > 40, "the walk found the sources");
    found
}

/// Collects the files for which `wrong` says something, and fails with all of them at once.
fn check(wrong: impl Fn(&str, &str) -> Option<String>) {
    let faults: Vec<String> = sources()
        .iter()
        .filter_map(|(name, text)| wrong(name, text).map(|what| format!("{name}: {what}")))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_says_in_its_first_line_what_it_is_for() {
    check(|_, text| {
        let first = text.lines().next().unwrap_or_default();
        (!first.starts_with("//! ")).then(|| format!("begins with {first:?}, not with a `//!` line"))
    });
}

#[test]
fn files_stay_small_enough_to_have_one_responsibility() {
    check(|_, text| {
        let lines = text.lines().count();
        (lines > 700).then(|| format!("has {lines} lines"))
    });
}

#[test]
fn a_simple_model_is_one_short_file() {
    check(|name, text| {
        let lines = text.lines().count();
        (["mpm/src/fork.rs", "mpm/src/thread.rs"].contains(&name) && lines >= 150)
            .then(|| format!("has {lines} lines"))
    });
}

#[test]
fn unsafe_code_has_two_rooms() {
    let rooms = ["core/src/sys/", "mpm/src/process/"];
    check(|name, text| {
        let used = text.lines().any(|l| {
            let code = l.split("//").next().unwrap_or_default();
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|word| code.contains(word))
        });
        (used && name != "tests/tidy.rs" && !rooms.iter().any(|room| name.starts_with(room)))
            .then(|| "unsafe outside core/src/sys/ and mpm/src/process/".to_owned())
    });
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
    ];
    check(|_, text| words.iter().find(|w| text.contains(*w)).map(|w| format!("contains {w}")));
}

#[test]
fn the_core_does_not_ask_which_model_runs() {
    // Names of models may stand in documentation and tests, not in code.
    check(|name, text| {
        let body = text.split("#[cfg(test)]").next().unwrap_or_default();
        let asks = body.lines().find(|l| {
            let code = l.split("//").next().unwrap_or_default();
            ["\"prefork\"", "\"worker\"", "\"event\"", "\"reactor\""].iter().any(|model| code.contains(model))
        });
        (name.starts_with("core/src/") && !name.starts_with("core/src/config/"))
            .then_some(asks)
            .flatten()
            .map(|line| format!("names a model in code: {}", line.trim()))
    });
}

#[test]
fn dependencies_point_one_way() {
    let may_not = [
        ("core", &["mpmlab-mpm", "mpmlab-experiments"][..]),
        ("mpm", &["mpmlab-experiments"]),
        ("experiments", &["mpmlab-core", "mpmlab-mpm"]),
    ];
    for (part, forbidden) in may_not {
        let manifest = std::fs::read_to_string(Path::new(ROOT).join(part).join("Cargo.toml")).unwrap();
        for name in forbidden {
            let depends = manifest.lines().any(|l| l.starts_with(name));
            assert!(!depends, "{part} must not depend on {name}");
        }
    }
}

#[test]
fn the_map_names_only_what_exists() {
    let map = std::fs::read_to_string(Path::new(ROOT).join("docs/ARCHITECTURE.md")).unwrap();
    let mut named = 0;
    for word in map.split(['`', ' ', '\n', '(', ')', ',']) {
        let top =
            ["src/", "core/", "mpm/", "experiments/", "tests/", "docs/"].iter().any(|t| word.starts_with(t));
        if top && !word.contains(['{', '*', '<']) {
            named += 1;
            let path = word.trim_end_matches(['.', ':', ';']);
            assert!(
                Path::new(ROOT).join(path).exists(),
                "docs/ARCHITECTURE.md names {path}, which does not exist"
            );
        }
    }
    assert!(named > 20, "the map names its places");
}
