//! The pipe of death: the parent writes a byte, and the child that reads it ends (mpm-semantics 6).
//!
//! The bytes are anonymous: which child of the generation reads one is chance. Both ends are non-blocking. In Apache the
//! read end of worker and event blocks; their main threads here wait in `poll` first, which cannot lose a wake-up.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What a byte of the pipe tells the child that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `!`: finish what is begun, then end.
    Graceful,
    /// `$`: end at once.
    Now,
}

/// One pipe of death. Each generation has its own, so that a new child cannot read an order meant for an old one.
#[derive(Debug)]
pub struct Pod {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pod {
    /// Makes the pipe.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new() -> nix::Result<Pod> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Pod { reader, writer })
    }

    /// Writes an order `count` times. A full pipe has more orders in it than there are children, so that is enough.
    pub fn order(&self, order: Order, count: usize) {
        let byte = match order {
            Order::Graceful => b'!',
            Order::Now => b'$',
        };
        for _ in 0..count {
            if write(&self.writer, &[byte]).is_err() {
                break;
            }
        }
    }

    /// Takes an order, if one is there: one `read`.
    pub fn take(&self) -> Option<Order> {
        let mut byte = [0u8];
        loop {
            match read(&self.reader, &mut byte) {
                Ok(1) if byte[0] == b'$' => return Some(Order::Now),
                Ok(1) => return Some(Order::Graceful),
                Err(Errno::EINTR) => continue,
                _ => return None,
            }
        }
    }

    /// The end that children wait on.
    pub fn read_end(&self) -> RawFd {
        self.reader.as_raw_fd()
    }
}
