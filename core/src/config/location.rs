//! `<Location>` sections: which handler answers below a URL path, and who may see it.
//!
//! The smallest part of Apache's sections: a plain path, `SetHandler`, and `Require` by address. A path means itself and what
//! is below it; sections are merged in their order, later ones win.

use super::ConfigError;
use super::directive;
use super::syntax::{Entry, word, words};
use std::net::IpAddr;

/// One section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Where it begins.
    pub path: String,
    /// `SetHandler`.
    pub handler: Option<Handler>,
    /// `Require` lines, of which one must hold. Without any the section says nothing about access.
    pub require: Vec<Require>,
}

/// Who makes the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handler {
    /// Whoever would without `SetHandler`.
    Default,
    /// The status page.
    ServerStatus,
}

/// Who may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// `all granted` and `all denied`.
    All(bool),
    /// `local`: over the loopback interface, or from an address of ours to itself.
    Local,
    /// `ip`: from this network. The mask has the bits that count.
    Ip(Network),
}

/// Addresses that agree in the bits of a mask. IPv4 and IPv6 never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Address and mask.
    V4(u32, u32),
    /// Address and mask.
    V6(u128, u128),
}

impl Location {
    /// Is a decoded URL path this section's, or below it?
    pub fn covers(&self, path: &[u8]) -> bool {
        let own = self.path.as_bytes();
        path.strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || own.ends_with(b"/") || rest.first() == Some(&b'/'))
    }
}

/// What sections together say about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied<'a> {
    /// Who makes the answer.
    pub handler: Handler,
    /// Who may see it; everybody if empty.
    pub require: &'a [Require],
}

/// Merges the sections that cover a path.
pub fn apply<'a>(sections: &'a [Location], path: &[u8]) -> Applied<'a> {
    let mut applied = Applied { handler: Handler::Default, require: &[] };
    for section in sections.iter().filter(|section| section.covers(path)) {
        applied.handler = section.handler.unwrap_or(applied.handler);
        if !section.require.is_empty() {
            applied.require = &section.require;
        }
    }
    applied
}

impl Applied<'_> {
    /// May this client see it?
    pub fn admits(&self, client: IpAddr, local: IpAddr) -> bool {
        self.require.is_empty() || self.require.iter().any(|require| require.holds(client, local))
    }
}

impl Require {
    fn holds(&self, client: IpAddr, local: IpAddr) -> bool {
        match self {
            Require::All(granted) => *granted,
            // 127/8, ::1, or both ends of the connection have the same address (mod_authz_host).
            Require::Local => client.is_loopback() || client == local,
            Require::Ip(network) => network.holds(client),
        }
    }
}

impl Network {
    fn holds(&self, client: IpAddr) -> bool {
        match (self, client) {
            (Network::V4(address, mask), IpAddr::V4(client)) => (u32::from(client) ^ address) & mask == 0,
            (Network::V6(address, mask), IpAddr::V6(client)) => (u128::from(client) ^ address) & mask == 0,
            _ => false,
        }
    }

    /// `a.b.c.d`, the first parts of one, with `/bits` or `/mask`, or the same for IPv6.
    fn parse(text: &str) -> Option<Network> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        if let Ok(IpAddr::V6(address)) = address.parse() {
            let bits = mask.map_or(Some(128), |bits| bits.parse::<u32>().ok()).filter(|bits| *bits <= 128)?;
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            return Some(Network::V6(u128::from(address), mask));
        }
        let parts: Vec<&str> = address.strip_suffix('.').unwrap_or(address).split('.').collect();
        if parts.len() > 4 {
            return None;
        }
        let mut value = 0;
        for part in &parts {
            value = value << 8 | u32::from(part.parse::<u8>().ok()?);
        }
        let given = 8 * parts.len() as u32;
        let value = value.checked_shl(32 - given).unwrap_or(0);
        let high = |bits: u32| u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let mask = match mask {
            None => high(given),
            Some(mask) => match mask.parse::<u32>() {
                Ok(bits) if bits <= 32 => high(bits),
                Ok(_) => return None,
                Err(_) => u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?),
            },
        };
        Some(Network::V4(value, mask))
    }
}

