//! Directives from text to `Config`: values, errors in one line, files.

use super::*;
use crate::config::knobs::FileSend;
use crate::config::{CustomLog, Listen, LogLevel, MpmDirectives};
use proptest::prelude::*;
use std::time::Duration;

fn text(text: &str) -> Source {
    Source::Text { origin: "f".to_owned(), text: text.into() }
}

fn line(text: &str) -> Source {
    Source::Line { origin: "-c".to_owned(), text: text.to_owned() }
}

fn event() -> Environment {
    Environment::for_model("event")
}

#[track_caller]
fn config(source: &str) -> Config {
    let (config, warnings) = load(&[text(source)], &event()).expect("must be accepted");
    assert_eq!(warnings, []);
    config
}

#[track_caller]
fn refuses(source: &str, expected: &str) {
    let error = load(&[text(source)], &event()).expect_err("must be refused");
    assert_eq!(error.to_string(), expected);
}

fn warns(source: &str) -> Vec<String> {
    let (_, warnings) = load(&[text(source)], &event()).expect("must be accepted");
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn every_row_is_sound_and_every_shown_default_is_the_default() {
    for (index, row) in TABLE.iter().enumerate() {
        let taken = TABLE[..index].iter().any(|other| other.name.eq_ignore_ascii_case(row.name));
        assert!(!taken && !row.name.starts_with("Lab"), "{}", row.name);
        assert!(!row.doc.is_empty() && !row.contexts.is_empty(), "{}", row.name);
        assert!(std::ptr::eq(directive::find(&row.name.to_uppercase()).expect("found"), row));
        if !row.default.is_empty() {
            let given = load(&[text(&format!("{} {}", row.name, row.default))], &event());
            assert_eq!(given.map(|(config, _)| config), Ok(Config::default()), "{}", row.name);
        }
    }
}

#[test]
fn directives_reach_their_fields() {
    let made = config(
        "Listen 8080\nlisten 127.0.0.1:8081 http\nListen [::1]:8082\nServerName www.example.com:8080\n\
         DirectoryIndex a.html\nDirectoryIndex b.html c.html\nTimeout 7\nKeepAlive off\nKeepAliveTimeout 100ms\n\
         MaxKeepAliveRequests 0\nListenBacklog 10\nLimitRequestLine 100\nLimitRequestFields 0\nLimitRequestFieldSize 200\n\
         LimitRequestBody 0\nEnableMMAP Off\nEnableSendfile On\nTraceEnable on\nUser www-data\nGroup #33\nLogLevel debug\n\
         StartServers 1\nMinSpareThreads 3\nMaxSpareThreads 4\nThreadsPerChild 5\nThreadLimit 6\nServerLimit 7\n\
         MaxClients 8\nMaxRequestsPerChild 9\nAsyncRequestWorkerFactor 1.5\nLabFileSend Sendfile\nLabCoalesce off\n",
    );
    let ip = |ip: &str| Some(ip.parse().unwrap());
    let expected = Config {
        listen: vec![
            Listen { ip: None, port: 8080 },
            Listen { ip: ip("127.0.0.1"), port: 8081 },
            Listen { ip: ip("::1"), port: 8082 },
        ],
        server_name: Some("www.example.com:8080".to_owned()),
        directory_index: ["a.html", "b.html", "c.html"].map(str::to_owned).into(),
        timeout: Duration::from_secs(7),
        keep_alive: false,
        keep_alive_timeout: Duration::from_millis(100),
        max_keep_alive_requests: 0,
        listen_backlog: 10,
        limit_request_line: 100,
        limit_request_fields: 0,
        limit_request_field_size: 200,
        limit_request_body: 0,
        enable_mmap: false,
        enable_sendfile: true,
        trace_enable: true,
        user: Some("www-data".to_owned()),
        group: Some("#33".to_owned()),
        log_level: LogLevel::Debug,
        mpm: MpmDirectives {
            start_servers: Some(1),
            min_spare_threads: Some(3),
            max_spare_threads: Some(4),
            threads_per_child: Some(5),
            thread_limit: Some(6),
            server_limit: Some(7),
            max_request_workers: Some(8),
            max_connections_per_child: Some(9),
            async_request_worker_factor: Some("1.5".to_owned()),
            ..MpmDirectives::default()
        },
        knobs: CoreKnobs { file_send: FileSend::Sendfile, coalesce: false, ..CoreKnobs::default() },
        ..Config::default()
    };
    assert_eq!(made, expected);
}

#[test]
fn stock_debian_files_work_unchanged() {
    let fixture = |name: &str| {
        Source::File(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("mpm_{name}.conf")),
        )
    };
    for name in ["event", "worker", "prefork"] {
        let (config, warnings) =
            load(&[fixture(name)], &Environment::for_model(name)).expect("must be accepted");
        assert_eq!(warnings, []);
        let common = MpmDirectives {
            max_request_workers: Some(150),
            max_connections_per_child: Some(0),
            ..MpmDirectives::default()
        };
        let expected = if name == "prefork" {
            MpmDirectives {
                start_servers: Some(5),
                min_spare_servers: Some(5),
                max_spare_servers: Some(10),
                ..common
            }
        } else {
            MpmDirectives {
                start_servers: Some(2),
                min_spare_threads: Some(25),
                max_spare_threads: Some(75),
                thread_limit: Some(64),
                threads_per_child: Some(25),
                ..common
            }
        };
        assert_eq!(config, Config { mpm: expected, ..Config::default() }, "{name}");
    }
}

