//! A configuration in the making: what directives need to know of each other while they are applied.

use super::nearest::suggestion;
use super::{Config, ConfigError, CustomLog, Place, Warning, value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The configuration, and what is settled only when every directive has been read.
pub struct Draft {
    /// What is being filled in.
    pub config: Config,
    /// The directive that is being applied.
    pub place: Place,
    /// What was odd but not wrong.
    pub warnings: Vec<Warning>,
    /// `LogFormat` nicknames.
    formats: BTreeMap<String, String>,
    /// `CustomLog`: file, format or nickname, and where it was said. A nickname may be defined after its use.
    custom_log: Option<(PathBuf, String, Place)>,
    /// Whether a `DirectoryIndex` has replaced the default; later ones add.
    has_index: bool,
}

/// The formats that need no `LogFormat`. As in Debian's apache2.conf.
const FORMATS: [(&str, &str); 2] = [
    ("common", r#"%h %l %u %t "%r" %>s %O"#),
    ("combined", r#"%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#),
];

impl Draft {
    /// Begins from `config`.
    pub fn new(config: Config, place: Place) -> Draft {
        let formats = FORMATS.map(|(name, format)| (name.to_owned(), format.to_owned()));
        Draft {
            config,
            place,
            warnings: Vec::new(),
            formats: formats.into(),
            custom_log: None,
            has_index: false,
        }
    }

    /// Settles what had to wait for the last directive.
    ///
    /// # Errors
    /// A `CustomLog` with the nickname of no format.
    pub fn finish(mut self) -> Result<(Config, Vec<Warning>), ConfigError> {
        if let Some((path, format, place)) = self.custom_log {
            let format = match self.formats.get(&format) {
                Some(format) => format.clone(),
                None if format.contains('%') => format,
                None => {
                    let near = suggestion(&format, self.formats.keys().map(String::as_str));
                    let what = format!(
                        "CustomLog: no LogFormat is named '{format}', and it has no % to be a format"
                    );
                    return Err(ConfigError::new(place, format!("{what}{near}")));
                }
            };
            self.config.custom_log = Some(CustomLog { path, format });
        }
        Ok((self.config, self.warnings))
    }

    /// Says something about the directive that is being applied.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(Warning::at(self.place.clone(), message.into()));
    }

    /// A path, relative ones from `ServerRoot`.
    pub fn absolute(&self, path: &str) -> PathBuf {
        match &self.config.server_root {
            Some(root) => root.join(path),
            None => PathBuf::from(path),
        }
    }

    /// The file of a log. Apache's other targets need a process or a daemon.
    pub fn log_file(&self, target: &str) -> Result<PathBuf, String> {
        let is_syslog = target == "syslog" || target.starts_with("syslog:");
        if target.starts_with('|') || is_syslog {
            return Err(format!("'{target}' is a pipe or the system log; must be a file"));
        }
        Ok(self.absolute(target))
    }

    pub fn listen(&mut self, words: &[String]) -> Result<(), String> {
        let listen = value::listen(&words[0])?;
        if let Some(protocol) = words.get(1)
            && !protocol.eq_ignore_ascii_case("http")
        {
            return Err(format!("protocol '{protocol}' is not available; must be http"));
        }
        // Port 0 asks the kernel for another one each time.
        if listen.port != 0 && self.config.listen.contains(&listen) {
            return Err(format!("Cannot define multiple Listeners on the same IP:port ('{}')", words[0]));
        }
        self.config.listen.push(listen);
        Ok(())
    }

    pub fn server_name(&mut self, words: &[String]) -> Result<(), String> {
        let given = &words[0];
        let name = given.split_once("://").map_or(given.as_str(), |(_, rest)| rest);
        let port = match name.rsplit_once(':') {
            // A port, unless the colon is one inside of an IPv6 address.
            Some((host, port)) if !port.contains(']') && (!host.contains(':') || host.ends_with(']')) => {
                Some(port)
            }
            _ => None,
        };
        if port.is_some_and(|port| value::integer(port, 1, 65535).is_err()) {
            return Err(format!(
                "The port number \"{given}\" is outside the appropriate range (i.e., 1..65535)."
            ));
        }
        if name.is_empty() || name.starts_with(':') {
            return Err(format!("'{given}' has no host; must be HOST or HOST:PORT"));
        }
        self.config.server_name = Some(name.to_owned());
        Ok(())
    }

    pub fn directory_index(&mut self, words: &[String]) -> Result<(), String> {
        if !std::mem::replace(&mut self.has_index, true) {
            self.config.directory_index.clear();
        }
        match words {
            [only] if only.eq_ignore_ascii_case("disabled") => self.config.directory_index.clear(),
            words => self.config.directory_index.extend_from_slice(words),
        }
        Ok(())
    }

    pub fn timeout(&mut self, words: &[String]) -> Result<(), String> {
        let timeout = value::duration(&words[0])?;
        // Every wait would end before it began.
        if timeout.is_zero() {
            return Err("0 would end every wait at once; must be more than 0".to_owned());
        }
        self.config.timeout = timeout;
        Ok(())
    }

    pub fn trace_enable(&mut self, words: &[String]) -> Result<(), String> {
        let is_extended = words[0].eq_ignore_ascii_case("extended");
        match value::on_off(&words[0]) {
            Some(on) => self.config.trace_enable = on,
            None if is_extended => {
                self.config.trace_enable = true;
                self.warn("TraceEnable: extended means On here, request bodies are not echoed");
            }
            None => {
                return Err(format!("'{}': must be one of 'on', 'off', or 'extended'", words[0]));
            }
        }
        Ok(())
    }

    /// The level of the server. Levels of single modules are checked and have no effect: there is one log level.
    pub fn log_level(&mut self, words: &[String]) -> Result<(), String> {
        for word in words {
            let (module, name) = match word.rsplit_once(':') {
                Some((module, name)) => (Some(module), name),
                None => (None, word.as_str()),
            };
            let Some(level) = value::log_level(name) else {
                return Err(format!(
                    "'{word}': Log level keyword must be one of emerg/alert/crit/error/warn/notice/info/debug/trace1/.../trace8"
                ));
            };
            match module {
                None => self.config.log_level = level,
                Some(module) => {
                    self.warn(format!(
                        "LogLevel: the level of {module} alone has no effect, there is one level"
                    ));
                }
            }
        }
        Ok(())
    }

    pub fn log_format(&mut self, words: &[String]) -> Result<(), String> {
        match words.get(1) {
            Some(name) if name.contains('%') => Err(format!("the name '{name}' must not contain %")),
            Some(name) => {
                self.formats.insert(name.clone(), words[0].clone());
                Ok(())
            }
            None => {
                self.warn("LogFormat: a format without a name serves TransferLog, which is not available");
                Ok(())
            }
        }
    }

    pub fn custom_log(&mut self, words: &[String]) -> Result<(), String> {
        if let Some(clause) = words.get(2) {
            return Err(format!("logging of some requests only ('{clause}') is not available; leave it out"));
        }
        let path = self.log_file(&words[0])?;
        if let Some((earlier, _, place)) = &self.custom_log {
            let message = format!("CustomLog: replaces '{}' of {place}, one is written", earlier.display());
            self.warn(message);
        }
        self.custom_log = Some((path, words[1].clone(), self.place.clone()));
        Ok(())
    }

    pub fn async_factor(&mut self, words: &[String]) -> Result<(), String> {
        match words[0].parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor > 0.0 => {
                self.config.mpm.async_request_worker_factor = Some(words[0].clone());
                Ok(())
            }
            _ => Err(format!("'{}': argument must be a positive number", words[0])),
        }
    }
}
