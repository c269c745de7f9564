//! What a load run is to do: the plan, its address, and the bytes of its request.
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use super::LoadError;

/// One closed-loop run, as wrk's flags describe it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What to ask for.
    pub url: Url,
    /// Client threads, each with its own epoll set and its share of the connections.
    pub threads: usize,
    /// Connections over all threads. All of them are opened: 50 over 4 threads are 13, 13, 12 and 12.
    pub connections: usize,
    /// Load before the measurement begins; what completes in it is not counted.
    pub warmup: Duration,
    /// Length of the measured window.
    pub duration: Duration,
    /// How long a request (or an attempt to connect) may take before it is given up and counted as timed out.
    pub timeout: Duration,
    /// `true`: connections are used until the server says it closes. `false`: `Connection: close`, a new connection
    /// per request, and the latency includes connecting.
    pub keepalive: bool,
    /// Added to the request as they stand; a `Host` or `Connection` given here replaces the one we would send.
    pub headers: Vec<(String, String)>,
    /// Client threads are pinned to these cores, one each in turn; `None` leaves them to the scheduler.
    pub cpus: Option<Vec<usize>>,
}

impl Plan {
    /// Refuses plans that cannot be run as written.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let refuse = |what: String| Err(LoadError::Plan(what));
        if self.threads == 0 {
            return refuse("threads: at least 1 is needed".into());
        }
        if self.connections < self.threads {
            return refuse(format!(
                "connections: {} is fewer than the {} threads, and every thread needs one; ask for more connections or \
                 fewer threads",
                self.connections, self.threads
            ));
        }
        if self.duration.is_zero() {
            return refuse("duration: must be longer than 0".into());
        }
        if self.timeout.is_zero() {
            return refuse("timeout: must be longer than 0".into());
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return refuse("cpus: name at least one core, or leave the threads unpinned".into());
        }
        for (name, value) in &self.headers {
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return refuse(format!("header `{name}`: not a header name"));
            }
            if value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0) {
                return refuse(format!("header `{name}`: the value must be a single line"));
            }
        }
        Ok(())
    }

    /// How many connections thread `index` holds: the remainder goes to the first threads, one each.
    pub(super) fn share(&self, index: usize) -> usize {
        self.connections / self.threads + usize::from(index < self.connections % self.threads)
    }

    /// The bytes of one request. Like wrk's: `Host` and what was asked for, nothing that would add to its cost.
    pub(super) fn request(&self) -> Vec<u8> {
        let given = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut text = format!("GET {} HTTP/1.1\r\n", self.url.target);
        if !given("host") {
            text += &format!("Host: {}\r\n", self.url.authority());
        }
        if !self.keepalive && !given("connection") {
            text += "Connection: close\r\n";
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        text.into_bytes()
    }
}

