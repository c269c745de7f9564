//! What the main thread of a threaded child waits for: the pipe of death, TERM, and word from its own threads.
//!
//! All of it arrives through descriptors and one `poll`, so nothing can be lost between a look and a wait. (Apache's main
//! thread blocks in `read` on the pipe of death and is woken by TERM that its listener sends to the process. To its child
//! TERM means nothing else: the order to stop comes through the pipe, and a child that has stopped reading it is deaf, mpm-semantics 6.)

use super::pod::{Order, Pod};
use super::signals;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{pipe2, read, write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The parent, or TERM, says so.
    Order(Order),
    /// The listener has decided to leave.
    Leave,
    /// A thread has ended, or the time has passed: look at the counts.
    Look,
}

/// The child's own end of it.
#[derive(Debug)]
pub struct Orders {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Orders {
    /// Makes the pipe and the handlers. `term_stops`: is TERM an order to end at once, whatever else is going on? If not, it
    /// does nothing, as in Apache.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(term_stops: bool) -> nix::Result<Orders> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // The handler writes to no descriptor below zero.
        signals::prepare_threaded_child(if term_stops { writer.as_raw_fd() } else { -1 });
        Ok(Orders { reader, writer })
    }

    /// Tells the main thread that the listener wants to leave.
    pub fn leave(&self) {
        let _ = write(&self.writer, b"l");
    }

    /// Tells the main thread that a thread has ended.
    pub fn ended(&self) {
        let _ = write(&self.writer, b"x");
    }

    /// Makes every child process that ends news, too.
    pub fn hear_of_children(&self) {
        signals::tell_of_children();
    }

    /// Waits for news. Orders of the pipe of death are taken only if it is given.
    pub fn wait(&self, pod: Option<&Pod>, limit: Option<Duration>) -> News {
        self.wait_or_ready(pod, &[], limit).err().unwrap_or(News::Look)
    }

    /// As [`Orders::wait`], or until one of `listeners` can be accepted from: its index. News goes first.
    ///
    /// # Errors
    /// The news, which is none: one of two things has come.
    pub fn wait_or_ready(
        &self,
        pod: Option<&Pod>,
        listeners: &[RawFd],
        limit: Option<Duration>,
    ) -> Result<usize, News> {
        if let Some(order) = pod.and_then(Pod::take) {
            return Err(News::Order(order));
        }
        // SAFETY: the pipe of death is borrowed for the whole call.
        let pod_fd = pod.map(|pod| unsafe { BorrowedFd::borrow_raw(pod.read_end()) });
        let mut entries = vec![PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)];
        // SAFETY: listeners are closed by this thread only, which is here.
        let fds = listeners.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) });
        entries.extend(fds.chain(pod_fd).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let timeout = limit.and_then(|limit| PollTimeout::try_from(limit).ok()).unwrap_or(PollTimeout::NONE);
        // TERM is let in only here, by the one thread that waits here.
        signals::let_in(Signal::SIGTERM);
        let _ = poll(&mut entries, timeout);
        signals::keep_out(Signal::SIGTERM);
        let mut byte = [0u8];
        match read(&self.reader, &mut byte) {
            Ok(1) if byte[0] == b'$' => Err(News::Order(Order::Now)),
            Ok(1) if byte[0] == b'l' => Err(News::Leave),
            Ok(1) => Err(News::Look),
            _ => match pod.and_then(Pod::take) {
                Some(order) => Err(News::Order(order)),
                None => {
                    let ready = |entry: &PollFd<'_>| entry.any() == Some(true);
                    entries[1..=listeners.len()].iter().position(ready).ok_or(News::Look)
                }
            },
        }
    }
}
