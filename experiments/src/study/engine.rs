//! A whole study: who takes part, where results go, every round in its order, and the report at the end.

use super::budget::{self, Slice};
use super::directory::Directory;
use super::factor::{self, Level, TARGET};
use super::file::Study;
use super::order::{Planned, fresh_seed};
use super::plan::{self, Dropped, Plan};
use super::progress::Progress;
use super::results::{self, Record, Results};
use super::round::{Bench, OTHERS_SHARE};
use super::scratch::Scratch;
use super::{StudyError, docroot, environment, shipped};
use crate::reason::reason;
use crate::target::mpmlab::Model;
use crate::target::pin::{self, Cores, Pinned};
use crate::target::{Site, Target, process};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Name of a shipped study, or a file.
    pub study: String,
    /// Run directory; by default `runs/NAME-DATE-TIME`.
    pub out: Option<PathBuf>,
    /// Time for the whole run, instead of the study's own.
    pub budget: Option<Duration>,
    /// Go on with the run in `out`, or with the latest one of this study.
    pub resume: bool,
    /// Seed of the random order; by default a fresh one.
    pub seed: Option<u64>,
    /// Core for the server.
    pub server_cpu: Option<usize>,
    /// Core for the load generator.
    pub client_cpu: Option<usize>,
    /// The mpmlab executable, to serve with.
    pub program: PathBuf,
    /// The models that the executable has: each is a target.
    pub models: Vec<Model>,
    /// The command line, for the record.
    pub command_line: Vec<String>,
    /// Show no progress.
    pub quiet: bool,
}

