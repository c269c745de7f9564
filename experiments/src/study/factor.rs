//! What a study may vary: the factors, each a row with its kind, default and sentence.

use super::nearest::hint;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One setting of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(u64),
    /// A name.
    Text(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Flag(flag) => write!(f, "{flag}"),
            Level::Number(number) => write!(f, "{number}"),
            Level::Text(text) => write!(f, "{text}"),
        }
    }
}

/// One combination of settings: factor to level. Sorted by name, so equal cells are equal text.
pub type Cell = BTreeMap<String, Level>;

/// What levels a factor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names of servers; of mpmlab's models also with knobs behind it, as in `event shed=off`.
    Target,
    /// Whole numbers from the first to the second.
    Number(u64, u64),
    /// `true` and `false`.
    Flag,
}

/// A factor.
#[derive(Debug, Clone, Copy)]
pub struct Factor {
    /// Its name in study files and results.
    pub name: &'static str,
    /// What levels it takes.
    pub kind: Kind,
    /// One sentence.
    pub sentence: &'static str,
}

/// The factor every study has: who is measured. Its levels run back to back within a block.
pub const TARGET: &str = "target";

/// All factors. A new one is a row here and its use in [`super::round`].
pub const FACTORS: [Factor; 4] = [
    Factor { name: TARGET, kind: Kind::Target, sentence: "the server that is measured" },
    Factor {
        name: "connections",
        kind: Kind::Number(1, 20_000),
        sentence: "connections that ask at the same time; each asks again as soon as it is answered",
    },
    Factor {
        name: "keepalive",
        kind: Kind::Flag,
        sentence: "true: a connection carries many requests; false: every request opens a new connection",
    },
    Factor {
        name: "size",
        kind: Kind::Number(0, 64 << 20),
        sentence: "size of the file that is asked for, in bytes",
    },
];

/// What holds where a study file says nothing about a factor.
pub fn default_level(name: &str) -> Level {
    match name {
        "connections" => Level::Number(64),
        "keepalive" => Level::Flag(true),
        _ => Level::Number(1024),
    }
}

/// The factor of that name, or what to write instead.
pub fn find(name: &str) -> Result<&'static Factor, String> {
    let names: Vec<&str> = FACTORS.iter().map(|factor| factor.name).collect();
    FACTORS
        .iter()
        .find(|factor| factor.name == name)
        .ok_or_else(|| format!("unknown factor `{name}`; {}", hint(name, &names)))
}

impl Factor {
    /// Whether `level` is one of its levels; the error says what to write. With `targets`, a target must be one of them.
    pub fn check(&self, level: &Level, targets: Option<&[&str]>) -> Result<(), String> {
        match (self.kind, level) {
            (Kind::Target, Level::Text(name)) => {
                let (base, knobs) = name.split_once(' ').unwrap_or((name, ""));
                if let Some(knob) = knobs.split_whitespace().find(|knob| !knob.contains('=')) {
                    return Err(format!(
                        "`{knob}` in target `{name}` is not NAME=VALUE; write \"event shed=off\""
                    ));
                }
                match targets {
                    Some(known) if !known.contains(&base) => {
                        Err(format!("unknown target `{base}`; {}", hint(base, known)))
                    }
                    _ => Ok(()),
                }
            }
            (Kind::Target, other) => Err(format!("`{other}` is not a name; write a target in quotes")),
            (Kind::Flag, Level::Flag(_)) => Ok(()),
            (Kind::Flag, other) => Err(format!("`{other}` is neither true nor false")),
            (Kind::Number(least, most), Level::Number(n)) if (least..=most).contains(n) => Ok(()),
            (Kind::Number(least, most), other) => {
                Err(format!("`{other}` is not a whole number from {least} to {most}"))
            }
        }
    }
}

/// The number at `name`, 0 where the cell has none: cells are complete, made by [`super::order`] from checked files.
pub fn number(cell: &Cell, name: &str) -> u64 {
    match cell.get(name) {
        Some(Level::Number(number)) => *number,
        _ => 0,
    }
}

/// Whether `name` is true in the cell.
pub fn flag(cell: &Cell, name: &str) -> bool {
    cell.get(name) == Some(&Level::Flag(true))
}

/// The target of the cell.
pub fn target(cell: &Cell) -> &str {
    match cell.get(TARGET) {
        Some(Level::Text(name)) => name,
        _ => "",
    }
}
