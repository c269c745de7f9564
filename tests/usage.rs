//! Bad input gets one clear line on standard error and exit status 2, and leaves nothing half-written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the binary and returns exit status, standard output, standard error.
fn mpmlab(arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_mpmlab")).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Asserts: exit 2, nothing on standard output, one line on standard error that contains every one of `says`.
fn refused(arguments: &[&str], says: &[&str]) {
    let (status, out, err) = mpmlab(arguments);
    assert_eq!(status, 2, "{arguments:?}: {err}");
    assert_eq!(out, "", "{arguments:?}");
    assert_eq!(err.lines().count(), 1, "{arguments:?} must get one line, got:\n{err}");
    assert!(err.starts_with("mpmlab: "), "{arguments:?}: {err}");
    for word in says {
        assert!(err.contains(word), "{arguments:?}: {word:?} is not in: {err}");
    }
}

fn written(root: &Path, name: &str, text: &[u8]) -> String {
    let path = root.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn serve_explains_bad_usage() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    let file = written(root.path(), "plain.txt", b"x");
    let missing = format!("{dir}/missing");
    let serve = |more: &[&'static str]| [&["serve", "--listen", "127.0.0.1:0", "--root"][..], more].concat();
    refused(&[&serve(&[])[..], &[dir, "--mpm", "evnt"]].concat(), &["evnt", "event"]);
    refused(&[&serve(&[])[..], &[&missing]].concat(), &[&missing, "no such file"]);
    refused(&[&serve(&[])[..], &[&file]].concat(), &[&file, "not a directory"]);
    refused(&[&serve(&[])[..], &[dir, "--set", "file-sent=mmap"]].concat(), &["file-sent", "file-send"]);
    refused(&[&serve(&[])[..], &[dir, "--set", "file-send=zip"]].concat(), &["zip", "sendfile"]);
    refused(&[&serve(&[])[..], &[dir, "--set", "file-send"]].concat(), &["file-send", "="]);
    refused(&[&serve(&[])[..], &[dir, "--profile", "fast"]].concat(), &["fast", "lean"]);
    refused(&["serve", "--root", dir, "--listen", "nowhere"], &["nowhere"]);
    refused(&["serve", "--no-such-flag"], &["--no-such-flag", "--help"]);
    refused(&["sevre"], &["sevre", "serve"]);
}

#[test]
fn serve_explains_bad_configuration() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    let with = |directive: &str, says: &[&str]| {
        refused(&["serve", "--listen", "127.0.0.1:0", "--root", dir, "-c", directive], says);
    };
    with("MaxRequestWorker 4", &["MaxRequestWorker", "MaxRequestWorkers"]);
    with("MaxRequestWorkers many", &["MaxRequestWorkers", "many"]);
    with("KeepAlive perhaps", &["KeepAlive", "perhaps"]);
    with("AsyncRequestWorkerFactor 0", &["AsyncRequestWorkerFactor"]);
    with("TypesConfig /no/such/mime.types", &["TypesConfig", "/no/such/mime.types"]);
    with("CustomLog /no/such/dir/log common", &["CustomLog", "/no/such/dir/log"]);
    with("ErrorLog /no/such/dir/log", &["ErrorLog", "/no/such/dir/log"]);
    with("PidFile /no/such/dir/pid", &["PidFile", "/no/such/dir/pid"]);
    with("User nobody-by-that-name", &["User", "nobody-by-that-name"]);
    with("<IfModule mpm_event_module>", &["IfModule"]);

    let file = |name: &str, text: &[u8], says: &[&str]| {
        let path = written(root.path(), name, text);
        refused(&["serve", "--listen", "127.0.0.1:0", "--root", dir, "-f", &path], says);
    };
    file("typo.conf", b"KeepAlive On\n\nTimout 5\n", &["typo.conf:3", "Timout", "Timeout"]);
    file("open.conf", b"<IfModule mpm_event_module>\nTimeout 5\n", &["open.conf", "IfModule"]);
    file("binary.conf", &[0xff, 0x00, 0x80, b'\n', 0xfe], &["binary.conf"]);
    let missing = format!("{dir}/missing.conf");
    refused(&["serve", "--root", dir, "-f", &missing], &["missing.conf", "no such file"]);
    refused(&["serve", "--root", dir, "-f", dir], &[dir, "directory"]);
}

#[test]
fn a_root_that_children_cannot_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let locked = root.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Started as root, it is the children's account that cannot read; otherwise it is the caller's.
    let says = if nix::unistd::geteuid().is_root() { "cannot read it" } else { "permission denied" };
    refused(
        &["serve", "--listen", "127.0.0.1:0", "--root", locked.to_str().unwrap()],
        &["DocumentRoot", says],
    );
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn the_configuration_test_checks_accounts_and_files_as_apaches_does() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    for (directive, says) in [
        ("User nobody-by-that-name", "nobody-by-that-name"),
        ("ErrorLog /no/such/dir/log", "/no/such/dir/log"),
        ("PidFile /no/such/dir/pid", "/no/such/dir/pid"),
        ("CustomLog /no/such/dir/log common", "/no/such/dir/log"),
    ] {
        refused(&["serve", "-t", "--root", dir, "-c", directive], &[says]);
    }
}

