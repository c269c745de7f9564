//! Ctrl-C, SIGTERM and SIGHUP: the first asks whatever runs to stop and report what it has, a second kills as usual.
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A signal this soon after the first is the same request: timeout(1) signals its child and then the child's whole
/// group, and a closed terminal can mean a SIGHUP from the kernel and one from the shell.
const SAME_REQUEST: Duration = Duration::from_millis(300);

/// Takes over SIGINT, SIGTERM and SIGHUP (once per process, at the first call) and returns the flag they raise. Never
/// lowered again: a command that was interrupted ends. A SIGHUP that is ignored, as under nohup(1), stays so.
pub fn on_interrupt() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let mut signals = vec![SIGINT, SIGTERM];
        if !is_ignored(SIGHUP) {
            signals.push(SIGHUP);
        }
        let raised = Arc::new(AtomicBool::new(false));
        for &signal in &signals {
            flag::register(signal, Arc::clone(&raised)).expect("these signals may have handlers");
        }
        let mut arrivals = Signals::new(&signals).expect("these signals may have handlers");
        std::thread::spawn(move || {
            let mut first: Option<Instant> = None;
            for signal in arrivals.forever() {
                let first = *first.get_or_insert_with(Instant::now);
                if first.elapsed() > SAME_REQUEST {
                    // Only a signal without a default action is refused, and these have one: it ends the process.
                    let _ = emulate_default_handler(signal);
                }
            }
        });
        raised
    })
}

/// Whether the process was started with the signal ignored (proc_pid_status(5), `SigIgn`).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
