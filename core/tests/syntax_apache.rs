//! The wording and the line numbers of errors against the installed Apache, for what we refuse as it does.

use mpmlab_core::config::{Environment, Source, load};
use std::path::Path;
use std::process::Command;

const MODULES: &str = "/usr/lib/apache2/modules";

/// Stands before every case, here and there; five lines that both accept.
const HEAD: &str = "ServerName localhost\n\n# a comment \\\n that goes on\nListen 127.0.0.1:18080\n";

/// Refused by both, with the same words at the same line.
const SAME: &[&str] = &[
    "Foo 1\n",
    "Timeout 5\\\n\\\n5\nFoo bar\n",
    "</IfModule>\n",
    "<IfModule !none.c>\n</IfModule> # x\n",
    "<IfModule none.c\n",
    "<IfModule>\n",
    "<IfDefine !>\n",
    "<IfModule none.c>\nFoo\n",
    "<Directory />\n</Files>\n",
    "<Directory />\n",
    "<IfDefine A>\n<IfDefine B>\n</IfDefine>\n",
    "Define\n",
    "Define a b c\n",
    "Define a:b\n",
    "UnDefine\n",
    "Define A \"5 6\"\nTimeout ${A}\n",
    "Timeout \"\"\n",
    "StartServers\n",
    "ServerName a # b\n",
    "MaxRequestWorkers 1 2\n",
    "KeepAliveTimeout\n",
    "MaxKeepAliveRequests 1 2\n",
    "LimitRequestBody\n",
    "LimitRequestLine\n",
    "LimitRequestFields\n",
    "ListenBacklog\n",
    "ListenBacklog 1 2\n",
    "MinSpareThreads 1 2\n",
    "ThreadLimit\n",
    "MaxClients\n",
    "MaxRequestsPerChild\n",
    "AsyncRequestWorkerFactor\n",
    "EnableMMAP\n",
    "EnableSendfile On Off\n",
    "TraceEnable\n",
    "LogLevel\n",
    "User\n",
    "PidFile\n",
    "DocumentRoot /tmp /x\n",
    "Listen\n",
    "Listen 1 http 3\n",
    "KeepAlive\n",
    "LogFormat a b c\n",
    "CustomLog a\n",
    "CustomLog a b c d\n",
    "ListenBacklog 0\n",
    "ListenBacklog x\n",
    "ListenCoresBucketsRatio\n",
    "ListenCoresBucketsRatio 0\n",
    "ListenTCPDeferAccept\n",
    "ListenTCPDeferAccept -1\n",
    "SendBufferSize\n",
    "SendBufferSize 511\n",
    "ReceiveBufferSize -5\n",
    "AcceptFilter http\n",
    "AcceptFilter http data more\n",
    "GracefulShutdownTimeout\n",
    "ThreadStackSize -1\n",
    "ThreadStackSize\n",
    "MaxMemFree -1\n",
    "MaxMemFree\n",
    "Mutex\n",
    "Mutex foo\n",
    "Mutex none\n",
    "Mutex :/tmp\n",
    "Mutex fcntl:/nosuch\n",
    "Mutex file:/etc/passwd default\n",
    "Mutex default:/nosuch\n",
    "Mutex pthread Default\n",
    "Mutex flock:/tmp foo OmitPID bar\n",
    "Mutex none foo default\n",
];

/// Accepted by both.
const ACCEPTED: &[&str] = &[
    "timeout 5\n\"KeepAlive\" oN off\n",
    "Define A 5\nTimeout ${A}\n",
    "<IfModule none.c>\n<Foo a>\n</foo>\n</IfModule> # x\n",
    "<IfModule ! none.c>\nTimeout 5\n</IFMODULE>\n",
    "<IfModule \"mpm_event_module\">\nThreadsPerChild 5\n</IfModule>\n",
    "<IfModule event.c x> y\n</IfModule>\n",
    "<IfModule core.c>\n</IfModule>\n<IfModule !http_core.c>\nFoo\n</IfModule>\n",
    "<IfModule mpm_event.c>\nFoo\n</IfModule>\n<IfModule prefork.c>\nFoo\n</IfModule>\n",
    "KeepAliveTimeout 5min\nKeepAliveTimeout 100ms\nKeepAliveTimeout 010\n",
    "Timeout 5\\\n0\r\nServerName 'a'\\\n\n",
    "DirectoryIndex a b \"c d\"\n",
    "Listen [::1]:18081 http\nListen *:18082\n",
    "ListenCoresBucketsRatio 8\nListenTCPDeferAccept 5\nSendBufferSize 512\nReceiveBufferSize 0\n",
    "AcceptFilter http none\nAcceptFilter HTTPS connect\nAcceptFilter nntp data\n",
    "GracefulShutdownTimeout 5\nThreadStackSize 65536\nMaxMemFree 0\n",
    "Mutex sem default OmitPID\nMutex file\nMutex file:\nMutex SysVSem:/tmp omitpid\nMutex yes\nMutex flock:/tmp\n",
];

/// Whether Apache accepts a configuration, and all that it says on one line.
fn apache(text: &str) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("apache2.conf");
    std::fs::write(&file, text).expect("the file can be written");
    let mut command = Command::new("/usr/sbin/apache2");
    for module in ["mpm_event", "authz_core", "dir", "mime"] {
        command.arg("-C").arg(format!("LoadModule {module}_module {MODULES}/mod_{module}.so"));
    }
    command.arg("-C").arg(format!("ErrorLog {}/error.log", directory.path().display()));
    let output = command.arg("-t").arg("-f").arg(&file).output().expect("apache2 runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).replace('\n', " "))
}

#[test]
fn apache_refuses_with_the_same_words_at_the_same_line() {
    if !Path::new(MODULES).join("mod_mpm_event.so").exists() {
        // Nothing to compare with. The texts are also fixed in the unit tests of `syntax` and `load`.
        eprintln!("apache2 is not installed: not compared");
        return;
    }
    let ours = |text: &str| {
        let source = Source::Text { origin: "test".to_owned(), text: text.into() };
        load(&[source], &Environment::for_model("event"))
    };
    let mut faults = Vec::new();
    for case in SAME {
        let text = format!("{HEAD}{case}");
        let (accepted, said) = apache(&text);
        match ours(&text) {
            Ok(_) => faults.push(format!("{case:?}: accepted, Apache says {said}")),
            Err(error) => {
                let line = format!("line {} of", error.place.line);
                let (words, _) = error.message.split_once("; did you mean").unwrap_or((&error.message, ""));
                if accepted || !said.contains(&line) || !said.contains(words) {
                    faults.push(format!("{case:?}: {error}\n    Apache: {said}"));
                }
            }
        }
    }
    for case in ACCEPTED {
        let text = format!("{HEAD}{case}");
        let (accepted, said) = apache(&text);
        let result = ours(&text);
        if !accepted || result.is_err() {
            faults.push(format!("{case:?}: {result:?}\n    Apache: {said}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
