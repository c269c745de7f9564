//! Order statistics of a few rounds: median, quantile, range.

/// The quantile `p` (0 to 1) by linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996: what
/// R, NumPy and spreadsheets print). `None` for an empty sample; values that are not finite are left out.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64))
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Smallest and largest value.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    Some((*sorted.first()?, *sorted.last()?))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_type_7() {
        // R: quantile(c(1, 2, 4, 8), c(0, .25, .5, .9, 1)) gives 1.00 1.75 3.00 6.80 8.00
        let values = [8.0, 1.0, 4.0, 2.0];
        for (p, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            let got = quantile(&values, p).unwrap();
            assert!((got - expected).abs() < 1e-12, "p {p}: {got}, expected {expected}");
        }
    }

    #[test]
    fn one_value_is_its_own_median_and_range() {
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(range(&[7.0]), Some((7.0, 7.0)));
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(range(&[f64::NAN]), None);
    }
}
