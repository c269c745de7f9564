//! Which host names a request may carry, in `Host` or in an absolute-form target (Apache's strict rules, measured).

use std::net::Ipv6Addr;

/// A host name and the port that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPort {
    /// Bytes of the name from the start of the value: brackets included, a final dot excluded.
    pub length: usize,
    /// The port, if one was given.
    pub port: Option<u16>,
}

/// Reads `name[:port]`, the value of a `Host` field. `None`: the request is to be answered with 400.
pub fn parse(value: &[u8]) -> Option<HostPort> {
    if value.first() == Some(&b'[') {
        let end = value.iter().position(|&b| b == b']')?;
        let inside = std::str::from_utf8(&value[1..end]).ok()?;
        inside.parse::<Ipv6Addr>().ok()?;
        let port = match &value[end + 1..] {
            b"" => None,
            [b':', digits @ ..] => Some(port(digits)?),
            _ => return None,
        };
        return Some(HostPort { length: end + 1, port });
    }
    let (name, port) = match value.iter().position(|&b| b == b':') {
        None => (value, None),
        Some(colon) => (&value[..colon], Some(port(&value[colon + 1..])?)),
    };
    Some(HostPort { length: name_length(name)?, port })
}

/// 1 to 65535, leading zeros allowed, nothing else.
fn port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_u32, |n, d| (n * 10 + u32::from(d - b'0')).min(1 << 20));
    u16::try_from(value).ok().filter(|&p| p != 0)
}

/// Letters, digits, `-`, `_` and `.`; no empty label except the first; what looks like an IPv4 address must be one.
fn name_length(name: &[u8]) -> Option<usize> {
    let mut dots = 0;
    let mut numeric = true;
    for (at, &byte) in name.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {}
            b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => numeric = false,
            b'.' if name.get(at + 1) == Some(&b'.') => return None,
            b'.' => dots += 1,
            _ => return None,
        }
    }
    let name = match name.strip_suffix(b".") {
        None => name,
        Some(shorter) => {
            dots -= 1;
            shorter
        }
    };
    if name.is_empty() {
        return None;
    }
    let quads_plain = || name.split(|&b| b == b'.').all(|q| !q.is_empty() && (q.len() == 1 || q[0] != b'0'));
    // A last label that does not start with a letter is no top-level domain: it must belong to an IPv4 address.
    let last = name.rsplit(|&b| b == b'.').next().unwrap_or_default();
    let like_address = numeric || (dots > 0 && !last.first().is_some_and(u8::is_ascii_alphabetic));
    if like_address && (!numeric || dots != 3 || !quads_plain()) {
        return None;
    }
    Some(name.len())
}

#[cfg(test)]
mod tests {
    use super::{HostPort, parse};

    #[test]
    fn accepts_and_refuses_what_apache_does() {
        let good = |value: &str, length, port| {
            assert_eq!(parse(value.as_bytes()), Some(HostPort { length, port }), "{value}");
        };
        good("example.test", 12, None);
        good("a:080", 1, Some(80));
        good("a.:80", 1, Some(80));
        good("my_host", 7, None);
        good(".a", 2, None);
        good("-", 1, None);
        good("0x1", 3, None);
        good("1.2.3.4", 7, None);
        good("1.2.3.4.", 7, None);
        good("999.1.1.1", 9, None);
        good("www.3com.com", 12, None);
        good("a.b1", 4, None);
        good("1a", 2, None);
        good("[::1]:80", 5, Some(80));
        good("[::ffff:1.2.3.4]", 16, None);
        for bad in [
            "",
            ".",
            "a:",
            "a:0",
            "a:65536",
            "a:b",
            "a:80:90",
            ":80",
            "a/b",
            "a b",
            "a, b",
            "u@a",
            "a%41",
            "a..b",
            "::1",
            "[::1",
            "[]",
            "[zz]",
            "[::1]x",
            "[::1]:",
            "[::1]:x",
            "[fe80::1%25eth0]",
            "1",
            "1.2.3",
            "01.2.3.4",
            "1.2.3.4.5",
            "a.1b",
            "a.0",
            "a.1-",
            "1.2a",
            "a.-b",
            "a._b",
            ".-",
            ".1.2.3.4",
            "ex\u{e4}mple",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
