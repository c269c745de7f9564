//! Running vectors, several at a time: they wait more than they work.

use super::{Bench, Program, Trouble, Vector, all};
use crate::reason::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// On what.
    pub program: Program,
    /// Under which models, by name.
    pub models: Vec<String>,
    /// Only vectors whose id contains one of these; all if empty.
    pub only: Vec<String>,
    /// Scenarios at a time.
    pub jobs: usize,
}

/// What came of one vector under one model.
#[derive(Debug, Clone)]
pub struct Row {
    /// The vector.
    pub vector: &'static str,
    /// What it shows.
    pub says: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// The model.
    pub model: String,
    /// What it must come to.
    pub expected: &'static str,
    /// What it came to; why nothing could be seen where it did not.
    pub seen: String,
    /// The judgement.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// The judgement on one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Pass,
    /// Not as expected.
    Fail,
    /// Other than Apache, as the vector says it must be, for this reason.
    Differs(&'static str),
    /// This machine cannot run it.
    Skip,
}

impl Verdict {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Differs(_) => "differs",
            Verdict::Skip => "skip",
        }
    }
}

/// How often a scenario that failed is run: a machine that stops for a second can spoil one, a server that behaves otherwise
/// spoils all.
const ATTEMPTS: usize = 3;

/// Runs what the options say. `progress` is told of each finished row, with how many there will be. Ends early when
/// `interrupted`; the rows are then fewer.
pub fn run(
    options: &Options,
    progress: &(dyn Fn(&Row, usize, usize) + Sync),
    interrupted: &AtomicBool,
) -> Vec<Row> {
    crate::target::process::adopt_orphans();
    let wanted = |vector: &&Vector| {
        options.only.is_empty() || options.only.iter().any(|part| vector.id.contains(part))
    };
    let tasks: Vec<(&'static Vector, &str, &'static str)> = options
        .models
        .iter()
        .flat_map(|model| {
            let of_program = |vector: &&Vector| options.program.name() == "mpmlab" || vector.knobs.is_empty();
            let expected =
                move |vector: &'static Vector| Some((vector, model.as_str(), vector.expected(model)?));
            all().filter(wanted).filter(of_program).filter_map(expected)
        })
        .collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while let Some(&(vector, model, expected)) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
                    && !interrupted.load(Ordering::Relaxed)
                {
                    let row = attempt(options, vector, model, expected);
                    let mut rows = rows.lock().expect("no thread panics with the lock");
                    rows.push(row);
                    progress(rows.last().expect("just pushed"), rows.len(), tasks.len());
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no thread panics with the lock");
    let place = |row: &Row| {
        tasks.iter().position(|(vector, model, _)| vector.id == row.vector && *model == row.model)
    };
    rows.sort_by_key(place);
    rows
}

fn attempt(options: &Options, vector: &'static Vector, model: &str, expected: &'static str) -> Row {
    let began = Instant::now();
    let (mut seen, mut verdict) = (String::new(), Verdict::Skip);
    for _ in 0..ATTEMPTS {
        (seen, verdict) = judge(options, vector, expected, observe(options, vector, model));
        if verdict != Verdict::Fail {
            break;
        }
    }
    Row {
        vector: vector.id,
        says: vector.says,
        source: vector.source,
        model: model.to_owned(),
        expected,
        seen,
        verdict,
        took: began.elapsed(),
    }
}

fn observe(options: &Options, vector: &'static Vector, model: &str) -> super::Seen {
    let scenario = || {
        let mut bench = Bench::start(&options.program, model, vector)?;
        (vector.run)(&mut bench)
    };
    // A scenario that stumbles over its own assumptions is one failed row, not the end of the others.
    catch_unwind(AssertUnwindSafe(scenario)).unwrap_or_else(|panic| Err(Trouble::failed(panic_text(&*panic))))
}

fn judge(options: &Options, vector: &Vector, expected: &str, seen: super::Seen) -> (String, Verdict) {
    match seen {
        Ok(seen) if seen == expected => (seen, Verdict::Pass),
        Ok(seen) => match vector.differs {
            Some(difference) if options.program.name() == "mpmlab" && seen == difference.mpmlab => {
                (seen, Verdict::Differs(difference.reason))
            }
            _ => (seen, Verdict::Fail),
        },
        Err(Trouble::Skip(why)) => (why, Verdict::Skip),
        Err(Trouble::Failed(why)) => (why, Verdict::Fail),
    }
}
