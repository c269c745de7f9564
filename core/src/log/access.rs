//! The access log: one line per request in Apache's LogFormat language (mod_log_config).

use crate::config::CustomLog;
use crate::http::head::{Head, Version};
use crate::request::Peer;
use crate::server::Server;
use crate::sys;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};

/// An open access log, appended to by every process with one `write` per line.
#[derive(Debug)]
pub struct AccessLog {
    file: File,
    format: Vec<Item>,
}

/// One piece of a format string.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Text(Vec<u8>),
    /// `%h`, `%a`: the client's address.
    Client,
    /// `%A`: our address.
    LocalAddress,
    /// `%p`: our port.
    LocalPort,
    /// `%l`, `%u`: nobody asks identd, and nobody is authenticated.
    Dash,
    /// `%t`.
    Time,
    /// `%r`.
    RequestLine,
    /// `%m`.
    Method,
    /// `%U`: the path without the query.
    Path,
    /// `%q`: the query with its question mark.
    Query,
    /// `%H`.
    Protocol,
    /// `%v`, `%V`.
    ServerName,
    /// `%s`, `%>s`.
    Status,
    /// `%b`: bytes of content, `-` for none.
    BodyOrDash,
    /// `%B`: bytes of content.
    Body,
    /// `%O`: bytes sent.
    Sent,
    /// `%I`: bytes received.
    Received,
    /// `%D`: microseconds.
    Micros,
    /// `%T`: seconds.
    Seconds,
    /// `%P`.
    Pid,
    /// `%X`: `+` kept, `-` closed.
    Kept,
    /// `%{Name}i`.
    RequestField(String),
}

/// What a line can say about one answered request.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The server.
    pub server: &'a Server,
    /// Both ends of the connection.
    pub peer: &'a Peer,
    /// The request.
    pub head: &'a Head,
    /// The bytes its spans refer to.
    pub bytes: &'a [u8],
    /// Status of the answer.
    pub status: u16,
    /// Bytes sent, header included (`%O`).
    pub sent: u64,
    /// Bytes of content sent (`%B`).
    pub sent_body: u64,
    /// Bytes received (`%I`).
    pub received: u64,
    /// When the request was handled, microseconds since the epoch.
    pub now_us: i64,
    /// How long it took, microseconds (`%D`).
    pub took_us: u64,
    /// The connection was kept (`%X`).
    pub keeps: bool,
}

impl AccessLog {
    /// Opens (creates) the log for appending.
    ///
    /// # Errors
    /// The file cannot be opened, or the format has a directive that is not supported.
    pub fn open(log: &CustomLog) -> std::io::Result<AccessLog> {
        let format = parse(&log.format).map_err(|why| Error::new(ErrorKind::InvalidInput, why))?;
        let file = File::options().append(true).create(true).open(&log.path)?;
        Ok(AccessLog { file, format })
    }

    /// Appends one line to `out`.
    pub fn format(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        for item in &self.format {
            item.write(entry, out);
        }
        out.push(b'\n');
    }

    /// Writes finished lines. A full disk must not take the site down: the line is lost, the answer is not.
    pub fn write(&self, lines: &[u8]) {
        let _ = (&self.file).write_all(lines);
    }
}

impl Item {
    fn write(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let or_dash = |number: u64, out: &mut Vec<u8>| match number {
            0 => out.push(b'-'),
            n => display(out, n),
        };
        match self {
            Item::Text(text) => out.extend_from_slice(text),
            Item::Client => display(out, entry.peer.remote.ip()),
            Item::LocalAddress => display(out, entry.peer.local.ip()),
            Item::LocalPort => display(out, entry.peer.local.port()),
            Item::Dash => out.push(b'-'),
            Item::Time => display(out, format_args!("[{}]", sys::local_time(entry.now_us / 1_000_000))),
            Item::RequestLine => text_or_dash(entry.head.line.of(entry.bytes), out),
            Item::Method => text_or_dash(entry.head.method_text.of(entry.bytes), out),
            Item::Path => escaped(split_target(entry).0, out),
            Item::Query => escaped(split_target(entry).1, out),
            Item::Protocol => out.extend_from_slice(match entry.head.version {
                Version::Http09 => b"HTTP/0.9",
                Version::Http10 => b"HTTP/1.0",
                Version::Http11 => b"HTTP/1.1",
            }),
            Item::ServerName => match &entry.server.config.server_name {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => display(out, entry.peer.local.ip()),
            },
            Item::Status => display(out, entry.status),
            Item::BodyOrDash => or_dash(entry.sent_body, out),
            Item::Body => display(out, entry.sent_body),
            Item::Sent => display(out, entry.sent),
            Item::Received => display(out, entry.received),
            Item::Micros => display(out, entry.took_us),
            Item::Seconds => display(out, entry.took_us / 1_000_000),
            Item::Pid => display(out, std::process::id()),
            Item::Kept => out.push(if entry.keeps { b'+' } else { b'-' }),
            Item::RequestField(name) => {
                text_or_dash(entry.head.field(entry.bytes, name).unwrap_or_default(), out)
            }
        }
    }
}

