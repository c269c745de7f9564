//! From the listener thread to an idle worker (mpm-semantics 3.1).
//!
//! Two objects, as in Apache. [`Idlers`] counts workers with nothing to do; the listener *reserves* one before it takes
//! anything that needs one. [`Queue`] then carries the work. Because a push happens only after a reservation, the queue never
//! overflows and never holds work that has no worker. Neither allocates after its start.
//!
//! What they lock and wait with is a [`Monitor`] of either kind, and the order of operations is Apache's: that is what the
//! number of `futex` calls per hand-off depends on.

use super::monitor::{Guard, HandOff, Monitor};
use mpmlab_core::knob_words;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

/// How many workers are idle; below zero, how many listeners wait for one.
pub struct Idlers {
    count: AtomicI32,
    closed: AtomicBool,
    /// Used only when the listener must sleep.
    someone: Monitor<()>,
}

impl Idlers {
    /// Nobody is idle yet.
    pub fn new(kind: HandOff) -> Idlers {
        Idlers { count: AtomicI32::new(0), closed: AtomicBool::new(false), someone: Monitor::new(kind, ()) }
    }

    /// The calling worker has nothing to do any more.
    pub fn set_idle(&self) {
        if self.count.fetch_add(1, SeqCst) < 0 {
            // The lock orders this after the waiter's look at the count, so the signal cannot come before its wait.
            self.someone.lock().wake_one();
        }
    }

    /// Reserves an idle worker, waiting for one without limit. `false`: closed meanwhile.
    pub fn reserve(&self) -> bool {
        if self.count.fetch_sub(1, SeqCst) <= 0 {
            let mut guard = self.someone.lock();
            // There is one listener, so a count below zero is its own unmet reservation.
            while self.count.load(SeqCst) < 0 && !self.closed.load(SeqCst) {
                guard.wait();
            }
        }
        !self.closed.load(SeqCst)
    }

    /// Reserves an idle worker if there is one.
    pub fn try_reserve(&self) -> bool {
        self.count.fetch_update(SeqCst, SeqCst, |count| (count > 0).then(|| count - 1)).is_ok()
    }

    /// Idle workers that are not reserved.
    pub fn idle(&self) -> usize {
        usize::try_from(self.count.load(SeqCst)).unwrap_or(0)
    }

    /// Ends every wait, now and later.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.someone.lock().wake_all();
    }
}

/// What a worker gets from the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// Work.
    Item(T),
    /// Nothing: look whether to leave, then pop again.
    Interrupted,
    /// Nothing, and nothing will come.
    Closed,
}

knob_words! {
    /// Which of several idle workers gets the work (`LabIdleOrder`, `idle-order`).
    pub enum IdleOrder {
        /// The one that has been idle for longest: the order in which waiting threads are woken by one condition, as in Apache.
        Fifo = "fifo",
        /// The one that became idle last: its memory is still in the processor's caches.
        Lifo = "lifo",
    }
}

struct Ring<T> {
    items: VecDeque<T>,
    /// Workers that wait at a bell of their own, the last one on top.
    resting: Vec<usize>,
    interrupts: u64,
    closed: bool,
}

/// Work for the workers, first in, first out.
pub struct Queue<T> {
    /// Waited for while it is empty, if workers have no bells of their own.
    ring: Monitor<Ring<T>>,
    /// One per worker, and whether it has rung: only to wake a certain one.
    bells: Option<Vec<Monitor<bool>>>,
}

impl<T> Queue<T> {
    /// Room for one item per worker.
    pub fn new(kind: HandOff, order: IdleOrder, workers: usize) -> Queue<T> {
        let ring = Ring {
            items: VecDeque::with_capacity(workers),
            resting: Vec::with_capacity(workers),
            interrupts: 0,
            closed: false,
        };
        let bells = || (0..workers).map(|_| Monitor::new(kind, false)).collect();
        Queue { ring: Monitor::new(kind, ring), bells: (order == IdleOrder::Lifo).then(bells) }
    }

    /// Hands an item to a worker that was reserved.
    pub fn push(&self, item: T) {
        let mut ring = self.ring.lock();
        ring.items.push_back(item);
        let Some(bells) = &self.bells else { return ring.wake_one() };
        // Nobody rests: then the reserved one has not looked at the queue yet, and will find the item.
        let last = ring.resting.pop();
        drop(ring);
        last.into_iter().for_each(|worker| bells[worker].ring());
    }

    /// Waits for an item. What is in the queue when it is closed is still handed out. `worker` counts from 0.
    pub fn pop(&self, worker: usize) -> Popped<T> {
        let mut ring = self.ring.lock();
        let interrupts = ring.interrupts;
        loop {
            if let Some(item) = ring.items.pop_front() {
                return Popped::Item(item);
            }
            if ring.closed {
                return Popped::Closed;
            }
            if ring.interrupts != interrupts {
                return Popped::Interrupted;
            }
            match &self.bells {
                None => ring.wait(),
                Some(bells) => {
                    ring.resting.push(worker);
                    drop(ring);
                    bells[worker].answer();
                    ring = self.ring.lock();
                }
            }
        }
    }

