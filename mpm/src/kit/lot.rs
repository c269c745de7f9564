//! Parked connections: an epoll set, and one list per time-out (mpm-semantics 4.1).
//!
//! Each list holds one duration, so appending keeps it sorted by expiry and looking at its head is enough. One mutex guards the
//! lists together with the matching `epoll_ctl`. Level triggered; a connection is added when it is parked and removed when it
//! is taken: two `epoll_ctl` per park, never MOD or ONESHOT. Only the listener takes, so a reported token cannot be stale.
//!
//! The listener sleeps until the earliest expiry. A worker that parks wakes it only if its connection expires more than 100 ms
//! before that: under steady traffic about once per KeepAliveTimeout.

use super::monitor::{HandOff, Monitor};
use crate::process::poller::{Poller, Ready};
use mpmlab_core::connection::Connection;
use mpmlab_core::connection::step::{ConnState, Interest, Wait};
use mpmlab_core::knob_words;
use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{pipe2, read, write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Tokens from here on are the model's own descriptors.
const OUTSIDE: u64 = 1 << 32;
/// The token of the wake-up pipe.
const WAKE: u64 = u64::MAX;
/// No expiry is due.
const NEVER: u64 = u64::MAX;
/// No entry.
const NIL: u32 = u32::MAX;
/// A new expiry is worth waking the listener for only if it is this much earlier.
const WORTH_WAKING_US: u64 = 100_000;
/// Lists that may exist; further durations share a list of the same state, kept in order.
const MAX_LISTS: usize = 16;

/// A connection between two drives, with what event counts about it.
#[derive(Debug)]
pub struct Held {
    /// The connection itself.
    pub conn: Box<Connection>,
    /// Has it been counted as lingering?
    pub lingers: bool,
    /// When its lingering ends; set once, not renewed.
    linger_ends: Option<u64>,
}

impl Held {
    /// A connection that was never parked.
    pub fn new(conn: Connection) -> Held {
        Held { conn: Box::new(conn), lingers: false, linger_ends: None }
    }
}

/// A reported descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Somebody called [`Lot::wake`].
    Wake,
    /// A descriptor of [`Lot::watch`].
    Outside(usize),
    /// A parked connection: [`Lot::take`] it.
    Parked(u32),
}

#[derive(Debug)]
struct Entry {
    held: Option<Held>,
    fd: RawFd,
    state: ConnState,
    expires: u64,
    list: usize,
    before: u32,
    after: u32,
}

#[derive(Debug)]
struct List {
    state: ConnState,
    limit: Duration,
    head: u32,
    tail: u32,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    free: Vec<u32>,
    lists: Vec<List>,
}

knob_words! {
    /// What ends the listener's wait (`LabWakeUp`, `wake-up`).
    pub enum WakeUp {
        /// A byte in a pipe, as Apache does.
        Pipe = "pipe",
        /// An eventfd: one descriptor instead of two, and a counter instead of a buffer.
        EventFd = "eventfd",
    }
}

#[derive(Debug)]
enum Alarm {
    Pipe { reader: OwnedFd, writer: OwnedFd },
    EventFd(EventFd),
}

impl Alarm {
    fn new(kind: WakeUp) -> nix::Result<Alarm> {
        Ok(match kind {
            WakeUp::Pipe => {
                let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
                Alarm::Pipe { reader, writer }
            }
            WakeUp::EventFd => {
                Alarm::EventFd(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)
            }
        })
    }

    fn fd(&self) -> RawFd {
        match self {
            Alarm::Pipe { reader, .. } => reader.as_raw_fd(),
            Alarm::EventFd(event) => event.as_fd().as_raw_fd(),
        }
    }

    fn ring(&self) {
        // A full pipe, or counter, is a wake-up, too.
        let _ = match self {
            Alarm::Pipe { writer, .. } => write(writer, &[0]),
            Alarm::EventFd(event) => event.write(1),
        };
    }

