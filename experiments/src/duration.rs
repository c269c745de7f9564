//! Times as people type them on the command line and in study files: `500ms`, `10s`, `2m`, `1h`, or plain seconds.
use std::time::Duration;

/// The longest time accepted, a year: far beyond any run, and far from where adding it to a clock would overflow.
pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a time: a number, whole or with a decimal point, and a unit (`us`, `ms`, `s`, `m`, `h`); without a unit it
/// is seconds, as in wrk. Longer than [`LONGEST`] is refused.
///
/// ```
/// use mpmlab_experiments::duration::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(refusal(text)),
    };
    let number: f64 = number.parse().map_err(|_| refusal(text))?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!(
            "`{text}` is too long a time: write at most {}h, which is {} days",
            LONGEST.as_secs() / 3600,
            LONGEST.as_secs() / 86_400
        )),
    }
}

fn refusal(text: &str) -> String {
    format!(
        "`{text}` is not a time: write a number and a unit, as in 500ms, 10s, 2m or 1h (no unit: seconds)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_plain_seconds() {
        for (text, micros) in [
            ("250us", 250),
            ("500ms", 500_000),
            ("10s", 10_000_000),
            ("10", 10_000_000),
            ("0s", 0),
            ("1.5s", 1_500_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            (" 3 s ", 3_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused_with_examples() {
        for text in ["", "s", "ten", "-1s", "10 days", "1.2.3s", "10S", "."] {
            let error = parse_duration(text).expect_err(text);
            assert!(error.contains("500ms"), "{text}: {error}");
        }
    }

    #[test]
    fn a_year_is_the_longest_time() {
        assert_eq!(parse_duration("8760h"), Ok(LONGEST));
        assert_eq!(parse_duration("31536000"), Ok(LONGEST));
        // The last two are beyond what a Duration holds, and beyond what a float holds.
        let beyond = format!("{}s", "9".repeat(400));
        for text in ["8760.1h", "31536001", "999999999999h", "99999999999999999999h", &beyond] {
            let error = parse_duration(text).expect_err(text);
            assert!(error.contains("is too long a time: write at most 8760h, which is 365 days"), "{error}");
        }
    }
}
