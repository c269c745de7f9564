//! Ratios of interleaved rounds: one cell's paired ratio, and the ratio pooled over cells.
//!
//! Two rounds that ran back to back share the machine's mood, so it cancels in their ratio and stays in their difference
//! of means. Ratios are averaged as logarithms (2 and 1/2 average to 1), hence every estimate is a geometric mean.

use super::CONFIDENCE;
use super::bootstrap::{RESAMPLES, bca};
use super::student::t_quantile;
use crate::random::Random;

/// An estimated ratio and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the paired ratios.
    pub estimate: f64,
    /// The 95 % interval; `None` when there is a single pair (or cell), which says nothing about spread.
    pub interval: Option<(f64, f64)>,
    /// How many pairs (or, pooled, cells) it rests on.
    pub n: usize,
}

/// What an interval lets one say about a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies above 1.
    Above,
    /// The whole interval lies below 1.
    Below,
    /// The interval holds 1: no difference is shown (which is not the same as "equal").
    NotShown,
    /// There is no interval, so nothing can be said.
    Unknown,
}

impl Ratio {
    /// What the interval supports; never more.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::Unknown,
            Some((low, _)) if low > 1.0 => Verdict::Above,
            Some((_, high)) if high < 1.0 => Verdict::Below,
            Some(_) => Verdict::NotShown,
        }
    }
}