/// Reads a section.
///
/// # Errors
/// The place of what is wrong, and Apache's words where it has them.
pub(super) fn read(entry: &Entry) -> Result<Location, ConfigError> {
    let wrong = |what: String| ConfigError::new(entry.place.clone(), what);
    let missing = || wrong("<Location> directive requires additional arguments".to_owned());
    if entry.arguments.is_empty() {
        return Err(missing());
    }
    let Some(end) = entry.arguments.rfind('>') else {
        return Err(wrong("<Location> directive missing closing '>'".to_owned()));
    };
    let mut rest = &entry.arguments[..end];
    let path = word(&mut rest);
    if path.is_empty() {
        return Err(missing());
    }
    if path == "~" {
        return Err(wrong("<Location> with a regular expression is not available; name a path".to_owned()));
    }
    if !rest.is_empty() {
        return Err(wrong("Multiple <Location> arguments not (yet) supported.".to_owned()));
    }
    if path.contains(['*', '?', '[']) {
        return Err(wrong(format!("<Location {path}>: wildcards are not available; name a path")));
    }
    let mut location = Location { path, handler: None, require: Vec::new() };
    for inner in entry.children.iter().flatten() {
        location.add(inner).map_err(|what| ConfigError::new(inner.place.clone(), what))?;
    }
    Ok(location)
}

impl Location {
    fn add(&mut self, inner: &Entry) -> Result<(), String> {
        let words = words(&inner.arguments);
        if inner.children.is_some() {
            return Err(format!("<{}> is not available in <Location>", inner.name));
        }
        if inner.name.eq_ignore_ascii_case("SetHandler") {
            let [name] = words.as_slice() else {
                return Err(
                    "SetHandler takes one argument, a handler name that overrides any other configured handler".to_owned()
                );
            };
            self.handler = Some(match name.as_str() {
                "server-status" => Handler::ServerStatus,
                "none" | "default-handler" => Handler::Default,
                _ => {
                    return Err(format!(
                        "SetHandler: there is no handler '{name}'; must be server-status, default-handler or none"
                    ));
                }
            });
            return Ok(());
        }
        if inner.name.eq_ignore_ascii_case("Require") {
            return self.require(&words);
        }
        Err(match directive::find(&inner.name) {
            Some(row) => format!("{} not allowed in <Location> context", row.name),
            None => {
                format!("'{}' is not available in <Location>; it takes SetHandler and Require", inner.name)
            }
        })
    }

