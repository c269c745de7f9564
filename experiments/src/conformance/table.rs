//! Rows as text and as JSON.

use super::{Row, Verdict};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The table: per row the verdict, the model, the vector and what it says; then what was expected and, if it is another text, what
/// was seen.
pub fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(
            text,
            "{:<8}{:<9}{}: {} ({})",
            row.verdict.word(),
            row.model,
            row.vector,
            row.says,
            row.source
        );
        let _ = writeln!(text, "        expected {}", row.expected);
        let seen = if row.seen == row.expected { "the same" } else { &row.seen };
        let _ = writeln!(text, "        seen     {seen}");
        if let Verdict::Differs(reason) = row.verdict {
            let _ = writeln!(text, "        because  {reason}");
        }
    }
    text
}

/// One line: how many of each.
pub fn summary(rows: &[Row], target: &str) -> String {
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    let mut line = format!("{target}: {} of {} rows pass", count("pass"), rows.len());
    for (word, name) in [("FAIL", "fail"), ("differs", "differ for a stated reason"), ("skip", "skipped")] {
        if count(word) > 0 {
            let _ = write!(line, ", {} {name}", count(word));
        }
    }
    line
}

/// One object: `target, version, rows[{vector, model, says, source, expected, seen, verdict, reason, seconds}]`.
pub fn json(rows: &[Row], target: &str, version: &str) -> Value {
    let row = |row: &Row| {
        json!({
            "vector": row.vector,
            "model": row.model,
            "says": row.says,
            "source": row.source,
            "expected": row.expected,
            "seen": row.seen,
            "verdict": row.verdict.word().to_lowercase(),
            "reason": match row.verdict { Verdict::Differs(reason) => Some(reason), _ => None },
            "seconds": (row.took.as_secs_f64() * 1000.0).round() / 1000.0,
        })
    };
    json!({ "target": target, "version": version, "rows": rows.iter().map(row).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn row(seen: &str, verdict: Verdict) -> Row {
        Row {
            vector: "a-vector",
            says: "something is so",
            source: "V1",
            model: "event".to_owned(),
            expected: "yes",
            seen: seen.to_owned(),
            verdict,
            took: Duration::from_millis(1500),
        }
    }

    #[test]
    fn a_row_says_what_was_expected_and_what_was_seen() {
        let rows =
            [row("yes", Verdict::Pass), row("no", Verdict::Fail), row("maybe", Verdict::Differs("of this"))];
        let text = text(&rows);
        assert!(text.contains(
            "pass    event    a-vector: something is so (V1)\n        expected yes\n        seen     the same"
        ));
        assert!(
            text.contains("FAIL    event")
                && text.contains("seen     no\n")
                && text.contains("because  of this")
        );
        assert_eq!(
            summary(&rows, "mpmlab"),
            "mpmlab: 1 of 3 rows pass, 1 fail, 1 differ for a stated reason"
        );
        let json = json(&rows, "mpmlab", "1");
        assert_eq!(json["rows"][1]["verdict"], "fail");
        assert_eq!(json["rows"][2]["reason"], "of this");
    }
}
