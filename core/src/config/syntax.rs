//! Apache's configuration text to a tree of directives and sections, each with its file and line.
//!
//! Behaviour and wording are Apache's as measured (htaccess-semantics 3): continuation lines, comments, quoting,
//! `${VAR}`, and the sections that are decided while reading, `<IfModule>` and `<IfDefine>`. What a directive means is
//! none of this file's business. Never panics, takes time linear in the text, and every size is limited.

use super::{ConfigError, Environment, Place, Warning};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much text is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line after joining and after expanding variables. Apache's limit in .htaccess files is 8,191 (3.1).
    pub line: usize,
    /// Sections within sections.
    pub depth: usize,
    /// Bytes of a file.
    pub file: usize,
}

/// The limits that [`super::load`] uses.
pub const LIMITS: Limits = Limits { line: 8191, depth: 64, file: 4 << 20 };

/// A directive, or a section with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name as written; without the `<` for a section.
    pub name: String,
    /// The rest of the line, variables expanded, quotes still in place.
    pub arguments: String,
    /// Where it stands: with continuation lines, the last of them, as Apache counts.
    pub place: Place,
    /// `None` for a directive.
    pub children: Option<Vec<Entry>>,
}

/// One section that is open.
struct Open {
    name: String,
    place: Place,
    kind: Kind,
}

enum Kind {
    /// `<IfModule>` or `<IfDefine>` whose condition holds: its lines belong to the section around it.
    True,
    /// A condition that does not hold, or any section inside of one: lines are skipped, tags are matched.
    Skipped,
    /// A section of the tree, with the entries read so far and its arguments.
    Section { arguments: String, entries: Vec<Entry> },
}

/// Reads sources one after the other into one tree. `Define`s carry over from one to the next.
pub struct Parser<'a> {
    environment: &'a Environment,
    limits: Limits,
    names: BTreeSet<String>,
    values: BTreeMap<String, String>,
    open: Vec<Open>,
    top: Vec<Entry>,
    warnings: Vec<Warning>,
}

impl<'a> Parser<'a> {
    /// A parser that knows what `-D` defined, which modules there are and what the variables are.
    pub fn new(environment: &'a Environment, limits: Limits) -> Parser<'a> {
        Parser {
            environment,
            limits,
            names: environment.defines.iter().cloned().collect(),
            values: BTreeMap::new(),
            open: Vec::new(),
            top: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// The first thing that Apache refuses while reading: a bad section, a line too long.
    pub fn text(&mut self, origin: &Arc<str>, text: &[u8]) -> Result<(), ConfigError> {
        if text.len() > self.limits.file {
            let limit = self.limits.file;
            return Err(ConfigError::new(
                Place::file(origin),
                format!("the file is larger than {limit} bytes"),
            ));
        }
        let mut lines = LogicalLines { rest: text, number: 0, limit: self.limits.line };
        while let Some(line) = lines.next() {
            let place = Place { origin: Arc::clone(origin), line: lines.number };
            match line {
                Some(line) => self.line(place, &line)?,
                None => return Err(ConfigError::new(place, "Line too long".to_owned())),
            }
        }
        self.end_of_source()
    }

    /// Reads one line: a directive of the command line.
    ///
    /// # Errors
    /// As for [`Parser::text`].
    pub fn line(&mut self, place: Place, line: &[u8]) -> Result<(), ConfigError> {
        if line.len() > self.limits.line {
            return Err(ConfigError::new(place, "Line too long".to_owned()));
        }
        let line = trim(line);
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        if self.open.last().is_some_and(|open| matches!(open.kind, Kind::Skipped)) {
            return self.skipped_line(place, &String::from_utf8_lossy(line));
        }
        // Apache takes any bytes; names and paths here are text. Comments and skipped lines may hold anything.
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(ConfigError::new(place, "the line is not UTF-8; save the file as UTF-8".to_owned()));
        };
        // The close tag of a true <IfModule> must be the whole line, before any expansion (3.4).
        if let Some(Open { name, kind: Kind::True, .. }) = self.open.last() {
            let tag = line.strip_prefix("</").and_then(|tag| tag.strip_suffix('>'));
            if tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name)) {
                self.open.pop();
                return Ok(());
            }
        }
        let line = self.expand(&place, line)?;
        let mut rest = line.as_str();
        let name = word(&mut rest);
        if let Some(closed) = name.strip_prefix("</") {
            return self.close(place, closed);
        }
        let Some(section) = name.strip_prefix('<') else {
            return self.directive(place, name, rest);
        };
        let section = section.strip_suffix('>').unwrap_or(section);
        self.section(place, section, rest)
    }

