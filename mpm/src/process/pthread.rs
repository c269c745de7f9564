//! The C library's mutex and condition variable around a value: what Apache's threads hand work over with.
//!
//! Theirs are `apr_thread_mutex` (default: `pthread_mutex_t` with no attribute) and `apr_thread_cond`. Which system calls a lock
//! makes, and when, is the C library's own business; to make the same ones there is no way but to call the same functions.

use nix::libc;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value under a mutex, and a condition that threads can wait for.
pub struct Monitor<T> {
    /// Boxed: neither may move once it is in use.
    primitives: Box<Primitives>,
    value: UnsafeCell<T>,
}

struct Primitives {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    condition: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: the value is reached only through a guard, that is by the one thread that holds the mutex; pthread mutexes and
// condition variables may be used from any thread.
unsafe impl<T: Send> Sync for Monitor<T> {}
// SAFETY: an owned monitor is not in use by any thread, and its primitives stay where they are in their box.
unsafe impl<T: Send> Send for Monitor<T> {}

impl<T> Monitor<T> {
    /// Unlocked.
    pub fn new(value: T) -> Monitor<T> {
        Monitor {
            primitives: Box::new(Primitives {
                mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
                condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            }),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the mutex and holds it until the guard is dropped.
    pub fn lock(&self) -> Guard<'_, T> {
        // SAFETY: the mutex was initialised statically and stays at its address as long as `self`.
        let code = unsafe { libc::pthread_mutex_lock(self.primitives.mutex.get()) };
        debug_assert_eq!(code, 0, "a default mutex has no error to report");
        Guard { monitor: self, _here: PhantomData }
    }

    /// Wakes one thread that waits, if any does.
    pub fn notify_one(&self) {
        // SAFETY: the condition was initialised statically and stays at its address as long as `self`.
        unsafe { libc::pthread_cond_signal(self.primitives.condition.get()) };
    }

    /// Wakes every thread that waits.
    pub fn notify_all(&self) {
        // SAFETY: as above.
        unsafe { libc::pthread_cond_broadcast(self.primitives.condition.get()) };
    }
}

impl<T> Drop for Monitor<T> {
    fn drop(&mut self) {
        // SAFETY: nobody waits or holds: both would borrow `self`.
        unsafe {
            libc::pthread_cond_destroy(self.primitives.condition.get());
            libc::pthread_mutex_destroy(self.primitives.mutex.get());
        }
    }
}

/// The right to the value. Dropping it unlocks.
pub struct Guard<'a, T> {
    monitor: &'a Monitor<T>,
    /// Only the thread that locked may unlock: not `Send`.
    _here: PhantomData<*const ()>,
}

impl<'a, T> Guard<'a, T> {
    /// Gives the mutex up until woken. May return without cause, so whoever waits looks again.
    pub fn wait(&mut self) {
        let primitives = &self.monitor.primitives;
        // SAFETY: this thread holds the mutex, as the guard says, and holds it again when the call returns. The guard is
        // borrowed mutably meanwhile, so no reference to the value is alive.
        unsafe { libc::pthread_cond_wait(primitives.condition.get(), primitives.mutex.get()) };
    }

    /// What it guards, to signal while holding.
    pub fn monitor(&self) -> &'a Monitor<T> {
        self.monitor
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's thread holds the mutex, so there is no other access.
        unsafe { &*self.monitor.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.monitor.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: a guard exists only while its thread holds the mutex (it is made by `lock` and cannot be sent away).
        unsafe { libc::pthread_mutex_unlock(self.monitor.primitives.mutex.get()) };
    }
}
