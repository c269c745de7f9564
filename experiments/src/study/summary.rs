//! The few numbers printed when a study ends: one cell, all targets, medians over the rounds. The report has the rest.

use super::factor::{self, Cell, Level, TARGET};
use super::results::Record;
use std::fmt::Write as _;

/// The settings of the printed cell: what comes nearest to 64 kept connections asking for the smallest file.
fn reference(cells: &[Cell]) -> Option<Cell> {
    let distance = |cell: &Cell| {
        let connections = factor::number(cell, "connections");
        (connections.abs_diff(64), !factor::flag(cell, "keepalive"), factor::number(cell, "size"))
    };
    let mut settings = cells.iter().min_by_key(|cell| distance(cell))?.clone();
    settings.remove(TARGET);
    Some(settings)
}

/// The table, or nothing when no round was valid. `targets` gives the order of the lines.
pub fn table(records: &[Record], targets: &[String]) -> String {
    let cells: Vec<Cell> =
        records.iter().filter(|record| record.valid).map(|record| record.cell.clone()).collect();
    let Some(settings) = reference(&cells) else { return String::new() };
    let kept = if factor::flag(&settings, "keepalive") { "kept" } else { "new for each request" };
    let mut text = format!(
        "{} connections, {kept}, {} byte file; medians over the rounds\n{:<16} {:>12} {:>12} {:>12} {:>7}\n",
        factor::number(&settings, "connections"),
        factor::number(&settings, "size"),
        "target",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "rounds"
    );
    for target in targets {
        let mut cell = settings.clone();
        cell.insert(TARGET.to_owned(), Level::Text(target.clone()));
        let rounds: Vec<&Record> =
            records.iter().filter(|record| record.valid && record.cell == cell).collect();
        let median_of = |metric: &str| -> Option<f64> {
            median(rounds.iter().filter_map(|record| record.metrics.get(metric)?.as_f64()).collect())
        };
        let cell =
            |value: Option<f64>, decimals: usize| value.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
        writeln!(
            text,
            "{target:<16} {:>12} {:>12} {:>12} {:>7}",
            cell(median_of("rps"), 0),
            cell(median_of("p50_us").map(|us| us / 1000.0), 2),
            cell(median_of("p99_us").map(|us| us / 1000.0), 2),
            rounds.len()
        )
        .expect("String grows");
    }
    text
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
