//! The corrections against the installed Apache: the same directives must give the same warnings, numbers included.

use mpmlab_core::config::clamp::{Shape, resolve};
use mpmlab_core::config::{Environment, Source, load};
use std::path::Path;
use std::process::Command;

const MODULES: &str = "/usr/lib/apache2/modules";

/// Apache's warnings about a configuration, or what keeps it from being asked.
fn apache_says(model: &str, directives: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("apache2.conf");
    let text = format!(
        "ServerName localhost\nListen 127.0.0.1:18080\nPidFile {directory}/pid\nErrorLog {directory}/error.log\n\
         LoadModule mpm_{model}_module {MODULES}/mod_mpm_{model}.so\n\
         LoadModule authz_core_module {MODULES}/mod_authz_core.so\n{directives}",
        directory = directory.path().display()
    );
    std::fs::write(&file, text).expect("the file can be written");
    let output =
        Command::new("/usr/sbin/apache2").arg("-t").arg("-f").arg(&file).output().expect("apache2 runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("Syntax OK"), "{model}: {said}");
    said.lines().filter(|line| line.contains("WARNING")).map(str::to_owned).collect()
}

fn we_say(model: &str, shape: Shape, directives: &str) -> Vec<String> {
    let source = Source::Text { origin: "test".to_owned(), text: directives.into() };
    let (config, odd) = load(&[source], &Environment::for_model(model)).expect("valid directives");
    assert_eq!(odd, []);
    resolve(&config.mpm, shape).1.iter().map(ToString::to_string).collect()
}

/// Debian's values first, because they are our defaults and not Apache's, then what a row changes.
fn base(model: &str) -> String {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/mpm_{model}.conf"));
    std::fs::read_to_string(fixture).expect("the fixture is there")
}

const THREADED: &[&[&str]] = &[
    &[],
    &["ThreadsPerChild 100", "MaxRequestWorkers 300"],
    &["MaxRequestWorkers 1000", "ServerLimit 16"],
    &["MaxRequestWorkers 10", "ThreadsPerChild 2", "ServerLimit 2"],
    &["MaxRequestWorkers 130", "ServerLimit 3"],
    &["MaxRequestWorkers 10"],
    &["MaxRequestWorkers -5"],
    &["ServerLimit 0", "ThreadLimit 0", "MinSpareThreads 0", "MaxSpareThreads 0", "StartServers 0"],
    &["ServerLimit -1", "ThreadsPerChild -1"],
    &["ServerLimit 30000"],
    &["ThreadLimit 30000"],
    &["ThreadLimit 200000"],
    &["ThreadLimit 20", "ThreadsPerChild 20"],
    &["ThreadsPerChild 0", "ServerLimit 200"],
    &["MaxSpareThreads 1", "StartServers 500"],
    &["MaxClients 9", "MinSpareThreads -2147483648"],
];

const PROCESSES: &[&[&str]] = &[
    &[],
    &["MaxRequestWorkers 500"],
    &["MaxRequestWorkers 500", "ServerLimit 300000"],
    &["MaxRequestWorkers 0"],
    &["MaxRequestWorkers -7", "ServerLimit -7"],
    &["ServerLimit 0"],
    &["ServerLimit 100"],
    &["StartServers 0", "MinSpareServers 0", "MaxSpareServers 0"],
    &["StartServers 500", "MaxSpareServers 1"],
];

#[test]
fn apache_gives_the_same_warnings() {
    if !Path::new(MODULES).join("mod_mpm_event.so").exists() {
        // Nothing to compare with. The texts are also fixed in the unit tests of `clamp`.
        eprintln!("apache2 is not installed: not compared");
        return;
    }
    let models = [
        ("prefork", Shape::PREFORK, PROCESSES),
        ("worker", Shape::WORKER, THREADED),
        ("event", Shape::EVENT, THREADED),
    ];
    let mut warnings = 0;
    for (model, shape, rows) in models {
        for row in rows {
            let directives = format!("{}\n{}\n", base(model), row.join("\n"));
            let ours = we_say(model, shape, &directives);
            assert_eq!(ours, apache_says(model, &directives), "{model} {row:?}");
            warnings += ours.len();
        }
    }
    // Every kind of warning occurs: eleven of each threaded model, seven of prefork, some more than once.
    assert!(warnings > 29, "only {warnings} warnings were compared");
}
