//! The accept mutex between the processes of a bucket, in every mechanism that `Mutex` names (mpm-semantics 1.3).
//!
//! | mechanism | calls per accept | its holder is killed |
//! |---|---|---|
//! | `pthread` (default) | none, or `futex(LOCK_PI)` and `UNLOCK_PI` if contended | the next waiter has it (EOWNERDEAD) |
//! | `fcntl`, `file` | 2 x `fcntl(F_SETLKW)` | the kernel releases the lock |
//! | `flock` | 2 x `flock` | the kernel releases the lock |
//! | `sysvsem` | 2 x `semop` | SEM_UNDO gives it back |
//! | `posixsem`, `sem` | none, or `futex` if contended | **nobody ever accepts again**, as in Apache |
//!
//! Each generation has mutexes of its own, as in Apache: old and new children do not wait for each other.

mod file;
mod posixsem;
mod pthread;
mod sysvsem;

use super::privileges::Account;
use mpmlab_core::config::accept::{Mechanism, MutexSetting};
use nix::errno::Errno;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::Path;

/// One mechanism. Only the thread that locked unlocks.
trait Lock: Debug + Send + Sync {
    /// Waits for the lock.
    fn lock(&self) -> nix::Result<()>;
    /// Gives it on.
    fn unlock(&self);
    /// To be called first in each child, before it drops privileges.
    fn enter_child(&self) -> nix::Result<()> {
        Ok(())
    }
}

/// The right to accept, which one process has at a time.
#[derive(Debug)]
pub struct AcceptMutex {
    lock: Box<dyn Lock>,
    mechanism: Mechanism,
}

impl AcceptMutex {
    /// Makes one, unlocked, that children inherit. `folder` is where lock files go if the setting names no place, and
    /// `account` who must be able to use it.
    ///
    /// # Errors
    /// The system lacks memory or semaphores, or the lock file cannot be made.
    pub fn new(
        setting: &MutexSetting,
        bucket: usize,
        folder: &Path,
        account: Option<&Account>,
    ) -> nix::Result<AcceptMutex> {
        let path = || {
            let folder = setting.directory.as_deref().unwrap_or(folder);
            let own = if setting.omit_pid { String::new() } else { format!(".{}", std::process::id()) };
            folder.join(format!("mpm-accept-{bucket}{own}"))
        };
        let lock: Box<dyn Lock> = match setting.mechanism {
            Mechanism::Pthread => Box::new(pthread::Pthread::new()?),
            Mechanism::Posixsem => Box::new(posixsem::Posixsem::new()?),
            Mechanism::Sysvsem => Box::new(sysvsem::Sysvsem::new(account)?),
            Mechanism::Fcntl => Box::new(file::Fcntl::new(&path())?),
            Mechanism::Flock => Box::new(file::Flock::new(path(), account)?),
        };
        Ok(AcceptMutex { lock, mechanism: setting.mechanism })
    }

    /// How it is made.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// To be called first in each child, before it drops privileges.
    ///
    /// # Errors
    /// Its file cannot be opened.
    pub fn enter_child(&self) -> nix::Result<()> {
        self.lock.enter_child()
    }

    /// Waits for the mutex and holds it until the guard is dropped.
    ///
    /// # Errors
    /// EINTR: a signal ended the wait, where the mechanism lets it. Others: the mutex is unusable.
    pub fn lock(&self) -> nix::Result<Held<'_>> {
        self.lock.lock()?;
        Ok(Held { mutex: self, _here: PhantomData })
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
        self.mutex.lock.unlock();
    }
}

/// Shared memory for one `T` that starts as zeroes, of this value and of all children.
#[derive(Debug)]
struct Shared<T>(*mut T);

