//! The two distributions intervals need: normal and Student's t, with their quantiles.
//!
//! Small samples are the rule here (three rounds per cell), where 1.96 standard errors would promise far too much:
//! for three rounds the right factor is 4.30.

/// Probability that a standard normal value is below `x`.
pub fn normal_cdf(x: f64) -> f64 {
    // Beyond 8 it is 0 or 1 to double precision.
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    // Marsaglia (2004), "Evaluating the normal distribution": Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...).
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x - 0.5 * (2.0 * std::f64::consts::PI).ln()).exp()
}

/// The value a standard normal stays below with probability `p`; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    bisect(-8.0, 8.0, |x| normal_cdf(x) < p)
}

/// Probability that a Student t value with `df` degrees of freedom is below `t`.
pub fn t_cdf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(df / (df + t * t), 0.5 * df, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The value a Student t with `df` degrees of freedom stays below with probability `p`.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let mut high = 2.0;
    while t_cdf(high, df) < p && high < 1e9 {
        high *= 2.0;
    }
    bisect(0.0, high, |t| t_cdf(t, df) < p)
}

/// Where a rising condition turns from true to false. Slow and sure: a report asks for a few hundred of these.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Regularised incomplete beta function by its continued fraction (Lentz's method; Abramowitz and Stegun 26.5.8).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// Natural logarithm of the gamma function for positive `x`: Stirling's series, after shifting `x` up to where it is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() < tolerance, "{got}, expected {expected}");
    }

    #[test]
    fn t_quantiles_agree_with_printed_tables() {
        for (df, expected) in
            [(1.0, 12.7062), (2.0, 4.30265), (3.0, 3.18245), (9.0, 2.26216), (23.0, 2.06866), (1e6, 1.95997)]
        {
            close(t_quantile(0.975, df), expected, 1e-4);
            close(t_quantile(0.025, df), -expected, 1e-4);
        }
    }

    #[test]
    fn t_quantile_undoes_t_cdf() {
        for df in [1.0, 2.5, 7.0, 40.0] {
            for p in [0.001, 0.2, 0.5, 0.77, 0.999] {
                close(t_cdf(t_quantile(p, df), df), p, 1e-10);
            }
        }
    }

    #[test]
    fn normal_values_agree_with_printed_tables() {
        close(normal_cdf(1.96), 0.975_002_104_851_78, 1e-12);
        close(normal_cdf(-3.0), 0.001_349_898_031_63, 1e-12);
        close(normal_quantile(0.975), 1.959_963_984_540_05, 1e-10);
        close(normal_quantile(0.5), 0.0, 1e-10);
    }
}