    /// The end of a file, or of the lines given on the command line: nothing may stay open.
    ///
    /// # Errors
    /// A section is still open.
    pub fn end_of_source(&mut self) -> Result<(), ConfigError> {
        // Of several the innermost: what Apache reports is the section that it was reading.
        if let Some(Open { name, place, kind }) = self.open.pop() {
            let what = match kind {
                Kind::Skipped => format!("Expected </{name}> before end of configuration"),
                // Where the condition holds Apache takes the end of the file for the end of the section without a word
                // (3.4). We refuse it: the rest of the section may be missing.
                Kind::True | Kind::Section { .. } => format!("<{name}> was not closed."),
            };
            return Err(ConfigError::new(place, what));
        }
        Ok(())
    }

    /// The tree, and what was odd but not wrong.
    ///
    /// # Errors
    /// A section is still open.
    pub fn finish(mut self) -> Result<(Vec<Entry>, Vec<Warning>), ConfigError> {
        self.end_of_source()?;
        Ok((self.top, self.warnings))
    }

    /// Inside a false section only tags count, and they must match (3.4).
    fn skipped_line(&mut self, place: Place, line: &str) -> Result<(), ConfigError> {
        if !line.starts_with('<') {
            return Ok(());
        }
        let mut rest = line;
        let tag = word(&mut rest);
        if let Some(closed) = tag.strip_prefix("</") {
            return self.close(place, closed);
        }
        let name = tag.strip_prefix('<').unwrap_or(&tag);
        let name = if rest.is_empty() { name.strip_suffix('>').unwrap_or(name) } else { name };
        self.push(name.to_owned(), place, Kind::Skipped)
    }

    /// A close tag: `closed` is its first word after `</`.
    fn close(&mut self, place: Place, closed: &str) -> Result<(), ConfigError> {
        let Some(name) = closed.strip_suffix('>') else {
            let message = if self.open.is_empty() {
                format!("</{closed} without matching <{closed} section")
            } else {
                format!("</{closed}> directive missing closing '>'")
            };
            return Err(ConfigError::new(place, message));
        };
        let matches = |open: &Open| open.name.eq_ignore_ascii_case(name);
        match self.open.last() {
            Some(open) if matches(open) && !matches!(open.kind, Kind::True) => {}
            // A true section with something after its close tag comes here too, with Apache's message for it.
            Some(open) if !matches(open) => {
                let expected = &open.name;
                return Err(ConfigError::new(place, format!("Expected </{expected}> but saw </{name}>")));
            }
            _ => {
                return Err(ConfigError::new(place, format!("</{name}> without matching <{name}> section")));
            }
        }
        if let Some(Open { name, place, kind: Kind::Section { arguments, entries } }) = self.open.pop() {
            self.add(Entry { name, arguments, place, children: Some(entries) });
        }
        Ok(())
    }

    fn section(&mut self, place: Place, name: &str, arguments: &str) -> Result<(), ConfigError> {
        let is_define = name.eq_ignore_ascii_case("IfDefine");
        if !is_define && !name.eq_ignore_ascii_case("IfModule") {
            let kind = Kind::Section { arguments: arguments.to_owned(), entries: Vec::new() };
            return self.push(name.to_owned(), place, kind);
        }
        let missing =
            |place| Err(ConfigError::new(place, format!("<{name}> directive requires additional arguments")));
        if arguments.is_empty() {
            return missing(place);
        }
        // The opening line ends at its last '>'; what stands behind is ignored, as Apache does.
        let Some(end) = arguments.rfind('>') else {
            return Err(ConfigError::new(place, format!("<{name}> directive missing closing '>'")));
        };
        let mut condition = &arguments[..end];
        let negated = condition.starts_with('!');
        condition = condition.strip_prefix('!').unwrap_or(condition);
        let subject = word(&mut condition);
        if subject.is_empty() {
            return missing(place);
        }
        let exists = if is_define {
            self.names.contains(&subject)
        } else {
            self.environment.modules.contains(&subject)
        };
        let kind = if exists == negated { Kind::Skipped } else { Kind::True };
        self.push(name.to_owned(), place, kind)
    }

    fn push(&mut self, name: String, place: Place, kind: Kind) -> Result<(), ConfigError> {
        if self.open.len() >= self.limits.depth {
            let depth = self.limits.depth;
            return Err(ConfigError::new(
                place,
                format!("<{name}> is nested more than {depth} sections deep"),
            ));
        }
        self.open.push(Open { name, place, kind });
        Ok(())
    }

    fn directive(&mut self, place: Place, name: String, arguments: &str) -> Result<(), ConfigError> {
        let is_define = name.eq_ignore_ascii_case("Define");
        if !is_define && !name.eq_ignore_ascii_case("UnDefine") {
            self.add(Entry { name, arguments: arguments.to_owned(), place, children: None });
            return Ok(());
        }
        let words = words(arguments);
        let usage = match (is_define, words.len()) {
            (true, 1 | 2) | (false, 1) => None,
            (true, _) => Some(
                "Define takes 1-2 arguments, Define a variable, optionally to a value.  Same as passing -D to the command line.",
            ),
            (false, _) => {
                Some("UnDefine takes one argument, Undefine the existence of a variable. Undo a Define.")
            }
        };
        if let Some(usage) = usage {
            return Err(ConfigError::new(place, usage.to_owned()));
        }
        let mut words = words.into_iter();
        let variable = words.next().unwrap_or_default();
        if variable.contains(':') {
            return Err(ConfigError::new(place, "Variable name must not contain ':'".to_owned()));
        }
        if !is_define {
            self.names.remove(&variable);
            self.values.remove(&variable);
            return Ok(());
        }
        if let Some(value) = words.next() {
            self.values.insert(variable.clone(), value);
        }
        self.names.insert(variable);
        Ok(())
    }

