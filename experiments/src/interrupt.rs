//! Ctrl-C, TERM and a closed terminal: the first asks whatever runs to stop and report what it has, the second kills.
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes over SIGINT, SIGTERM and SIGHUP (once per process, at the first call) and returns the flag it raises. Never lowered again: a
/// command that was interrupted ends.
pub fn on_interrupt() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let raised = Arc::new(AtomicBool::new(false));
        // Actions run in the order they were registered, so the first signal finds the flag still down here and only
        // the second one takes the default action.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, Arc::clone(&raised)).expect("it may have a handler");
            flag::register(signal, Arc::clone(&raised)).expect("it may have a handler");
        }
        raised
    })
}
