//! Ctrl-C: the first one asks whatever runs to stop and report what it has, the second one kills as usual.
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes over SIGINT (once per process, at the first call) and returns the flag it raises. Never lowered again: a
/// command that was interrupted ends.
pub fn on_interrupt() -> &'static AtomicBool {
    INTERRUPTED.get_or_init(|| {
        let raised = Arc::new(AtomicBool::new(false));
        // Actions run in the order they were registered, so the first signal finds the flag still down here and only
        // the second one takes the default action.
        flag::register_conditional_default(SIGINT, Arc::clone(&raised)).expect("SIGINT may have a handler");
        flag::register(SIGINT, Arc::clone(&raised)).expect("SIGINT may have a handler");
        raised
    })
}
