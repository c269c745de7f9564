//! The interrupt flag, in a test process of its own: a raised flag is never lowered, so other tests must not see it.
use std::sync::atomic::Ordering;

use mpmlab_experiments::interrupt::on_interrupt;
use nix::sys::signal::{Signal, raise};

#[test]
fn the_first_interrupt_raises_the_flag_and_does_not_kill() {
    let flag = on_interrupt();
    assert!(!flag.load(Ordering::Relaxed));
    raise(Signal::SIGINT).expect("a process may signal itself");
    assert!(flag.load(Ordering::Relaxed));
    assert!(std::ptr::eq(flag, on_interrupt()));
}
