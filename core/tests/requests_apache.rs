//! The directives about requests in progress against the installed Apache: what is refused is refused with its words.

use mpmlab_core::config::{Environment, Source, load};
use std::path::Path;
use std::process::Command;

const MODULES: &str = "/usr/lib/apache2/modules";

/// Refused by both, in the same words.
const REFUSED: &[&str] = &[
    "FlushMaxThreshold",
    "FlushMaxThreshold 1 2",
    "FlushMaxThreshold -1",
    "FlushMaxThreshold 100x",
    "FlushMaxThreshold 4294967296",
    "FlushMaxPipelined",
    "FlushMaxPipelined x",
    "FlushMaxPipelined -2",
    "FlushMaxPipelined 2147483648",
    "ReadBufferSize",
    "ReadBufferSize -3",
    "ReadBufferSize x",
    "RequestReadTimeout header",
    "RequestReadTimeout header=",
    "RequestReadTimeout header=x",
    "RequestReadTimeout header=5x",
    "RequestReadTimeout header=-1",
    "RequestReadTimeout header=5-10",
    "RequestReadTimeout header=5-10,minrate=",
    "RequestReadTimeout header=5-10,MinRate=0",
    "RequestReadTimeout header=10-5,minrate=5",
    "RequestReadTimeout header=5-5,minrate=5",
    "RequestReadTimeout header=5-x,minrate=5",
    "RequestReadTimeout header=5-,minrate=3",
    "RequestReadTimeout header=-5,minrate=3",
    "RequestReadTimeout header=5-10-15,minrate=3",
    "RequestReadTimeout header=5,minrate=3,minrate=4",
    "RequestReadTimeout header=5,minrate=5x",
    "RequestReadTimeout header=20,minrate=-5",
    "RequestReadTimeout header=5,rate=3",
    "RequestReadTimeout header=\"5\"",
    "RequestReadTimeout header= 5",
    "RequestReadTimeout \"header=5 body=6\"",
    "RequestReadTimeout body=1 foo=3",
    "RequestReadTimeout =5",
];

/// Accepted by both.
const ACCEPTED: &[&str] = &[
    "FlushMaxThreshold 0",
    "FlushMaxThreshold 4294967295",
    "FlushMaxPipelined -1",
    "FlushMaxPipelined 0",
    "ReadBufferSize 0",
    "ReadBufferSize 100",
    "RequestReadTimeout",
    "RequestReadTimeout HEADER=5-10,MINRATE=500 body=10",
    "RequestReadTimeout handshake=5 header=0 body=0",
    "RequestReadTimeout \"header=5\" body=5-6,minrate=3",
    "RequestReadTimeout header=5-0,minrate=3",
    "RequestReadTimeout header=+5",
    "<IfModule reqtimeout_module>\nRequestReadTimeout body=0\n</IfModule>",
];

/// Whether Apache accepts a directive, and all that it says on one line.
fn apache(directive: &str) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("apache2.conf");
    std::fs::write(&file, format!("ServerName localhost\nListen 127.0.0.1:18080\n{directive}\n"))
        .expect("the file can be written");
    let mut command = Command::new("/usr/sbin/apache2");
    for module in ["mpm_event", "authz_core", "reqtimeout"] {
        command.arg("-C").arg(format!("LoadModule {module}_module {MODULES}/mod_{module}.so"));
    }
    command.arg("-C").arg(format!("ErrorLog {}/error.log", directory.path().display()));
    let output = command.arg("-t").arg("-f").arg(&file).output().expect("apache2 runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).replace('\n', " "))
}

#[test]
fn apache_refuses_and_accepts_the_same() {
    if !Path::new(MODULES).join("mod_reqtimeout.so").exists() {
        // Nothing to compare with. The texts are also fixed in the unit tests of `read_timeout`.
        eprintln!("apache2 is not installed: not compared");
        return;
    }
    let ours = |directive: &str| {
        let source = Source::Text { origin: "test".to_owned(), text: directive.into() };
        load(&[source], &Environment::for_model("event")).map_err(|error| error.message)
    };
    let mut faults = Vec::new();
    for directive in REFUSED {
        let (accepted, said) = apache(directive);
        match ours(directive) {
            Ok(_) => faults.push(format!("{directive:?}: accepted, Apache says {said}")),
            // We always name the directive; Apache does where its module says so itself.
            Err(words) => {
                let bare = words.split_once(": ").map_or(words.as_str(), |(_, rest)| rest);
                if accepted || !(said.contains(&words) || said.contains(bare)) {
                    faults.push(format!("{directive:?}: {words}\n    Apache: {said}"));
                }
            }
        }
    }
    for directive in ACCEPTED {
        let (accepted, said) = apache(directive);
        let result = ours(directive);
        if !accepted || result.is_err() {
            faults.push(format!("{directive:?}: {result:?}\n    Apache: {said}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
