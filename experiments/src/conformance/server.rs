//! Starting a server for one scenario: mpmlab or Apache, with the same directives in the same order.

use super::board;
use super::{Trouble, Vector};
use crate::interrupt::on_interrupt;
use crate::study::scratch::Scratch;
use crate::target::apache2;
use crate::target::process::{Announces, Launch, Server};
use crate::target::{first_line, free_port, unprivileged};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the scenarios are run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This mpmlab executable.
    Mpmlab(PathBuf),
    /// The installed Apache.
    Apache2,
}

impl Program {
    /// The name in `--target`.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Mpmlab(_) => "mpmlab",
            Program::Apache2 => "apache2",
        }
    }

    /// Its version, or why it cannot be run.
    ///
    /// # Errors
    /// It is not installed, or does not run: one line.
    pub fn version(&self) -> Result<String, String> {
        match self {
            Program::Mpmlab(path) => first_line(path, "--version"),
            Program::Apache2 => first_line(&apache2::program()?, "-v"),
        }
    }
}

/// Directives of every scenario, before its own: Apache's compiled-in values, said aloud because packagers change them, and
/// what makes a server observable.
pub const BASE: &[&str] = &[
    "ServerName localhost",
    "Timeout 60",
    "KeepAlive On",
    "KeepAliveTimeout 5",
    "MaxKeepAliveRequests 100",
    "LogLevel info",
];

/// A server that runs, in a directory of its own. Dropping it kills what is left of it.
pub(super) struct Running {
    pub(super) server: Server,
    pub(super) address: SocketAddr,
    pub(super) second: SocketAddr,
    pub(super) root: PathBuf,
    pub(super) error_log: PathBuf,
    pub(super) access_log: PathBuf,
    pub(super) scoreboard: PathBuf,
    /// The configuration file.
    pub(super) file: PathBuf,
    pub(super) pid_file: PathBuf,
    /// What the server writes to its terminal.
    pub(super) terminal: PathBuf,
    // Last: removed when the server is gone.
    _scratch: Scratch,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.kill();
        // Nobody is left to remove it.
        let _ = fs::remove_file(&self.scoreboard);
    }
}

/// Longest time until a started server's threads are all there.
const SETTLED: Duration = Duration::from_secs(10);

pub(super) fn start(program: &Program, model: &str, vector: &Vector) -> Result<Running, Trouble> {
    let scratch = Scratch::create().map_err(|error| Trouble::failed(error.to_string()))?;
    let directory = scratch.path();
    let root = directory.join("htdocs");
    fs::create_dir(&root)?;
    fs::set_permissions(&root, Permissions::from_mode(0o755))?;
    fs::write(root.join("small"), vec![b'a'; 1024])?;
    let address = free_port()?;
    let (error_log, access_log) = (directory.join("error.log"), directory.join("access.log"));
    let mut text = match program {
        // As Apache without mod_reqtimeout, which acts as soon as it is loaded: only those get it who want it.
        Program::Mpmlab(_) if !limits_reading(vector) => "RequestReadTimeout header=0 body=0\n".to_owned(),
        Program::Mpmlab(_) => String::new(),
        Program::Apache2 => preamble(directory, model, vector)?,
    };
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a String cannot fail");
    line(&format!("Listen {address}"));
    for (name, path) in [
        ("DocumentRoot", root.clone()),
        ("ErrorLog", error_log.clone()),
        ("PidFile", directory.join("pid")),
        ("ScoreBoardFile", directory.join("scoreboard")),
    ] {
        line(&format!("{name} \"{}\"", path.display()));
    }
    if let Some((user, group)) = unprivileged() {
        line(&format!("User {user}\nGroup {group}"));
    }
    line(&format!("CustomLog \"{}\" \"%r %>s\"", access_log.display()));
    BASE.iter().for_each(|directive| line(directive));
    let second = free_port()?;
    for directive in vector.setup.iter().filter_map(|directive| for_model(directive, model)) {
        line(
            &directive
                .replace("{second}", &second.to_string())
                .replace("{scratch}", &directory.display().to_string()),
        );
    }
    let file = directory.join("server.conf");
    fs::write(&file, text)?;
    let terminal = directory.join("stderr.log");
    let launch = Launch {
        program: match program {
            Program::Mpmlab(path) => path.clone(),
            Program::Apache2 => apache2::program().map_err(Trouble::Skip)?,
        },
        arguments: match program {
            Program::Mpmlab(_) => {
                let mut words =
                    vec!["serve".into(), "--mpm".into(), model.into(), "-f".into(), (&file).into()];
                words.extend(vector.knobs.iter().flat_map(|knob| ["--set".into(), (*knob).into()]));
                words
            }
            Program::Apache2 => vec!["-f".into(), (&file).into(), "-DFOREGROUND".into()],
        },
        announces: Announces::InLog(address),
        processes: 0,
        log: terminal.clone(),
        more_logs: vec![error_log.clone()],
        probe_path: String::new(),
    };
    let server = Server::start(&launch, None, on_interrupt()).map_err(Trouble::Failed)?;
    let mut running = Running {
        server,
        address,
        second,
        root,
        error_log,
        access_log,
        scoreboard: PathBuf::new(),
        file,
        pid_file: directory.join("pid"),
        terminal,
        _scratch: scratch,
    };
    settle(&mut running)?;
    Ok(running)
}

