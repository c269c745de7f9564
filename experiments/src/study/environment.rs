//! `environment.json`: the machine, the programs, who ran where, and what disturbed it.

use super::clock;
use super::engine::RunOptions;
use super::plan::Plan;
use crate::probe::host::{self, Host};
use crate::target::pin::Cores;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::SystemTime;

/// Its name in the run directory.
pub const FILE_NAME: &str = "environment.json";

/// What is known when the rounds begin.
pub fn record(host: &Host, plan: &Plan, cores: Cores, options: &RunOptions) -> Value {
    let versions: Map<String, Value> = plan
        .targets
        .iter()
        .map(|(name, about)| (name.clone(), about.get("version").cloned().unwrap_or_default()))
        .collect();
    let directory = options.program.parent().unwrap_or(Path::new("."));
    json!({
        "date": clock::rfc3339(SystemTime::now()),
        "command_line": options.command_line.join(" "),
        "mpmlab": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "development" } else { "release" },
        "git_commit": host::git_commit(directory),
        "versions": versions,
        "pinning": cores.sentence(),
        "server_cpu": cores.server,
        "client_cpu": cores.client,
        "host": host,
    })
}
