//! `cases.txt`: requests as readable text.

use super::text::unescape;

/// One conversation.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Which variant of the configuration it is for.
    pub server: String,
    /// What is sent.
    pub bytes: Vec<u8>,
    /// Whether the connection is expected to stay open.
    pub keep: bool,
    /// Whether the sending side is ended after the bytes.
    pub half_close: bool,
}

/// Reads the cases.
pub fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("## ") {
            assert!(cases.iter().all(|c| c.name != name), "line {}: {name} is there twice", number + 1);
            let server = "default".to_owned();
            cases.push(Case {
                name: name.to_owned(),
                server,
                bytes: Vec::new(),
                keep: false,
                half_close: false,
            });
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let case = cases.last_mut().expect("a case starts with its name");
        match (line, line.split_once(' ')) {
            ("keep", _) => case.keep = true,
            ("close", _) => case.keep = false,
            ("half-close", _) => case.half_close = true,
            (_, Some(("server", variant))) => case.server = variant.to_owned(),
            (_, Some((">", bytes))) => case.bytes.extend(unescape(bytes)),
            _ => panic!("line {}: not understood: {line}", number + 1),
        }
    }
    cases
}
