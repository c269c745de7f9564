//! The forms that arguments of directives have: numbers, times, switches, addresses, levels.
//!
//! Each function returns what is wrong, and what is allowed, without the directive's name. Where Apache's own reading is
//! careless (`StartServers 5x` is 5 and `Timeout x` is 0 there) a value that is not what it should be is refused: a
//! laboratory must not measure a typing error.

use super::{Listen, LogLevel};
use std::net::IpAddr;
use std::time::Duration;

/// A whole number from `least` to `greatest`.
pub fn integer(text: &str, least: i64, greatest: i64) -> Result<i64, String> {
    let allowed = || match (least, greatest) {
        (_, i64::MAX) => format!("a whole number, at least {least}"),
        _ => format!("a whole number from {least} to {greatest}"),
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number {
        return Err(format!("'{text}' is not a whole number; must be {}", allowed()));
    }
    match text.parse::<i64>() {
        Ok(number) if (least..=greatest).contains(&number) => Ok(number),
        _ => Err(format!("{text} is out of range; must be {}", allowed())),
    }
}

/// A number of the models. Any `int` of C: what is senseless is corrected later, with Apache's warning.
pub fn int(text: &str) -> Result<i64, String> {
    integer(text, i64::from(i32::MIN), i64::from(i32::MAX))
}

/// A time: seconds, or with the suffix `ms`, `s`, `min` or `h`, as Apache's KeepAliveTimeout takes it.
pub fn duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "must be a whole number of seconds, or a number with ms, s, min or h, such as 500ms";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    // Apache reads the first letters only: s and sec, mi and min mean the same to it. Suffixes are lower case there.
    let milliseconds = match suffix {
        "ms" => 1,
        "" | "s" | "sec" => 1000,
        "mi" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("'{text}' is not a time; {FORM}")),
    };
    if number.is_empty() {
        return Err(format!("'{text}' is not a time; {FORM}"));
    }
    // More than a year is a mistake, and waits are handed to the kernel as 32-bit numbers of milliseconds.
    let total = number.parse::<u64>().ok().and_then(|n| n.checked_mul(milliseconds));
    match total {
        Some(total) if total <= MAX_MILLISECONDS => Ok(Duration::from_millis(total)),
        _ => Err(format!("'{text}' is too long; must be at most 24 days")),
    }
}

/// 24 days: what still fits a signed 32-bit number of milliseconds.
const MAX_MILLISECONDS: u64 = 24 * 24 * 3_600_000;

/// `On` or `Off`.
pub fn on_off(text: &str) -> Option<bool> {
    super::knobs::KnobValue::parse(text)
}

/// `port`, `address:port`, `[v6]:port` or `*:port`.
pub fn listen(text: &str) -> Result<Listen, String> {
    const FORM: &str = "must be PORT, ADDRESS:PORT, [IPV6]:PORT or *:PORT";
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without its brackets has colons of its own.
        Some((host, port)) if !host.contains(':') || host.starts_with('[') => (Some(host), port),
        Some(_) => return Err(format!("Invalid address or port '{text}'; {FORM}")),
        None => (None, text),
    };
    let ip = match host {
        None | Some("*") => None,
        Some(host) => {
            let (bare, bracketed) = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
                Some(inner) => (inner, true),
                None => (host, false),
            };
            match bare.parse::<IpAddr>() {
                Ok(ip) if ip.is_ipv6() == bracketed => Some(ip),
                _ => return Err(format!("'{host}' is not a numeric address; {FORM}")),
            }
        }
    };
    if host.is_none() && !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Port must be specified, '{text}' has none; {FORM}"));
    }
    match port.parse::<u16>() {
        Ok(port) if !text.contains('+') => Ok(Listen { ip, port }),
        _ => Err(format!("Invalid address or port '{text}'; {FORM}, with a port up to 65535")),
    }
}

/// One of Apache's level names.
pub fn log_level(text: &str) -> Option<LogLevel> {
    LOG_LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, level)| *level)
}

/// Apache's names. Its eight levels of trace are one here.
const LOG_LEVELS: [(&str, LogLevel); 16] = [
    ("emerg", LogLevel::Emerg),
    ("alert", LogLevel::Alert),
    ("crit", LogLevel::Crit),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("notice", LogLevel::Notice),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace1", LogLevel::Trace),
    ("trace2", LogLevel::Trace),
    ("trace3", LogLevel::Trace),
    ("trace4", LogLevel::Trace),
    ("trace5", LogLevel::Trace),
    ("trace6", LogLevel::Trace),
    ("trace7", LogLevel::Trace),
    ("trace8", LogLevel::Trace),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_apaches_suffixes() {
        for (text, milliseconds) in [
            ("5", 5000),
            ("0", 0),
            ("100ms", 100),
            ("5s", 5000),
            ("5min", 300_000),
            ("1h", 3_600_000),
            ("010", 10_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in
            ["", "x", "-1", "5x", "2MS", "5us", "5m", "5 s", "ms", "1.5", "99999999999999999999", "577h"]
        {
            let error = duration(text).expect_err(text);
            assert!(error.contains("must be"), "{error}");
        }
    }

    #[test]
    fn whole_numbers_only_and_in_range() {
        assert_eq!(int("-5"), Ok(-5));
        for text in ["", "-", "5x", "+5", "0x10", "2147483648", "99999999999999999999", "٣"] {
            assert!(int(text).is_err(), "{text}");
        }
        assert_eq!(
            integer("0", 1, i64::MAX),
            Err("0 is out of range; must be a whole number, at least 1".to_owned())
        );
    }

    #[test]
    fn addresses() {
        let at = |ip: &str, port| Ok(Listen { ip: Some(ip.parse().unwrap()), port });
        assert_eq!(listen("8080"), Ok(Listen { ip: None, port: 8080 }));
        assert_eq!(listen("*:80"), Ok(Listen { ip: None, port: 80 }));
        assert_eq!(listen("127.0.0.1:0"), at("127.0.0.1", 0));
        assert_eq!(listen("[::1]:81"), at("::1", 81));
        for text in [
            "",
            ":",
            "foo",
            "70000",
            "1.2.3.4",
            "[::1",
            "[::1]",
            "::1:80",
            "localhost:80",
            "[1.2.3.4]:80",
            ":80",
            "+80",
            "1.2.3.4:+8",
        ] {
            let error = listen(text).expect_err(text);
            assert!(error.contains("must be PORT"), "{error}");
        }
    }

    #[test]
    fn levels_in_any_case() {
        assert_eq!(log_level("Warn"), Some(LogLevel::Warn));
        assert_eq!(log_level("trace8"), Some(LogLevel::Trace));
        assert_eq!(log_level("trace9"), None);
        assert_eq!(log_level("trace"), None);
    }
}