    fn clear(&self) {
        // Empty already: nothing to do.
        let _ = match self {
            Alarm::Pipe { reader, .. } => read(reader, &mut [0u8; 512]).map(|got| got as u64),
            Alarm::EventFd(event) => event.read(),
        };
    }
}

/// The lot.
pub struct Lot {
    poller: Poller,
    inner: Monitor<Inner>,
    /// Parked connections by state; written under the lock, read without.
    counts: [AtomicUsize; ConnState::ALL.len()],
    /// Earliest expiry over all lists, or later by less than what is worth waking for.
    next_expiry: AtomicU64,
    epoch: Instant,
    alarm: Alarm,
}

impl Lot {
    /// An empty lot.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(kind: HandOff, wake_up: WakeUp) -> nix::Result<Lot> {
        let poller = Poller::new()?;
        let alarm = Alarm::new(wake_up)?;
        poller.add(alarm.fd(), Interest::Read, WAKE)?;
        Ok(Lot {
            poller,
            inner: Monitor::new(kind, Inner::default()),
            counts: Default::default(),
            next_expiry: AtomicU64::new(NEVER),
            epoch: Instant::now(),
            alarm,
        })
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// Watches a descriptor of the model's own for reading. `exclusive`: of all epoll sets that watch it so, the kernel
    /// wakes one (EPOLLEXCLUSIVE).
    ///
    /// # Errors
    /// It is watched already, or the system's limit of watches is reached.
    pub fn watch(&self, fd: RawFd, index: usize, exclusive: bool) -> nix::Result<()> {
        let token = OUTSIDE + index as u64;
        if exclusive {
            self.poller.add_exclusive(fd, token)
        } else {
            self.poller.add(fd, Interest::Read, token)
        }
    }

    /// Stops watching it.
    pub fn unwatch(&self, fd: RawFd) {
        self.poller.remove(fd);
    }

    /// Ends the listener's wait, or its next.
    pub fn wake(&self) {
        self.alarm.ring();
    }

    /// Takes what `wake` wrote.
    pub fn clear_wake(&self) {
        self.alarm.clear();
    }

    /// Keeps a connection until it is taken, or expires.
    ///
    /// # Errors
    /// The kernel cannot watch it; it comes back.
    pub fn park(&self, mut held: Held, wait: Wait) -> Result<(), Held> {
        let now = self.now();
        let mut expires = now.saturating_add(wait.limit.as_micros() as u64);
        if wait.state == ConnState::Linger {
            expires = *held.linger_ends.get_or_insert(expires);
        }
        let mut inner = self.inner.lock();
        let list = inner.list_for(wait.state, wait.limit);
        let entry = Entry {
            held: Some(held),
            fd: wait.fd,
            state: wait.state,
            expires,
            list,
            before: NIL,
            after: NIL,
        };
        let place = inner.insert(entry);
        self.counts[wait.state as usize].fetch_add(1, Relaxed);
        let due = self.next_expiry.load(Relaxed);
        if due == NEVER || expires.saturating_add(WORTH_WAKING_US) < due {
            self.next_expiry.store(expires, Relaxed);
            // Before the connection can be reported, and under the lock, as Apache does it.
            self.wake();
        }
        if self.poller.add(wait.fd, wait.interest, u64::from(place)).is_err() {
            let (held, ..) = self.remove(&mut inner, place).expect("it was inserted above");
            return Err(held);
        }
        Ok(())
    }

    /// Takes a reported connection out of its list and of the epoll set.
    pub fn take(&self, place: u32) -> Option<(Held, ConnState)> {
        let mut inner = self.inner.lock();
        let (held, fd, state) = self.remove(&mut inner, place)?;
        self.poller.remove(fd);
        Some((held, state))
    }

