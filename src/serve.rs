//! `mpmlab serve`: arguments and configuration in, a running server out.

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use mpmlab_core::config::clamp::{self, Effective, Shape};
use mpmlab_core::config::knobs::{KnobSink, Profile, apply_profile, set_in};
use mpmlab_core::config::nearest::suggestion;
use mpmlab_core::config::{Config, Environment, Listen, Source, Warning, load_into};
use mpmlab_core::server::Server;
use mpmlab_mpm::knobs::ModelKnobs;
use mpmlab_mpm::process::listen::Listener;
use mpmlab_mpm::process::parent::{self, Ended, Setup};
use mpmlab_mpm::process::signals;
use mpmlab_mpm::{Mpm, registry};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run the server in the foreground, until Ctrl-C or TERM.
///
/// The configuration is Apache's, with Debian's defaults; later settings win: profile, -f, -c, then --listen, --root and
/// --set. When the server is ready it prints one line to standard error: `listening on http://ADDR (mpm NAME, pid N)`.
///
/// Started as root, children run as User (www-data, or nobody, if it is not set).
///
/// Signals: TERM and INT stop, WINCH stops gracefully, HUP restarts, USR1 restarts gracefully.
///
/// Exit status: 0 stopped, 1 the server could not go on, 2 wrong usage or configuration.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[arg(long, value_name = "NAME", default_value = "event", help = mpm_help())]
    mpm: String,
    /// Where to listen, IP:PORT or PORT; replaces every Listen directive. Port 0: any free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Directory to serve (DocumentRoot)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Configuration file in Apache's syntax
    #[arg(short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// A name for <IfDefine>; may be repeated
    #[arg(short = 'D', value_name = "NAME")]
    define: Vec<String>,
    /// A directive, as -c "KeepAliveTimeout 5"; may be repeated
    #[arg(short = 'c', value_name = "DIRECTIVE")]
    directive: Vec<String>,
    /// A mechanism's setting, as --set file-send=sendfile; may be repeated (see: mpmlab mechanisms)
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// All mechanisms at once: apache makes the calls that Apache 2.4 makes, lean the fewest [default: the model's own]
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    /// Check the configuration and exit
    #[arg(short = 't')]
    test: bool,
    /// Print the model and the limits in effect, and exit
    #[arg(short = 'V')]
    version: bool,
    /// Send a signal to the server whose PidFile the configuration names
    #[arg(short = 'k', value_enum, value_name = "SIGNAL")]
    signal: Option<SignalName>,
}

/// The help of `--mpm`: whatever is registered.
fn mpm_help() -> String {
    format!("Concurrency model: {}", registry::names().join(", "))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    Apache,
    Lean,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SignalName {
    /// TERM: stop now
    Stop,
    /// USR1: new configuration, requests in progress are finished
    Graceful,
    /// HUP: new configuration at once
    Restart,
    /// WINCH: stop when requests in progress are finished
    GracefulStop,
}

/// What the arguments and files come to, before anything is opened.
struct Read {
    config: Config,
    knobs: ModelKnobs,
    limits: Effective,
    warnings: Vec<Warning>,
}

/// Runs the command. Errors are wrong usage or configuration: exit status 2.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let mpm = registry::find(&args.mpm).ok_or_else(|| {
        let names = registry::names();
        anyhow!(
            "--mpm {}: there are {}{}",
            args.mpm,
            names.join(", "),
            suggestion(&args.mpm, names.iter().copied())
        )
    })?;
    let read = read(args, mpm)?;
    for warning in &read.warnings {
        eprintln!("{warning}");
    }
    if args.version {
        print!("{}", describe(mpm, &read));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(signal) = args.signal {
        return send(signal, &read.config);
    }
    let setup = set_up(args, read)?;
    if args.test {
        parent::check(mpm, &setup)?;
        eprintln!("Syntax OK");
        return Ok(ExitCode::SUCCESS);
    }
    let reload = || -> Result<Setup, String> { read_again(args, mpm).map_err(|error| error.to_string()) };
    let ready = |listeners: &[Listener]| {
        let addresses: Vec<String> = listeners.iter().map(|l| format!("http://{}", l.bound())).collect();
        eprintln!(
            "listening on {} (mpm {}, pid {})",
            addresses.join(" "),
            mpm.card().name,
            std::process::id()
        );
    };
    match parent::run(mpm, setup, &reload, &ready)? {
        Ended::Stopped => Ok(ExitCode::SUCCESS),
        Ended::GaveUp => Ok(ExitCode::FAILURE),
    }
}

fn read_again(args: &ServeArgs, mpm: &dyn Mpm) -> Result<Setup> {
    set_up(args, read(args, mpm)?)
}

