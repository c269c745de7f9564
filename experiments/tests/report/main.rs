//! The report of a run with known truth: what it says, what it must never say, and how it looks in a browser.

#![allow(clippy::unwrap_used, reason = "helpers of tests may stop the test")]

mod browser;
mod synthetic;

use std::path::Path;

use mpmlab_experiments::report;
use serde_json::{Value, json};
use synthetic::{environment, plan, rounds};

const PLOTS: [&str; 6] =
    ["plot-throughput", "plot-latency-p99", "plot-memory", "plot-cpu", "plot-ratio", "plot-ratio-1"];

/// Writes a run and its report; returns the directory and the page.
fn reported(
    plan: &Value,
    environment: &Value,
    rounds: &[Value],
) -> (tempfile::TempDir, report::Summary, String) {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write(dir.path(), plan, environment, rounds);
    let summary = report::write(dir.path()).unwrap();
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    (dir, summary, page)
}

/// The figure with this id, or nothing.
fn figure<'a>(page: &'a str, id: &str) -> Option<&'a str> {
    let start = page.find(&format!("<figure class=\"plot\" id=\"{id}\">"))?;
    page[start..].split_once("</figure>").map(|(figure, _)| figure)
}

/// The text between a section's id and the section's end.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    page.split_once(&format!("id=\"{id}\"")).unwrap().1.split_once("</section>").unwrap().0
}

fn shapes(svg: &str) -> usize {
    ["<circle", "<polyline", "<polygon"].iter().map(|tag| svg.matches(tag).count()).sum()
}