#[test]
fn paths_begin_at_server_root_wherever_it_stands() {
    let made = config(
        "DocumentRoot htdocs\nErrorLog logs/error\nPidFile /run/p\nTypesConfig t\nServerRoot /srv/www\n",
    );
    assert_eq!(made.document_root, Path::new("/srv/www/htdocs"));
    assert_eq!(made.error_log.as_deref(), Some(Path::new("/srv/www/logs/error")));
    assert_eq!(made.pid_file.as_deref(), Some(Path::new("/run/p")));
    assert_eq!(made.types_config.as_deref(), Some(Path::new("/srv/www/t")));
    assert_eq!(config("DocumentRoot htdocs").document_root, Path::new("htdocs"));
}

#[test]
fn access_logs_take_a_format_or_a_nickname() {
    let log = |source: &str| config(source).custom_log.expect("has a log").format;
    assert_eq!(log("CustomLog a common"), "%h %l %u %t \"%r\" %>s %O");
    assert_eq!(log("CustomLog a \"%h %>s\""), "%h %>s");
    // Used before it is defined, and a redefinition of a predefined one.
    assert_eq!(log("CustomLog a mine\nLogFormat \"%U\" mine"), "%U");
    assert_eq!(log("LogFormat \"%b\" common\nCustomLog a common"), "%b");
    let made = config("ServerRoot /r\nCustomLog a common");
    assert!(matches!(made.custom_log, Some(CustomLog { path, .. }) if path == Path::new("/r/a")));
    refuses(
        "\nCustomLog a comon",
        "f:2: CustomLog: no LogFormat is named 'comon', and it has no % to be a format; did you mean 'common'?",
    );
    refuses(
        "CustomLog a",
        "f:1: CustomLog takes two or three arguments, a file name, a custom log format string or format name, and an \
         optional \"env=\" or \"expr=\" clause (see docs)",
    );
    refuses("CustomLog |prog common", "f:1: CustomLog: '|prog' is a pipe or the system log; must be a file");
    refuses(
        "CustomLog a b env=x",
        "f:1: CustomLog: logging of some requests only ('env=x') is not available; leave it out",
    );
    assert_eq!(
        warns("CustomLog a %h\nCustomLog b %h"),
        ["f:2: CustomLog: replaces 'a' of f:1, one is written"]
    );
}