// SAFETY: only objects made for use by several processes at once are kept in it.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new() -> nix::Result<Shared<T>> {
        use nix::libc;
        // SAFETY: a fresh anonymous mapping aliases nothing; failure is checked. Mappings are aligned to pages.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Shared(base.cast())) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value; other processes have mappings of their own.
        unsafe { nix::libc::munmap(self.0.cast(), size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitReason;
    use crate::process::fork::exit_now;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    use std::os::unix::process::ExitStatusExt;

    const ALL: [Mechanism; 5] =
        [Mechanism::Pthread, Mechanism::Fcntl, Mechanism::Flock, Mechanism::Sysvsem, Mechanism::Posixsem];

    fn made(mechanism: Mechanism, folder: &Path) -> AcceptMutex {
        let setting = MutexSetting { mechanism, ..MutexSetting::default() };
        AcceptMutex::new(&setting, 0, folder, None).unwrap()
    }

    /// Runs `body` in a child that makes nothing but system calls, and gives how it ended.
    fn in_child(mutex: &AcceptMutex, body: impl FnOnce(&AcceptMutex) -> bool) -> WaitStatus {
        // SAFETY: the child only locks and leaves by _exit; it neither allocates nor takes a lock of another thread.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => waitpid(child, None).unwrap(),
            ForkResult::Child => {
                let done = mutex.enter_child().is_ok() && body(mutex);
                exit_now(if done { 0 } else { ExitReason::Fatal.status() })
            }
        }
    }

    #[test]
    fn a_holder_that_dies_hands_the_mutex_on_except_with_posixsem() {
        let folder = tempfile::tempdir().unwrap();
        for mechanism in ALL {
            let mutex = made(mechanism, folder.path());
            let ended = in_child(&mutex, |mutex| {
                mutex.lock().map(std::mem::forget).is_ok() && {
                    // SAFETY: raise takes a number.
                    unsafe { nix::libc::raise(nix::libc::SIGKILL) };
                    false
                }
            });
            assert!(matches!(ended, WaitStatus::Signaled(..)), "{mechanism:?} {ended:?}");
            // The next one waits at most as long as the alarm lets it.
            let ended = in_child(&mutex, |mutex| {
                // SAFETY: alarm takes a number; its signal ends this child.
                unsafe { nix::libc::alarm(if mechanism == Mechanism::Posixsem { 1 } else { 60 }) };
                (0..2).all(|_| mutex.lock().map(drop).is_ok())
            });
            match mechanism {
                Mechanism::Posixsem => assert!(matches!(ended, WaitStatus::Signaled(..)), "{ended:?}"),
                _ => assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{mechanism:?} {ended:?}"),
            }
        }
    }

    #[test]
    fn one_process_at_a_time_holds_it() {
        const ROUNDS: u32 = 2000;
        let folder = tempfile::tempdir().unwrap();
        for mechanism in ALL {
            let mutex = made(mechanism, folder.path());
            let counter: Shared<u32> = Shared::new().unwrap();
            let count = |mutex: &AcceptMutex| {
                (0..ROUNDS).all(|_| {
                    let Ok(_held) = mutex.lock() else { return false };
                    // SAFETY: the mapping is as large, and whoever holds the mutex is alone with it: what is tested.
                    unsafe { counter.0.write_volatile(counter.0.read_volatile() + 1) };
                    true
                })
            };
            let children: Vec<_> = (0..3)
                // SAFETY: as in `in_child`.
                .map(|_| match unsafe { fork() }.unwrap() {
                    ForkResult::Parent { child } => child,
                    ForkResult::Child => exit_now(i32::from(mutex.enter_child().is_err() || !count(&mutex))),
                })
                .collect();
            for child in children {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0), "{mechanism:?}");
            }
            // SAFETY: nobody else uses it any more.
            assert_eq!(unsafe { counter.0.read() }, 3 * ROUNDS, "{mechanism:?}");
        }
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let semaphores = || {
            let output = std::process::Command::new("cat").arg("/proc/sysvipc/sem").output().unwrap();
            assert_eq!(output.status.signal(), None);
            String::from_utf8(output.stdout).unwrap()
        };
        for mechanism in ALL {
            let mutex = made(mechanism, folder.path());
            assert_eq!(mutex.mechanism(), mechanism);
            drop(mutex.lock().unwrap());
            drop(mutex);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{mechanism:?}");
        }
        let own = sysvsem::Sysvsem::new(None).unwrap();
        let id = format!(" {} ", own.id());
        assert!(semaphores().contains(&id));
        drop(own);
        assert!(!semaphores().contains(&id));
    }
}
