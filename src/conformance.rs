//! `mpmlab conformance`: arguments in, the vectors run, a table out.

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use mpmlab_experiments::conformance::{self, Options, Program, Row, Verdict, table};
use mpmlab_experiments::interrupt::on_interrupt;
use mpmlab_experiments::study::progress::Progress;
use mpmlab_mpm::registry;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Check what a server does against what Apache 2.4 was measured to do.
///
/// Each vector is a small scenario run on a server of its own: requests, signals, killed children, and what clients, the
/// scoreboard, the process table and the error log show. The same vectors, with the same expectations, run on mpmlab under each
/// model and on the installed Apache. Nothing but the loopback interface is used. Scenarios mostly wait, so several run at a time;
/// all of them take a few minutes.
///
/// Exit status: 0 every row passes (or differs for a stated reason, or cannot run on this machine), 1 a row fails, 2 wrong usage.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// What to check: this mpmlab, or the installed Apache
    #[arg(long, value_enum, default_value_t = Target::Mpmlab)]
    target: Target,
    /// One model only [default: all that the target has]
    #[arg(long, value_name = "NAME")]
    mpm: Option<String>,
    /// Only vectors whose name contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Scenarios at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    jobs: usize,
    /// List the vectors and what they expect, and run nothing
    #[arg(long)]
    list: bool,
    /// Print one JSON object: {"target", "version", "rows": [{"vector", "model", "expected", "seen", "verdict", ..}]}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    Mpmlab,
    Apache2,
}

/// Apache's models; mpmlab's are in the registry.
const APACHES: [&str; 3] = ["prefork", "worker", "event"];

/// Runs the command.
pub fn run(args: &ConformanceArgs) -> Result<ExitCode> {
    let (program, known) = match args.target {
        Target::Mpmlab => (Program::Mpmlab(std::env::current_exe()?), registry::names()),
        Target::Apache2 => (Program::Apache2, APACHES.to_vec()),
    };
    let models: Vec<String> = match &args.mpm {
        None => known.iter().map(|name| (*name).to_owned()).collect(),
        Some(name) if known.contains(&name.as_str()) => vec![name.clone()],
        Some(name) => bail!("--mpm {name}: {} has {}", program.name(), known.join(", ")),
    };
    let matches = |id: &str| args.only.is_empty() || args.only.iter().any(|part| id.contains(part));
    if !conformance::all().any(|vector| matches(vector.id)) {
        bail!(
            "--only {}: no vector's name contains it (see: mpmlab conformance --list)",
            args.only.join(", ")
        );
    }
    if args.list {
        for vector in conformance::all().filter(|vector| matches(vector.id)) {
            println!("{}: {} ({})", vector.id, vector.says, vector.source);
            for (models, text) in vector.expect {
                println!("    {models}: {text}");
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let version = program.version().map_err(|why| anyhow!("{why}; install it, or use --target mpmlab"))?;
    let options = Options { program, models, only: args.only.clone(), jobs: args.jobs.max(1) };
    let interrupted = on_interrupt();
    let (began, progress) = (Instant::now(), Mutex::new(None));
    let told = |row: &Row, done: usize, total: usize| {
        let mut progress = progress.lock().expect("nobody panics with the lock");
        let progress = progress.get_or_insert_with(|| Progress::new(total, args.json));
        let left = began.elapsed() / u32::try_from(done).unwrap_or(u32::MAX)
            * u32::try_from(total - done).unwrap_or(0);
        if row.verdict == Verdict::Fail {
            progress.say(&format!("{} under {} fails", row.vector, row.model));
        }
        progress.show(done, left, row.vector);
    };
    let rows = conformance::run(&options, &told, interrupted);
    if let Some(progress) = progress.into_inner().expect("nobody panics with the lock") {
        progress.end();
    }
    let name = options.program.name();
    if args.json {
        println!("{}", table::json(&rows, name, &version));
    } else {
        print!("{}", table::text(&rows));
        println!("{} ({version})", table::summary(&rows, name));
    }
    if interrupted.load(Ordering::Relaxed) {
        eprintln!("mpmlab: interrupted; the rows above are those that were finished");
        return Ok(ExitCode::from(1));
    }
    let failed = rows.iter().any(|row| row.verdict == Verdict::Fail);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
