//! What the rounds say: which factor plays which part, cells side by side, and ratios with their intervals.

use std::collections::BTreeMap;

use super::data::{Factor, Round, Run};
use super::words;
use crate::stats::quantile::{median, range};
use crate::stats::ratio::{Ratio, paired, pooled};

/// A cell without the series factor: the levels of all others. Targets measured in one block are comparable.
pub type Block = Vec<usize>;

/// A run with the parts of its factors settled.
pub struct Analysis<'a> {
    /// The run.
    pub run: &'a Run,
    /// The factor whose levels are compared (one line in a plot each): `target` where there is one.
    pub series: Option<usize>,
    /// The factor along the horizontal axis.
    pub x: Option<usize>,
    /// The factor that makes groups of panels.
    pub group: Option<usize>,
    /// The factors that make the panels of a group.
    pub panels: Vec<usize>,
    /// Every block with at least one round, in plan order.
    pub blocks: Vec<Block>,
    rounds: BTreeMap<(Block, usize), Vec<&'a Round>>,
}

impl<'a> Analysis<'a> {
    /// Settles what is compared with what.
    pub fn new(run: &'a Run) -> Self {
        let varied: Vec<usize> =
            (0..run.factors.len()).filter(|f| run.factors[*f].levels.len() > 1).collect();
        let numeric = |f: &usize| run.factors[*f].numeric().is_some();
        let series = run
            .factors
            .iter()
            .position(|factor| factor.name == "target")
            .or_else(|| varied.iter().copied().find(|f| !numeric(f)));
        let mut rest: Vec<usize> = varied.into_iter().filter(|f| Some(*f) != series).collect();
        let x = rest.iter().copied().find(numeric).or(rest.first().copied());
        rest.retain(|f| Some(*f) != x);
        // With one factor left its levels are the panels; with more, the first makes groups of panels.
        let group = (rest.len() > 1).then(|| rest.remove(0));
        let mut rounds: BTreeMap<(Block, usize), Vec<&Round>> = BTreeMap::new();
        for round in &run.rounds {
            let (block, level) = split(&round.cell, series);
            rounds.entry((block, level)).or_default().push(round);
        }
        let mut blocks: Vec<Block> = rounds.keys().map(|(block, _)| block.clone()).collect();
        blocks.dedup();
        let mut analysis = Self { run, series, x, group, panels: rest, blocks, rounds };
        let mut blocks = std::mem::take(&mut analysis.blocks);
        blocks.sort_by_key(|block| analysis.sort_key(block));
        analysis.blocks = blocks;
        analysis
    }

    /// Blocks read in the order of the plots: by group, then panel, then along the axis.
    fn sort_key(&self, block: &Block) -> Vec<usize> {
        let order = self.group.iter().chain(&self.panels).chain(&self.x);
        order.map(|factor| block[*factor]).chain(block.iter().copied()).collect()
    }

    /// Names of what is compared. A run that compares nothing has one nameless series.
    pub fn series_names(&self) -> Vec<String> {
        match self.series {
            Some(factor) => self.run.factors[factor].levels.clone(),
            None => vec!["all rounds".into()],
        }
    }

    /// The factors that make up a block and took more than one level, in reading order.
    pub fn block_factors(&self) -> Vec<usize> {
        self.group.iter().chain(&self.panels).chain(&self.x).copied().collect()
    }

    /// All rounds of a series in a block, valid or not.
    pub fn rounds(&self, block: &Block, series: usize) -> &[&'a Round] {
        self.rounds.get(&(block.clone(), series)).map_or(&[], Vec::as_slice)
    }

    /// The valid measurements of a series in a block.
    pub fn values(&self, block: &Block, series: usize, metric: &str) -> Vec<f64> {
        let valid = self.rounds(block, series).iter().filter(|round| round.valid);
        valid.filter_map(|round| round.metric(metric)).collect()
    }

    /// Median, smallest and largest of the valid measurements.
    pub fn spread(&self, block: &Block, series: usize, metric: &str) -> Option<(f64, f64, f64)> {
        let values = self.values(block, series, metric);
        let (low, high) = range(&values)?;
        Some((median(&values)?, low, high))
    }

    /// Whether any valid round of the series exists.
    pub fn measured(&self, series: usize) -> bool {
        self.rounds.iter().any(|((_, level), rounds)| *level == series && rounds.iter().any(|r| r.valid))
    }

