//! Numbers as Apache's runtime library prints them; its `%g` is not C's: `.25`, `1.e+6`.

/// `%.{digits}g` of APR: significant digits without trailing zeros; an exponent only when there are more than four zeros to
/// fill in or more than three behind the point.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{:.*e}", digits.max(1) - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an e");
    let exponent: i32 = exponent.parse().expect("a number follows it");
    let figures: String = mantissa.chars().filter(|c| *c != '.').collect();
    let trimmed = figures.trim_end_matches('0');
    let figures = if trimmed.is_empty() { "0" } else { trimmed };
    // Where the point stands: before the figure of this number.
    let point = if value == 0.0 { 1 } else { exponent + 1 };
    let count = figures.len() as i32;
    let sign = if value < 0.0 { "-" } else { "" };
    let text = if (point >= 0 && point - count > 4) || point < -3 {
        let (first, rest) = figures.split_at(1);
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}.{rest}e{mark}{}", exponent.abs());
    } else if point <= 0 {
        format!(".{}{figures}", "0".repeat(-point as usize))
    } else if point < count {
        let (whole, fraction) = figures.split_at(point as usize);
        format!("{whole}.{fraction}")
    } else {
        format!("{figures}{}", "0".repeat((point - count) as usize))
    };
    format!("{sign}{text}")
}

/// `%g`.
pub(super) fn plain(value: f64) -> String {
    general(value, 6)
}

/// Bytes in the unit that reads best.
pub(super) fn bytes(bytes: u64) -> String {
    const K: u64 = 1024;
    const M: u64 = K * K;
    let in_units = |unit: u64| bytes as f32 / unit as f32;
    match bytes {
        _ if bytes < 5 * K => format!("{bytes} B"),
        _ if bytes < M / 2 => format!("{:.1} kB", in_units(K)),
        _ if bytes < M * K / 2 => format!("{:.1} MB", in_units(M)),
        _ => format!("{:.1} GB", in_units(M * K)),
    }
}

/// The same of a number of kilobytes.
pub(super) fn kilobytes(kilobytes: u64) -> String {
    const K: u64 = 1024;
    match kilobytes {
        _ if kilobytes < K => format!("{kilobytes} kB"),
        _ if kilobytes < K * K => format!("{:.1} MB", kilobytes as f32 / K as f32),
        _ => format!("{:.1} GB", kilobytes as f32 / (K * K) as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_is_aprs() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, ".25"),
            (0.5, ".5"),
            (-0.5, "-.5"),
            (0.01, ".01"),
            (1.0 / 6.0, ".166667"),
            (0.008_620_69, ".00862069"),
            (0.000_5, ".0005"),
            (0.000_05, "5.e-5"),
            (0.000_012_34, "1.234e-5"),
            (11_264.0, "11264"),
            (238.345_1, "238.345"),
            (100_000.0, "1.e+5"),
            (120_000.0, "120000"),
            (123_456.0, "123456"),
            (1_000_000.0, "1.e+6"),
            (1_234_567.0, "1234570"),
            (12_345_678_900.0, "1.23457e+10"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(plain(value), text, "{value}");
        }
        assert_eq!(general(0.053_097_3, 3), ".0531");
        assert_eq!(general(1234.0, 3), "1230");
    }

    #[test]
    fn sizes_change_their_unit_at_apaches_limits() {
        for (size, text) in [
            (0, "0 B"),
            (5119, "5119 B"),
            (5120, "5.0 kB"),
            (524_287, "512.0 kB"),
            (524_288, "0.5 MB"),
            (536_870_912, "0.5 GB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!((kilobytes(17), kilobytes(1536)), ("17 kB".to_owned(), "1.5 MB".to_owned()));
    }
}
