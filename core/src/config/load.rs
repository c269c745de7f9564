//! From sources of text to one `Config`: read, parse, apply each directive by its row.

use super::directive::{self, TABLE};
use super::draft::Draft;
use super::knobs::{CoreKnobs, KnobError, KnobRow, KnobSink};
use super::location;
use super::nearest::suggestion;
use super::syntax::{Entry, LIMITS, Parser, words};
use super::{Config, ConfigError, Place, Warning};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where directives come from. Sources are read in order; later ones win.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file (`-f`).
    File(PathBuf),
    /// One directive given by hand (`-c`). Its line number is how many of the same origin came before it, plus one;
    /// neighbours are read as one text, so that a section may span several.
    Line {
        /// What errors call it: `-c`.
        origin: String,
        /// The directive.
        text: String,
    },
    /// A file's content that is in memory.
    Text {
        /// What errors call it.
        origin: String,
        /// The content.
        text: Vec<u8>,
    },
}

/// What the text may refer to. Passed in: nothing here reads the process's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Names of `-D`, for `<IfDefine>`.
    pub defines: Vec<String>,
    /// Values of `${NAME}` that no `Define` gives: the environment variables, if the caller wishes.
    pub variables: BTreeMap<String, String>,
    /// Modules that exist for `<IfModule>`, exact case: [`directive::BUILTIN_MODULES`] and
    /// [`directive::model_modules`] of the model that runs.
    pub modules: BTreeSet<String>,
}

impl Environment {
    /// An environment with the core's modules and those of the model called `model`.
    pub fn for_model(model: &str) -> Environment {
        let builtin = directive::BUILTIN_MODULES.iter().map(|&name| name.to_owned());
        Environment {
            modules: builtin.chain(directive::model_modules(model)).collect(),
            ..Environment::default()
        }
    }
}

/// Reads `sources` into a configuration that begins as `Config::default()`. See [`load_into`].
///
/// # Errors
/// See [`load_into`].
pub fn load(sources: &[Source], environment: &Environment) -> Result<(Config, Vec<Warning>), ConfigError> {
    let mut config = Config::default();
    let warnings = load_into(&mut config, sources, environment, &mut [])?;
    Ok((config, warnings))
}

/// Reads `sources` into `config`, which holds what the model's card and the profile say, and into the `extra` knobs that
/// other crates declare. After an error `config` is as it was; `extra` may have been changed.
///
/// # Errors
/// The first error, as Apache reports only that: a file that cannot be read, bad syntax, an unknown directive, a bad value.
pub fn load_into(
    config: &mut Config,
    sources: &[Source],
    environment: &Environment,
    extra: &mut [&mut dyn KnobSink],
) -> Result<Vec<Warning>, ConfigError> {
    let (entries, mut warnings) = parse(sources, environment)?;
    let nowhere = Place { origin: Arc::from(""), line: 0 };
    let mut draft = Draft::new(config.clone(), nowhere);
    // ServerRoot counts for what stands before it too: Apache executes it while reading.
    let is_root = |entry: &Entry| entry.children.is_none() && entry.name.eq_ignore_ascii_case("ServerRoot");
    let (roots, others): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| is_root(entry));
    for entry in roots.into_iter().chain(others) {
        draft.place = entry.place.clone();
        if entry.children.is_some() && entry.name.eq_ignore_ascii_case("Location") {
            draft.config.locations.push(location::read(entry)?);
            continue;
        }
        apply(&mut draft, entry, environment, extra)
            .map_err(|message| ConfigError::new(entry.place.clone(), message))?;
    }
    let (made, said) = draft.finish()?;
    *config = made;
    warnings.extend(said);
    Ok(warnings)
}