    fn require(&mut self, words: &[String]) -> Result<(), String> {
        let (provider, arguments) = match words {
            [] => ("", words),
            [provider, arguments @ ..] => (provider.as_str(), arguments),
        };
        match provider.to_ascii_lowercase().as_str() {
            "all" => match arguments {
                [word] if word.eq_ignore_ascii_case("granted") => self.require.push(Require::All(true)),
                [word] if word.eq_ignore_ascii_case("denied") => self.require.push(Require::All(false)),
                _ => return Err("Argument for 'Require all' must be 'granted' or 'denied'".to_owned()),
            },
            "local" => self.require.push(Require::Local),
            "ip" if arguments.is_empty() => return Err("'require ip' requires an argument".to_owned()),
            "ip" => {
                for text in arguments {
                    let network = Network::parse(text).ok_or_else(|| {
                        format!(
                            "ip address '{text}' appears to be invalid: The specified IP address is invalid."
                        )
                    })?;
                    self.require.push(Require::Ip(network));
                }
            }
            _ => return Err(format!("Unknown Authz provider: {provider}; must be all, local or ip")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Source, load};

    fn sections(text: &str) -> Result<Vec<Location>, String> {
        let source = Source::Text { origin: "test".to_owned(), text: text.as_bytes().to_vec() };
        let loaded = load(&[source], &Environment::for_model("event"));
        loaded.map(|(config, _)| config.locations).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_means_itself_and_what_is_below() {
        let all = sections(
            "<Location \"/status\">\nSetHandler server-status\nRequire local\n</Location>\n\
             <location /status/open>\nrequire all granted\n</location>\n<Location /status/open/none>\nSetHandler none\n</Location>",
        )
        .unwrap();
        for (path, handler, requirements) in [
            ("/", Handler::Default, 0),
            ("/statusx", Handler::Default, 0),
            ("/status", Handler::ServerStatus, 1),
            ("/status/", Handler::ServerStatus, 1),
            ("/status/open", Handler::ServerStatus, 1),
            ("/status/open/none", Handler::Default, 1),
        ] {
            let applied = apply(&all, path.as_bytes());
            assert_eq!((applied.handler, applied.require.len()), (handler, requirements), "{path}");
        }
        let stranger = IpAddr::from([192, 0, 2, 1]);
        let here = IpAddr::from([198, 51, 100, 1]);
        assert!(!apply(&all, b"/status").admits(stranger, here));
        assert!(apply(&all, b"/status").admits(here, here));
        assert!(apply(&all, b"/status").admits(IpAddr::from([127, 1, 2, 3]), here));
        assert!(apply(&all, b"/status/open").admits(stranger, here));
    }

    #[test]
    fn networks_are_read_as_apache_reads_them() {
        let holds = |network: &str, client: &str| {
            Network::parse(network).map(|network| network.holds(client.parse().unwrap()))
        };
        for (network, client, expected) in [
            ("10", "10.1.2.3", Some(true)),
            ("10.1.", "10.2.2.3", Some(false)),
            ("192.0.2.7", "192.0.2.7", Some(true)),
            ("192.0.2.0/24", "192.0.2.255", Some(true)),
            ("192.0.2.0/25", "192.0.2.255", Some(false)),
            ("192.0.2.0/255.255.255.0", "192.0.2.9", Some(true)),
            ("0.0.0.0/0", "8.8.8.8", Some(true)),
            ("2001:db8::/32", "2001:db8:1::1", Some(true)),
            ("2001:db8::/32", "192.0.2.1", Some(false)),
            ("::1", "::1", Some(true)),
            ("::/0", "fe80::1", Some(true)),
            ("300.1.1.1", "10.0.0.1", None),
            ("1.2.3.4.5", "10.0.0.1", None),
            ("10/33", "10.0.0.1", None),
            ("host", "10.0.0.1", None),
            ("", "10.0.0.1", None),
        ] {
            assert_eq!(holds(network, client), expected, "{network} {client}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_its_line_in_apaches_words() {
        for (inside, what) in [
            ("Require foo", "test:2: Unknown Authz provider: foo"),
            ("Require", "test:2: Unknown Authz provider: "),
            ("Require all", "test:2: Argument for 'Require all' must be 'granted' or 'denied'"),
            ("Require ip", "test:2: 'require ip' requires an argument"),
            ("Require ip 300.1.1.1", "test:2: ip address '300.1.1.1' appears to be invalid"),
            ("SetHandler", "test:2: SetHandler takes one argument, a handler name"),
            ("Listen 80", "test:2: Listen not allowed in <Location> context"),
            ("ExtendedStatus On", "test:2: ExtendedStatus not allowed in <Location> context"),
        ] {
            let error = sections(&format!("<Location /x>\n{inside}\n</Location>")).unwrap_err();
            assert!(error.contains(what), "{inside}: {error}");
        }
        for (section, what) in [
            ("<Location>\n</Location>", "<Location> directive requires additional arguments"),
            ("<Location /x y>\n</Location>", "Multiple <Location> arguments not (yet) supported."),
            ("<Location ~ ^/x>\n</Location>", "regular expression"),
            ("Require all denied", "Require not allowed here"),
        ] {
            let error = sections(section).unwrap_err();
            assert!(error.contains(what), "{section}: {error}");
        }
    }
}