    /// Waits until something is ready or the earliest expiry is due. There is no periodic tick.
    ///
    /// # Errors
    /// A signal interrupted the wait.
    pub fn wait(&self, ready: &mut Ready) -> nix::Result<()> {
        let millis = match self.next_expiry.load(Relaxed) {
            NEVER => -1,
            due => i32::try_from(due.saturating_sub(self.now()).div_ceil(1000)).unwrap_or(i32::MAX),
        };
        self.poller.wait(ready, millis)
    }

    /// The `index`-th report of a wait.
    pub fn token(ready: &Ready, index: usize) -> Token {
        match ready.token(index) {
            WAKE => Token::Wake,
            token if token >= OUTSIDE => Token::Outside((token - OUTSIDE) as usize),
            token => Token::Parked(token as u32),
        }
    }

    /// Is an expiry due?
    pub fn due(&self) -> bool {
        self.now() >= self.next_expiry.load(Relaxed)
    }

    /// Takes everything that has expired, and everything else in a state that `also` names, with the time by which it
    /// should have been taken brought forward to `cut` from now for lingering connections, if given.
    pub fn expire(&self, also: Option<ConnState>, cut: Option<Duration>, taken: &mut Vec<(Held, ConnState)>) {
        let now = self.now();
        let cut = cut.map(|cut| now.saturating_add(cut.as_micros() as u64));
        let mut inner = self.inner.lock();
        let mut earliest = NEVER;
        for list in 0..inner.lists.len() {
            let state = inner.lists[list].state;
            if let (Some(cut), ConnState::Linger) = (cut, state) {
                inner.bring_forward(list, cut);
            }
            loop {
                let head = inner.lists[list].head;
                if head == NIL {
                    break;
                }
                let expires = inner.entries[head as usize].expires;
                if expires > now && also != Some(state) {
                    earliest = earliest.min(expires);
                    break;
                }
                let (held, fd, state) =
                    self.remove(&mut inner, head).expect("the head of a list is occupied");
                self.poller.remove(fd);
                taken.push((held, state));
            }
        }
        self.next_expiry.store(earliest, Relaxed);
    }

    /// How many are parked in a state. Takes no lock.
    pub fn count(&self, state: ConnState) -> usize {
        self.counts[state as usize].load(Relaxed)
    }

    fn remove(&self, inner: &mut Inner, place: u32) -> Option<(Held, RawFd, ConnState)> {
        let removed = inner.remove(place)?;
        self.counts[removed.2 as usize].fetch_sub(1, Relaxed);
        Some(removed)
    }
}

impl Inner {
    fn list_for(&mut self, state: ConnState, limit: Duration) -> usize {
        let found = self.lists.iter().position(|l| l.state == state && l.limit == limit);
        let shared = || self.lists.iter().position(|l| l.state == state);
        // What is left of a linger differs each time, but its lists are Apache's two: 2 s and 30 s.
        let found = found.or_else(|| if self.lists.len() >= MAX_LISTS { shared() } else { None });
        found.unwrap_or_else(|| {
            self.lists.push(List { state, limit, head: NIL, tail: NIL });
            self.lists.len() - 1
        })
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        let list = entry.list;
        let expires = entry.expires;
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        // From the tail: with one duration per list the first look already ends the search.
        let mut before = self.lists[list].tail;
        while before != NIL && self.entries[before as usize].expires > expires {
            before = self.entries[before as usize].before;
        }
        let after = if before == NIL {
            std::mem::replace(&mut self.lists[list].head, place)
        } else {
            std::mem::replace(&mut self.entries[before as usize].after, place)
        };
        if after == NIL {
            self.lists[list].tail = place;
        } else {
            self.entries[after as usize].before = place;
        }
        self.entries[place as usize].before = before;
        self.entries[place as usize].after = after;
        place
    }

