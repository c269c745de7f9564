//! The random order of a study: in each round the blocks are shuffled, and in each block the targets.
//!
//! A block is one combination of everything but the target; its targets run back to back, so what drifts over minutes
//! (a neighbour on the host, the clock frequency) falls on all of them alike, and comparisons are made within blocks.
//! The order depends only on the study and the seed: the same two give the same order on any machine.

use super::factor::{Cell, Level, TARGET};
use serde::{Deserialize, Serialize};

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Place in the order of all runs, from 1. Identifies the run.
    pub order: u32,
    /// Round it belongs to, from 1.
    pub round: u32,
    /// Block within the round, from 1.
    pub block: u32,
    /// Settings.
    pub cell: Cell,
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable with any number, and good enough to shuffle with.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, all equally likely: values in the uneven remainder are drawn again.
    pub fn below(&mut self, limit: u64) -> u64 {
        let uneven = (u64::MAX % limit + 1) % limit;
        loop {
            let bits = self.bits();
            if bits <= u64::MAX - uneven {
                return bits % limit;
            }
        }
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other =
                usize::try_from(self.below(last as u64 + 1)).expect("at most `last`, which is a usize");
            items.swap(last, other);
        }
    }
}

/// All combinations of the levels of `factors`, each once.
pub fn cells(factors: &[(String, Vec<Level>)]) -> Vec<Cell> {
    let mut cells = vec![Cell::new()];
    for (name, levels) in factors {
        cells = cells
            .iter()
            .flat_map(|cell| {
                levels.iter().map(|level| {
                    let mut cell = cell.clone();
                    cell.insert(name.clone(), level.clone());
                    cell
                })
            })
            .collect();
    }
    cells
}

/// Every run of `rounds` rounds in the order they are to be made.
pub fn schedule(factors: &[(String, Vec<Level>)], rounds: u32, seed: u64) -> Vec<Planned> {
    let (targets, others): (Vec<_>, Vec<_>) = factors.iter().cloned().partition(|(name, _)| name == TARGET);
    let mut targets: Vec<Level> = targets.into_iter().flat_map(|(_, levels)| levels).collect();
    let mut blocks = cells(&others);
    let mut random = Random::new(seed);
    let mut runs = Vec::new();
    for round in 1..=rounds {
        random.shuffle(&mut blocks);
        for (block, settings) in (1..).zip(&blocks) {
            random.shuffle(&mut targets);
            for target in &targets {
                let mut cell = settings.clone();
                cell.insert(TARGET.to_owned(), target.clone());
                let order = u32::try_from(runs.len() + 1).expect("file.rs bounds the number of runs");
                runs.push(Planned { order, round, block, cell });
            }
        }
    }
    runs
}

/// A seed for whoever did not choose one: short enough to be typed again.
pub fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mixed = now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32);
    Random::new(mixed).bits() % 1_000_000_000
}