/// Defaults, profile with the model's card, -f, -c, and then what has a flag of its own.
fn read(args: &ServeArgs, mpm: &dyn Mpm) -> Result<Read> {
    let card = mpm.card();
    let mut config = Config::default();
    let mut knobs = ModelKnobs::default();
    let profile = match args.profile {
        Some(ProfileName::Apache) => Profile::Apache,
        Some(ProfileName::Lean) => Profile::Lean,
        None => card.profile,
    };
    let sinks: [&mut dyn KnobSink; 2] = [&mut config.knobs, &mut knobs];
    for sink in sinks {
        apply_profile(sink, profile, card.faithful)?;
    }
    let environment = Environment {
        defines: args.define.clone(),
        // Apache's files refer to what its envvars file exports, ${APACHE_LOG_DIR} and the like.
        variables: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        ..Environment::for_model(card.name)
    };
    let file = args.file.iter().cloned().map(Source::File);
    let lines =
        args.directive.iter().map(|text| Source::Line { origin: "-c".to_owned(), text: text.clone() });
    let sources: Vec<Source> = file.chain(lines).collect();
    let mut warnings = load_into(&mut config, &sources, &environment, &mut [&mut knobs])?;
    if let Some(address) = &args.listen {
        config.listen.clear();
        let line = Source::Line { origin: "--listen".to_owned(), text: format!("Listen {address}") };
        load_into(&mut config, &[line], &environment, &mut [])?;
    }
    if let Some(root) = &args.root {
        config.document_root.clone_from(root);
    }
    for assignment in &args.set {
        set_in(&mut [&mut config.knobs, &mut knobs], assignment)
            .map_err(|error| anyhow!("--set: {error}"))?;
        let name = assignment.split('=').next().unwrap_or_default();
        if !card.knows(name) {
            warnings.push(Warning::general(format!(
                "--set {assignment}: {} has no such knob; it has no effect",
                card.name
            )));
        }
    }
    let (limits, said) = clamp::resolve(&config.mpm, card.shape);
    warnings.extend(said);
    let limits = limits.with_buckets(config.accepting.buckets(parent::online_cores()), card.shape);
    Ok(Read { config, knobs, limits, warnings })
}

fn set_up(args: &ServeArgs, read: Read) -> Result<Setup> {
    let Read { config, knobs, limits, .. } = read;
    let unset = args.root.is_none() && config.document_root == Config::default().document_root;
    if unset && !config.document_root.exists() {
        bail!("there is no directory to serve: name one with --root DIR");
    }
    let listen = match config.listen.as_slice() {
        [] => vec![Listen { ip: Some(std::net::Ipv4Addr::LOCALHOST.into()), port: 8080 }],
        some => some.to_vec(),
    };
    Ok(Setup { server: Server::new(config)?, limits, knobs, listen })
}

fn send(signal: SignalName, config: &Config) -> Result<ExitCode> {
    let Some(path) = &config.pid_file else {
        bail!("-k needs to know the server: name its pid file with -f FILE or -c \"PidFile FILE\"");
    };
    let pid = read_pid(path)?;
    let request = match signal {
        SignalName::Stop => signals::Request::Stop,
        SignalName::Graceful => signals::Request::GracefulRestart,
        SignalName::Restart => signals::Request::Restart,
        SignalName::GracefulStop => signals::Request::GracefulStop,
    };
    match signals::send(pid, request) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(errno) => {
            eprintln!("mpmlab: server {pid} of '{}': {}", path.display(), errno.desc().to_lowercase());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn read_pid(path: &Path) -> Result<i32> {
    let text = std::fs::read_to_string(path)
        .map_err(|_| anyhow!("PidFile '{}' cannot be read: is the server running?", path.display()))?;
    match text.trim().parse() {
        // 0 and negative numbers would reach whole process groups.
        Ok(pid) if pid > 1 => Ok(pid),
        _ => bail!("PidFile '{}' holds no process id", path.display()),
    }
}

/// What `-V` prints: model and effective limits, by the directives' names.
fn describe(mpm: &dyn Mpm, read: &Read) -> String {
    let card = mpm.card();
    let limits = &read.limits;
    let mut rows = vec![
        ("Server", format!("mpmlab/{}", env!("CARGO_PKG_VERSION"))),
        ("MPM", format!("{} ({})", card.name, card.sentence)),
    ];
    if card.shape != Shape::Acceptor {
        rows.push(("StartServers", limits.start_servers.to_string()));
    }
    match card.shape {
        Shape::Processes => rows.extend([
            ("MinSpareServers", limits.min_spare.to_string()),
            ("MaxSpareServers", limits.max_spare.to_string()),
        ]),
        Shape::Threads { .. } => rows.extend([
            ("MinSpareThreads", limits.min_spare.to_string()),
            ("MaxSpareThreads", limits.max_spare.to_string()),
            ("ThreadsPerChild", limits.threads_per_child.to_string()),
            ("ThreadLimit", limits.thread_limit.to_string()),
        ]),
        Shape::Acceptor => {}
    }
    let most = if card.shape == Shape::Acceptor { "Acceptors at most" } else { "Processes at most" };
    rows.extend([
        ("ServerLimit", limits.server_limit.to_string()),
        ("MaxRequestWorkers", limits.max_request_workers.to_string()),
        (most, limits.limit.to_string()),
        ("Listener buckets", limits.buckets.to_string()),
        ("MaxConnectionsPerChild", limits.max_connections_per_child.to_string()),
    ]);
    if card.obeys.contains(&"AsyncRequestWorkerFactor") {
        rows.push(("AsyncRequestWorkerFactor", limits.async_factor.to_string()));
    }
    let sinks: [&dyn KnobSink; 2] = [&read.config.knobs, &read.knobs];
    for sink in sinks {
        let obeyed = sink.rows().iter().filter(|row| card.knows(row.name));
        rows.extend(obeyed.map(|row| (row.name, sink.get(row.name).unwrap_or_default())));
    }
    rows.into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}
