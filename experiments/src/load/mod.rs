//! The load generator: drives one URL and reports what happened, no more and no less.
pub mod outcome;
pub mod plan;
pub mod response;

use std::io;
use std::sync::atomic::AtomicBool;

pub use outcome::{Errors, Latency, Mode, Outcome};
pub use plan::{Plan, Url};

/// Why a run could not be made. What goes wrong *in* a run is counted in its [`Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan contradicts itself.
    #[error("{0}")]
    Plan(String),
    /// The host has no address.
    #[error("cannot resolve `{host}`: {error}")]
    Resolve {
        /// As written in the URL.
        host: String,
        /// What the resolver said.
        error: io::Error,
    },
    /// The operating system refused something the client itself needs.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: String,
        /// What it said.
        error: io::Error,
    },
}

/// Runs the plan; blocks until it is over. Raising `stop` ends it early, and the outcome covers what was measured.
pub fn run(plan: &Plan, _stop: &AtomicBool) -> Result<Outcome, LoadError> {
    plan.check()?;
    plan.url.resolve(plan.timeout)?;
    let _ = (plan.request(), plan.share(0));
    Err(LoadError::Plan("the closed loop is not built yet".into()))
}
