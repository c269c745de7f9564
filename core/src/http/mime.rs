//! Content types by file name extension, from a mime.types file.

use std::collections::HashMap;
use std::path::Path;

/// Extension (lower case) to content type.
#[derive(Debug, Clone, Default)]
pub struct MimeTypes {
    types: HashMap<String, String>,
}

impl MimeTypes {
    /// The table compiled in.
    pub fn builtin() -> MimeTypes {
        MimeTypes::parse("text/html html htm\ntext/plain txt\n")
    }

    /// Reads a mime.types file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(path: &Path) -> std::io::Result<MimeTypes> {
        Ok(MimeTypes::parse(&std::fs::read_to_string(path)?))
    }

    /// Lines of `type ext ext ...`; `#` starts a comment.
    pub fn parse(text: &str) -> MimeTypes {
        let mut types = HashMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            if let Some(kind) = words.next() {
                for extension in words {
                    types.insert(extension.to_ascii_lowercase(), kind.to_owned());
                }
            }
        }
        MimeTypes { types }
    }

    /// The type of a file name.
    pub fn of(&self, name: &str) -> Option<&str> {
        let extension = name.rsplit_once('.')?.1;
        self.types.get(&extension.to_ascii_lowercase()).map(String::as_str)
    }
}
