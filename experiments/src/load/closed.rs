//! The closed loop: one thread's connections, each sending its next request when the one before is answered.
//!
//! A request's life begins when its connection wants to send it and ends answered or failed; its latency runs from
//! the sending (or, with a connection per request, from the start of connecting) to the last byte of the answer.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use nix::time::{ClockId, clock_gettime};

use super::client::{Cause, Client, Happened, Phase};
use super::plan::Plan;
use super::record::{Record, nanoseconds};

/// One `recv` takes an answer of this size; shared by all connections of a thread.
const BUFFER: usize = 64 * 1024;
/// Events taken from the kernel at once.
const BATCH: usize = 256;
/// Longest time between two looks at the time-outs and at the stop flag.
const SWEEP_MAX: Duration = Duration::from_millis(50);
/// Failing connections wait twice as long each time, up to this: a dead server costs a bounded number of attempts.
const BACKOFF_MAX: Duration = Duration::from_millis(100);
/// How long the server may take to close a connection it announced to close, before we do.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// What a thread reports.
pub(super) struct Report {
    pub(super) record: Record,
    pub(super) connections: usize,
    /// Connections that were open at least once.
    pub(super) opened: usize,
    /// The window as it was.
    pub(super) window: Duration,
    pub(super) cpu: Duration,
    /// Requests in progress at the end.
    pub(super) in_flight: u64,
    /// Time that requests in progress at the end had been running, less what those in progress at the beginning
    /// had.
    pub(super) edges_ns: i128,
    pub(super) interrupted: bool,
}

/// One thread's loop.
pub(super) struct Closed<'a> {
    plan: &'a Plan,
    address: SocketAddr,
    request: &'a [u8],
    stop: &'a AtomicBool,
    epoll: Epoll,
    slots: Vec<Slot>,
    /// When a failed connection tries again.
    retries: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Connections that have served and wait for the server to close first, so that the TIME_WAIT is on its side,
    /// as it announced.
    leaving: HashMap<u64, (TcpStream, Instant)>,
    buffer: Vec<u8>,
    record: Record,
}

/// One of the requested connections: the place that a TCP connection, and its successors, fill.
struct Slot {
    client: Client,
    /// Tells successive connections apart, so that a late event of one is not taken for the next one's.
    generation: u32,
    opened: bool,
    /// A request is alive here.
    alive: bool,
    /// Since when its latency runs.
    clock: Option<Instant>,
    /// With no latency running: since when.
    outside_since: Instant,
    opening_since: Instant,
    /// The time outside any latency that runs now is because of failures.
    down: bool,
    /// Failures in a row.
    failures: u32,
}

impl Slot {
    /// A latency begins to run. Returns the time outside any that ends with it, and whether failures were the reason.
    fn start_clock(&mut self, now: Instant) -> (Duration, bool) {
        self.clock = Some(now);
        (now.saturating_duration_since(self.outside_since), std::mem::take(&mut self.down))
    }
}

