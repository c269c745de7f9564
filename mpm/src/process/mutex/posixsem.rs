//! `Mutex posixsem`: a POSIX semaphore. It has no owner, so nobody can give back what a killed holder took.
//!
//! Apache makes a named one and unlinks the name at once; this one never had a name. The calls are the same.

use super::{Lock, Shared};
use nix::errno::Errno;
use nix::libc;

#[derive(Debug)]
pub(super) struct Posixsem(Shared<libc::sem_t>);

impl Posixsem {
    pub(super) fn new() -> nix::Result<Posixsem> {
        let made = Posixsem(Shared::new()?);
        // SAFETY: the mapping has room for a semaphore, and nobody uses it yet. 1: shared between processes.
        Errno::result(unsafe { libc::sem_init(made.0.0, 1, 1) })?;
        Ok(made)
    }
}

impl Lock for Posixsem {
    fn lock(&self) -> nix::Result<()> {
        // SAFETY: the semaphore was initialised by `new` and stays mapped as long as `self`.
        Errno::result(unsafe { libc::sem_wait(self.0.0) }).map(drop)
    }

    fn unlock(&self) {
        // SAFETY: as above.
        unsafe { libc::sem_post(self.0.0) };
    }
}