    /// Makes every worker that waits look whether to leave.
    pub fn interrupt(&self) {
        let mut ring = self.ring.lock();
        ring.interrupts += 1;
        self.wake_all(ring);
    }

    /// No more items will come.
    pub fn close(&self) {
        let mut ring = self.ring.lock();
        ring.closed = true;
        self.wake_all(ring);
    }

    fn wake_all(&self, mut ring: Guard<'_, Ring<T>>) {
        let Some(bells) = &self.bells else { return ring.wake_all() };
        let resting = std::mem::take(&mut ring.resting);
        drop(ring);
        resting.into_iter().for_each(|worker| bells[worker].ring());
    }
}

impl Monitor<bool> {
    /// Lets the one thread that waits, or will wait, go on.
    fn ring(&self) {
        let mut rung = self.lock();
        *rung = true;
        rung.wake_one();
    }

    /// Waits until it rings.
    fn answer(&self) {
        let mut rung = self.lock();
        while !*rung {
            rung.wait();
        }
        *rung = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const KINDS: [HandOff; 2] = [HandOff::Pthread, HandOff::ParkingLot];
    const WAYS: [(HandOff, IdleOrder); 4] = [
        (HandOff::Pthread, IdleOrder::Fifo),
        (HandOff::Pthread, IdleOrder::Lifo),
        (HandOff::ParkingLot, IdleOrder::Fifo),
        (HandOff::ParkingLot, IdleOrder::Lifo),
    ];

    #[test]
    fn a_reservation_is_met_by_exactly_one_idle_worker() {
        for kind in KINDS {
            let idlers = Idlers::new(kind);
            assert!(!idlers.try_reserve());
            idlers.set_idle();
            idlers.set_idle();
            assert!(idlers.try_reserve());
            assert!(idlers.reserve());
            assert!(!idlers.try_reserve());
            assert_eq!(idlers.idle(), 0);
        }
    }

    #[test]
    fn everything_pushed_is_popped_once_and_the_queue_never_outgrows_the_workers() {
        const WORKERS: usize = 3;
        const ITEMS: usize = 20_000;
        for (kind, order) in WAYS {
            let idlers = Idlers::new(kind);
            let queue = &Queue::new(kind, order, WORKERS);
            let (sum, count) = &(AtomicUsize::new(0), AtomicUsize::new(0));
            let idlers = &idlers;
            thread::scope(|scope| {
                for worker in 0..WORKERS {
                    scope.spawn(move || {
                        loop {
                            idlers.set_idle();
                            match queue.pop(worker) {
                                Popped::Item(item) => {
                                    sum.fetch_add(item, Ordering::Relaxed);
                                    count.fetch_add(1, Ordering::Relaxed);
                                }
                                Popped::Interrupted => unreachable!("nobody interrupts"),
                                Popped::Closed => return,
                            }
                        }
                    });
                }
                for item in 0..ITEMS {
                    assert!(idlers.reserve());
                    queue.push(item);
                    assert!(queue.ring.lock().items.len() <= WORKERS);
                }
                queue.close();
            });
            assert_eq!(
                (count.load(Ordering::Relaxed), sum.load(Ordering::Relaxed)),
                (ITEMS, ITEMS * (ITEMS - 1) / 2)
            );
        }
    }

    #[test]
    fn closing_ends_a_blocked_reservation_and_a_blocked_pop() {
        for (kind, order) in WAYS {
            let idlers = Idlers::new(kind);
            let queue: Queue<()> = Queue::new(kind, order, 1);
            thread::scope(|scope| {
                let reservation = scope.spawn(|| idlers.reserve());
                let pop = scope.spawn(|| queue.pop(0));
                idlers.close();
                queue.close();
                assert!(!reservation.join().unwrap());
                assert_eq!(pop.join().unwrap(), Popped::Closed);
            });
        }
    }

    #[test]
    fn an_interrupt_ends_a_blocked_pop_and_only_that() {
        for (kind, order) in WAYS {
            let queue: Queue<u32> = Queue::new(kind, order, 1);
            thread::scope(|scope| {
                let pop = scope.spawn(|| queue.pop(0));
                // The worker may not wait yet when it is told: again until it has been.
                while !pop.is_finished() {
                    queue.interrupt();
                    thread::yield_now();
                }
                assert_eq!(pop.join().unwrap(), Popped::Interrupted);
            });
            queue.push(7);
            assert_eq!(queue.pop(0), Popped::Item(7));
        }
    }

    #[test]
    fn the_worker_that_became_idle_last_is_woken_first_if_so_chosen() {
        for kind in KINDS {
            let queue: Queue<u32> = Queue::new(kind, IdleOrder::Lifo, 3);
            let resting = |count| {
                while queue.ring.lock().resting.len() < count {
                    thread::yield_now();
                }
            };
            thread::scope(|scope| {
                let mut workers = Vec::new();
                for worker in 0..3 {
                    let queue = &queue;
                    workers.push(scope.spawn(move || queue.pop(worker)));
                    resting(worker + 1);
                }
                for worker in (0..3).rev() {
                    queue.push(worker);
                    let popped = workers.pop().expect("three were started").join().unwrap();
                    assert_eq!(popped, Popped::Item(worker));
                }
            });
        }
    }
}
