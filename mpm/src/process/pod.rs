//! The pipe of death: the parent writes a byte, and the child that reads it ends (mpm-semantics 6).
//!
//! The bytes are anonymous: which child of the generation reads one is chance. Both ends are non-blocking. In Apache the
//! read end of worker and event blocks; their main threads here wait in `poll` first, which cannot lose a wake-up.

use super::fd::Closable;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::os::fd::{BorrowedFd, RawFd};

/// What a byte of the pipe tells the child that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `!`: finish what is begun, then end.
    Graceful,
    /// `$`: end at once.
    Now,
}

/// One pipe of death. Each bucket of each generation has its own, so that a new child cannot read an order meant for an old
/// one.
#[derive(Debug)]
pub struct Pod {
    reader: Closable,
    writer: Closable,
}

impl Pod {
    /// Makes the pipe.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new() -> nix::Result<Pod> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Pod { reader: reader.into(), writer: writer.into() })
    }

    /// Writes an order `count` times. A full pipe has more orders in it than there are children, so that is enough.
    pub fn order(&self, order: Order, count: usize) {
        let byte = match order {
            Order::Graceful => b'!',
            Order::Now => b'$',
        };
        for _ in 0..count {
            if write(borrowed(&self.writer), &[byte]).is_err() {
                break;
            }
        }
    }

    /// Takes an order, if one is there: one `read`.
    pub fn take(&self) -> Option<Order> {
        let mut byte = [0u8];
        loop {
            match read(borrowed(&self.reader), &mut byte) {
                Ok(1) if byte[0] == b'$' => return Some(Order::Now),
                Ok(1) => return Some(Order::Graceful),
                Err(Errno::EINTR) => continue,
                _ => return None,
            }
        }
    }

    /// The end that children wait on.
    pub fn read_end(&self) -> RawFd {
        self.reader.raw()
    }

    /// Closes it in this process, which is a child of another bucket.
    pub fn close(&self) {
        self.reader.close();
        self.writer.close();
    }
}

fn borrowed(fd: &Closable) -> BorrowedFd<'_> {
    // SAFETY: the pipe is open as long as this process uses it: only children of other buckets close it, at once. -1, which
    // BorrowedFd must not hold, is therefore never seen here.
    unsafe { BorrowedFd::borrow_raw(fd.raw()) }
}
