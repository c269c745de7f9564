//! The known name closest to a mistyped one, for error messages.

/// The name in `known` with the fewest edits from `typed`, if that is close enough to be what was meant.
pub fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (distance(typed, name), *name))
        .filter(|(edits, name)| *edits <= name.len().max(typed.len()) / 2)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// `; did you mean X?` or the list of what there is.
pub fn hint(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// Levenshtein distance over bytes, case ignored.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_nonsense_finds_none() {
        let known = ["prefork", "worker", "event", "nginx"];
        for (typed, expected) in [
            ("prefrok", Some("prefork")),
            ("evnt", Some("event")),
            ("Worker", Some("worker")),
            ("zzzzzz", None),
        ] {
            assert_eq!(nearest(typed, &known), expected, "{typed}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