    fn add(&mut self, entry: Entry) {
        let around = self.open.iter_mut().rev().find_map(|open| match &mut open.kind {
            Kind::Section { entries, .. } => Some(entries),
            Kind::True | Kind::Skipped => None,
        });
        around.unwrap_or(&mut self.top).push(entry);
    }

    /// `${NAME}` by `Define`, then by the variables passed in; an unknown one stays as it is, with a warning (3.3).
    fn expand(&mut self, place: &Place, line: &str) -> Result<String, ConfigError> {
        let mut expanded = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            let (whole, name) = (&rest[start..=start + length], &rest[start + 2..start + length]);
            expanded.push_str(&rest[..start]);
            rest = &rest[start + length + 1..];
            match self.values.get(name).or_else(|| self.environment.variables.get(name)) {
                Some(value) => expanded.push_str(value),
                None => {
                    expanded.push_str(whole);
                    if !name.contains(':') {
                        let message = format!("AH00111: Config variable {whole} is not defined");
                        self.warnings.push(Warning::at(place.clone(), message));
                    }
                }
            }
            // A variable may hold the text of another, doubled: without this, sixty lines could fill the memory.
            if expanded.len() > self.limits.line {
                return Err(ConfigError::new(place.clone(), "Line too long".to_owned()));
            }
        }
        expanded.push_str(rest);
        if expanded.len() > self.limits.line {
            return Err(ConfigError::new(place.clone(), "Line too long".to_owned()));
        }
        Ok(expanded)
    }
}

/// Lines with their continuations joined, numbered by their last physical line.
struct LogicalLines<'a> {
    rest: &'a [u8],
    number: u32,
    limit: usize,
}

impl LogicalLines<'_> {
    /// The next line; `Some(None)` is one that is too long.
    fn next(&mut self) -> Option<Option<Vec<u8>>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut line = Vec::new();
        loop {
            let end = self.rest.iter().position(|&b| b == b'\n');
            let physical = &self.rest[..end.unwrap_or(self.rest.len())];
            self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
            self.number += 1;
            // A NUL ends what Apache sees of the physical line, its line end with it: no continuation then (3.1).
            let seen = physical.iter().position(|&b| b == 0);
            line.extend_from_slice(&physical[..seen.unwrap_or(physical.len())]);
            let ended = end.is_some() && seen.is_none();
            if ended && line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.len() > self.limit + 1 {
                return Some(None);
            }
            // A backslash that ends the text has nothing to continue with and stays.
            if !(ended && line.last() == Some(&b'\\')) {
                return Some(if line.len() > self.limit { None } else { Some(line) });
            }
            line.pop();
            if self.rest.is_empty() {
                return Some(Some(line));
            }
        }
    }
}

/// White space as C's `isspace` has it; Rust's ASCII white space lacks the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn trim(mut line: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = line
        && is_space(*first)
    {
        line = rest;
    }
    while let [rest @ .., last] = line
        && is_space(*last)
    {
        line = rest;
    }
    line
}

/// Takes the next word off `text`: Apache's `ap_getword_conf` (htaccess-semantics 3.2). Empty at the end of the text,
/// and for `""`.
pub fn word(text: &mut &str) -> String {
    let is_white = |c: char| u8::try_from(c).is_ok_and(is_space);
    *text = text.trim_start_matches(is_white);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let body = &text[usize::from(quote.is_some())..];
    let mut word = String::new();
    let mut rest = "";
    let mut chars = body.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = if quote.is_some() { Some(c) == quote } else { is_white(c) };
        if ends {
            rest = &body[at + c.len_utf8()..];
            break;
        }
        match chars.peek() {
            Some(&(_, next)) if c == '\\' && (next == '\\' || Some(next) == quote) => {
                word.push(next);
                chars.next();
            }
            _ => word.push(c),
        }
    }
    *text = rest.trim_start_matches(is_white);
    word
}

/// All words of `arguments`. An empty one (`""`) ends the list, as it does in Apache.
pub fn words(mut arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    loop {
        let word = word(&mut arguments);
        if word.is_empty() {
            return words;
        }
        words.push(word);
    }
}

/// `word` written so that [`word`] reads it back: in double quotes where it needs them.
pub fn quote(word: &str) -> String {
    let plain = |c: char| !c.is_ascii_whitespace() && !matches!(c, '\x0b' | '\\' | '"' | '\'');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