#[test]
fn errors_say_where_what_and_what_is_allowed() {
    for (source, expected) in [
        (
            "\nLisetn 80",
            "f:2: Invalid command 'Lisetn', perhaps misspelled or defined by a module not included in the server \
             configuration; did you mean 'Listen'?",
        ),
        (
            "RewriteRule a b",
            "f:1: Invalid command 'RewriteRule', perhaps misspelled or defined by a module not included in the server \
             configuration",
        ),
        (
            "<IfModul core.c>\n</IfModul>",
            "f:1: Invalid command '<IfModul', perhaps misspelled or defined by a module not included in the server \
             configuration; did you mean '<IfModule'?",
        ),
        (
            "LabCoalesc 4",
            "f:1: Invalid command 'LabCoalesc', perhaps misspelled or defined by a module not included in the server \
             configuration; did you mean 'LabCoalesce'?",
        ),
        (
            "StartServers 2 3",
            "f:1: StartServers takes one argument, Number of child processes launched at server startup",
        ),
        (
            "StartServers \"\"",
            "f:1: StartServers takes one argument, Number of child processes launched at server startup",
        ),
        (
            "StartServers x",
            "f:1: StartServers: 'x' is not a whole number; must be a whole number from -2147483648 to 2147483647",
        ),
        ("KeepAlive maybe", "f:1: KeepAlive must be On or Off, not 'maybe'"),
        ("KeepAlive", "f:1: KeepAlive must be On or Off"),
        ("EnableMMAP 1", "f:1: EnableMMAP: '1' is neither; parameter must be 'on' or 'off'"),
        (
            "KeepAliveTimeout 5x",
            "f:1: KeepAliveTimeout: '5x' is not a time; must be a whole number of seconds, or a number with ms, s, min or h, \
             such as 500ms",
        ),
        ("Timeout 0", "f:1: Timeout: 0 would end every wait at once; must be more than 0"),
        ("ListenBacklog 0", "f:1: ListenBacklog must be > 0"),
        (
            "LimitRequestBody -1",
            "f:1: LimitRequestBody: -1 is out of range; must be a whole number, at least 0",
        ),
        ("Listen", "f:1: Listen requires 1 or 2 arguments."),
        ("Listen 80\nListen 80", "f:2: Cannot define multiple Listeners on the same IP:port ('80')"),
        ("Listen 80 https", "f:1: Listen: protocol 'https' is not available; must be http"),
        (
            "Listen foo",
            "f:1: Listen: Port must be specified, 'foo' has none; must be PORT, ADDRESS:PORT, [IPV6]:PORT or *:PORT",
        ),
        (
            "ServerName http://foo:99999",
            "f:1: ServerName: The port number \"http://foo:99999\" is outside the appropriate range (i.e., 1..65535).",
        ),
        (
            "AsyncRequestWorkerFactor 0",
            "f:1: AsyncRequestWorkerFactor: '0': argument must be a positive number",
        ),
        (
            "AsyncRequestWorkerFactor nan",
            "f:1: AsyncRequestWorkerFactor: 'nan': argument must be a positive number",
        ),
        (
            "LogLevel loud",
            "f:1: LogLevel: 'loud': Log level keyword must be one of \
             emerg/alert/crit/error/warn/notice/info/debug/trace1/.../trace8",
        ),
        ("LogLevel", "f:1: LogLevel requires at least one argument, Level of verbosity in error logging"),
        ("TraceEnable maybe", "f:1: TraceEnable: 'maybe': must be one of 'on', 'off', or 'extended'"),
        ("ErrorLog syslog", "f:1: ErrorLog: 'syslog' is a pipe or the system log; must be a file"),
        (
            "LabFileSend splice",
            "f:1: LabFileSend: 'splice' is not a value of it; must be auto, mmap, sendfile or read",
        ),
    ] {
        refuses(source, expected);
    }
}

#[test]
fn only_the_first_error_is_reported_and_nothing_is_changed() {
    let mut config = Config { timeout: Duration::from_secs(1), ..Config::default() };
    let before = config.clone();
    let error = load_into(&mut config, &[text("Timeout 9\nFoo\nBar")], &event(), &mut []).unwrap_err();
    assert_eq!(error.place.line, 2);
    assert_eq!(config, before);
}

#[test]
fn odd_but_acceptable_things_are_warned_of() {
    assert_eq!(
        warns("LogLevel warn mpm_event:debug"),
        ["f:1: LogLevel: the level of mpm_event alone has no effect, there is one level"]
    );
    assert_eq!(
        warns("TraceEnable extended"),
        ["f:1: TraceEnable: extended means On here, request bodies are not echoed"]
    );
    assert_eq!(
        warns("MinSpareServers 5"),
        ["f:1: MinSpareServers is a directive of prefork and has no effect here"]
    );
    assert_eq!(warns("ThreadsPerChild 5"), Vec::<String>::new());
    let (_, warnings) = load(&[text("ThreadsPerChild 5")], &Environment::for_model("prefork")).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "f:1: ThreadsPerChild is a directive of worker and event and has no effect here"
    );
    let (_, warnings) =
        load(&[text("ThreadsPerChild 5\nMinSpareServers 1")], &Environment::for_model("reactor")).unwrap();
    assert_eq!(warnings, []);
}