/// A directive of a set-up, if it is for this model: `prefork worker: Directive value` is for those two only. Apache refuses the
/// directives of models that are not loaded.
fn for_model<'a>(directive: &'a str, model: &str) -> Option<&'a str> {
    match directive.split_once(": ") {
        Some((models, directive)) => models.split(' ').any(|name| name == model).then_some(directive),
        None => Some(directive),
    }
}

/// Waits until the scoreboard is there and no thread is still being started.
fn settle(running: &mut Running) -> Result<(), Trouble> {
    let start = Instant::now();
    let (mut ready, mut since) = (0, start);
    loop {
        if let Some(path) = board::find(running.server.leader()) {
            running.scoreboard = path;
        }
        let letters =
            board::Board::read(&running.scoreboard).map(|board| board.letters()).unwrap_or_default();
        let idle = letters.chars().filter(|c| *c == '_').count();
        if idle != ready {
            (ready, since) = (idle, Instant::now());
        }
        // Threads appear one by one: ready is who has not changed for a moment.
        if ready > 0 && !letters.contains('S') && since.elapsed() > Duration::from_millis(150) {
            return Ok(());
        }
        if start.elapsed() > SETTLED {
            return Err(Trouble::failed(format!(
                "the server's threads are not ready: scoreboard \"{letters}\""
            )));
        }
        std::thread::sleep(super::bench::LOOK);
    }
}

fn limits_reading(vector: &Vector) -> bool {
    vector.setup.iter().any(|directive| directive.starts_with("RequestReadTimeout"))
}

/// Apache's modules, and what its build would otherwise put elsewhere.
fn preamble(directory: &Path, model: &str, vector: &Vector) -> Result<String, Trouble> {
    let mut modules = vec!["status"];
    if limits_reading(vector) {
        modules.push("reqtimeout");
    }
    let mut text = apache2::load_modules(model, &modules).map_err(Trouble::Skip)?;
    for name in ["ServerRoot", "DefaultRuntimeDir"] {
        writeln!(text, "{name} \"{}\"", directory.display()).expect("writing to a String cannot fail");
    }
    let types = Path::new("/etc/mime.types");
    let types = if types.is_file() { types } else { Path::new("/dev/null") };
    writeln!(text, "TypesConfig {}", types.display()).expect("writing to a String cannot fail");
    text.push_str("<Location \"/server-status\">\n  SetHandler server-status\n</Location>\n");
    text.push_str("<Directory />\n  AllowOverride None\n  Require all granted\n</Directory>\n");
    Ok(text)
}
