//! Reports of a run directory: `tidy.csv` for other programs, `report.html` for people, a table for the terminal.
//!
//! Everything is computed from `results.jsonl` (the append-only truth), `plan.json` and `environment.json`; nothing is
//! measured here, so a report can be made again at any time, on any machine, with the same result. No round is left
//! out by hand: rounds that are not valid are shown, counted, and kept out of medians and intervals.

mod analysis;
mod answer;
mod data;
mod forest;
mod html;
mod plots;
mod summary;
mod svg;
mod tables;
mod tidy;
mod words;

use std::io::Write;
use std::path::{Path, PathBuf};

pub use data::ReportError;
pub use summary::{Summary, TargetLine};

/// Writes `tidy.csv` and `report.html` of the run directory `dir`, each whole or not at all.
pub fn write(dir: &Path) -> Result<Summary, ReportError> {
    let run = data::Run::read(dir)?;
    let analysis = analysis::Analysis::new(&run);
    let summary = summary::summarize(&analysis);
    let page = html::page(&analysis, &summary)?;
    replace(&dir.join("tidy.csv"), &tidy::csv(&run))?;
    replace(&dir.join("report.html"), &page)?;
    Ok(summary)
}

/// The run's summary without writing anything.
pub fn summary(dir: &Path) -> Result<Summary, ReportError> {
    let run = data::Run::read(dir)?;
    Ok(summary::summarize(&analysis::Analysis::new(&run)))
}

/// The table to print at the end of a run: every target at 64 kept connections and a 1 KiB file, or the nearest cell.
pub fn terminal_table(dir: &Path) -> Result<String, ReportError> {
    Ok(summary::terminal_table(&summary(dir)?))
}

/// Writes beside the file and renames over it, so that a reader sees the old file or the new one, never a part.
fn replace(path: &Path, content: &str) -> Result<(), ReportError> {
    let mut temporary = PathBuf::from(path).into_os_string();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|source| {
        // Nothing may be there to remove; the error worth telling is the first one.
        let _ = std::fs::remove_file(&temporary);
        ReportError::Unwritable { path: path.into(), source }
    })
}
