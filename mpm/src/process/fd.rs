//! A descriptor that one process can close while the value lives on, as children do with what is not theirs.

use nix::libc;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// An owned descriptor; -1 once closed.
#[derive(Debug)]
pub struct Closable(AtomicI32);

impl Closable {
    /// The descriptor; -1 once closed.
    pub fn raw(&self) -> RawFd {
        self.0.load(Relaxed)
    }

    /// Closes it in this process; what it refers to lives on in the others.
    pub fn close(&self) {
        self.put(-1);
    }

    /// Another one takes its place.
    pub fn replace(&self, fd: OwnedFd) {
        self.put(fd.into_raw_fd());
    }

    fn put(&self, new: RawFd) {
        let old = self.0.swap(new, Relaxed);
        if old >= 0 {
            // SAFETY: the swap made this call the only one that closes the descriptor, which this value owned.
            unsafe { libc::close(old) };
        }
    }
}

impl From<OwnedFd> for Closable {
    fn from(fd: OwnedFd) -> Closable {
        Closable(AtomicI32::new(fd.into_raw_fd()))
    }
}

impl Drop for Closable {
    fn drop(&mut self) {
        self.close();
    }
}