/// RFC 9110 section 5.6.2, `tchar`.
fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A parsed `http://host[:port]/path?query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    /// Path and query, as they go on the request line.
    target: String,
}

impl Url {
    /// The host as written, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 80 if none was written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query, at least `/`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// `host[:port]` as it stands in the `Host` header: without the port if it is HTTP's own.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }

    /// The address all connections go to. A name with several (localhost often is ::1 and 127.0.0.1) is settled by
    /// trying them in order once, before the run, and taking the first that accepts; the trial is never part of the
    /// measurement, and none is made when there is only one address.
    pub(super) fn resolve(&self, timeout: Duration) -> Result<SocketAddr, LoadError> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| LoadError::Resolve { host: self.host.clone(), error })?
            .collect();
        let Some(first) = addresses.first() else {
            let error = std::io::Error::other("the name has no address");
            return Err(LoadError::Resolve { host: self.host.clone(), error });
        };
        if addresses.len() == 1 {
            return Ok(*first);
        }
        let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, timeout).is_ok();
        // If none accepts, the run still happens and says so in its error counts.
        Ok(*addresses.iter().find(accepts).unwrap_or(first))
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let refuse = |why: &str| Err(format!("URL `{text}`: {why}"));
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return refuse(
                    "https is not measured here, because encryption would hide the server's own cost; use http://",
                );
            }
            Some((scheme, _)) => {
                return refuse(&format!("`{scheme}` is not HTTP; use http://HOST[:PORT]/PATH"));
            }
            None => return refuse("no scheme; write it as http://HOST[:PORT]/PATH"),
        };
        // The fragment stays with the client (RFC 9110 section 4.2.5).
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return refuse("user names in the address are not sent; use -H 'Authorization: ...'");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => match bracketed.split_once(']') {
                Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, port),
                _ => return refuse("`[` must be followed by an IPv6 address and `]`"),
            },
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        if host.is_empty() {
            return refuse("no host; write it as http://HOST[:PORT]/PATH");
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => 80,
            Some("") => 80,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 => port,
                _ => return refuse(&format!("port `{digits}` is not a number from 1 to 65535")),
            },
            None => return refuse("after `]` only `:PORT` may follow"),
        };
        if !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return refuse("spaces, control characters and non-ASCII must be %-encoded");
        }
        let target = match target.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'?') => format!("/{target}"),
            Some(_) => target.to_owned(),
        };
        Ok(Url { host: host.to_owned(), port, target })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(connections: usize, threads: usize) -> Plan {
        Plan {
            url: "http://h/x".parse().unwrap(),
            threads,
            connections,
            warmup: Duration::ZERO,
            duration: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            keepalive: true,
            headers: vec![],
            cpus: None,
        }
    }

    #[test]
    fn urls_in_all_their_forms() {
        for (text, host, port, target, shown) in [
            ("http://example.org", "example.org", 80, "/", "http://example.org/"),
            ("http://127.0.0.1:8080/a?b=c#d", "127.0.0.1", 8080, "/a?b=c", "http://127.0.0.1:8080/a?b=c"),
            ("HTTP://h:80/", "h", 80, "/", "http://h/"),
            ("http://h?q", "h", 80, "/?q", "http://h/?q"),
            ("http://[::1]:81/x", "::1", 81, "/x", "http://[::1]:81/x"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host(), url.port(), url.target()), (host, port, target), "{text}");
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn refused_urls_say_why() {
        for (text, why) in [
            ("https://h/", "https is not measured"),
            ("ftp://h/", "not HTTP"),
            ("127.0.0.1:8080/", "no scheme"),
            ("http:///x", "no host"),
            ("http://h:0/", "port"),
            ("http://h:70000/", "port"),
            ("http://[::1/", "IPv6"),
            ("http://[::1]x/", "only `:PORT`"),
            ("http://u:p@h/", "user names"),
            ("http://h/a b", "%-encoded"),
        ] {
            let error = text.parse::<Url>().expect_err(text);
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn no_connection_is_lost_in_the_division() {
        // claims.md A31: 50 connections over 4 threads.
        let plan = plan(50, 4);
        assert_eq!((0..4).map(|i| plan.share(i)).collect::<Vec<_>>(), [13, 13, 12, 12]);
    }

    #[test]
    fn requests_carry_only_what_was_asked_for() {
        let mut plan = plan(1, 1);
        assert_eq!(plan.request(), b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        plan.keepalive = false;
        plan.headers = vec![("host".into(), "other".into()), ("X-A".into(), "1".into())];
        assert_eq!(plan.request(), b"GET /x HTTP/1.1\r\nConnection: close\r\nhost: other\r\nX-A: 1\r\n\r\n");
    }

    #[test]
    fn plans_that_cannot_run_are_refused() {
        let refused = |change: &dyn Fn(&mut Plan), word: &str| {
            let mut plan = plan(4, 2);
            plan.check().expect("sound before the change");
            change(&mut plan);
            let error = plan.check().expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(&|p| p.threads = 0, "threads");
        refused(&|p| p.connections = 1, "fewer than the 2 threads");
        refused(&|p| p.duration = Duration::ZERO, "duration");
        refused(&|p| p.timeout = Duration::ZERO, "timeout");
        refused(&|p| p.cpus = Some(vec![]), "cpus");
        refused(&|p| p.headers = vec![("a b".into(), String::new())], "not a header name");
        refused(&|p| p.headers = vec![("a".into(), "x\r\ny: z".into())], "single line");
    }
}
