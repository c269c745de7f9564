//! The request line: method, target, version, as strictly as Apache reads them (htaccess-semantics 7.4).

use super::head::{Head, Method, Span, Version};
use super::host;
use BadLine::{Malformed, Useless};

/// The line is no request line; always answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadLine {
    /// It cannot be taken apart.
    Malformed,
    /// It can, but its URL is of no use. An HTTP/0.9 client is already known as one: no header for it.
    Useless,
}

/// Reads the line in `buffer[line]` into `head`. `Ok(true)`: it is an HTTP/0.9 request, complete as it stands.
pub(super) fn parse(buffer: &[u8], line: Span, head: &mut Head) -> Result<bool, BadLine> {
    head.line = line;
    let text = line.of(buffer);
    let space = text.iter().position(|&b| b == b' ').unwrap_or(text.len());
    let method = &text[..space];
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(Malformed);
    }
    head.method_text = Span { start: line.start, end: line.start + space as u32 };
    head.method = method_of(method);
    let rest = &text[(space + 1).min(text.len())..];
    let target_start = line.start + space as u32 + 1;
    let length = rest.iter().position(|&b| is_never_in_target(b)).unwrap_or(rest.len());
    let target = &rest[..length];
    if target.is_empty() {
        return Err(Malformed);
    }
    head.target = Span { start: target_start, end: target_start + length as u32 };
    let version = &rest[length..];
    let simple = match version {
        b"" | b" " => true,
        [b' ', b'H', b'T', b'T', b'P', b'/', major @ b'1'..=b'9', b'.', minor @ b'0'..=b'9'] => {
            let old = *major == b'1' && *minor == b'0';
            head.version = if old { Version::Http10 } else { Version::Http11 };
            false
        }
        _ => return Err(Malformed),
    };
    // HTTP/0.9 knew GET alone.
    if simple && head.method != Method::Get {
        return Err(Malformed);
    }
    let parsed = parse_target(buffer, target, target_start, head);
    // Apache knows that it talks to an HTTP/0.9 client before it looks into a URL.
    if simple && parsed != Err(Malformed) {
        head.version = Version::Http09;
    }
    parsed.map(|()| simple)
}

/// Whether a line that is no request line asks for HEAD all the same: its answer then has no content. Apache looks for
/// the word before it looks at anything else, but not in a line with a byte that ends a C string.
pub(super) fn asks_for_head(text: &[u8]) -> bool {
    let mut words = text.split(|b| matches!(b, b' ' | b'\t')).filter(|w| !w.is_empty());
    words.next() == Some(b"HEAD") && !text.contains(&0)
}

/// Splits the target (RFC 9112 section 3.2) into path, query and, in absolute form, host and port.
fn parse_target(buffer: &[u8], target: &[u8], start: u32, head: &mut Head) -> Result<(), BadLine> {
    let end = start + target.len() as u32;
    if head.method_text_is_connect(buffer) {
        // authority-form; nobody serves it, but its syntax is checked.
        let colon = target.iter().position(|&b| b == b':' && !target.starts_with(b"[")).or_else(|| {
            let bracket = target.iter().position(|&b| b == b']')? + 1;
            (target.get(bracket) == Some(&b':')).then_some(bracket)
        });
        let (name, port) = target.split_at(colon.ok_or(Malformed)?);
        if port.len() < 2 || !port[1..].iter().all(u8::is_ascii_digit) {
            return Err(Malformed);
        }
        let length = if name.is_empty() { 0 } else { host::parse(name).ok_or(Malformed)?.length };
        head.host = Some(Span { start, end: start + length as u32 });
        return Ok(());
    }
    if target == b"*" {
        head.path = Span { start, end };
        return if head.method == Method::Options { Ok(()) } else { Err(Malformed) };
    }
    let mut path_start = start;
    let mut rest = target;
    if !matches!(target[0], b'/' | b'?') {
        let skip = parse_authority(target, start, head)?;
        path_start += skip as u32;
        rest = &target[skip..];
    }
    match rest.iter().position(|&b| b == b'?') {
        None => head.path = Span { start: path_start, end },
        Some(mark) => {
            let mark = path_start + mark as u32;
            head.path = Span { start: path_start, end: mark };
            head.query = Some(Span { start: mark + 1, end });
        }
    }
    Ok(())
}

/// The `scheme://host:port` of an absolute-form target, or a `scheme:` before a path; returns its length.
fn parse_authority(target: &[u8], start: u32, head: &mut Head) -> Result<usize, BadLine> {
    let colon = target.iter().position(|&b| b == b':').ok_or(Malformed)?;
    let scheme = &target[..colon];
    let in_scheme = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) || !scheme.iter().all(in_scheme) {
        return Err(Malformed);
    }
    let ours = scheme.eq_ignore_ascii_case(b"http");
    let known = ours || scheme.eq_ignore_ascii_case(b"https");
    let Some(rest) = target[colon + 1..].strip_prefix(b"//") else {
        return match target.get(colon + 1) {
            None | Some(b'/') if known => Ok(colon + 1),
            None | Some(b'/') => Err(Useless),
            Some(_) => Err(Malformed),
        };
    };
    let length = rest.iter().position(|&b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    let authority = &rest[..length];
    // The port must be digits; unlike in a Host field its value is not looked at, and only 16 bits of it count.
    let name_end = match authority.iter().rposition(|&b| b == b']') {
        Some(bracket) => bracket + 1,
        None => authority.iter().position(|&b| b == b':').unwrap_or(length),
    };
    let name = &authority[..name_end];
    let port = match &authority[name_end..] {
        b"" | b":" => None,
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
            let value =
                digits.iter().fold(0_u16, |n, d| n.wrapping_mul(10).wrapping_add(u16::from(d - b'0')));
            Some(value)
        }
        _ => return Err(Malformed),
    };
    if name.contains(&b'@') || (name.first() == Some(&b'[') && name.last() != Some(&b']')) {
        return Err(Malformed);
    }
    if !known {
        return Err(Useless);
    }
    // Asked for by another scheme than this server speaks, the host is ignored and the Host field counts.
    if ours {
        let length = if name.is_empty() { 0 } else { host::parse(name).ok_or(Useless)?.length };
        let host_start = start + colon as u32 + 3;
        head.host = Some(Span { start: host_start, end: host_start + length as u32 });
        head.port = port;
    }
    Ok(colon + 3 + length)
}

/// Characters of a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// Controls, the space and `#`; bytes above 127 pass.
fn is_never_in_target(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f || byte == b'#'
}

/// Methods are case-sensitive.
fn method_of(text: &[u8]) -> Method {
    match text {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        b"OPTIONS" => Method::Options,
        b"TRACE" => Method::Trace,
        b"PUT" | b"DELETE" | b"CONNECT" | b"PATCH" | b"PROPFIND" | b"PROPPATCH" | b"MKCOL" | b"COPY"
        | b"MOVE" | b"LOCK" | b"UNLOCK" | b"VERSION-CONTROL" | b"CHECKOUT" | b"UNCHECKOUT" | b"CHECKIN"
        | b"UPDATE" | b"LABEL" | b"REPORT" | b"MKWORKSPACE" | b"MKACTIVITY" | b"BASELINE-CONTROL"
        | b"MERGE" => Method::Known,
        _ => Method::Unknown,
    }
}
