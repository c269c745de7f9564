//! A made-up run directory with known truth, for the report's tests.

use std::path::Path;

use mpmlab_experiments::random::Random;
use serde_json::{Value, json};

/// True speed of each target relative to prefork.
pub const TARGETS: [(&str, f64); 5] =
    [("prefork", 1.0), ("worker", 1.0), ("event", 0.8), ("apache2", 0.6), ("nginx", 1.3)];

/// The shipped study's plan.
pub fn plan() -> Value {
    json!({
        "study": {
            "name": "quick", "title": "What is the concurrency model worth?",
            "question": "Same core, same files: how much do prefork, worker and event differ?", "rounds": 3,
            "notes": ["Server and client run on one machine."],
        },
        "seed": 42,
        "factors": {
            "target": TARGETS.map(|(name, _)| name), "connections": [1, 64, 256], "keepalive": [true, false],
            "size": [1024, 10240, 20329, 102400],
        },
        "runs": 360, "window_s": 0.5, "warmup_s": 0.1,
        "dropped_targets": [{"target": "caddy", "why": "not installed"}],
    })
}

/// A description of a machine.
pub fn environment() -> Value {
    json!({
        "kernel": "Linux 6.12", "cpu": "Some CPU", "versions": {"apache2": "2.4.71"},
        "pinning": {"server_cpu": 0, "client_cpu": 1}, "command": "mpmlab study run quick",
    })
}

/// All rounds of the shipped study: 3 rounds of 24 blocks of 5 targets. Noise is 1 %, the machine's drift 20 %.
pub fn rounds() -> Vec<Value> {
    let mut rng = Random::new(7);
    let mut rounds = Vec::new();
    for round in 1..=3 {
        for connections in [1, 64, 256] {
            for keepalive in [true, false] {
                for size in [1024, 10240, 20329, 102400] {
                    let drift = 0.8 + 0.4 * rng.unit();
                    for (target, speed) in TARGETS {
                        let noise = 0.99 + 0.02 * rng.unit();
                        let rps = 1e9 / (20_000.0 + f64::from(size)) * speed * drift * noise;
                        let cell = json!({
                            "target": target, "connections": connections, "keepalive": keepalive, "size": size,
                        });
                        rounds.push(one(rounds.len(), round, &cell, rps, f64::from(connections)));
                    }
                }
            }
        }
    }
    rounds
}

/// One valid round.
pub fn one(order: usize, round: u64, cell: &Value, rps: f64, connections: f64) -> Value {
    let p50 = connections * 1e6 / rps;
    json!({
        "study": "quick", "cell": cell, "round": round, "order": order, "started": "2026-12-01T03:00:00Z",
        "metrics": {
            "rps": rps, "requests": (rps / 2.0) as u64, "p50_us": p50, "p99_us": 3.0 * p50, "mean_us": p50, "max_us": 9.0 * p50,
            "errors": 0, "errors_reset": 0, "pss_bytes": 20e6 + 1e5 * connections, "rss_bytes": 40e6, "processes": 4,
            "threads": 100, "server_cpu_us_per_request": 1e6 / rps, "server_cpu_share": 0.9, "client_cpu_share": 0.5,
            "duration_s": 0.5, "steal_share": 0.0,
        },
        "valid": true, "invalid_because": [],
    })
}

/// Writes a run directory.
pub fn write(dir: &Path, plan: &Value, environment: &Value, rounds: &[Value]) {
    let lines: String = rounds.iter().map(|round| format!("{round}\n")).collect();
    std::fs::write(dir.join("plan.json"), plan.to_string()).unwrap();
    std::fs::write(dir.join("environment.json"), environment.to_string()).unwrap();
    std::fs::write(dir.join("results.jsonl"), lines).unwrap();
}