impl<'a> Closed<'a> {
    /// Prepares the loop for `connections` connections; nothing is opened yet.
    pub(super) fn new(
        plan: &'a Plan,
        address: SocketAddr,
        request: &'a [u8],
        connections: usize,
        epoll: Epoll,
        stop: &'a AtomicBool,
    ) -> Closed<'a> {
        let now = Instant::now();
        let slot = |_| Slot {
            client: Client::new(),
            generation: 0,
            opened: false,
            alive: false,
            clock: None,
            outside_since: now,
            opening_since: now,
            down: false,
            failures: 0,
        };
        Closed {
            plan,
            address,
            request,
            stop,
            epoll,
            slots: (0..connections).map(slot).collect(),
            retries: BinaryHeap::new(),
            leaving: HashMap::new(),
            buffer: vec![0; BUFFER],
            record: Record::new(),
        }
    }

    /// Opens all connections and keeps them busy through warm-up and window.
    pub(super) fn run(mut self) -> nix::Result<Report> {
        let begin = Instant::now();
        let warm = begin + self.plan.warmup;
        let mut end = warm + self.plan.duration;
        let sweep_every = (self.plan.timeout / 16).clamp(Duration::from_millis(1), SWEEP_MAX);
        let mut next_sweep = begin + sweep_every;
        let mut window = self.begin_window(begin)?;
        let mut warming = !self.plan.warmup.is_zero();
        let mut events = vec![EpollEvent::empty(); BATCH];
        for slot in 0..self.slots.len() {
            self.open(slot, begin);
        }
        loop {
            let phase_end = if warming { warm } else { end };
            let retry = self.retries.peek().map_or(phase_end, |Reverse((at, _))| *at);
            let wake_at = next_sweep.min(phase_end).min(retry);
            let ready = self.wait(&mut events, wake_at)?;
            let now = Instant::now();
            let interrupted = self.stop.load(Ordering::Relaxed);
            if warming && (now >= warm || interrupted) {
                window = self.begin_window(now)?;
                // A thread that was late for its window gets the whole of it all the same.
                end = now + self.plan.duration;
                warming = false;
            }
            if now >= end || interrupted {
                return self.end_window(window, now, interrupted && now < end);
            }
            for event in &events[..ready] {
                self.event(event.data(), event.events());
            }
            while let Some(Reverse((at, slot))) = self.retries.peek().copied() {
                if at > now {
                    break;
                }
                self.retries.pop();
                self.open(slot, Instant::now());
            }
            if now >= next_sweep {
                self.sweep(now);
                next_sweep = now + sweep_every;
            }
        }
    }

    /// epoll's time-outs are whole milliseconds; rounding up avoids spinning through the last one.
    fn wait(&self, events: &mut [EpollEvent], until: Instant) -> nix::Result<usize> {
        let left = until.saturating_duration_since(Instant::now());
        let ms = left.as_micros().div_ceil(1000);
        let timeout = EpollTimeout::try_from(ms).unwrap_or(EpollTimeout::MAX);
        match self.epoll.wait(events, timeout) {
            Err(nix::errno::Errno::EINTR) => Ok(0),
            other => other,
        }
    }

    fn event(&mut self, token: u64, flags: EpollFlags) {
        let index = (token & u64::from(u32::MAX)) as usize;
        let slot = &mut self.slots[index];
        if slot.generation == (token >> 32) as u32 {
            let happened = slot.client.ready(flags, self.request, &mut self.buffer);
            self.follow(index, happened);
        } else if flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.leaving.remove(&token);
        }
    }

    /// Opens a slot's next connection, for the request alive there or a new one.
    fn open(&mut self, index: usize, now: Instant) {
        let happened = self.connect(index, now);
        self.follow(index, happened);
    }

    fn connect(&mut self, index: usize, now: Instant) -> Happened {
        let slot = &mut self.slots[index];
        if !slot.alive {
            slot.alive = true;
            self.record.started += 1;
        }
        if !self.plan.keepalive && slot.clock.is_none() {
            // Without keep-alive, connecting is part of what each request costs.
            let (time, down) = slot.start_clock(now);
            self.record.between(time, down);
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.opening_since = now;
        slot.client.open(self.address, &self.epoll, token(index, slot.generation))
    }

    /// Carries a slot on until it has to wait. Bounded: only the first failure in a row goes on at once.
    fn follow(&mut self, index: usize, mut happened: Happened) {
        loop {
            let slot = &mut self.slots[index];
            happened = match happened {
                Happened::Waiting => return,
                Happened::Unread => match slot.client.rearm(&self.epoll, token(index, slot.generation)) {
                    Ok(()) => return,
                    Err(_) => Happened::Failed(Cause::Exhausted),
                },
                Happened::Opened => {
                    if slot.opened {
                        self.record.reconnected += 1;
                    }
                    slot.opened = true;
                    if slot.clock.is_none() {
                        let (time, down) = slot.start_clock(Instant::now());
                        self.record.between(time, down);
                    }
                    slot.client.send(self.request)
                }
                Happened::Answered { answer, ended } => {
                    let now = Instant::now();
                    let sent_at = slot.clock.take().expect("an answer ends a request that was sent");
                    self.record.answer(&answer, now.saturating_duration_since(sent_at));
                    slot.failures = 0;
                    if answer.reusable && !ended {
                        // The end of one request is the beginning of the next: one look at the clock serves both.
                        self.record.started += 1;
                        slot.clock = Some(now);
                        slot.client.send(self.request)
                    } else {
                        if answer.reusable {
                            self.record.closed_idle += 1;
                        }
                        slot.alive = false;
                        slot.outside_since = now;
                        self.leave(index, ended, now);
                        self.connect(index, now)
                    }
                }
                Happened::ClosedIdle { reset } => {
                    self.record.closed_idle += 1;
                    self.record.closed_idle_reset += u64::from(reset);
                    slot.client.close();
                    self.connect(index, Instant::now())
                }
                Happened::Failed(cause) => {
                    let now = Instant::now();
                    self.fail(index, cause, now, false);
                    let Some(at) = self.retry_at(index, cause, now) else {
                        happened = self.connect(index, now);
                        continue;
                    };
                    self.retries.push(Reverse((at, index)));
                    return;
                }
            };
        }
    }

    /// Ends the request alive in a slot, and its connection.
    fn fail(&mut self, index: usize, cause: Cause, now: Instant, timed_out: bool) {
        let slot = &mut self.slots[index];
        let waited = slot.clock.take().map(|since| now.saturating_duration_since(since));
        self.record.fail(cause, waited, timed_out);
        if waited.is_some() {
            slot.outside_since = now;
        }
        slot.alive = false;
        slot.failures = slot.failures.saturating_add(1);
        slot.client.close();
    }

    /// When a slot whose request failed may go on; none is at once, as after a single lost request.
    fn retry_at(&mut self, index: usize, cause: Cause, now: Instant) -> Option<Instant> {
        let connecting = matches!(cause, Cause::Connect | Cause::Refused | Cause::Exhausted);
        let slot = &mut self.slots[index];
        let failures = slot.failures;
        if failures <= 1 && !connecting {
            return None;
        }
        slot.down = true;
        let wait = Duration::from_millis(1 << failures.saturating_sub(1).min(10));
        Some(now + wait.min(BACKOFF_MAX))
    }

    /// Parts with a connection after its last answer.
    fn leave(&mut self, index: usize, ended: bool, now: Instant) {
        let most = 2 * self.slots.len();
        let slot = &mut self.slots[index];
        let Some(stream) = slot.client.close() else { return };
        // Twice the connections is plenty; a server that never closes first does not get to hold more.
        if !ended && self.leaving.len() < most {
            self.leaving.insert(token(index, slot.generation), (stream, now));
        }
    }

    /// Gives up what has waited too long.
    fn sweep(&mut self, now: Instant) {
        let timeout = self.plan.timeout;
        let over = |since: Instant| now.saturating_duration_since(since) >= timeout;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let connecting = slot.client.phase() == Phase::Connecting;
            let late = slot.clock.is_some_and(over);
            if late || (connecting && over(slot.opening_since)) {
                let cause = if connecting { Cause::Connect } else { Cause::Timeout };
                self.fail(index, cause, now, late);
                match self.retry_at(index, cause, now) {
                    Some(at) => self.retries.push(Reverse((at, index))),
                    None => self.open(index, now),
                }
            }
        }
        self.leaving.retain(|_, (_, since)| now.saturating_duration_since(*since) < LEAVING_MAX);
    }

    /// Forgets what was counted so far; requests in progress go on into the window.
    fn begin_window(&mut self, now: Instant) -> nix::Result<Window> {
        self.record = Record::new();
        let mut carried_ns = 0;
        for slot in &mut self.slots {
            self.record.started += u64::from(slot.alive);
            match slot.clock {
                Some(since) => carried_ns += nanoseconds(now.saturating_duration_since(since)),
                None => slot.outside_since = now,
            }
        }
        Ok(Window { begin: now, cpu: thread_cpu()?, carried_ns })
    }

    fn end_window(mut self, window: Window, now: Instant, interrupted: bool) -> nix::Result<Report> {
        let cpu = thread_cpu()?.saturating_sub(window.cpu);
        let mut edges_ns = -i128::from(window.carried_ns);
        let mut in_flight = 0;
        for slot in &self.slots {
            in_flight += u64::from(slot.alive);
            match slot.clock {
                Some(since) => edges_ns += i128::from(nanoseconds(now.saturating_duration_since(since))),
                None => self.record.between(now.saturating_duration_since(slot.outside_since), slot.down),
            }
        }
        Ok(Report {
            connections: self.slots.len(),
            opened: self.slots.iter().filter(|slot| slot.opened).count(),
            window: now.saturating_duration_since(window.begin),
            cpu,
            in_flight,
            edges_ns,
            interrupted,
            record: self.record,
        })
    }
}

/// The state at the window's beginning.
struct Window {
    begin: Instant,
    cpu: Duration,
    /// How long the requests then in progress had been running.
    carried_ns: u64,
}

/// What epoll gives back: the slot, and which of its connections.
fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}

/// Processor time of the calling thread, to the nanosecond: getrusage(2) is allowed to count in ticks.
fn thread_cpu() -> nix::Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(Duration::new(time.tv_sec().unsigned_abs(), u32::try_from(time.tv_nsec()).unwrap_or(0)))
}