/// The ratio of the first to the second of each pair, with a t interval on the logarithms.
///
/// Three rounds make a wide interval (4.3 standard errors): that is the honest price of a four-minute study.
/// Pairs with a value that is not positive have no ratio and are left out of `n`.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs = log_ratios(pairs);
    let mean = mean(&logs)?;
    let n = logs.len();
    let interval = (n >= 2).then(|| {
        let half = t_half_width(&logs, mean);
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(Ratio { estimate: mean.exp(), interval, n })
}

/// The typical ratio over cells: each cell's mean logarithm counts once, and cells are the units of the interval.
///
/// A mechanism is worth different things in different cells, so the spread between cells belongs in the interval
/// (pooling all rounds as if they were one sample would make it far too narrow). From six cells on the interval is a
/// bootstrap over cells, which needs no normal distribution of effects; below that, a t interval over the cell means.
/// `seed` fixes the resampling.
pub fn pooled(cells: &[Vec<(f64, f64)>], seed: u64) -> Option<Ratio> {
    let means: Vec<f64> = cells.iter().filter_map(|pairs| mean(&log_ratios(pairs))).collect();
    let centre = mean(&means)?;
    let interval = if means.len() >= BOOTSTRAP_FROM {
        let statistic = |sample: &[f64]| mean(sample).unwrap_or(centre);
        bca(&means, statistic, CONFIDENCE, RESAMPLES, &mut Random::new(seed))
    } else if means.len() >= 2 {
        let half = t_half_width(&means, centre);
        Some((centre - half, centre + half))
    } else {
        None
    };
    let interval = interval.map(|(low, high)| (low.exp(), high.exp()));
    Some(Ratio { estimate: centre.exp(), interval, n: means.len() })
}

/// Fewer units than this cannot be resampled in enough different ways for a 95 % interval.
const BOOTSTRAP_FROM: usize = 6;

fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half the width of the t interval of a mean. Needs at least two values.
fn t_half_width(values: &[f64], mean: f64) -> f64 {
    let n = values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    t_quantile(0.5 + 0.5 * CONFIDENCE, n - 1.0) * (variance / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap::tests::normal;
    use super::*;

    #[test]
    fn three_pairs_give_the_textbook_interval() {
        // Logs of the ratios: 0, 0.1, 0.2; mean 0.1, sd 0.1, half width 4.302653 * 0.1 / sqrt(3) = 0.248413.
        let pairs = [(100.0, 100.0), (100.0 * 0.1f64.exp(), 100.0), (7.0 * 0.2f64.exp(), 7.0)];
        let ratio = paired(&pairs).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.estimate.ln() - 0.1).abs() < 1e-12);
        assert!((low.ln() - (0.1 - 0.248_413)).abs() < 1e-5 && (high.ln() - (0.1 + 0.248_413)).abs() < 1e-5);
        assert_eq!((ratio.n, ratio.verdict()), (3, Verdict::NotShown));
    }

    #[test]
    fn a_single_round_has_a_ratio_but_no_interval_and_no_verdict() {
        let ratio = paired(&[(90.0, 100.0)]).unwrap();
        assert_eq!((ratio.interval, ratio.verdict()), (None, Verdict::Unknown));
        assert!((ratio.estimate - 0.9).abs() < 1e-12);
    }

    #[test]
    fn rounds_without_a_positive_value_have_no_ratio() {
        assert_eq!(paired(&[]), None);
        assert_eq!(paired(&[(0.0, 5.0)]), None);
        assert_eq!(paired(&[(0.0, 5.0), (5.0, 5.0)]).unwrap().n, 1);
    }

    #[test]
    fn swapping_the_sides_inverts_the_ratio() {
        let pairs = [(90.0, 100.0), (91.0, 101.0), (88.0, 99.0)];
        let swapped: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let (one, other) = (paired(&pairs).unwrap(), paired(&swapped).unwrap());
        assert!((one.estimate * other.estimate - 1.0).abs() < 1e-12);
        assert!((one.interval.unwrap().0 * other.interval.unwrap().1 - 1.0).abs() < 1e-12);
        assert_eq!((one.verdict(), other.verdict()), (Verdict::Below, Verdict::Above));
    }

    /// How often the interval of `rounds` pairs holds the true ratio 0.93 when both sides share a drifting machine.
    fn coverage_of_paired(rounds: usize, seed: u64) -> f64 {
        let mut rng = Random::new(seed);
        let repeats = 4000;
        let hits = (0..repeats)
            .filter(|_| {
                let pairs: Vec<(f64, f64)> = (0..rounds)
                    .map(|_| {
                        let drift = (0.3 * normal(&mut rng)).exp();
                        let noisy = |rng: &mut Random| (0.05 * normal(rng)).exp();
                        (0.93 * 20_000.0 * drift * noisy(&mut rng), 20_000.0 * drift * noisy(&mut rng))
                    })
                    .collect();
                let (low, high) = paired(&pairs).unwrap().interval.unwrap();
                low <= 0.93 && 0.93 <= high
            })
            .count();
        hits as f64 / f64::from(repeats)
    }

    #[test]
    fn paired_interval_holds_the_truth_about_95_times_in_100() {
        for (rounds, seed) in [(2, 1), (3, 2), (5, 3), (10, 4)] {
            let coverage = coverage_of_paired(rounds, seed);
            // 4000 repeats: the standard error of a coverage near 0.95 is 0.0034.
            assert!((coverage - 0.95).abs() < 0.012, "{rounds} rounds: coverage {coverage}");
        }
    }

    #[test]
    fn pooled_interval_holds_the_typical_ratio_about_95_times_in_100_when_cells_differ() {
        let mut rng = Random::new(11);
        for (cells, tolerance) in [(4, 0.02), (24, 0.02)] {
            let repeats = 800;
            let hits = (0..repeats)
                .filter(|repeat| {
                    let data: Vec<Vec<(f64, f64)>> = (0..cells)
                        .map(|_| {
                            let effect = (0.93f64.ln() + 0.1 * normal(&mut rng)).exp();
                            (0..3)
                                .map(|_| {
                                    (
                                        effect * (0.05 * normal(&mut rng)).exp(),
                                        (0.05 * normal(&mut rng)).exp(),
                                    )
                                })
                                .collect()
                        })
                        .collect();
                    let (low, high) = pooled(&data, *repeat).unwrap().interval.unwrap();
                    low <= 0.93 && 0.93 <= high
                })
                .count();
            let coverage = hits as f64 / repeats as f64;
            assert!((coverage - 0.95).abs() < tolerance, "{cells} cells: coverage {coverage}");
        }
    }

    #[test]
    fn pooling_counts_each_cell_once_however_many_rounds_it_has() {
        let many = vec![(2.0, 1.0); 30];
        let few = vec![(1.0, 2.0); 2];
        let ratio = pooled(&[many, few, Vec::new()], 1).unwrap();
        assert!((ratio.estimate - 1.0).abs() < 1e-12);
        assert_eq!(ratio.n, 2);
        let once_each = pooled(&[vec![(2.0, 1.0)], vec![(1.0, 2.0)]], 9).unwrap();
        let gap = ratio.interval.unwrap().0 / once_each.interval.unwrap().0 - 1.0;
        assert!(gap.abs() < 1e-9, "the interval changed by {gap} with the number of rounds");
    }
}