/// Writing to memory cannot fail.
fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

fn split_target<'a>(entry: &Entry<'a>) -> (&'a [u8], &'a [u8]) {
    let target = entry.head.target.of(entry.bytes);
    target.split_at(target.iter().position(|&b| b == b'?').unwrap_or(target.len()))
}

fn text_or_dash(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() { out.push(b'-') } else { escaped(text, out) }
}

/// A client cannot forge a line: quotes, backslashes and everything unprintable are escaped as Apache does
/// (mod_log_config, "Format Notes").
pub(crate) fn escaped(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x20..=0x7e => out.push(byte),
            _ => display(out, format_args!("\\x{byte:02x}")),
        }
    }
}

/// Format string to items; the error names the directive that is not supported.
fn parse(format: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut text = Vec::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            let mut utf8 = [0; 4];
            text.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            text.push(b'%');
            continue;
        }
        // `>` and `<` choose between the original and the final request of an internal redirect; here they are one.
        while rest.next_if(|c| matches!(c, '<' | '>')).is_some() {}
        let mut argument = None;
        if rest.next_if_eq(&'{').is_some() {
            argument = Some(rest.by_ref().take_while(|&c| c != '}').collect::<String>());
        }
        let directive = rest.next().ok_or("the format ends in the middle of a directive")?;
        let item = match (directive, argument) {
            ('i', Some(name)) => Item::RequestField(name),
            ('a' | 'h', None) => Item::Client,
            ('A', None) => Item::LocalAddress,
            ('p', None) => Item::LocalPort,
            ('l' | 'u', None) => Item::Dash,
            ('t', None) => Item::Time,
            ('r', None) => Item::RequestLine,
            ('m', None) => Item::Method,
            ('U', None) => Item::Path,
            ('q', None) => Item::Query,
            ('H', None) => Item::Protocol,
            ('v' | 'V', None) => Item::ServerName,
            ('s', None) => Item::Status,
            ('b', None) => Item::BodyOrDash,
            ('B', None) => Item::Body,
            ('O', None) => Item::Sent,
            ('I', None) => Item::Received,
            ('D', None) => Item::Micros,
            ('T', None) => Item::Seconds,
            ('P', None) => Item::Pid,
            ('X', None) => Item::Kept,
            (other, _) => return Err(format!("LogFormat directive %{other} is not supported")),
        };
        if !text.is_empty() {
            items.push(Item::Text(std::mem::take(&mut text)));
        }
        items.push(item);
    }
    if !text.is_empty() {
        items.push(Item::Text(text));
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debians_combined_format_is_understood() {
        let items = parse(r#"%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#).unwrap();
        assert_eq!(items[0], Item::Client);
        assert!(items.contains(&Item::RequestField("User-Agent".to_owned())));
        assert!(items.contains(&Item::Sent));
        assert_eq!(items.last(), Some(&Item::Text(b"\"".to_vec())));
    }

    #[test]
    fn an_unknown_directive_is_named() {
        assert_eq!(parse("%h %Z"), Err("LogFormat directive %Z is not supported".to_owned()));
        assert!(parse("100%").is_err());
        assert_eq!(parse("100%%").unwrap(), [Item::Text(b"100%".to_vec())]);
    }

    #[test]
    fn a_client_cannot_forge_a_line() {
        let mut out = Vec::new();
        escaped(b"a\" 200 \r\n\x1b[31m\xff", &mut out);
        assert_eq!(out, br#"a\" 200 \r\n\x1b[31m\xff"#);
    }
}
