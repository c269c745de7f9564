//! "Did you mean": the known name that is nearest to a misspelled one.

/// Longest name worth comparing. Real names are far shorter, and the comparison is quadratic in the length.
const LONGEST: usize = 64;

/// The candidate with the smallest edit distance from `name`, letter case aside, if it is near enough to be what was
/// meant: at most one edit for every three letters. Of two equally near, the first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.chars().take(LONGEST + 1).map(|c| c.to_ascii_lowercase()).collect();
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let letters: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
        let most = (wanted.len().max(letters.len()) / 3).max(1);
        // The difference in length is the least that the distance can be.
        if wanted.len().abs_diff(letters.len()) > most {
            continue;
        }
        let distance = distance(&wanted, &letters);
        if distance <= most && distance < letters.len() && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The end of an error message: `; did you mean 'X'?`, or nothing.
pub fn suggestion<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, and swaps of
/// neighbours, each counting one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_when_nothing_is_near() {
        let names =
            ["Listen", "KeepAlive", "KeepAliveTimeout", "Timeout", "ServerLimit", "ThreadLimit", "User"];
        for (wrong, meant) in [
            ("Lisetn", Some("Listen")),
            ("keepalivetimout", Some("KeepAliveTimeout")),
            ("KeepAlives", Some("KeepAlive")),
            ("TreadLimit", Some("ThreadLimit")),
            ("Uesr", Some("User")),
            ("RewriteRule", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), meant, "{wrong}");
        }
        assert_eq!(nearest(&"a".repeat(10_000), names), None);
    }

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("ab"), &chars("ba")), 1);
        assert_eq!(distance(&chars("kitten"), &chars("sitting")), 3);
        assert_eq!(distance(&chars(""), &chars("abc")), 3);
    }
}