#[test]
fn a_server_that_cannot_go_on_ends_with_status_1_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    // Enough descriptors for the parent, too few for a child of event.
    let line = format!(
        "ulimit -n 8; exec {} serve --mpm event --listen 127.0.0.1:0 -c 'User root' --root {}",
        env!("CARGO_BIN_EXE_mpmlab"),
        root.path().display()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("child ends early") && err.contains("mpmlab is exiting!"), "{err}");
}

#[test]
fn more_addresses_than_there_is_room_for_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let lines: String = (0..257).map(|n| format!("Listen 127.0.1.{}:0\n", n % 250 + 1)).collect();
    let file = written(root.path(), "many.conf", lines.as_bytes());
    for model in harness::MPMS.iter() {
        let arguments = ["serve", "--mpm", model, "--root", root.path().to_str().unwrap(), "-f", &file];
        refused(&arguments, &["257", "256"]);
    }
}

#[test]
fn serve_says_who_cannot_have_the_port() {
    let root = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for model in harness::MPMS.iter() {
        refused(
            &["serve", "--mpm", model, "--root", root.path().to_str().unwrap(), "--listen", &address],
            &[&address, "in use"],
        );
    }
}

#[test]
fn load_explains_bad_usage() {
    refused(&["load", "https://localhost/"], &["https"]);
    refused(&["load", "ftp://localhost/"], &["ftp"]);
    refused(&["load", "http:///x"], &["host"]);
    refused(&["load", "http://127.0.0.1:99999/"], &["99999"]);
    refused(&["load", "http://127.0.0.1:1/", "-d", "soon"], &["soon"]);
    refused(&["load", "http://127.0.0.1:1/", "-t", "4", "-c", "2"], &["connections", "threads"]);
    refused(&["load", "http://127.0.0.1:1/", "-H", "no colon"], &["no colon"]);
    refused(&["load"], &["URL"]);
}

#[test]
fn a_load_that_reaches_nobody_fails_with_status_1() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (status, out, _) = mpmlab(&["load", &format!("http://{gone}/"), "-c", "2", "-d", "300ms", "--json"]);
    assert_eq!(status, 1);
    let outcome: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(outcome["requests"], 0);
    assert_eq!(outcome["valid"], false);
    assert!(outcome["errors"]["refused"].as_u64().unwrap() > 0, "{out}");
}

#[test]
fn study_explains_bad_usage_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    refused(&["study", "run", "quik"], &["quik", "quick"]);
    refused(&["study", "show", "/no/such/study.toml"], &["/no/such/study.toml"]);
    refused(&["study", "run", "quick", "--budget", "long"], &["long"]);

    // A folder that cannot be made.
    let file = written(root.path(), "file", b"");
    let below = format!("{file}/run");
    refused(&["study", "run", "quick", "--out", &below], &[&below]);
    refused(&["study", "run", "quick", "--out", &file], &[&file]);
    refused(&["study", "report", root.path().to_str().unwrap()], &["plan.json"]);

    let study = |name: &str, text: &str, says: &[&str]| {
        let path = written(root.path(), name, text.as_bytes());
        let out = root.path().join("out");
        refused(&["study", "run", &path, "--out", out.to_str().unwrap()], says);
        assert!(!out.exists(), "{name}: a refused study leaves nothing behind");
    };
    study("broken.toml", "name = \"x\nrounds = 1\n", &["broken.toml"]);
    study("empty.toml", "", &["empty.toml"]);
    study(
        "target.toml",
        "name = \"x\"\ntitle = \"x\"\nquestion = \"x\"\nrounds = 1\nbudget = \"10s\"\n[factors]\ntarget = [\"preforc\"]\nconnections = [1]\nkeepalive = [true]\nsize = [1024]\n",
        &["target.toml", "preforc", "prefork"],
    );
}

// -V prints what the model has, and --set says when it sets nothing.
#[test]
fn knobs_of_another_model_are_not_shown_and_have_no_effect() {
    let (_, listed, _) = mpmlab(&["mechanisms", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let mut own = 0;
    for model in listed["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let (status, shown, _) = mpmlab(&["serve", "-V", "--mpm", name, "--root", "/"]);
        assert_eq!(status, 0);
        for knob in ["park", "shed", "stop-signal"] {
            let has = model["obeys"].as_array().unwrap().iter().any(|obeyed| obeyed == knob);
            own += usize::from(has);
            assert_eq!(shown.contains(&format!("\n{knob}: ")), has, "{name}: {shown}");
        }
        let (status, _, said) = mpmlab(&["serve", "-V", "--mpm", name, "--root", "/", "--set", "shed=off"]);
        assert_eq!((status, said.contains("no effect")), (0, !shown.contains("\nshed: ")), "{name}: {said}");
    }
    assert!(own > 0, "event has them");
}

#[test]
fn every_command_teaches() {
    for (command, words) in [
        (&["--help"][..], &["serve", "load", "study", "mechanisms"][..]),
        (&["serve", "--help"], &[&["--mpm", "--root", "--set", "-c"], &harness::MPMS[..]].concat()),
        (&["load", "--help"], &["connections", "seconds", "--no-keepalive", "default"]),
        (&["study", "--help"], &["run", "list", "report"]),
        (&["study", "run", "--help"], &["--budget", "--out", "--resume"]),
        (&["mechanisms", "--help"], &["--json"]),
    ] {
        let (status, out, err) = mpmlab(command);
        assert_eq!(status, 0, "{command:?}: {err}");
        for word in words {
            assert!(out.contains(word), "{command:?} says nothing of {word:?}:\n{out}");
        }
    }
}