fn names_of_files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_plot_is_drawn_in_every_panel() {
    let (_dir, _, page) = reported(&plan(), &environment(), &rounds());
    for id in PLOTS {
        let figure = figure(&page, id).unwrap_or_else(|| panic!("{id} is missing"));
        assert!(figure.contains("<figcaption>"), "{id} does not say how to read it");
        let panels: Vec<&str> = figure.split("<svg role=\"img\" aria-label=\"").skip(1).collect();
        let expected = if id.starts_with("plot-ratio") { 4 } else { 8 };
        assert_eq!(panels.len(), expected, "{id}: one panel per facet");
        assert!(panels.iter().all(|panel| shapes(panel) > 0), "{id} has an empty panel");
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_nothing_runs() {
    let (_dir, _, page) = reported(&plan(), &environment(), &rounds());
    for forbidden in ["http:", "https:", "src=", "url(", "@import", "<script", "<iframe", "href=\"/"] {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
}

#[test]
fn hostile_values_are_text_everywhere() {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7*7 }}";
    let mut rounds = Vec::new();
    for round in 1..=2 {
        for (target, rps) in [(evil, 100.0), ("prefork", 120.0)] {
            for n in [1, 2] {
                let other = [evil, "b"][n - 1];
                let cell = json!({"target": target, evil: n, "other": other});
                rounds.push(synthetic::one(rounds.len(), round, &cell, rps, 1.0));
            }
        }
    }
    rounds[0]["valid"] = json!(false);
    rounds[0]["invalid_because"] = json!([evil]);
    rounds[1]["metrics"][evil] = json!(5);
    let plan = json!({"study": {"name": evil, "title": evil, "question": evil, "notes": [evil]},
                      "dropped_targets": [{"target": evil, "why": evil}]});
    let (dir, _, page) = reported(&plan, &json!({evil: evil, "command": evil}), &rounds);
    assert!(!page.contains("<script") && !page.contains("<img"), "markup from a value reached the page");
    assert!(!page.contains("\"'><"), "a quote from a value ended an attribute");
    assert!(page.contains("{{ 7*7 }}") && !page.contains(">49<"), "a value was taken for a template");
    let csv = std::fs::read_to_string(dir.path().join("tidy.csv")).unwrap();
    assert!(csv.contains("<script>alert(1)</script>\"\"'>"), "tidy.csv keeps values as they are, quoted");
    let table = report::terminal_table(dir.path()).unwrap();
    assert!(!table.contains('\u{1b}') && table.contains("prefork"), "{table}");
}

#[test]
fn the_answer_claims_what_the_data_show_and_no_more() {
    let (_dir, summary, page) = reported(&plan(), &environment(), &rounds());
    let answer = page.split_once("id=\"answer\"").unwrap().1.split_once("</section>").unwrap().0;
    assert!(
        answer.contains("64 concurrent connections, keep-alive, 1 KiB files, prefork answered"),
        "{answer}"
    );
    // Truth: event 0.8, apache2 0.6, nginx 1.3, worker equal.
    assert!(answer.contains("faster was nginx at 1.3"), "{answer}");
    assert!(
        answer.contains("slower were event at 0.8") || answer.contains("slower were event at 0.7"),
        "{answer}"
    );
    assert!(answer.contains("no difference is shown for worker at"), "{answer}");
    assert!(answer.contains("All 360 rounds are valid; no request failed."), "{answer}");
    let event = summary.targets.iter().find(|line| line.target == "event").unwrap();
    let (low, high) = event.ratio.unwrap().interval.unwrap();
    assert!(low < 0.8 && 0.8 < high, "the interval {low}-{high} misses the truth");
    assert_eq!(summary.reference.as_deref(), Some("prefork"));
}

#[test]
fn a_single_round_gives_numbers_but_no_claims() {
    let one_round: Vec<Value> = rounds().into_iter().filter(|round| round["round"] == 1).collect();
    let (_dir, summary, page) = reported(&plan(), &environment(), &one_round);
    assert!(summary.targets.iter().all(|line| line.rps.is_some()));
    assert!(summary.targets.iter().filter_map(|line| line.ratio).all(|ratio| ratio.interval.is_none()));
    let answer = page.split_once("id=\"answer\"").unwrap().1.split_once("</section>").unwrap().0;
    assert!(answer.contains("(a single round)"), "{answer}");
    assert!(answer.contains("measured once, so that no difference can be claimed: worker at"), "{answer}");
    assert!(answer.contains("The run is not complete: 120 of 360 planned rounds were measured."), "{answer}");
}

#[test]
fn rounds_that_are_not_valid_are_listed_marked_and_left_out() {
    let mut all = rounds();
    let spoiled = all
        .iter()
        .position(|round| {
            round["cell"] == json!({"target": "worker", "connections": 64, "keepalive": true, "size": 1024})
        })
        .unwrap();
    let (_dir, clean, before) = reported(&plan(), &environment(), &all);
    all[spoiled]["metrics"]["rps"] = json!(99_999_999.0);
    all[spoiled]["valid"] = json!(false);
    all[spoiled]["invalid_because"] = json!(["client used 99 % of its core", "steal 8 %"]);
    let (_dir, summary, page) = reported(&plan(), &environment(), &all);

    let validity = section(&page, "validity");
    assert!(validity.contains("client used 99 % of its core; steal 8 %"), "the reason is missing");
    assert!(validity.contains("99,999,999"), "the round's number is hidden");
    assert_eq!((summary.measured, summary.valid), (360, 359));
    assert!(page.contains("1 of 360 rounds is not valid"));
    let worker = |summary: &report::Summary| summary.targets[1].clone();
    assert_eq!((worker(&summary).valid, worker(&summary).rounds), (2, 3));
    assert_eq!(worker(&summary).ratio.unwrap().n, 2);
    assert!(worker(&summary).rps.unwrap() < 2.0 * worker(&clean).rps.unwrap(), "it moved the median");
    // A cross is two more lines in the panel it belongs to.
    let lines = |page: &str| figure(page, "plot-memory").unwrap().matches("<line").count();
    assert_eq!(lines(&page), lines(&before) + 2);
}

#[test]
fn a_run_stopped_anywhere_still_makes_a_report() {
    let all = rounds();
    for kept in [1, 2, 3, 5, 7, 64, 121, 359] {
        let (dir, summary, page) = reported(&plan(), &environment(), &all[..kept]);
        assert_eq!(summary.measured, kept);
        assert!(page.contains(&format!("{kept} of 360 planned rounds")), "{kept} rounds");
        assert!(shapes(figure(&page, "plot-throughput").unwrap()) > 0, "{kept} rounds: empty plot");
        assert!(!report::terminal_table(dir.path()).unwrap().contains("NaN"), "{kept} rounds");
        assert!(!page.contains("NaN") && !page.contains("inf<"), "{kept} rounds: senseless numbers");
    }
}

#[test]
fn no_valid_round_at_all_is_said_plainly() {
    let mut all = rounds();
    for round in &mut all {
        round["valid"] = json!(false);
    }
    let (_dir, summary, page) = reported(&plan(), &environment(), &all);
    assert_eq!(summary.valid, 0);
    assert!(page.contains("no valid round was measured, so nothing can be said about speed"));
    assert!(page.contains("there is nothing to compare"));
}

#[test]
fn any_study_is_reported_whatever_its_factors() {
    let cases = [
        ("only a target", vec![json!({"target": "event"}), json!({"target": "worker"})]),
        ("one target", vec![json!({"target": "event", "depth": 1}), json!({"target": "event", "depth": 4})]),
        (
            "no target",
            vec![json!({"file-send": "mmap", "depth": 1}), json!({"file-send": "read", "depth": 1})],
        ),
        ("no factor", vec![json!({})]),
        ("uneven", vec![json!({"target": "event", "a": true}), json!({"target": "worker", "b": "x"})]),
        ("many levels", (0..90).map(|n| json!({"target": "event", "a": n, "b": n % 45, "c": n})).collect()),
    ];
    for (case, cells) in cases {
        let rounds: Vec<Value> = (1..=2)
            .flat_map(|round| cells.iter().map(move |cell| synthetic::one(0, round, cell, 100.0, 1.0)))
            .collect();
        let (_dir, summary, page) = reported(&json!({}), &json!({}), &rounds);
        assert_eq!(summary.valid, rounds.len(), "{case}");
        let numbers = section(&page, "numbers");
        assert_eq!(numbers.matches("2 of 2").count(), cells.len(), "{case}: a table row per cell");
        if case == "many levels" {
            assert!(page.contains("varies too much for readable plots"), "{case}");
        } else {
            assert!(shapes(figure(&page, "plot-throughput").expect(case)) > 0, "{case}");
        }
    }
}

#[test]
fn metrics_that_were_not_measured_have_no_plot_and_break_nothing() {
    let mut all = rounds();
    for round in &mut all {
        let rps = round["metrics"]["rps"].clone();
        round["metrics"] = json!({"rps": rps, "p99_us": null, "cache_misses": 12});
    }
    let (_dir, _, page) = reported(&plan(), &environment(), &all);
    assert!(figure(&page, "plot-throughput").is_some() && figure(&page, "plot-ratio").is_some());
    assert!(figure(&page, "plot-latency-p99").is_none() && figure(&page, "plot-memory").is_none());
    assert!(
        section(&page, "numbers").contains("cache misses"),
        "a metric the report does not know is still a column"
    );
}

#[test]
fn what_the_plan_knows_of_the_targets_is_told() {
    let mut plan = plan();
    plan["targets"] = json!({
        "event": {"sentence": "not used: models are introduced", "version": "mpmlab 0.1.0", "settings": {"ThreadsPerChild": "25"}},
        "apache2": {"sentence": "the installed Apache 2.4 with its event model", "version": "Apache/2.4.71", "settings": {}},
    });
    plan["notes"] = json!(["caddy was left out: not installed.", "Each round starts the server afresh."]);
    let (_dir, _, page) =
        reported(&plan, &json!({"command_line": "mpmlab study run quick --seed 7"}), &rounds());
    let compared = section(&page, "compared");
    assert!(compared.contains("the installed Apache 2.4 with its event model."), "{compared}");
    assert!(compared.contains("one listener thread per process watches idle connections"), "{compared}");
    assert!(compared.contains("Each round starts the server afresh.") && !compared.contains("was left out"));
    assert_eq!(compared.matches("not installed").count(), 1, "a target left out is said once");
    let method = section(&page, "method");
    assert!(method.contains("ThreadsPerChild") && method.contains("mpmlab 0.1.0"), "{method}");
    assert!(method.contains("<code>mpmlab study run quick --seed 7</code>"), "{method}");
}

#[test]
fn errors_are_counted_by_cause() {
    let mut all = rounds();
    all[4]["metrics"]["errors"] = json!(1234);
    all[4]["metrics"]["errors_reset"] = json!(1234);
    let (_dir, _, page) = reported(&plan(), &environment(), &all);
    assert!(page.contains("1,234 requests failed beside") && page.contains("(connection reset: 1,234)"));
    assert!(section(&page, "numbers").contains("Failed requests, all rounds of a setting together"));
}

#[test]
fn tidy_csv_has_one_row_per_round_in_the_order_measured() {
    let (dir, _, _) = reported(&plan(), &environment(), &rounds());
    let csv = std::fs::read_to_string(dir.path().join("tidy.csv")).unwrap();
    let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 361);
    let header =
        "study,round,order,started,target,connections,keepalive,size,valid,invalid_because,rps,requests,";
    assert!(lines[0].starts_with(header), "{}", lines[0]);
    assert!(lines[2].starts_with("quick,1,1,2026-12-01T03:00:00Z,worker,1,true,1024,true,,"), "{}", lines[2]);
    let rps: f64 = lines[2].split(',').nth(10).unwrap().parse().unwrap();
    assert_eq!(json!(rps), rounds()[1]["metrics"]["rps"], "numbers are not rounded");
}

