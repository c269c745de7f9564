//! All vectors as a page: what each shows, its directives, and what it must come to.

use super::{Vector, all};
use std::fmt::Write as _;

/// The page in Markdown, one heading per vector, so that other pages can link to it.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Conformance vectors\n\nEvery fact that the guide states about a model is a vector: a small scenario, run on mpmlab and on the real\n\
         Apache 2.4 with the same directives and the same expectation. `mpmlab conformance --only NAME` runs one on mpmlab,\n\
         `--target apache2` on the installed Apache. This page is written from the vectors themselves; a test keeps it so.\n",
    );
    for vector in all() {
        section(&mut text, vector);
    }
    text
}

fn section(text: &mut String, vector: &Vector) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\n## {}\n\n{}. ({})\n\n", vector.id, capital(vector.says), vector.source);
    if !vector.setup.is_empty() || !vector.knobs.is_empty() {
        let knobs = vector.knobs.iter().map(|knob| format!("mpmlab alone, with `--set {knob}`"));
        let lines: Vec<_> = vector.setup.iter().map(|line| format!("`{line}`")).chain(knobs).collect();
        let _ = write!(text, "Set-up: {}\n\n", lines.join(", "));
    }
    text.push_str("| model | expected |\n|---|---|\n");
    for (models, expected) in vector.expect {
        let _ = writeln!(
            text,
            "| {} | {} |",
            models.replace(' ', ", ").replace("every, model", "every model"),
            cell(expected)
        );
    }
    if let Some(difference) = vector.differs {
        let _ = writeln!(text, "| mpmlab | {}: {} |", cell(difference.mpmlab), difference.reason);
    }
}

/// Text that stands in a table as it is: the letters of a scoreboard would otherwise be read as emphasis.
fn cell(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