    fn remove(&mut self, place: u32) -> Option<(Held, RawFd, ConnState)> {
        let entry = self.entries.get_mut(place as usize)?;
        let held = entry.held.take()?;
        let (fd, state, list, before, after) = (entry.fd, entry.state, entry.list, entry.before, entry.after);
        match before {
            NIL => self.lists[list].head = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NIL => self.lists[list].tail = before,
            after => self.entries[after as usize].before = before,
        }
        self.free.push(place);
        Some((held, fd, state))
    }

    fn bring_forward(&mut self, list: usize, cut: u64) {
        let mut place = self.lists[list].head;
        while place != NIL {
            let entry = &mut self.entries[place as usize];
            entry.expires = entry.expires.min(cut);
            place = entry.after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn lot() -> Lot {
        Lot::new(HandOff::Pthread, WakeUp::Pipe).unwrap()
    }

    fn pair() -> (TcpStream, Held, RawFd) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, remote) = listener.accept().unwrap();
        let fd = server.as_raw_fd();
        let held = Held::new(Connection::new(server.into(), remote, None::<SocketAddr>));
        (client, held, fd)
    }

    fn wait(state: ConnState, fd: RawFd, limit: Duration) -> Wait {
        Wait { state, fd, interest: Interest::Read, limit }
    }

    #[test]
    fn a_readable_connection_is_reported_and_can_be_taken_once() {
        use std::io::Write;
        for (kind, wake_up) in [(HandOff::Pthread, WakeUp::Pipe), (HandOff::ParkingLot, WakeUp::EventFd)] {
            let lot = Lot::new(kind, wake_up).unwrap();
            let (mut client, held, fd) = pair();
            assert!(lot.park(held, wait(ConnState::KeepAlive, fd, Duration::from_secs(60))).is_ok());
            // The first connection sets the time until which the listener sleeps, so it wakes it.
            let mut ready = Ready::with_capacity(4);
            lot.wait(&mut ready).unwrap();
            assert_eq!((ready.len(), Lot::token(&ready, 0)), (1, Token::Wake));
            lot.clear_wake();
            client.write_all(b"x").unwrap();
            lot.wait(&mut ready).unwrap();
            let Token::Parked(place) = Lot::token(&ready, 0) else { panic!("woken once more than told to") };
            assert!(matches!(lot.take(place), Some((_, ConnState::KeepAlive))));
            assert!(lot.take(place).is_none());
        }
    }

    #[test]
    fn what_expires_is_taken_in_order_and_what_does_not_stays() {
        let lot = lot();
        let mut clients = Vec::new();
        for limit in [0u64, 60, 0] {
            let (client, held, fd) = pair();
            clients.push(client);
            assert!(lot.park(held, wait(ConnState::KeepAlive, fd, Duration::from_secs(limit))).is_ok());
        }
        assert!(lot.due());
        let mut taken = Vec::new();
        lot.expire(None, None, &mut taken);
        assert_eq!((taken.len(), lot.count(ConnState::KeepAlive)), (2, 1));
        assert!(!lot.due());
        lot.expire(Some(ConnState::KeepAlive), None, &mut taken);
        assert_eq!((taken.len(), lot.count(ConnState::KeepAlive)), (3, 0));
    }

    // mpm-semantics 4.6: 30 s lingers are cut to 2 s when the process is dying.
    #[test]
    fn lingers_are_cut_short_and_never_made_longer() {
        let lot = lot();
        let mut clients = Vec::new();
        for limit in [1u64, 30] {
            let (client, held, fd) = pair();
            clients.push(client);
            assert!(lot.park(held, wait(ConnState::Linger, fd, Duration::from_secs(limit))).is_ok());
        }
        let mut taken = Vec::new();
        lot.expire(None, Some(Duration::from_secs(2)), &mut taken);
        assert!(taken.is_empty());
        let inner = lot.inner.lock();
        let mut left: Vec<u64> =
            inner.entries.iter().map(|e| (e.expires - lot.now()).div_ceil(1_000_000)).collect();
        left.sort_unstable();
        assert_eq!(left, [1, 2]);
    }
}