impl RunOptions {
    /// Everything by default.
    pub fn new(study: &str, program: PathBuf, models: Vec<Model>) -> RunOptions {
        RunOptions {
            study: study.to_owned(),
            out: None,
            budget: None,
            resume: false,
            seed: None,
            server_cpu: None,
            client_cpu: None,
            program,
            models,
            command_line: Vec::new(),
            quiet: false,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunSummary {
    /// Runs made, earlier ones of a resumed study included.
    pub done: usize,
    /// Runs planned.
    pub planned: usize,
    /// Runs that were no evidence.
    pub invalid: usize,
    /// Ended by Ctrl-C.
    pub interrupted: bool,
    /// Where everything is.
    pub directory: PathBuf,
    /// The report, when there was something to report.
    pub report: Option<PathBuf>,
    /// A few lines with the main numbers.
    pub table: String,
    /// Lines the user should read: rounds that were cut, how to go on.
    pub remarks: Vec<String>,
}

/// How long the machine is watched for other busy processes before anything starts.
const WATCH: Duration = Duration::from_millis(300);

/// More of the server's core than this for others, and a round is called disturbed: twice what ticks can be wrong by.
const DISTURBED: f64 = 0.1;

/// Runs a study, or goes on with one. Raising `stop` ends it at once and keeps the rounds that were complete.
pub fn run(options: &RunOptions, stop: &AtomicBool) -> Result<RunSummary, StudyError> {
    let began = Instant::now();
    let (mut study, known) = meant(options)?;
    let asked = study.clone();
    let (chosen, dropped) = choose_targets(&mut study, &known)?;
    let allowed = pin::allowed();
    let cores = Cores::choose(options.server_cpu, options.client_cpu, &allowed).map_err(StudyError::Usage)?;
    let mut directory = Directory::prepare(options, &study.name)?;
    let mut results = Results::open(&directory.path)?;

    process::adopt_orphans();
    let scratch = Scratch::create()?;
    let root = scratch.path().join("htdocs");
    let sizes = sizes(&study);
    fs::create_dir(&root).and_then(|()| docroot::write(&root, &sizes)).map_err(|error| {
        StudyError::Failed(format!("{}: {}; make room for the test files", root.display(), reason(&error)))
    })?;
    let server_cores = if cores.server.is_some() { 1 } else { allowed.len().max(1) };
    let bench = Bench { root: &root, scratch: scratch.path(), cores, server_cores, pool: study.pool, stop };
    let site = Site {
        root: &root,
        scratch: scratch.path(),
        probe_path: "/",
        cores: server_cores,
        start: study.pool,
    };

    // Watched before the study makes itself busy.
    let host = crate::probe::host::inspect(WATCH);
    // Probes and progress share the client's core: they must not take time from the server.
    let _pinned = cores.client.and_then(|cpu| Pinned::to(cpu).ok());

    let mut plan = if options.resume {
        let plan = Plan::of_earlier_run(&directory.path, &asked)?;
        narrow(&mut study, &plan);
        still_here(&plan, &chosen)?;
        plan
    } else {
        Plan::new(&study, options.seed.unwrap_or_else(fresh_seed), &chosen, dropped, &site)
    };
    let targets: BTreeMap<&str, &dyn Target> =
        chosen.iter().map(|(target, _)| (target.name(), *target)).collect();
    let todo = remaining(&plan.order, &results.earlier)?;

    let progress = Progress::new(plan.runs, options.quiet);
    for dropped in &plan.dropped_targets {
        progress.say(&format!("{} is left out: {}", dropped.target, dropped.why));
    }
    if !todo.is_empty() {
        let overhead = try_out(&bench, &targets, &plan, &sizes)?;
        let budget = budget_of(options, &study, plan.runs, todo.len());
        let pace = Pace::new(began, budget, overhead);
        let first = pace.slice(todo.len());
        if !options.resume {
            plan.budget_s = budget.as_secs_f64();
            (plan.window_s, plan.warmup_s) = (first.window.as_secs_f64(), first.warmup.as_secs_f64());
            plan.overhead_s = overhead.as_secs_f64();
            let per_round = plan.runs / (plan.rounds.max(1) as usize);
            if budget::that_fit(pace.left(), per_round, overhead, 1) == 0 {
                progress.say("the budget is shorter than the shortest windows take; one whole round is made all the same");
            }
            directory.write(plan::FILE_NAME, &plan)?;
        }
        let environment = environment::record(&host, &plan, cores, options);
        directory.write_environment(&environment, options.resume)?;
        directory.keep();
        let mut runner =
            Runner { plan: &plan, bench, targets: &targets, results: &mut results, progress, pace };
        let ended = runner.rounds(&todo)?;
        runner.progress.end();
        return conclude(directory.path.clone(), &plan, ended, stop, options);
    }
    progress.end();
    directory.keep();
    conclude(directory.path.clone(), &plan, Vec::new(), stop, options)
}

/// The study that is meant, and all targets there are, those with knobs that it names included.
pub(super) fn meant(options: &RunOptions) -> Result<(Study, Vec<Box<dyn Target>>), StudyError> {
    let mut known = crate::target::known(&options.program, &options.models);
    let names: Vec<&str> = known.iter().map(|target| target.name()).collect();
    let study = shipped::load(&options.study, &names)?;
    let levels = study.factors.iter().filter(|(name, _)| name == TARGET).flat_map(|(_, levels)| levels);
    let named: Vec<String> = levels.map(Level::to_string).collect();
    crate::target::add_variants(&mut known, &options.program, &options.models, &named)
        .map_err(StudyError::Usage)?;
    Ok((study, known))
}

/// A target that takes part, and its version.
pub type Chosen<'t> = (&'t dyn Target, String);

/// Drops the targets that are not installed from the study; refuses when nothing is left or mpmlab's own cannot run.
pub(super) fn choose_targets<'t>(
    study: &mut Study,
    known: &'t [Box<dyn Target>],
) -> Result<(Vec<Chosen<'t>>, Vec<Dropped>), StudyError> {
    let mut chosen: Vec<Chosen<'t>> = Vec::new();
    let mut dropped = Vec::new();
    for (_, levels) in study.factors.iter_mut().filter(|(name, _)| name == TARGET) {
        for level in std::mem::take(levels) {
            let name = level.to_string();
            let target =
                known.iter().find(|target| target.name() == name).expect("file.rs accepts known names only");
            match target.installed() {
                Ok(version) => {
                    levels.push(level);
                    chosen.push((target.as_ref(), version));
                }
                Err(why) if target.optional() => dropped.push(Dropped { target: name, why }),
                Err(why) => return Err(StudyError::Failed(format!("{name} cannot be measured: {why}"))),
            }
        }
    }
    if chosen.is_empty() {
        let whys: Vec<String> = dropped.iter().map(|dropped| dropped.why.clone()).collect();
        return Err(StudyError::Failed(format!(
            "none of the study's targets can be measured here ({}); install one",
            whys.join("; ")
        )));
    }
    Ok((chosen, dropped))
}

/// On resume the targets are those of the plan, whatever has been installed since.
fn narrow(study: &mut Study, plan: &Plan) {
    for (_, levels) in study.factors.iter_mut().filter(|(name, _)| name == TARGET) {
        levels.retain(|level| plan.targets.contains_key(&level.to_string()));
    }
}

fn still_here(plan: &Plan, chosen: &[Chosen<'_>]) -> Result<(), StudyError> {
    match plan.targets.keys().find(|name| chosen.iter().all(|(target, _)| target.name() != *name)) {
        None => Ok(()),
        Some(gone) => Err(StudyError::Usage(format!(
            "{gone} was measured before and cannot be now; install it again, or start anew with another --out"
        ))),
    }
}

/// The planned runs that have no result yet. Results of other runs than planned mean two studies were mixed.
fn remaining(order: &[Planned], earlier: &[Record]) -> Result<Vec<Planned>, StudyError> {
    for record in earlier {
        let planned = order.iter().find(|planned| planned.order == record.order);
        if planned.is_none_or(|planned| planned.cell != record.cell || planned.round != record.round) {
            return Err(StudyError::Usage(format!(
                "{}: round {} of the order is not the planned one; these are results of another plan",
                results::FILE_NAME,
                record.order
            )));
        }
    }
    let done: HashSet<u32> = earlier.iter().map(|record| record.order).collect();
    Ok(order.iter().filter(|planned| !done.contains(&planned.order)).cloned().collect())
}

/// A resumed run gets the share of the time that belongs to what is left, unless told otherwise.
fn budget_of(options: &RunOptions, study: &Study, planned: usize, left: usize) -> Duration {
    options.budget.unwrap_or_else(|| study.budget.mul_f64(left as f64 / planned.max(1) as f64))
}

fn sizes(study: &Study) -> Vec<u64> {
    study
        .factors
        .iter()
        .filter(|(name, _)| name == "size")
        .flat_map(|(_, levels)| levels)
        .filter_map(|level| if let Level::Number(size) = level { Some(*size) } else { None })
        .collect()
}

/// Starts every target once before anything is measured: one that cannot serve is found out now, not after an hour.
/// Returns what a round costs besides its load, on average.
fn try_out(
    bench: &Bench<'_>,
    targets: &BTreeMap<&str, &dyn Target>,
    plan: &Plan,
    sizes: &[u64],
) -> Result<Duration, StudyError> {
    let mut total = Duration::ZERO;
    let mut tried = 0u32;
    for name in plan.targets.keys() {
        if bench.stop.load(Ordering::Relaxed) {
            break;
        }
        match bench.try_out(targets[name.as_str()], sizes) {
            Ok(time) => (total, tried) = (total + time, tried + 1),
            Err(_) if bench.stop.load(Ordering::Relaxed) => break,
            Err(why) => return Err(StudyError::Failed(format!("{name} cannot be measured: {why}"))),
        }
    }
    Ok(if tried == 0 { super::show::TYPICAL_OVERHEAD } else { total / tried })
}

/// How the time is spent: what a run costs besides its load, learnt as the study goes.
#[derive(Debug)]
struct Pace {
    deadline: Instant,
    overhead: Duration,
    learnt: u32,
}

impl Pace {
    fn new(began: Instant, budget: Duration, overhead: Duration) -> Pace {
        Pace { deadline: began + budget - budget::reserve(budget), overhead, learnt: 1 }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn slice(&self, runs: usize) -> Slice {
        budget::slice(self.left(), runs, self.overhead)
    }

    /// The mean of all so far; the first, from trying out, counts like one run.
    fn learn(&mut self, overhead: Duration) {
        self.overhead = (self.overhead * self.learnt + overhead) / (self.learnt + 1);
        self.learnt += 1;
    }
}

/// What the rounds of a run need.
struct Runner<'a> {
    plan: &'a Plan,
    bench: Bench<'a>,
    targets: &'a BTreeMap<&'a str, &'a dyn Target>,
    results: &'a mut Results,
    progress: Progress,
    pace: Pace,
}

impl Runner<'_> {
    /// Makes the runs of `todo`, block by block, until they are done, time is up, or somebody says stop. The first round
    /// is always completed; of the others only what fits. Returns remarks.
    fn rounds(&mut self, todo: &[Planned]) -> Result<Vec<String>, StudyError> {
        let first_round = todo.first().map_or(1, |planned| planned.round);
        let mut behind = 0;
        for round in todo.chunk_by(|a, b| a.round == b.round) {
            let rounds_left = (self.plan.rounds - round[0].round + 1) as usize;
            let runs_left = todo.len() - behind;
            // Rounds that cannot be completed would only shorten the windows of those that can.
            let fitting = budget::that_fit(
                self.pace.left(),
                runs_left.div_ceil(rounds_left),
                self.pace.overhead,
                rounds_left,
            );
            let may_cut = round[0].round > first_round;
            if fitting == 0 && may_cut {
                return Ok(vec![self.cut(behind, todo)]);
            }
            let mut of_these = runs_left * fitting.max(1) / rounds_left;
            for block in round.chunk_by(|a, b| a.block == b.block) {
                if may_cut && budget::that_fit(self.pace.left(), block.len(), self.pace.overhead, 1) == 0 {
                    return Ok(vec![self.cut(behind, todo)]);
                }
                let slice = self.pace.slice(of_these.max(block.len()));
                for planned in block {
                    if !self.one(planned, slice, self.plan.runs - todo.len() + behind)? {
                        return Ok(Vec::new());
                    }
                    behind += 1;
                    of_these = of_these.saturating_sub(1);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Makes one run and writes its line; false when interrupted.
    fn one(&mut self, planned: &Planned, slice: Slice, done: usize) -> Result<bool, StudyError> {
        if self.bench.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let name = factor::target(&planned.cell);
        self.progress.show(done, self.pace.left(), name);
        let Some(measured) = self.bench.measure(self.targets[name], &planned.cell, slice) else {
            return Ok(false);
        };
        self.pace.learn(measured.overhead);
        self.results.append(&Record {
            study: self.plan.study.name.clone(),
            cell: planned.cell.clone(),
            round: planned.round,
            order: planned.order,
            started: measured.started,
            metrics: measured.metrics,
            valid: measured.invalid_because.is_empty(),
            invalid_because: measured.invalid_because,
        })?;
        Ok(true)
    }

    fn cut(&self, behind: usize, todo: &[Planned]) -> String {
        format!(
            "time is up: {} of {} runs were not made (round {} onwards is incomplete); a longer --budget makes them all, \
             --resume makes the rest",
            todo.len() - behind,
            self.plan.runs,
            todo.get(behind).map_or(self.plan.rounds, |planned| planned.round)
        )
    }
}

fn others_share(record: &Record) -> f64 {
    record.metrics.get(OTHERS_SHARE).and_then(|share| share.as_f64()).unwrap_or(0.0)
}

/// Writes the report from what is there and counts up.
fn conclude(
    directory: PathBuf,
    plan: &Plan,
    mut remarks: Vec<String>,
    stop: &AtomicBool,
    options: &RunOptions,
) -> Result<RunSummary, StudyError> {
    let records = Results::open(&directory)?.earlier;
    let invalid = records.iter().filter(|record| !record.valid).count();
    let interrupted = stop.load(Ordering::Relaxed) && records.len() < plan.runs;
    let report = if records.is_empty() { None } else { Some(super::report(&directory)?) };
    if invalid > 0 {
        remarks.push(format!(
            "{invalid} of {} runs are no evidence and are left out of the numbers; {} says why",
            records.len(),
            results::FILE_NAME
        ));
    }
    let disturbed = records.iter().filter(|record| others_share(record) > DISTURBED).count();
    if disturbed > 0 {
        remarks.push(format!(
            "in {disturbed} of {} runs other processes took more than {:.0} % of the server's core: times from this run are \
             noisy; stop what else runs here and repeat it",
            records.len(),
            DISTURBED * 100.0
        ));
    }
    if interrupted {
        remarks.push(format!(
            "stopped after {} of {} runs; resume with: mpmlab study run {} --out {} --resume",
            records.len(),
            plan.runs,
            options.study,
            directory.display()
        ));
    }
    let table = match report {
        Some(_) => {
            crate::report::terminal_table(&directory).map_err(|e| StudyError::Failed(e.to_string()))?
        }
        None => String::new(),
    };
    Ok(RunSummary {
        done: records.len(),
        planned: plan.runs,
        invalid,
        interrupted,
        table,
        directory,
        report,
        remarks,
    })
}
