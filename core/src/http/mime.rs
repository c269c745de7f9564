//! Content types by file name extension, from a mime.types file, by mod_mime's rules.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Extension (lower case) to content type.
#[derive(Debug, Clone, Default)]
pub struct MimeTypes {
    types: HashMap<Box<[u8]>, &'static str>,
}

/// No extension that anybody registered is longer.
const LONGEST: usize = 32;

impl MimeTypes {
    /// The table compiled in.
    pub fn builtin() -> MimeTypes {
        MimeTypes::parse(include_str!("../../data/mime.types"))
    }

    /// Reads a mime.types file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(path: &Path) -> std::io::Result<MimeTypes> {
        Ok(MimeTypes::parse(&String::from_utf8_lossy(&std::fs::read(path)?)))
    }

    /// Lines of `type ext ext ...`; `#` starts a comment. The last line that names an extension wins.
    pub fn parse(text: &str) -> MimeTypes {
        let mut types = HashMap::new();
        for line in text.lines().map(str::trim_start).filter(|l| !l.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            if let Some(kind) = words.next() {
                let mut kept = None;
                for extension in words {
                    let kind = *kept.get_or_insert_with(|| keep(kind));
                    types.insert(extension.to_ascii_lowercase().into_bytes().into(), kind);
                }
            }
        }
        MimeTypes { types }
    }

    /// The type of a file name, without its directories: that of its last known extension. The part before the first dot
    /// is never one, a dot at the very start belongs to it, and unknown extensions do not matter (`a.html.bak` is HTML).
    pub fn of(&self, name: &str) -> Option<&'static str> {
        self.of_bytes(name.as_bytes())
    }

    /// The same for a name that may not be UTF-8.
    pub fn of_bytes(&self, name: &[u8]) -> Option<&'static str> {
        let dots = name.iter().take_while(|&&b| b == b'.').count();
        let mut rest = &name[dots..];
        // From the right: the first hit is the last known extension.
        while let Some(dot) = rest.iter().rposition(|&b| b == b'.') {
            let extension = &rest[dot + 1..];
            let mut lower = [0; LONGEST];
            if let Some(lower) = lower.get_mut(..extension.len()) {
                lower.copy_from_slice(extension);
                lower.make_ascii_lowercase();
                if let Some(kind) = self.types.get(&*lower) {
                    return Some(kind);
                }
            }
            rest = &rest[..dot];
        }
        None
    }
}

/// Keeps a type's name for the life of the process, so that responses can carry it without a copy. Each name is kept
/// once, however often configurations are read again.
fn keep(kind: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_with(HashSet::new);
    if let Some(known) = names.get(kind) {
        return known;
    }
    let kept: &'static str = Box::leak(kind.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_known_extension_decides() {
        let types = MimeTypes::builtin();
        for (name, kind) in [
            ("a.html", Some("text/html")),
            ("A.HTML", Some("text/html")),
            ("a.txt.html", Some("text/html")),
            ("a.html.gz", Some("application/gzip")),
            ("a.html.unknown", Some("text/html")),
            ("a..html", Some("text/html")),
            (".hidden.txt", Some("text/plain")),
            (".html", None),
            ("html", None),
            ("a.", None),
            ("a.unknown", None),
            ("", None),
            ("..html", None),
        ] {
            assert_eq!(types.of(name), kind, "{name}");
        }
        assert_eq!(types.of(&format!("a.{}", "x".repeat(300))), None);
    }

    #[test]
    fn files_are_read_line_by_line() {
        let types = MimeTypes::parse("# comment\n  # indented\ntext/x-a  a A2\n\ntext/x-none\ntext/x-b a\n");
        assert_eq!(types.of("f.a"), Some("text/x-b"));
        assert_eq!(types.of("f.a2"), Some("text/x-a"));
        assert_eq!(types.of("f.none"), None);
    }
}
