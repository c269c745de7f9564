//! A lock around a value, with a condition to wait for, in the C library's kind or parking_lot's (knob `hand-off`).
//!
//! Which kind it is, is chosen once, when a child starts; from then on it costs a branch that always goes the same way.

use crate::process::pthread;
use mpmlab_core::knob_words;
use std::ops::{Deref, DerefMut};

knob_words! {
    /// What threads hand work over with (`LabHandOff`, `hand-off`).
    pub enum HandOff {
        /// The C library's mutex and condition variable, signalled while the mutex is held, as Apache does.
        Pthread = "pthread",
        /// parking_lot's, signalled after the lock is free, so that who is woken does not meet it.
        ParkingLot = "parking-lot",
    }
}

/// A value under a lock, and a condition that threads can wait for.
pub struct Monitor<T>(Kind<T>);

enum Kind<T> {
    Pthread(pthread::Monitor<T>),
    ParkingLot { value: parking_lot::Mutex<T>, condition: parking_lot::Condvar },
}

impl<T> Monitor<T> {
    /// Unlocked.
    pub fn new(kind: HandOff, value: T) -> Monitor<T> {
        Monitor(match kind {
            HandOff::Pthread => Kind::Pthread(pthread::Monitor::new(value)),
            HandOff::ParkingLot => Kind::ParkingLot {
                value: parking_lot::Mutex::new(value),
                condition: parking_lot::Condvar::new(),
            },
        })
    }

    /// Waits for the lock and holds it until the guard is dropped.
    pub fn lock(&self) -> Guard<'_, T> {
        Guard(match &self.0 {
            Kind::Pthread(monitor) => Held::Pthread(monitor.lock()),
            Kind::ParkingLot { value, condition } => Held::ParkingLot(value.lock(), condition),
        })
    }
}

/// The right to the value. Dropping it unlocks.
pub struct Guard<'a, T>(Held<'a, T>);

enum Held<'a, T> {
    Pthread(pthread::Guard<'a, T>),
    ParkingLot(parking_lot::MutexGuard<'a, T>, &'a parking_lot::Condvar),
}

impl<T> Guard<'_, T> {
    /// Gives the lock up until woken. May return without cause, so whoever waits looks again.
    pub fn wait(&mut self) {
        match &mut self.0 {
            Held::Pthread(guard) => guard.wait(),
            Held::ParkingLot(guard, condition) => condition.wait(guard),
        }
    }

    /// Wakes one thread that waits, and unlocks, in the order of its kind.
    pub fn wake_one(self) {
        match self.0 {
            Held::Pthread(guard) => guard.monitor().notify_one(),
            Held::ParkingLot(guard, condition) => {
                drop(guard);
                condition.notify_one();
            }
        }
    }

    /// Wakes every thread that waits, and unlocks, in the order of its kind.
    pub fn wake_all(self) {
        match self.0 {
            Held::Pthread(guard) => guard.monitor().notify_all(),
            Held::ParkingLot(guard, condition) => {
                drop(guard);
                condition.notify_all();
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Held::Pthread(guard) => guard,
            Held::ParkingLot(guard, _) => guard,
        }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Held::Pthread(guard) => guard,
            Held::ParkingLot(guard, _) => guard,
        }
    }
}