#[test]
fn directives_of_the_command_line_are_numbered_and_win() {
    let sources = [line("Timeout 5"), text("Timeout 6"), line("KeepAlive Off"), line("Timeout 7")];
    let (config, _) = load(&sources, &event()).unwrap();
    assert_eq!((config.timeout, config.keep_alive), (Duration::from_secs(7), false));
    let error = load(&[line("Timeout 5"), line("Timeut 6")], &event()).unwrap_err().to_string();
    assert!(
        error.starts_with("-c:2: Invalid command 'Timeut'") && error.ends_with("did you mean 'Timeout'?"),
        "{error}"
    );
    // Neighbours are one text, a file between them ends it.
    let section = [line("<IfModule mpm_prefork_module>"), line("Foo"), line("</IfModule>")];
    assert!(load(&section, &event()).is_ok());
    let error = load(&[section[0].clone(), text(""), section[2].clone()], &event()).unwrap_err();
    assert_eq!(error.to_string(), "-c:1: Expected </IfModule> before end of configuration");
}

#[test]
fn variables_come_from_the_caller() {
    let mut environment = event();
    environment.variables.insert("APACHE_RUN_USER".to_owned(), "www-data".to_owned());
    let (config, warnings) = load(&[text("User ${APACHE_RUN_USER}")], &environment).unwrap();
    assert_eq!(config.user.as_deref(), Some("www-data"));
    assert_eq!(warnings, []);
}

#[test]
fn knobs_of_other_crates_are_directives_too() {
    crate::knobs! {
        pub struct Other {
            /// Where a connection waits.
            park: bool = "off", "park", directive "LabPark", levels ["off", "on"], lean "on", changes "threads held";
        }
    }
    let (mut config, mut other) = (Config::default(), Other::default());
    load_into(&mut config, &[text("labpark On\nLabLinger read-first")], &event(), &mut [&mut other]).unwrap();
    assert!(other.park);
    let error = load_into(&mut config, &[text("LabPark maybe")], &event(), &mut [&mut other]).unwrap_err();
    assert_eq!(error.to_string(), "f:1: LabPark: 'maybe' is not a value of it; must be off or on");
    let error = load_into(&mut config, &[text("LabPrak on")], &event(), &mut [&mut other]).unwrap_err();
    assert!(error.to_string().ends_with("did you mean 'LabPark'?"));
    let error = load_into(&mut config, &[text("LabPark")], &event(), &mut [&mut other]).unwrap_err();
    assert_eq!(error.to_string(), "f:1: LabPark takes one argument, Where a connection waits.");
}

#[test]
fn files_that_cannot_be_read_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| load(&[Source::File(path.to_owned())], &event()).unwrap_err().to_string();
    let said = |what: &str, path: &Path| format!("{}: {what}", path.display());
    let missing = directory.path().join("missing.conf");
    assert_eq!(
        error(&missing),
        said("Could not open configuration file: no such file or directory", &missing)
    );
    assert_eq!(error(directory.path()), said("is a directory; name a configuration file", directory.path()));
    // A pipe without a writer: opening it would wait for ever.
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(error(&pipe), said("is not a regular file; name a configuration file", &pipe));
    let large = directory.path().join("large.conf");
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(error(&large), said("the file is larger than 4194304 bytes", &large));
    assert!(load(&[Source::File("/dev/null".into())], &event()).is_ok());
}

proptest! {
    #[test]
    fn any_value_of_any_directive_is_taken_or_refused_in_one_line(
        row in 0..TABLE.len(), value in "\\PC{0,12}|[0-9]{1,25}[a-z]{0,3}|[0-9.:\\[\\]*-]{0,20}",
    ) {
        let source = format!("{} {value}", TABLE[row].name);
        if let Err(error) = load(&[text(&source)], &event()) {
            prop_assert!(error.to_string().starts_with("f:1: "), "{error}");
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
