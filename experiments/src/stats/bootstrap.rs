//! Bootstrap intervals for a statistic of independent units, with a deterministic generator.
//!
//! The method is BCa (Efron 1987: bias-corrected and accelerated), with the quantiles expanded for small samples as
//! Hesterberg (2015, "What Teachers Should Know About the Bootstrap", section 3.3) advises: resampling n values understates their
//! variance by (n-1)/n and ignores the tails of t. The same data and seed give the same interval on every machine.

use super::student::{normal_cdf, normal_quantile, t_quantile};
use crate::random::Random;

/// How many resamples an interval of a report is made from: the Monte-Carlo error of its ends is then far below the
/// digits printed.
pub const RESAMPLES: usize = 4000;

/// The BCa interval of `statistic` at level `confidence`, from `resamples` resamples of `sample`.
///
/// `None` for fewer than two units: one value says nothing about spread.
pub fn bca(
    sample: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    resamples: usize,
    rng: &mut Random,
) -> Option<(f64, f64)> {
    let n = sample.len();
    if n < 2 || resamples == 0 {
        return None;
    }
    let observed = statistic(sample);
    let mut drawn = vec![0.0; n];
    let mut replicates: Vec<f64> = (0..resamples)
        .map(|_| {
            drawn.iter_mut().for_each(|slot| *slot = sample[rng.below(n)]);
            statistic(&drawn)
        })
        .collect();
    replicates.sort_by(f64::total_cmp);

    // Bias: where the observed value stands among the replicates, ties counted half.
    let below = replicates.partition_point(|value| *value < observed);
    let not_above = replicates.partition_point(|value| *value <= observed);
    let share = (0.5 * (below + not_above) as f64 / resamples as f64)
        .clamp(1.0 / resamples as f64, 1.0 - 1.0 / resamples as f64);
    let bias = normal_quantile(share);
    let acceleration = acceleration(sample, &statistic);

    let tail = 0.5 * (1.0 - confidence);
    let expanded = (n as f64 / (n as f64 - 1.0)).sqrt() * t_quantile(1.0 - tail, n as f64 - 1.0);
    let end = |z: f64| {
        let shifted = bias + z;
        let p = normal_cdf(bias + shifted / (1.0 - acceleration * shifted));
        super::quantile::quantile(&replicates, p).expect("there is at least one replicate")
    };
    Some((end(-expanded), end(expanded)))
}

/// How fast the statistic's standard error changes with its value: the skewness of its jackknife values.
fn acceleration(sample: &[f64], statistic: &impl Fn(&[f64]) -> f64) -> f64 {
    let mut without = Vec::with_capacity(sample.len());
    let jackknife: Vec<f64> = (0..sample.len())
        .map(|left_out| {
            without.clear();
            without
                .extend(sample.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, v)| *v));
            statistic(&without)
        })
        .collect();
    let mean = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let (squares, cubes) = jackknife.iter().fold((0.0, 0.0), |(squares, cubes), value| {
        let gap: f64 = mean - value;
        (squares + gap * gap, cubes + gap * gap * gap)
    });
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A standard normal value (Box and Muller).
    pub(crate) fn normal(rng: &mut Random) -> f64 {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * rng.unit()).cos()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn generator_gives_the_published_sequence() {
        // Reference values of SplitMix64 for seed 1234567 (Rosetta Code, and the author's own C).
        let mut rng = Random::new(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn same_seed_same_interval() {
        let sample = [0.1, 0.4, -0.2, 0.3, 0.25, 0.6];
        let once = bca(&sample, mean, 0.95, 500, &mut Random::new(3));
        assert_eq!(once, bca(&sample, mean, 0.95, 500, &mut Random::new(3)));
        assert_ne!(once, bca(&sample, mean, 0.95, 500, &mut Random::new(4)));
    }

    #[test]
    fn one_unit_has_no_interval() {
        assert_eq!(bca(&[1.0], mean, 0.95, 100, &mut Random::new(1)), None);
    }

    #[test]
    fn equal_units_give_an_interval_of_no_width() {
        assert_eq!(bca(&[2.0; 8], mean, 0.95, 100, &mut Random::new(1)), Some((2.0, 2.0)));
    }

    #[test]
    fn interval_holds_the_truth_about_95_times_in_100_also_for_skewed_units() {
        let mut rng = Random::new(20);
        let rounds = 1000;
        for (shape, tolerance) in [("normal", 0.02), ("skewed", 0.045)] {
            let hits = (0..rounds)
                .filter(|_| {
                    let sample: Vec<f64> = (0..24)
                        .map(|_| match shape {
                            "normal" => normal(&mut rng),
                            _ => -(1.0 - rng.unit()).ln() - 1.0,
                        })
                        .collect();
                    let (low, high) = bca(&sample, mean, 0.95, 600, &mut rng.clone()).unwrap();
                    low <= 0.0 && 0.0 <= high
                })
                .count();
            let coverage = hits as f64 / f64::from(rounds);
            assert!((coverage - 0.95).abs() < tolerance, "{shape}: coverage {coverage}");
        }
    }
}
