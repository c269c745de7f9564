//! The outcome for people, in wrk's layout, so that eyes and scripts used to it find everything where it was; what
//! wrk leaves out or lumps together (causes of errors, opened connections, invalid runs) stands on lines of its
//! own.
use std::fmt::Write;
use std::time::Duration;

use super::outcome::Outcome;
use super::plan::Plan;

/// What is about to happen; printed before the run.
pub fn heading(plan: &Plan) -> String {
    let warmup = if plan.warmup.is_zero() {
        String::new()
    } else {
        format!(" after {} of warm-up", length(plan.warmup))
    };
    let close =
        if plan.keepalive { "" } else { ", a new connection for each request (latency includes connecting)" };
    format!(
        "Running {} test{warmup} @ {}\n  {} threads and {} connections{close}\n",
        length(plan.duration),
        plan.url,
        plan.threads,
        plan.connections
    )
}

/// What happened; `latency` adds the distribution, as wrk's `--latency` does.
pub fn summary(outcome: &Outcome, latency: bool) -> String {
    let mut out = String::new();
    write_summary(&mut out, outcome, latency).expect("writing to a String cannot fail");
    out
}

fn write_summary(out: &mut String, o: &Outcome, latency: bool) -> std::fmt::Result {
    let l = &o.latency_us;
    writeln!(out, "  Thread Stats   Avg      Stdev     Max")?;
    writeln!(out, "    Latency {:>9} {:>9} {:>9}", time(l.mean), time(o.latency_stdev_us), time(l.max))?;
    if latency {
        writeln!(out, "  Latency Distribution")?;
        for (percent, us) in [("50", l.p50), ("75", l.p75), ("90", l.p90), ("99", l.p99), ("99.9", l.p999)] {
            writeln!(out, "    {percent:>4}% {:>9}", time(us))?;
        }
    }
    let bytes = o.bytes_header + o.bytes_body;
    writeln!(out, "  {} requests in {:.2}s, {} read", o.requests, o.duration_s, size(bytes as f64))?;
    if o.interrupted {
        writeln!(out, "  Stopped before its time; the figures cover what was measured")?;
    }
    if o.connections_opened != o.connections_requested {
        writeln!(out, "  Connections: {} of {} opened", o.connections_opened, o.connections_requested)?;
    }
    let e = &o.errors;
    if e.total() > 0 {
        writeln!(
            out,
            "  Errors: connect {}, refused {}, reset {}, closed early {}, timeout {}, bad response {}",
            e.connect, e.refused, e.reset, e.closed_early, e.timeout, e.bad_response
        )?;
    }
    if o.closed_idle > 0 {
        writeln!(
            out,
            "  Kept connections closed by the server without notice: {} ({} by reset); their requests were sent again",
            o.closed_idle, o.closed_idle_reset
        )?;
    }
    let good = |code: &str| code.starts_with('2') || code.starts_with('3');
    let other: Vec<String> = o
        .status
        .iter()
        .filter(|(code, _)| !good(code))
        .map(|(code, count)| format!("{code}: {count}"))
        .collect();
    if !other.is_empty() {
        let sum: u64 = o.status.iter().filter(|(code, _)| !good(code)).map(|(_, count)| count).sum();
        writeln!(out, "  Non-2xx or 3xx responses: {sum} ({})", other.join(", "))?;
    }
    writeln!(out, "Requests/sec: {:>10.2}", o.rps)?;
    let rate = if o.duration_s > 0.0 { bytes as f64 / o.duration_s } else { 0.0 };
    writeln!(out, "Transfer/sec: {:>10}", size(rate))?;
    for law in &o.invalid_because {
        writeln!(out, "INVALID: {law}")?;
    }
    Ok(())
}

/// A latency as wrk writes it: `250.00us`, `1.25ms`, `2.00s`.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.2}us"),
        us if us < 1e6 => format!("{:.2}ms", us / 1e3),
        us => format!("{:.2}s", us / 1e6),
    }
}

