//! `mpmlab mechanisms`: the models and the knobs there are, from their tables.
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use mpmlab_core::config::knobs::{CoreKnobs, KnobRow, Profile};
use mpmlab_core::connection::step::ConnState;
use mpmlab_mpm::Card;
use mpmlab_mpm::knobs::ModelKnobs;
use mpmlab_mpm::registry::MODELS;
use serde_json::{Value, json};

/// The tables of all crates that have knobs.
const TABLES: &[&[KnobRow]] = &[CoreKnobs::ROWS, ModelKnobs::ROWS];

/// List the concurrency models and the mechanisms that can be switched.
///
/// A model is run with `serve --mpm NAME`. A knob is set with `serve --set NAME=VALUE` or its directive in a
/// configuration file; all of them together with `serve --profile apache|lean`.
#[derive(Debug, Parser)]
pub struct MechanismsArgs {
    /// Print one JSON object: {"models": [..], "knobs": [..]}
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &MechanismsArgs) -> Result<ExitCode> {
    let cards: Vec<&Card> = MODELS.iter().map(|model| model.card()).collect();
    let text = if args.json { format!("{}\n", as_json(&cards, TABLES)) } else { as_text(&cards, TABLES) };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => Ok(other.map(|()| ExitCode::SUCCESS)?),
    }
}

fn as_text(cards: &[&Card], tables: &[&[KnobRow]]) -> String {
    let mut text = String::from("Models (--mpm)\n");
    for card in cards {
        line(&mut text, &format!("  {:<18}", card.name), card.sentence);
        line(&mut text, "                    ", &format!("a waiting connection holds {}", holds(card)));
        let faithful: Vec<String> =
            card.faithful.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !faithful.is_empty() {
            line(&mut text, "                    ", &format!("sets {}", faithful.join(" ")));
        }
        if !card.obeys.is_empty() {
            line(&mut text, "                    ", &format!("of its own: {}", card.obeys.join(" ")));
        }
        line(&mut text, "                    ", &format!("default profile {}", profile(card)));
        for deviation in card.deviations {
            line(&mut text, "                    ", &format!("unlike Apache: {deviation}"));
        }
    }
    text.push_str("\nKnobs (--set NAME=VALUE)\n");
    for row in tables.iter().copied().flatten() {
        line(&mut text, &format!("  {:<18}", row.name), row.doc);
        line(&mut text, "                    ", &format!("{} {}", row.directive, values(row)));
        let defaults = format!("default {}, profile lean {}", row.default, row.lean);
        line(&mut text, "                    ", &defaults);
        line(&mut text, "                    ", &format!("changes {}", row.changes));
    }
    text
}

fn line(text: &mut String, indent: &str, what: &str) {
    writeln!(text, "{indent}{what}").expect("a String takes everything");
}

/// What a waiting connection keeps busy, by state.
fn holds(card: &Card) -> String {
    let parked: Vec<&str> =
        ConnState::ALL.into_iter().filter(|&state| card.parks.holds(state)).map(ConnState::name).collect();
    let holder = card.holder;
    if parked.is_empty() {
        return format!("a {holder} in every state");
    }
    format!("a {holder}, but nothing in: {}", parked.join(", "))
}

fn profile(card: &Card) -> &'static str {
    match card.profile {
        Profile::Apache => "apache",
        Profile::Lean => "lean",
    }
}

fn values(row: &KnobRow) -> String {
    match row.range {
        Some((least, greatest)) => format!("{least}..{greatest}"),
        None => row.levels.join("|"),
    }
}

fn as_json(cards: &[&Card], tables: &[&[KnobRow]]) -> Value {
    let models: Vec<Value> = cards
        .iter()
        .map(|card| {
            let held = |state: ConnState| if card.parks.holds(state) { "nothing" } else { card.holder };
            let holds: serde_json::Map<String, Value> = ConnState::ALL
                .into_iter()
                .map(|state| (state.name().to_owned(), held(state).into()))
                .collect();
            let faithful: serde_json::Map<String, Value> =
                card.faithful.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
            json!({
                "name": card.name,
                "sentence": card.sentence,
                "shape": card.shape.name(),
                "profile": profile(card),
                "obeys": card.obeys,
                "holds": holds,
                "faithful": faithful,
                "deviations": card.deviations,
            })
        })
        .collect();
    let knobs: Vec<Value> = tables
        .iter()
        .copied()
        .flatten()
        .map(|row| {
            json!({
                "name": row.name,
                "directive": row.directive,
                "levels": row.levels,
                "range": row.range.map(|(least, greatest)| [least, greatest]),
                "default": row.default,
                "lean": row.lean,
                "doc": row.doc,
                "changes": row.changes,
            })
        })
        .collect();
    json!({ "models": models, "knobs": knobs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpmlab_core::config::directive;

    #[test]
    fn every_model_and_every_knob_is_listed_in_both_forms() {
        let cards: Vec<&Card> = MODELS.iter().map(|model| model.card()).collect();
        let (text, object) = (as_text(&cards, TABLES), as_json(&cards, TABLES));
        let listed = |list: &str, name: &str| {
            let entries = object[list].as_array().expect("a list");
            entries.iter().filter(|entry| entry["name"] == name).count() == 1
        };
        for card in cards {
            assert!(listed("models", card.name) && text.contains(card.sentence), "{}", card.name);
        }
        for row in TABLES.iter().copied().flatten() {
            assert!(listed("knobs", row.name) && text.contains(row.doc) && text.contains(row.directive));
        }
    }

    #[test]
    fn cards_set_only_knobs_and_values_that_exist() {
        for model in MODELS {
            for (name, value) in model.card().faithful {
                let core = CoreKnobs::default().set(name, value);
                let model = ModelKnobs::default().set(name, value);
                assert!(
                    core.is_ok() || model.is_ok(),
                    "{name}={value}: the card names a knob and a value of it"
                );
            }
        }
    }

    #[test]
    fn cards_claim_only_what_exists() {
        for model in MODELS {
            for name in model.card().obeys {
                let knob = TABLES.iter().copied().flatten().any(|row| row.name == *name);
                assert!(knob || directive::find(name).is_some(), "{name}: neither a knob nor a directive");
            }
        }
        let event = mpmlab_mpm::registry::find("event").unwrap().card();
        let prefork = mpmlab_mpm::registry::find("prefork").unwrap().card();
        assert!(event.knows("shed") && !prefork.knows("shed"));
        assert!(event.knows("linger") && prefork.knows("linger"));
    }

    #[test]
    fn names_are_unique_over_all_tables() {
        let rows: Vec<&KnobRow> = TABLES.iter().copied().flatten().collect();
        for (index, row) in rows.iter().enumerate() {
            let taken =
                rows[..index].iter().any(|other| other.name == row.name || other.directive == row.directive);
            assert!(!taken, "{} is declared twice", row.name);
        }
    }
}