#[test]
fn the_same_run_gives_the_same_bytes_and_leaves_no_other_file() {
    let (dir, _, first) = reported(&plan(), &environment(), &rounds());
    report::write(dir.path()).unwrap();
    let second = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(first == second, "the report changed without a new measurement");
    let expected = ["environment.json", "plan.json", "report.html", "results.jsonl", "tidy.csv"];
    assert_eq!(names_of_files(dir.path()), expected);
}

#[test]
fn what_cannot_be_written_is_one_clear_line_and_nothing_half_written() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write(dir.path(), &plan(), &environment(), &rounds());
    std::fs::create_dir(dir.path().join("report.html")).unwrap();
    std::fs::write(dir.path().join("report.html/keep"), "").unwrap();
    let error = report::write(dir.path()).unwrap_err().to_string();
    assert!(error.contains("report.html: cannot write") && !error.contains('\n'), "{error}");
    assert!(names_of_files(dir.path()).iter().all(|name| !name.contains("tmp")), "a temporary file was left");
}

#[test]
fn the_terminal_table_names_the_cell_and_aligns_its_columns() {
    let (dir, _, _) = reported(&plan(), &environment(), &rounds());
    let table = report::terminal_table(dir.path()).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].ends_with("64 concurrent connections, keep-alive, 1 KiB files"), "{table}");
    assert!(lines[1].starts_with("target") && lines[1].contains("ratio to prefork (95 %)"), "{table}");
    assert_eq!(lines.len(), 8, "{table}");
    let width = lines[1].chars().count();
    assert!(lines[2..7].iter().all(|line| line.chars().count() == width), "{table}");
    assert_eq!(lines[7], "360 rounds measured, 360 valid");
}