fn apply(
    draft: &mut Draft,
    entry: &Entry,
    environment: &Environment,
    extra: &mut [&mut dyn KnobSink],
) -> Result<(), String> {
    if entry.children.is_some() {
        return Err(invalid(
            &format!("<{}", entry.name),
            ["<IfModule", "<IfDefine", "<Location"].into_iter(),
        ));
    }
    if let Some(row) = directive::find(&entry.name) {
        if !row.is_of_a_present_module(|name| environment.modules.contains(name)) {
            let of = row.module.replace("mpm_", "").replace("_module", "").replace(' ', " and ");
            draft.warn(format!("{} is a directive of {of} and has no effect here", row.name));
        }
        return row.apply(draft, &entry.arguments);
    }
    if let Some(row) = knob(CoreKnobs::ROWS, &entry.name) {
        return set_knob(&mut draft.config.knobs, row, &entry.arguments);
    }
    for sink in &mut *extra {
        if let Some(row) = knob(sink.rows(), &entry.name) {
            return set_knob(*sink, row, &entry.arguments);
        }
    }
    // Directives that only sections have.
    if let Some(name) =
        ["Require", "SetHandler"].into_iter().find(|name| name.eq_ignore_ascii_case(&entry.name))
    {
        return Err(format!("{name} not allowed here; put it into <Location>"));
    }
    let knobs = CoreKnobs::ROWS.iter().chain(extra.iter().flat_map(|sink| sink.rows()));
    let known = TABLE.iter().map(|row| row.name).chain(["Define", "UnDefine"]);
    Err(invalid(&entry.name, known.chain(knobs.map(|row| row.directive))))
}

/// Apache's words, and the nearest name.
fn invalid<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!(
        "Invalid command '{name}', perhaps misspelled or defined by a module not included in the server configuration{}",
        suggestion(name, known)
    )
}

fn knob<'a>(rows: &'a [KnobRow], directive: &str) -> Option<&'a KnobRow> {
    rows.iter().find(|row| row.directive.eq_ignore_ascii_case(directive))
}

fn set_knob(sink: &mut dyn KnobSink, row: &KnobRow, arguments: &str) -> Result<(), String> {
    match words(arguments).as_slice() {
        [value] => sink.set(row.name, value).map_err(|error| match error {
            KnobError::Value { value, allowed, .. } => {
                format!("{}: '{value}' is not a value of it; must be {allowed}", row.directive)
            }
            other => format!("{}: {other}", row.directive),
        }),
        _ => Err(format!("{} takes one argument, {}", row.directive, row.doc)),
    }
}

fn parse(sources: &[Source], environment: &Environment) -> Result<(Vec<Entry>, Vec<Warning>), ConfigError> {
    let mut parser = Parser::new(environment, LIMITS);
    let mut lines_of: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        match source {
            Source::File(path) => {
                let origin: Arc<str> = path.display().to_string().into();
                let text = read(path).map_err(|what| ConfigError::new(Place::file(&origin), what))?;
                parser.text(&origin, &text)?;
            }
            Source::Text { origin, text } => parser.text(&origin.as_str().into(), text)?,
            Source::Line { origin, text } => {
                let line = lines_of.entry(origin).or_insert(0);
                *line += 1;
                parser.line(Place { origin: origin.as_str().into(), line: *line }, text.as_bytes())?;
                let next = sources.get(index + 1);
                if !matches!(next, Some(Source::Line { origin: other, .. }) if other == origin) {
                    parser.end_of_source()?;
                }
            }
        }
    }
    parser.finish()
}

/// Reads a configuration file. A directory, a device or a pipe is refused before it is opened: a pipe would block.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| {
        let text = error.to_string();
        let why = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        format!("Could not open configuration file: {why}")
    };
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if metadata.is_dir() {
        return Err("is a directory; name a configuration file".to_owned());
    }
    if !metadata.is_file() && path != Path::new("/dev/null") {
        return Err("is not a regular file; name a configuration file".to_owned());
    }
    let mut text = Vec::new();
    // One byte more than allowed is enough for the parser to see that it is too much.
    let limit = LIMITS.file as u64 + 1;
    std::fs::File::open(path).map_err(cannot)?.take(limit).read_to_end(&mut text).map_err(cannot)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