/// A number of bytes as wrk writes it: steps of 1024, named KB, MB and so on.
fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KB", "MB", "GB"] {
        if value < 1024.0 {
            return format!("{value:.2}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.2}TB")
}

/// A planned length: `10s`, `2m`, `1.5s`, `500ms`.
fn length(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1.0 => format!("{}ms", s * 1e3),
        s if s >= 60.0 && s % 60.0 == 0.0 => format!("{}m", s / 60.0),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::load::outcome::{Errors, Latency, Mode};

    fn outcome() -> Outcome {
        Outcome {
            url: "http://127.0.0.1:8080/".into(),
            threads: 4,
            connections_requested: 50,
            connections_opened: 50,
            duration_s: 10.0,
            requests: 305_010,
            rps: 30501.0,
            errors: Errors::default(),
            status: BTreeMap::from([("200".into(), 305_010)]),
            bytes_header: 1 << 20,
            bytes_body: 9 << 20,
            latency_us: Latency {
                mean: 1639.2,
                min: 80.0,
                p50: 950.0,
                p75: 1200.0,
                p90: 2500.0,
                p99: 12_000.0,
                p999: 900_000.0,
                max: 1_250_000.0,
            },
            client_cpu_s: 8.0,
            mode: Mode { keepalive: true, open_loop: false, rate: None },
            valid: true,
            invalid_because: vec![],
            closed_idle: 0,
            closed_idle_reset: 0,
            connections_reconnected: 0,
            started: 305_060,
            failed: 0,
            in_flight: 50,
            latency_samples: 305_010,
            latency_stdev_us: 500.0,
            interrupted: false,
        }
    }

    #[test]
    fn a_clean_run_reads_like_wrk() {
        assert_eq!(
            summary(&outcome(), true),
            "  Thread Stats   Avg      Stdev     Max
    Latency    1.64ms  500.00us     1.25s
  Latency Distribution
      50%  950.00us
      75%    1.20ms
      90%    2.50ms
      99%   12.00ms
    99.9%  900.00ms
  305010 requests in 10.00s, 10.00MB read
Requests/sec:   30501.00
Transfer/sec:     1.00MB
"
        );
    }

    #[test]
    fn what_went_wrong_is_said_by_cause() {
        let mut o = outcome();
        o.connections_opened = 48;
        o.errors = Errors { timeout: 3, refused: 2, ..Errors::default() };
        o.status.insert("503".into(), 7);
        (o.closed_idle, o.closed_idle_reset) = (450, 1);
        o.invalid_because = vec!["only 48 of 50 connections could be opened".into()];
        let text = summary(&o, false);
        for line in [
            "  Connections: 48 of 50 opened",
            "  Errors: connect 0, refused 2, reset 0, closed early 0, timeout 3, bad response 0",
            "  Kept connections closed by the server without notice: 450 (1 by reset); their requests were sent again",
            "  Non-2xx or 3xx responses: 7 (503: 7)",
            "INVALID: only 48 of 50 connections could be opened",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} missing in\n{text}");
        }
        assert!(!text.contains("Latency Distribution"));
    }

    #[test]
    fn json_has_the_contracts_fields_in_its_order_and_reads_back() {
        let json = serde_json::to_value(outcome()).expect("an outcome is plain data");
        let keys = |value: &serde_json::Value| {
            value.as_object().expect("object").keys().cloned().collect::<Vec<_>>()
        };
        // design.md, section 5
        let contract = "url threads connections_requested connections_opened duration_s requests rps errors status \
                        bytes_header bytes_body latency_us client_cpu_s mode valid invalid_because";
        assert_eq!(keys(&json)[..16].join(" "), contract);
        assert_eq!(
            keys(&json["errors"]).join(" "),
            "connect refused reset closed_early timeout bad_response"
        );
        assert_eq!(keys(&json["latency_us"]).join(" "), "mean min p50 p75 p90 p99 p999 max");
        assert_eq!(keys(&json["mode"]).join(" "), "keepalive open_loop rate");
        let back: Outcome = serde_json::from_value(json.clone()).expect("reads back");
        assert_eq!(serde_json::to_value(back).expect("plain data"), json);
    }
}
