//! `Mutex pthread`: PROCESS_SHARED, ROBUST and PRIO_INHERIT in a shared mapping, as Apache's `Mutex default`.

use super::{Lock, Shared};
use nix::errno::Errno;
use nix::libc;

#[derive(Debug)]
pub(super) struct Pthread(Shared<libc::pthread_mutex_t>);

impl Pthread {
    pub(super) fn new() -> nix::Result<Pthread> {
        let made = Pthread(Shared::new()?);
        // SAFETY: zeroes are a valid state before pthread_mutexattr_init writes the attribute.
        let mut attributes: libc::pthread_mutexattr_t = unsafe { std::mem::zeroed() };
        let check = |code: i32| if code == 0 { Ok(()) } else { Err(Errno::from_raw(code)) };
        // SAFETY: the attribute object and the mapped mutex are valid, and nobody uses the mutex yet.
        unsafe {
            check(libc::pthread_mutexattr_init(&raw mut attributes))?;
            check(libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED))?;
            check(libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST))?;
            check(libc::pthread_mutexattr_setprotocol(&raw mut attributes, libc::PTHREAD_PRIO_INHERIT))?;
            check(libc::pthread_mutex_init(made.0.0, &raw const attributes))?;
            libc::pthread_mutexattr_destroy(&raw mut attributes);
        }
        Ok(made)
    }
}

impl Lock for Pthread {
    fn lock(&self) -> nix::Result<()> {
        // SAFETY: the mutex was initialised by `new` and stays mapped as long as `self`.
        match unsafe { libc::pthread_mutex_lock(self.0.0) } {
            0 => Ok(()),
            libc::EOWNERDEAD => {
                // It guards no data, so it is consistent as it is.
                // SAFETY: this thread holds the mutex, as EOWNERDEAD says.
                unsafe { libc::pthread_mutex_consistent(self.0.0) };
                Ok(())
            }
            code => Err(Errno::from_raw(code)),
        }
    }

    fn unlock(&self) {
        // SAFETY: only a guard calls it, in the thread that locked.
        unsafe { libc::pthread_mutex_unlock(self.0.0) };
    }
}
