//! The request line: method, target, version, as strictly as Apache reads them (htaccess-semantics 7.4).

use super::head::{Head, Method, Span, Version};
use super::host;

/// What the request line lacks to be one; always answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadLine;

/// Reads the line in `buffer[line]` into `head`. `Ok(true)`: it is an HTTP/0.9 request, complete as it stands.
pub(super) fn parse(buffer: &[u8], line: Span, head: &mut Head) -> Result<bool, BadLine> {
    head.line = line;
    let text = line.of(buffer);
    let space = text.iter().position(|&b| b == b' ').unwrap_or(text.len());
    let method = &text[..space];
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(BadLine);
    }
    head.method_text = Span { start: line.start, end: line.start + space as u32 };
    head.method = method_of(method);
    let rest = &text[(space + 1).min(text.len())..];
    let target_start = line.start + space as u32 + 1;
    let length = rest.iter().position(|&b| is_never_in_target(b)).unwrap_or(rest.len());
    let target = &rest[..length];
    if target.is_empty() {
        return Err(BadLine);
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
        _ => return Err(BadLine),
    };
    // HTTP/0.9 knew GET alone.
    if simple && head.method != Method::Get {
        return Err(BadLine);
    }
    let parsed = parse_target(buffer, target, target_start, head);
    // Apache knows that it talks to an HTTP/0.9 client before it looks into a URL.
    if simple && (parsed.is_ok() || target.windows(3).any(|w| w == b"://")) {
        head.version = Version::Http09;
    }
    parsed.map(|()| simple)
}

/// Whether a line that is no request line asks for HEAD all the same: its answer then has no content. Apache looks for
/// the word before it looks at anything else, but not in lines with bytes that end a string or a line.
pub(super) fn asks_for_head(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    words.next() == Some(b"HEAD") && !text.iter().any(|b| matches!(b, 0 | b'\r'))
}

/// Splits the target (RFC 9112 section 3.2) into path, query and, in absolute form, host and port.
fn parse_target(buffer: &[u8], target: &[u8], start: u32, head: &mut Head) -> Result<(), BadLine> {
    let end = start + target.len() as u32;
    if head.method_text_is_connect(buffer) {
        // authority-form; nobody serves it, but its syntax is checked.
        let colon = target.iter().rposition(|&b| b == b':').ok_or(BadLine)?;
        let port = &target[colon + 1..];
        let sound = colon > 0 && !port.is_empty() && port.iter().all(u8::is_ascii_digit) && target[0] != b'/';
        let host = host::parse(&target[..colon]).filter(|_| sound).ok_or(BadLine)?;
        head.host = Some(Span { start, end: start + host.length as u32 });
        return Ok(());
    }
    if target == b"*" {
        head.path = Span { start, end };
        return if head.method == Method::Options { Ok(()) } else { Err(BadLine) };
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
    let is =
        |scheme: &[u8]| target.len() > scheme.len() && target[..scheme.len()].eq_ignore_ascii_case(scheme);
    let scheme = [&b"http:"[..], b"https:"].into_iter().find(|s| is(s)).ok_or(BadLine)?;
    let ours = scheme.len() == b"http:".len();
    let Some(rest) = target[scheme.len()..].strip_prefix(b"//") else {
        return if target[scheme.len()] == b'/' { Ok(scheme.len()) } else { Err(BadLine) };
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
        _ => return Err(BadLine),
    };
    if name.contains(&b'@') {
        return Err(BadLine);
    }
    // Asked for by another scheme than this server speaks, the host is ignored and the Host field counts.
    if ours {
        let length = if name.is_empty() { 0 } else { host::parse(name).ok_or(BadLine)?.length };
        let host_start = start + (scheme.len() + 2) as u32;
        head.host = Some(Span { start: host_start, end: host_start + length as u32 });
        head.port = port;
    }
    Ok(scheme.len() + 2 + length)
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