#[test]
fn a_browser_shows_every_plot_at_desk_and_phone_width_without_console_errors() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("skipped: no chromium on PATH, so the report was not opened in a browser");
        return;
    };
    let mut all = rounds();
    all[3]["valid"] = json!(false);
    all[3]["invalid_because"] = json!([format!("a reason without a place to break: {}", "x".repeat(300))]);
    let (dir, _, page) = reported(&plan(), &environment(), &all);
    let report = dir.path().join("report.html");

    // The check itself must be able to fail: a page that does log an error is noticed.
    let broken = dir.path().join("broken.html");
    std::fs::write(&broken, format!("{page}<script>console.error('seen')</script>")).unwrap();
    assert_eq!(browser::open(&chromium, &broken).console_errors().len(), 1, "console errors go unnoticed");

    for width in [1280, 390] {
        let (probe, seen) = browser::probe(&chromium, &report, width);
        assert_eq!(seen.console_errors(), Vec::<&str>::new(), "at {width} px");
        assert_eq!(probe["title"], "What is the concurrency model worth?", "at {width} px");
        let figures = probe["figures"].as_array().unwrap();
        let ids: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
        assert_eq!(ids, PLOTS, "at {width} px");
        for figure in figures {
            let drawings = figure["drawings"].as_array().unwrap();
            assert!(!drawings.is_empty(), "{} has no drawing at {width} px", figure["id"]);
            for drawing in drawings {
                let [w, h, left, right] = [0, 1, 2, 3].map(|index| drawing[index].as_f64().unwrap());
                assert!(w > 200.0 && h > 100.0, "{} is drawn {w} x {h} at {width} px", figure["id"]);
                assert!(
                    left >= 0.0 && right <= f64::from(width),
                    "{} leaves the page at {width} px",
                    figure["id"]
                );
            }
        }
        assert!(probe["client"].as_u64().unwrap() > 300, "the frame was not laid out");
        assert!(
            probe["scroll"].as_u64() <= probe["client"].as_u64(),
            "at {width} px the page scrolls sideways: {} in {}",
            probe["scroll"],
            probe["client"]
        );
    }
}
