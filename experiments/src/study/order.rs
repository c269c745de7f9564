//! The random order of a study: in each round the blocks are shuffled, and in each block the targets.
//!
//! A block is one combination of everything but the target; its targets run back to back, so what drifts over minutes
//! (a neighbour on the host, the clock frequency) falls on all of them alike, and comparisons are made within blocks.
//! The order depends only on the study and the seed: the same two give the same order on any machine.

use super::factor::{Cell, Level, TARGET};
use crate::random::Random;
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
