//! What a study would do, in words, without doing it.

use super::budget::{reserve, slice};
use super::engine::{self, RunOptions};
use super::file::Study;
use super::{StudyError, factor, file, shipped};
use crate::target::treatment;
use std::fmt::Write as _;
use std::time::Duration;

/// What a run costs besides its load, for expectations before anything was measured: starting and stopping a pool of
/// 150 processes and reading their memory.
pub(super) const TYPICAL_OVERHEAD: Duration = Duration::from_millis(250);

/// One line per shipped study: name, question, expected time.
pub fn list() -> String {
    let mut text = String::new();
    for (name, content) in shipped::SHIPPED {
        let study = file::parse(name, content, None).expect("shipped studies are tested to be sound");
        let time = minutes(study.budget);
        writeln!(text, "{name}\n    {}\n    takes at most {time}", study.question).expect("String grows");
    }
    text
}

/// The plan of a study: factors, number of runs, expected time, who is left out.
pub fn show(options: &RunOptions) -> Result<String, StudyError> {
    let (mut study, known) = engine::meant(options)?;
    let (_, dropped) = engine::choose_targets(&mut study, &known)?;
    Ok(describe(&study, options.budget, &dropped))
}

fn describe(study: &Study, budget: Option<Duration>, dropped: &[super::plan::Dropped]) -> String {
    let budget = budget.unwrap_or(study.budget);
    let per_round: usize = study.factors.iter().map(|(_, levels)| levels.len()).product();
    let runs = per_round * study.rounds as usize;
    let slice = slice(budget.saturating_sub(reserve(budget)), runs, TYPICAL_OVERHEAD);
    let mut lines = vec![format!("{}: {}", study.name, study.title), study.question.clone(), String::new()];
    lines.push("what varies".to_owned());
    for (name, levels) in &study.factors {
        let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
        let sentence = factor::find(name).map_or("", |factor| factor.sentence);
        lines.push(format!("  {name:<12} {:<44} {sentence}", levels.join(", ")));
    }
    for dropped in dropped {
        lines.push(format!("  left out: {}: {}", dropped.target, dropped.why));
    }
    lines.push(String::new());
    lines.push(format!("{per_round} cells x {} rounds = {runs} runs", study.rounds));
    lines.push(format!(
        "at most {}; each run loads its server for about {} ms to warm up and {} ms measured",
        minutes(budget),
        slice.warmup.as_millis(),
        slice.window.as_millis()
    ));
    lines.push(String::new());
    lines.extend(treatment::notes(study.pool));
    lines.join("\n") + "\n"
}

/// `3 min 20 s`.
pub(super) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (seconds, words) in [(45.0, "45 s"), (59.7, "1 min"), (200.0, "3 min 20 s"), (240.0, "4 min")] {
            assert_eq!(minutes(Duration::from_secs_f64(seconds)), words);
        }
    }
}
