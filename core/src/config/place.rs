//! Where in a configuration something stands, and what is said about it: warnings and errors of one line.

use std::fmt;
use std::sync::Arc;

/// A file, or another origin of directives such as `-c`, and a line in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File name as it was given, or `-c`.
    pub origin: Arc<str>,
    /// Line, from 1; for `-c` which one it was. 0: the origin as a whole.
    pub line: u32,
}

impl Place {
    /// The whole of `origin`.
    pub fn file(origin: &Arc<str>) -> Place {
        Place { origin: Arc::clone(origin), line: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.origin),
            line => write!(f, "{}:{line}", self.origin),
        }
    }
}

/// Something odd that does not keep the server from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where, if it is about one line.
    pub place: Option<Place>,
    /// What.
    pub message: String,
}

impl Warning {
    /// About one line.
    pub fn at(place: Place, message: String) -> Warning {
        Warning { place: Some(place), message }
    }

    /// About several directives together.
    pub fn general(message: String) -> Warning {
        Warning { place: None, message }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", OneLine(&self.message))
    }
}

/// Why a configuration cannot be used: the first error, as Apache reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Where.
    pub place: Place,
    /// What is wrong and what to do.
    pub message: String,
}

impl ConfigError {
    /// An error at `place`.
    pub fn new(place: Place, message: String) -> ConfigError {
        ConfigError { place, message }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, OneLine(&self.message))
    }
}

impl std::error::Error for ConfigError {}

/// Text as one line of the terminal. Messages quote what was written, and that may hold control characters, or be long.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 500;
        for (count, c) in self.0.chars().enumerate() {
            if count == LONGEST {
                return f.write_str("...");
            }
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_short_line_whatever_they_quote() {
        let place = Place { origin: "a.conf".into(), line: 3 };
        let error = ConfigError::new(place.clone(), format!("bad '\u{1b}[31m\n{}'", "x".repeat(10_000)));
        let text = error.to_string();
        assert!(text.starts_with("a.conf:3: bad '\\u{1b}[31m\\nxxx"), "{text}");
        assert!(text.ends_with("...") && text.len() < 600);
        assert_eq!(Warning::at(place, "odd".to_owned()).to_string(), "a.conf:3: odd");
        assert_eq!(Warning::general("odd".to_owned()).to_string(), "odd");
        assert_eq!(Place::file(&"x".into()).to_string(), "x");
    }
}
