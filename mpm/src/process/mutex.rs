//! The accept mutex: shared between processes, and robust against the death of its holder (mpm-semantics 1.3).
//!
//! As Apache's `Mutex default`: a pthread mutex with PROCESS_SHARED, ROBUST and PRIO_INHERIT in a shared mapping. It makes
//! a system call only when contended (`futex(LOCK_PI)`).

use nix::errno::Errno;
use nix::libc;
use std::marker::PhantomData;

/// A mutex in memory of its own that all children inherit.
#[derive(Debug)]
pub struct AcceptMutex {
    mutex: *mut libc::pthread_mutex_t,
}

// SAFETY: a process-shared pthread mutex may be used from any thread of any process that maps it.
unsafe impl Send for AcceptMutex {}
// SAFETY: as above.
unsafe impl Sync for AcceptMutex {}

impl AcceptMutex {
    /// Makes the mutex, unlocked.
    ///
    /// # Errors
    /// No memory, or the C library does not know robust shared mutexes.
    pub fn new() -> nix::Result<AcceptMutex> {
        // SAFETY: a fresh anonymous mapping aliases nothing; failure is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<libc::pthread_mutex_t>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        // From here on the value's drop unmaps.
        let made = AcceptMutex { mutex: base.cast() };
        // SAFETY: zeroes are a valid state before pthread_mutexattr_init writes the attribute.
        let mut attributes: libc::pthread_mutexattr_t = unsafe { std::mem::zeroed() };
        let check = |code: i32| if code == 0 { Ok(()) } else { Err(Errno::from_raw(code)) };
        // SAFETY: the attribute object and the mapped mutex are valid, and nobody uses the mutex yet.
        unsafe {
            check(libc::pthread_mutexattr_init(&raw mut attributes))?;
            check(libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST))?;
            check(libc::pthread_mutexattr_setprotocol(&raw mut attributes, libc::PTHREAD_PRIO_INHERIT))?;
            check(libc::pthread_mutex_init(made.mutex, &raw const attributes))?;
            libc::pthread_mutexattr_destroy(&raw mut attributes);
        }
        Ok(made)
    }

    /// Waits for the mutex and holds it until the guard is dropped. A holder that died hands it on.
    ///
    /// # Errors
    /// The mutex is unusable.
    pub fn lock(&self) -> nix::Result<Held<'_>> {
        // SAFETY: the mutex was initialised by `new` and stays mapped as long as `self`.
        match unsafe { libc::pthread_mutex_lock(self.mutex) } {
            0 => Ok(Held { mutex: self, _here: PhantomData }),
            libc::EOWNERDEAD => {
                // It guards no data, so it is consistent as it is.
                // SAFETY: this thread holds the mutex, as EOWNERDEAD says.
                unsafe { libc::pthread_mutex_consistent(self.mutex) };
                Ok(Held { mutex: self, _here: PhantomData })
            }
            code => Err(Errno::from_raw(code)),
        }
    }
}

impl Drop for AcceptMutex {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value; other processes have mappings of their own.
        unsafe { libc::munmap(self.mutex.cast(), size_of::<libc::pthread_mutex_t>()) };
    }
}

/// The right to accept. Dropping it hands it on.
#[derive(Debug)]
pub struct Held<'a> {
    mutex: &'a AcceptMutex,
    /// Only the thread that locked may unlock: not `Send`.
    _here: PhantomData<*const ()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: a guard exists only while its thread holds the mutex (it is created by `lock` and not sent away).
        unsafe { libc::pthread_mutex_unlock(self.mutex.mutex) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_holder_that_dies_hands_the_mutex_on() {
        let mutex = AcceptMutex::new().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(mutex.lock().unwrap()));
        });
        drop(mutex.lock().unwrap());
        drop(mutex.lock().unwrap());
    }
}
