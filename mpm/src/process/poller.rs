//! epoll, level triggered, by raw descriptor: who waits owns the descriptors elsewhere.

use mpmlab_core::connection::step::Interest;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// Room for what one wait reports: one token per ready descriptor.
pub struct Ready {
    events: Vec<libc::epoll_event>,
    count: usize,
}

impl Ready {
    /// Room for `capacity` events, at least one.
    pub fn with_capacity(capacity: usize) -> Ready {
        Ready { events: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)], count: 0 }
    }

    /// How many descriptors the last wait reported.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Did the last wait report none?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The token of the `index`-th, in the kernel's order.
    pub fn token(&self, index: usize) -> u64 {
        self.events[..self.count][index].u64
    }
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new() -> nix::Result<Poller> {
        // SAFETY: epoll_create1 takes no pointer.
        let fd = Errno::result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just created and nobody else owns it.
        Ok(Poller { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Watches a descriptor until it is removed or closed.
    ///
    /// # Errors
    /// It is watched already, or the system's limit of watches is reached.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> nix::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
        };
        self.add_events(fd, events, token)
    }

    /// As [`Poller::add`] for reading, and of all sets that watch the descriptor so the kernel wakes one, not all.
    ///
    /// # Errors
    /// As there.
    pub fn add_exclusive(&self, fd: RawFd, token: u64) -> nix::Result<()> {
        self.add_events(fd, libc::EPOLLIN | libc::EPOLLEXCLUSIVE, token)
    }

    fn add_events(&self, fd: RawFd, events: i32, token: u64) -> nix::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: the event is valid for the call; the kernel copies it.
        let rc = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        Errno::result(rc).map(drop)
    }

    /// Stops watching a descriptor. One that is not watched is no error: the outcome is the same.
    pub fn remove(&self, fd: RawFd) {
        // SAFETY: EPOLL_CTL_DEL ignores the event pointer since Linux 2.6.9.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Waits until something is ready or `millis` have passed; -1 waits for ever.
    ///
    /// # Errors
    /// A signal interrupted the wait.
    pub fn wait(&self, ready: &mut Ready, millis: i32) -> nix::Result<()> {
        let room = ready.events.len() as i32;
        ready.count = 0;
        // SAFETY: the vector has `room` initialised events, which the kernel may overwrite.
        let rc = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), ready.events.as_mut_ptr(), room, millis) };
        ready.count = Errno::result(rc)? as usize;
        Ok(())
    }
}
