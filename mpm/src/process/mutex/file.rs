//! `Mutex fcntl` and `Mutex flock`: locks on a file, which the kernel releases when their holder dies.
//!
//! A record lock belongs to a process, so all children use the descriptor they inherit, and the name goes at once. A `flock`
//! belongs to an open file, so each child opens the file anew, and the name stays as long as the mutex.

use super::{Account, Lock};
use crate::process::fd::Closable;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{chown, unlink};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

fn create(path: &Path, mode: Mode) -> nix::Result<OwnedFd> {
    open(path, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC, mode)
}

#[derive(Debug)]
pub(super) struct Fcntl(Closable);

impl Fcntl {
    pub(super) fn new(path: &Path) -> nix::Result<Fcntl> {
        let file = create(path, Mode::from_bits_truncate(0o644))?;
        unlink(path)?;
        Ok(Fcntl(file.into()))
    }

    fn set(&self, kind: libc::c_int) -> nix::Result<()> {
        // SAFETY: zeroes are a valid flock: the whole file, from its start.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: the structure outlives the call.
        Errno::result(unsafe { libc::fcntl(self.0.raw(), libc::F_SETLKW, &raw mut lock) }).map(drop)
    }
}

impl Lock for Fcntl {
    fn lock(&self) -> nix::Result<()> {
        self.set(libc::F_WRLCK)
    }

    fn unlock(&self) {
        while self.set(libc::F_UNLCK) == Err(Errno::EINTR) {}
    }
}

#[derive(Debug)]
pub(super) struct Flock {
    file: Closable,
    path: PathBuf,
}

impl Flock {
    pub(super) fn new(path: PathBuf, account: Option<&Account>) -> nix::Result<Flock> {
        let file = create(&path, Mode::from_bits_truncate(0o600))?;
        let made = Flock { file: file.into(), path };
        if let Some(account) = account {
            chown(&made.path, Some(account.uid), Some(account.gid))?;
        }
        Ok(made)
    }

    fn set(&self, operation: libc::c_int) -> nix::Result<()> {
        // SAFETY: flock takes numbers.
        Errno::result(unsafe { libc::flock(self.file.raw(), operation) }).map(drop)
    }
}

impl Lock for Flock {
    fn lock(&self) -> nix::Result<()> {
        self.set(libc::LOCK_EX)
    }

    fn unlock(&self) {
        while self.set(libc::LOCK_UN) == Err(Errno::EINTR) {}
    }

    fn enter_child(&self) -> nix::Result<()> {
        self.file.replace(open(&self.path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?);
        Ok(())
    }
}

impl Drop for Flock {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}
