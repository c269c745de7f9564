//! The `mpmlab` command: picks the subcommand, prints errors, sets the exit status.

mod conformance;
mod load;
mod mechanisms;
mod serve;
mod study;

use clap::{Parser, Subcommand};
use mpmlab_experiments::load::LoadError;
use mpmlab_experiments::study::StudyError;
use std::process::ExitCode;

/// One web server whose concurrency model is a flag, and a laboratory that says what each mechanism is worth.
#[derive(Debug, Parser)]
#[command(name = "mpmlab", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Load(load::LoadArgs),
    Study(study::StudyArgs),
    Conformance(conformance::ConformanceArgs),
    Mechanisms(mechanisms::MechanismsArgs),
}

/// Exit status for wrong usage or configuration.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Load(args) => load::run(args),
        Command::Study(args) => study::run(args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Mechanisms(args) => mechanisms::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("mpmlab: {}", one_line(&format!("{error:#}")));
        ExitCode::from(status_of(&error))
    })
}

/// What was asked for failed (1), or it was asked for wrongly (2). Only a study and a load can fail at their work; whatever
/// goes wrong in the other commands before they do theirs is usage or configuration.
fn status_of(error: &anyhow::Error) -> u8 {
    match (error.downcast_ref::<StudyError>(), error.downcast_ref::<LoadError>()) {
        (Some(error), _) => error.exit_status(),
        (_, Some(LoadError::Plan(_))) => USAGE,
        (_, Some(_)) => 1,
        _ => USAGE,
    }
}

/// Help goes to standard output; a mistake becomes one line on standard error.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        print!("{error}");
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let said: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Usage:")).collect();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing was asked: the help is the answer, and it is more than a line.
        eprint!("{text}");
        return ExitCode::from(USAGE);
    }
    let line = said.join("; ");
    eprintln!("mpmlab: {}", line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(USAGE)
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
