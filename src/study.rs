//! `mpmlab study`: arguments in, a study run, shown or reported, a few lines out.

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use mpmlab_experiments::duration::parse_duration;
use mpmlab_experiments::interrupt::on_interrupt;
use mpmlab_experiments::study::{self, RunOptions, RunSummary};
use mpmlab_experiments::target::mpmlab::Model;
use mpmlab_experiments::target::treatment::Pool;
use mpmlab_mpm::Card;
use mpmlab_mpm::registry::MODELS;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure servers side by side and write a report.
///
/// A study varies some factors (server, connections, keep-alive, file size), measures every combination in random order
/// on freshly started servers, and writes a directory with the raw rounds and report.html.
///
/// Exit status: 0 done, 1 the study failed or was stopped (what was measured is kept), 2 wrong usage or study file.
#[derive(Debug, Parser)]
pub struct StudyArgs {
    #[command(subcommand)]
    command: StudyCommand,
}

#[derive(Debug, Subcommand)]
enum StudyCommand {
    /// Run a study, or go on with one that was stopped
    Run(RunArgs),
    /// List the studies that come with mpmlab
    List,
    /// Say what a study would do, without doing it
    Show {
        /// A shipped study's name (see `study list`), or a study file (TOML)
        #[arg(value_name = "NAME|FILE")]
        study: String,
        /// Plan for this time instead of the study's own: 90s, 10m, 1h
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        budget: Option<Duration>,
    },
    /// Write report.html and tidy.csv of a run directory anew from its raw rounds
    Report {
        /// A directory written by `study run`
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A shipped study's name (see `study list`), or a study file (TOML)
    #[arg(value_name = "NAME|FILE")]
    study: String,
    /// Run directory [default: runs/NAME-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Time for the whole run, report included: 90s, 10m, 1h [default: the study's own]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// Go on with the run in --out, or with the latest run of this study
    #[arg(long)]
    resume: bool,
    /// Seed of the random order; the same seed gives the same order [default: a new one, kept in plan.json]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,
    /// Core the server is pinned to [default: the first one]
    #[arg(long, value_name = "N")]
    server_cpu: Option<usize>,
    /// Core the load generator is pinned to [default: the second one]
    #[arg(long, value_name = "N")]
    client_cpu: Option<usize>,
}

/// Runs the command. Errors are `StudyError`s, whose `exit_status` says what the process should end with.
pub fn run(args: StudyArgs) -> Result<ExitCode> {
    let program = std::env::current_exe()?;
    match args.command {
        StudyCommand::Run(args) => {
            let options = RunOptions {
                study: args.study,
                out: args.out,
                budget: args.budget,
                resume: args.resume,
                seed: args.seed,
                server_cpu: args.server_cpu,
                client_cpu: args.client_cpu,
                program,
                models: models(),
                command_line: std::env::args().collect(),
                quiet: false,
            };
            Ok(print(&study::run(&options, on_interrupt())?))
        }
        StudyCommand::List => {
            print!("{}", study::list());
            Ok(ExitCode::SUCCESS)
        }
        StudyCommand::Show { study, budget } => {
            let options = RunOptions { budget, ..RunOptions::new(&study, program, models()) };
            print!("{}", study::show(&options)?);
            Ok(ExitCode::SUCCESS)
        }
        StudyCommand::Report { directory } => {
            println!("{}", study::report(&directory)?.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What this executable can serve with, for the laboratory, which does not know the models.
fn models() -> Vec<Model> {
    let describe = |card: &Card| Model {
        name: card.name.to_owned(),
        sentence: card.sentence.to_owned(),
        pool: Pool::named(card.shape.name()).expect("a test of this file looks at every shape"),
    };
    MODELS.iter().map(|model| describe(model.card())).collect()
}

fn print(summary: &RunSummary) -> ExitCode {
    print!("{}", summary.table);
    for remark in &summary.remarks {
        eprintln!("{remark}");
    }
    if let Some(report) = &summary.report {
        println!("report: {}", report.display());
    }
    // A study without a single usable run has answered nothing.
    let failed = summary.interrupted || summary.invalid == summary.done;
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_a_target() {
        let names: Vec<String> = models().into_iter().map(|model| model.name).collect();
        assert_eq!(names, mpmlab_mpm::registry::names());
    }
}
