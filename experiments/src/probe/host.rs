//! The machine a study runs on, and what on it could disturb a measurement: the content of `environment.json`.

use super::cpu::{MachineTime, clock_tick};
use super::tree;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What was found out about the machine. Fields that cannot be read are absent rather than guessed.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: Option<String>,
    /// `PRETTY_NAME` of the distribution.
    pub system: Option<String>,
    /// CPU model as the kernel names it.
    pub cpu_model: Option<String>,
    /// CPUs this process may use.
    pub cpus_allowed: Vec<usize>,
    /// CPUs the machine has online.
    pub cpus_online: usize,
    /// Frequency governor of the first CPU; absent on most virtual machines.
    pub governor: Option<String>,
    /// Frequency in MHz of each CPU when the study started.
    pub cpu_mhz: Vec<f64>,
    /// Memory of the machine, bytes.
    pub memory_bytes: Option<u64>,
    /// Load averages over 1, 5 and 15 minutes, before the study started.
    pub load_average: Vec<f64>,
    /// The hypervisor, where the kernel says so.
    pub virtualised: bool,
    /// Processes that used more than 5 % of a core shortly before the study started, in words, busiest first.
    pub busy_processes: Vec<String>,
    /// Share of machine time the hypervisor took away shortly before the study started.
    pub steal_share_before: f64,
}

/// A process using less than this share of a core does not count as busy.
const BUSY: f64 = 0.05;

/// Looks at the machine. Watches the other processes for `watch`: call it while nothing of the study runs.
pub fn inspect(watch: Duration) -> Host {
    let steal = MachineTime::read(None);
    let busy_processes = busy(watch);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let values = |key: &str| -> Vec<String> {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    };
    Host {
        kernel: line_of("/proc/sys/kernel/osrelease"),
        system: fs::read_to_string("/etc/os-release").ok().and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("PRETTY_NAME="))
                .map(|name| name.trim_matches('"').to_owned())
        }),
        cpu_model: values("model name").into_iter().next(),
        cpus_allowed: super::super::target::pin::allowed(),
        cpus_online: std::thread::available_parallelism()
            .map_or(1, usize::from)
            .max(values("processor").len()),
        governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpu_mhz: values("cpu MHz").iter().filter_map(|mhz| mhz.parse().ok()).collect(),
        memory_bytes: fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
        }),
        load_average: line_of("/proc/loadavg")
            .map(|line| line.split(' ').take(3).filter_map(|number| number.parse().ok()).collect())
            .unwrap_or_default(),
        virtualised: values("flags")
            .first()
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        busy_processes,
        steal_share_before: steal
            .and_then(|before| Some(MachineTime::read(None)?.steal_share_since(&before)))
            .unwrap_or(0.0),
    }
}

/// Processes other than this one that ran during the next `watch`, busiest first.
fn busy(watch: Duration) -> Vec<String> {
    let ticks = || -> HashMap<i32, (String, u64)> {
        let processes = tree::all().unwrap_or_default();
        processes.into_iter().map(|process| (process.pid, (process.name, process.own_ticks))).collect()
    };
    let before = ticks();
    std::thread::sleep(watch);
    let own = std::process::id();
    let mut busy: Vec<(f64, String)> = ticks()
        .into_iter()
        .filter(|(pid, _)| u32::try_from(*pid) != Ok(own))
        .filter_map(|(pid, (name, after))| {
            let used = after.saturating_sub(before.get(&pid)?.1);
            let share = clock_tick().as_secs_f64() * used as f64 / watch.as_secs_f64();
            (share > BUSY).then(|| (share, format!("{name} (pid {pid}) {:.0} % of a core", share * 100.0)))
        })
        .collect();
    busy.sort_by(|a, b| b.0.total_cmp(&a.0));
    busy.into_iter().map(|(_, words)| words).take(10).collect()
}

/// The commit of the source tree that `directory` lies in, with `-dirty` when tracked files differ from it.
pub fn git_commit(directory: &Path) -> Option<String> {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if changed { format!("{commit}-dirty") } else { commit })
}

fn line_of(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
