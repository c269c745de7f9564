//! The twelve cells as Markdown: ours beside Apache's, call by call.

use super::traffic::Kind;
use super::{APACHES, Cells};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Voluntary context switches per request, by cell.
pub type Switches = BTreeMap<(&'static str, &'static str), f64>;

/// One table per model: a row for each call, a column for each kind of request, `ours / Apache's`; one number where
/// they are the same, `-` where neither makes the call.
pub fn markdown(ours: &Cells, apaches: &Cells, our_switches: &Switches, their_switches: &Switches) -> String {
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a String cannot fail");
    for mpm in APACHES {
        let cells = Kind::ALL.map(|kind| (mpm, kind.name()));
        line(&format!("| {mpm} | {} |", Kind::ALL.map(Kind::name).join(" | ")));
        line("|---|---|---|---|---|");
        let names: BTreeSet<&str> =
            cells.iter().flat_map(|cell| ours[cell].names().chain(apaches[cell].names())).collect();
        for name in names {
            let row = cells.map(|cell| pair(ours[&cell].count(name), apaches[&cell].count(name)));
            line(&format!("| {name} | {} |", row.join(" | ")));
        }
        let row = cells.map(|cell| pair(ours[&cell].total(), apaches[&cell].total()));
        line(&format!("| **all** | {} |", row.join(" | ")));
        let verdict = cells.map(|cell| {
            let equal = ours[&cell].differences(&apaches[&cell]).is_empty();
            if equal { "equal".to_owned() } else { "differs".to_owned() }
        });
        line(&format!("| *verdict* | {} |", verdict.join(" | ")));
        let count = |switches: &Switches, cell| {
            switches.get(&cell).map_or("?".to_owned(), |count: &f64| format!("{count:.1}"))
        };
        let row =
            cells.map(|cell| format!("{} / {}", count(our_switches, cell), count(their_switches, cell)));
        line(&format!("| *voluntary context switches* | {} |", row.join(" | ")));
        line("");
    }
    text
}

fn pair(ours: f64, apaches: f64) -> String {
    let number = |count: f64| {
        if count.fract() == 0.0 { format!("{count}") } else { format!("{count:.2}") }
    };
    match (number(ours), number(apaches)) {
        (a, b) if a == b && ours == 0.0 => "-".to_owned(),
        (a, b) if a == b => a,
        (a, b) => format!("{a} / {b}"),
    }
}