    /// Measurements of `series` and `reference` from the same round of a block, both valid.
    fn pairs(&self, block: &Block, series: usize, reference: usize, metric: &str) -> Vec<(f64, f64)> {
        let by_round = |level| -> BTreeMap<u64, f64> {
            let valid = self.rounds(block, level).iter().filter(|round| round.valid);
            valid.filter_map(|round| Some((round.round, round.metric(metric)?))).collect()
        };
        let references = by_round(reference);
        let of_series = by_round(series).into_iter();
        of_series.filter_map(|(round, value)| Some((value, *references.get(&round)?))).collect()
    }

    /// The ratio of `series` to `reference` in one block, from paired valid rounds.
    pub fn ratio(&self, block: &Block, series: usize, reference: usize, metric: &str) -> Option<Ratio> {
        paired(&self.pairs(block, series, reference, metric))
    }

    /// Whether there are enough blocks to speak of a typical one: two give an interval so wide that it only confuses.
    pub fn has_typical(&self) -> bool {
        self.blocks.len() >= 3
    }

    /// The typical ratio over all blocks. Blocks are the units of its interval.
    pub fn pooled_ratio(&self, series: usize, reference: usize, metric: &str) -> Option<Ratio> {
        let cells: Vec<_> =
            self.blocks.iter().map(|block| self.pairs(block, series, reference, metric)).collect();
        pooled(&cells, self.run.plan.seed.unwrap_or(0))
    }

    /// What the others are compared with. First what the plan names, else `prefork`: it has the same core as this
    /// server's other models, so that a ratio to it isolates the concurrency model. Where `apache2` was measured it
    /// is a second reference: a ratio to it says whether the models are as fast as the real ones.
    pub fn references(&self) -> Vec<usize> {
        let names = self.series_names();
        let measured: Vec<usize> = (0..names.len()).filter(|series| self.measured(*series)).collect();
        if measured.len() < 2 {
            return Vec::new();
        }
        let find = |name: &str| measured.iter().copied().find(|series| names[*series] == name);
        let planned = self.run.plan.reference.as_deref().and_then(find);
        let first = planned.or_else(|| find("prefork")).unwrap_or(measured[0]);
        let second = find("apache2").filter(|series| *series != first);
        [Some(first), second].into_iter().flatten().collect()
    }

    /// The block the answer is about: 64 kept connections and a 1 KiB file, or the nearest there is.
    pub fn headline(&self) -> &Block {
        let has_valid = |block: &Block| {
            (0..self.series_names().len()).any(|s| self.rounds(block, s).iter().any(|r| r.valid))
        };
        let cost = |block: &Block| -> f64 {
            let parts = self.run.factors.iter().enumerate().filter(|(index, _)| Some(*index) != self.series);
            parts.map(|(index, factor)| strangeness(factor, block[index])).sum()
        };
        self.blocks
            .iter()
            .min_by(|a, b| (!has_valid(a)).cmp(&!has_valid(b)).then(cost(a).total_cmp(&cost(b))))
            .expect("a run with no round is refused when it is read")
    }

    /// A block in words for a sentence: "64 concurrent connections, keep-alive, 1 KiB files".
    pub fn phrase(&self, block: &Block) -> String {
        let factors = &self.run.factors;
        let parts = (0..factors.len()).filter(|index| Some(*index) != self.series);
        let words: Vec<String> = parts
            .map(|index| words::level_phrase(&factors[index].name, &factors[index].levels[block[index]]))
            .collect();
        if words.is_empty() { "the one setting measured".into() } else { words.join(", ") }
    }

    /// The level of one factor of a block, where the factor is already named.
    pub fn level(&self, block: &Block, factor: usize) -> String {
        let Factor { name, levels } = &self.run.factors[factor];
        words::level(name, &levels[block[factor]])
    }
}

/// How far a level is from the one the answer is best given for.
fn strangeness(factor: &Factor, level: usize) -> f64 {
    let near = |wanted: f64| match factor.levels[level].parse::<f64>() {
        Ok(value) if value > 0.0 => (value / wanted).ln().abs(),
        _ => 10.0,
    };
    match factor.name.as_str() {
        "connections" => near(64.0),
        "size" => near(1024.0),
        "keepalive" if factor.levels[level] == "true" => 0.0,
        "keepalive" => 20.0,
        _ => level as f64,
    }
}

/// A cell as its block (the series factor's place held by 0) and the level of the series factor.
fn split(cell: &[usize], series: Option<usize>) -> (Block, usize) {
    let mut block = cell.to_vec();
    let level = series.map_or(0, |factor| std::mem::replace(&mut block[factor], 0));
    (block, level)
}
