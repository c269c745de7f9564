//! CPU time: of a server's processes, and what the hypervisor took away from the machine.
//!
//! `/proc/PID/stat` rounds down to 10 ms *per process*: 150 prefork children that ran 2 ms each would read as zero. The
//! kernel's per-process CPU clock (clock_getcpuclockid(3)) counts nanoseconds and includes threads that have ended, so it
//! is read for the living; only children already waited for are taken from `stat`, where nothing better exists.

use super::tree::Process;
use nix::time::clock_getcpuclockid;
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::fs;
use std::time::Duration;

/// The CPU time (user + system) of one living process; `None` once it is gone.
pub fn of_process(pid: i32) -> Option<Duration> {
    clock_getcpuclockid(Pid::from_raw(pid)).and_then(|clock| clock.now()).ok().map(Duration::from)
}

/// Measures what a server uses between two moments. Cheap at both: reading 150 clocks takes well under a millisecond,
/// while listing the machine's processes takes several, and is done before the first moment and after the second.
#[derive(Debug)]
pub struct Watch {
    known: Vec<(i32, Duration)>,
    reaped: Duration,
}

impl Watch {
    /// Starts now. `processes` are the server's, listed shortly before.
    pub fn start(processes: &[Process]) -> Watch {
        let known = processes.iter().filter_map(|p| Some((p.pid, of_process(p.pid)?))).collect();
        Watch { known, reaped: reaped(processes) }
    }

    /// Ends now; `list` then says which processes the server has. Counted are processes that were there all the time,
    /// those born since, and those that died since and were waited for.
    pub fn stop(self, list: impl FnOnce() -> Vec<Process>) -> Duration {
        let mut used = Duration::ZERO;
        let mut dead_before = Duration::ZERO;
        for &(pid, before) in &self.known {
            match of_process(pid) {
                Some(after) => used += after.saturating_sub(before),
                None => dead_before += before,
            }
        }
        let now = list();
        for process in now.iter().filter(|p| self.known.iter().all(|(pid, _)| *pid != p.pid)) {
            used += of_process(process.pid).unwrap_or_default();
        }
        // A dead child's whole life is now in its parent's account; what it had used before the start is not ours.
        used + reaped(&now).saturating_sub(self.reaped).saturating_sub(dead_before)
    }
}

fn reaped(processes: &[Process]) -> Duration {
    processes.iter().map(|process| clock_tick() * ticks(process.reaped_ticks)).sum()
}

/// Ticks as a factor for `Duration`; 2^32 ticks are 497 days of CPU time.
fn ticks(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Length of one clock tick in `/proc`; 10 ms wherever Linux runs today.
pub fn clock_tick() -> Duration {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|n| u32::try_from(n).ok());
    Duration::from_secs(1) / per_second.filter(|&n| n > 0).unwrap_or(100)
}

/// Counters of `/proc/stat`, in ticks: of all CPUs together, or of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// All of them.
    pub total: u64,
    /// Ticks spent in processes, their system calls included and interrupts not.
    pub processes: u64,
    /// Ticks in which a virtual CPU wanted to run and the hypervisor ran something else.
    pub steal: u64,
}

impl MachineTime {
    /// Reads the counters of `cpu`, or of all CPUs together. `None` where `/proc/stat` does not say.
    pub fn read(cpu: Option<usize>) -> Option<MachineTime> {
        parse_machine(&fs::read_to_string("/proc/stat").ok()?, cpu)
    }

    /// Share of the time since `earlier` that was stolen; 0 when less than a tick passed.
    pub fn steal_share_since(&self, earlier: &MachineTime) -> f64 {
        share(self.steal.saturating_sub(earlier.steal), self.total.saturating_sub(earlier.total))
    }

    /// Share of the time since `earlier` that processes other than those that used `own` ran for. Ticks are coarse:
    /// in a window of a quarter second this is right to a few hundredths.
    pub fn others_share_since(&self, earlier: &MachineTime, own: Duration) -> f64 {
        let passed = self.total.saturating_sub(earlier.total);
        let used = clock_tick() * ticks(self.processes.saturating_sub(earlier.processes));
        share_of(used.saturating_sub(own), clock_tick() * ticks(passed))
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn share_of(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

fn parse_machine(text: &str, cpu: Option<usize>) -> Option<MachineTime> {
    let name = cpu.map_or("cpu ".to_owned(), |cpu| format!("cpu{cpu} "));
    let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let numbers: Vec<u64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is already inside user (proc(5)).
    let steal = numbers.get(7).copied().unwrap_or(0);
    Some(MachineTime { total: numbers.iter().take(8).sum(), processes: numbers.iter().take(3).sum(), steal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_time_is_not_counted_twice_and_steal_is_field_eight() {
        let text = "cpu  100 0 50 800 10 0 5 35 40 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu10 9 9 9 9 9 9 9 9 9 9\n";
        let time = parse_machine(text, None).unwrap();
        assert_eq!(time, MachineTime { total: 1000, processes: 150, steal: 35 });
        assert_eq!(parse_machine(text, Some(0)), Some(MachineTime { total: 36, processes: 6, steal: 8 }));
        assert_eq!(parse_machine(text, Some(1)), None);
        let later = MachineTime { total: 1100, processes: 200, steal: 60 };
        assert_eq!(later.steal_share_since(&time), 0.25);
        assert_eq!(time.steal_share_since(&time), 0.0);
        // 50 ticks of processes in 100, of which the server used 40.
        assert_eq!(later.others_share_since(&time, clock_tick() * 40), 0.1);
        assert_eq!(later.others_share_since(&time, clock_tick() * 60), 0.0);
    }
}
