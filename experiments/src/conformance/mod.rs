//! The conformance kit: black-box scenarios that say what a model does, run on mpmlab and on the real Apache alike.
//!
//! A [`Vector`] is a small scenario with the text it must come to. The scenario drives a server from outside, by
//! sockets, signals and `/proc`, and reads its scoreboard and its log; it cannot see which program it talks to. What it saw is a
//! text too, and a vector passes when the two are equal. The same expectations hold for mpmlab and for Apache; where the
//! two must differ, the vector carries a [`Difference`] with the reason.
//!
//! Reading order: one file of [`vectors`], then [`bench`] for the words the scenarios use.

pub mod bench;
pub mod board;
pub mod catalogue;
pub mod client;
mod curve;
mod lifespan;
mod run;
mod server;
pub mod table;
pub mod trace;
pub mod vectors;

pub use bench::Bench;
pub use run::{Options, Row, Verdict, run};
pub use server::Program;

/// What a scenario comes to: what was seen, or why nothing could be.
pub type Seen = Result<String, Trouble>;

/// Why a scenario saw nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// This machine lacks something the scenario needs.
    Skip(String),
    /// Something that had to happen did not.
    Failed(String),
}

impl Trouble {
    /// Something that had to happen did not.
    pub fn failed(what: impl Into<String>) -> Trouble {
        Trouble::Failed(what.into())
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Failed(crate::reason::reason(&error))
    }
}

/// One scenario with what it must come to.
pub struct Vector {
    /// Its name, unique.
    pub id: &'static str,
    /// The fact it shows, in a sentence.
    pub says: &'static str,
    /// Where the fact is written: a section of the reference notes, a vector of theirs, a section of the manual.
    pub source: &'static str,
    /// Directives beyond [`server::BASE`], the same for mpmlab and for Apache. One for some models only begins with their
    /// names: `worker event: ThreadsPerChild 4`. `{second}` stands for another free address, `{scratch}` for a directory.
    pub setup: &'static [&'static str],
    /// mpmlab's knobs, `NAME=VALUE`. A vector with knobs is about mpmlab alone.
    pub knobs: &'static [&'static str],
    /// What it must come to: names of models, separated by spaces (or [`EVERY`]), and the text. Models that are not named
    /// are not meant.
    pub expect: &'static [(&'static str, &'static str)],
    /// Where mpmlab and Apache must differ.
    pub differs: Option<Difference>,
    /// The scenario.
    pub run: fn(&mut Bench) -> Seen,
}

/// All models there are.
pub const EVERY: &str = "every model";
/// The models of Apache 2.4.
pub const APACHES: &str = "prefork worker event";

/// A known difference between mpmlab and Apache, for a reason.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// What mpmlab comes to instead.
    pub mpmlab: &'static str,
    /// Why.
    pub reason: &'static str,
}

impl Vector {
    /// What the vector must come to under a model, if it is meant for it.
    pub fn expected(&self, model: &str) -> Option<&'static str> {
        let meant = |models: &str| models == EVERY || models.split(' ').any(|name| name == model);
        self.expect.iter().find(|(models, _)| meant(models)).map(|(_, text)| *text)
    }
}

/// Every vector, by subject.
pub fn all() -> impl Iterator<Item = &'static Vector> {
    vectors::ALL.iter().flat_map(|group| group.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_enough_vectors_and_each_is_told_apart() {
        let ids: Vec<_> = all().map(|vector| vector.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id is used twice");
        for vector in all() {
            assert!(!vector.expect.is_empty() && !vector.source.is_empty(), "{}", vector.id);
            assert!(
                vector.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                vector.id
            );
        }
    }

    #[test]
    fn differences_are_few() {
        let differing: Vec<_> =
            all().filter(|vector| vector.differs.is_some()).map(|vector| vector.id).collect();
        assert!(differing.len() <= 3, "{differing:?}");
    }
}
