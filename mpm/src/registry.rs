//! The models there are: one line each.

use crate::{Mpm, event, fork, prefork, thread, worker};

/// Every model, in the order they are taught.
pub static MODELS: &[&dyn Mpm] =
    &[&prefork::Prefork, &worker::Worker, &event::Event, &fork::Fork, &thread::Thread];

/// The model of this name.
pub fn find(name: &str) -> Option<&'static dyn Mpm> {
    MODELS.iter().copied().find(|mpm| mpm.card().name == name)
}

/// All names, for messages.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|mpm| mpm.card().name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_name() {
        for name in names() {
            assert_eq!(find(name).map(|mpm| mpm.card().name), Some(name));
        }
        assert!(find("nosuch").is_none());
    }
}
