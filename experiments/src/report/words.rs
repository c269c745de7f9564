//! The report's words and number formats: what targets, factors and values are called in front of a reader.

/// One sentence about a target, for a reader who has never heard of it.
pub fn target_sentence(target: &str) -> Option<&'static str> {
    Some(match target {
        "prefork" => {
            "many processes; each serves one connection at a time, and waits with it while it is idle."
        }
        "worker" => {
            "a few processes with many threads; each thread serves one connection at a time, and waits with it while it is idle."
        }
        "event" => {
            "as worker, but one listener thread per process watches idle connections, so that a thread is needed only while there is something to do."
        }
        "reactor" => "one loop per core watches all connections and serves whichever is ready.",
        "apache2" => "the installed Apache HTTP Server, as a yardstick from outside.",
        "nginx" => "the installed nginx (an event loop per worker process), as a yardstick from outside.",
        "caddy" => "the installed Caddy (a goroutine per connection), as a yardstick from outside.",
        _ => return None,
    })
}

/// Whether a target is one of this server's own models (same core), not another program.
pub fn same_core(target: &str) -> bool {
    // Other programs may come in several variants: apache2-prefork, apache2-worker.
    !["apache2", "nginx", "caddy"].iter().any(|other| target.split('-').next() == Some(other))
}

/// A factor's name as an axis title.
pub fn factor_title(name: &str) -> String {
    match name {
        "connections" => "concurrent connections".into(),
        "size" => "file size".into(),
        "keepalive" => "connection reuse".into(),
        other => other.replace('_', " "),
    }
}

/// A factor's name as a column heading.
pub fn factor_heading(name: &str) -> String {
    match name {
        "size" => "file size".into(),
        "keepalive" => "reuse".into(),
        other => other.replace('_', " "),
    }
}

/// A level where the factor is already named (axis ticks, table cells).
pub fn level(factor: &str, level: &str) -> String {
    match (factor, level) {
        ("keepalive", "true") => "keep-alive".into(),
        ("keepalive", "false") => "close".into(),
        ("size", bytes) => bytes.parse().map_or_else(|_| bytes.to_owned(), bytes_text),
        _ => level.to_owned(),
    }
}

/// A level in a sentence, where its factor must be heard too.
pub fn level_phrase(factor: &str, value: &str) -> String {
    match factor {
        "connections" if value == "1" => "1 connection".into(),
        "connections" => format!("{value} concurrent connections"),
        "keepalive" if value == "true" => "keep-alive".into(),
        "keepalive" if value == "false" => "a new connection per request".into(),
        "size" => format!("{} files", level(factor, value)),
        "target" => value.to_owned(),
        _ => format!("{} {value}", factor_title(factor)),
    }
}

/// A number of bytes as 1 KiB, 19.9 KiB, 3 MiB.
pub fn bytes_text(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1048576.0 => (b / 1048576.0, "MiB"),
        b if b >= 1024.0 => (b / 1024.0, "KiB"),
        b => (b, "bytes"),
    };
    let rounded = (value * 10.0).round() / 10.0;
    format!("{rounded} {unit}")
}

/// A number with three significant digits, thousands separated: 31,204 (whole from 100 on), 27.4, 0.412.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "–".into();
    }
    if magnitude >= 99.95 {
        return thousands(value.round());
    }
    let decimals = match magnitude {
        0.0 => return "0".into(),
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.09995 => 3,
        m if m >= 0.009995 => 4,
        m if m >= 0.0009995 => 5,
        _ => return format!("{value:.2e}").replace("e-", "e−"),
    };
    format!("{value:.decimals$}")
}

/// A whole number with thousands separated.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("−{out}") } else { out }
}

/// A tick label: 0, 0.5, 200, 20k, 1.5M.
pub fn tick(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Ticks are round numbers up to the error of their own arithmetic.
    format!("{}{suffix}", (value * 1e9).round() / 1e9)
}

/// A ratio: 0.93, 12.4, 0.041.
pub fn ratio(value: f64) -> String {
    match value {
        v if v >= 100.0 => thousands(v),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// An interval's end. One that is not 1 must not read as 1: what the interval shows hangs on it.
pub fn bound(value: f64) -> String {
    match ratio(value) {
        text if text == "1.00" && value != 1.0 => {
            let finer = format!("{value:.3}");
            if finer == "1.000" { if value < 1.0 { "<1".to_owned() } else { ">1".to_owned() } } else { finer }
        }
        text => text,
    }
}

/// "1 round", "3 rounds".
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", thousands(n as f64)) }
}

/// "a", "a and b", "a, b and c".
pub fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (31204.4, "31,204"),
            (1234567.0, "1,234,567"),
            (99.96, "100"),
            (27.44, "27.4"),
            (3.0, "3.00"),
            (0.4123, "0.412"),
            (0.038, "0.0380"),
            (0.000_41, "4.10e−4"),
            (-1500.0, "−1,500"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn variants_of_other_programs_are_other_programs() {
        assert!(same_core("prefork") && same_core("event") && same_core("mine"));
        assert!(!same_core("apache2") && !same_core("apache2-prefork") && !same_core("nginx"));
    }

    #[test]
    fn ticks_are_short() {
        for (value, expected) in
            [(0.0, "0"), (0.1 + 0.2, "0.3"), (5000.0, "5000"), (20000.0, "20k"), (1.5e6, "1.5M")]
        {
            assert_eq!(tick(value), expected);
        }
    }

    #[test]
    fn values_read_as_people_say_them() {
        assert_eq!(level("size", "20329"), "19.9 KiB");
        assert_eq!(level("size", "huge"), "huge");
        assert_eq!(level_phrase("size", "1024"), "1 KiB files");
        assert_eq!(level_phrase("keepalive", "false"), "a new connection per request");
        assert_eq!(level_phrase("file_send", "mmap"), "file send mmap");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
