//! From the listener thread to an idle worker (mpm-semantics 3.1).
//!
//! Two objects, as in Apache. [`Idlers`] counts workers with nothing to do; the listener *reserves* one before it takes
//! anything that needs one. [`Queue`] then carries the work. Because a push happens only after a reservation, the queue never
//! overflows and never holds work that has no worker. Neither allocates after its start.
//!
//! What they lock and wait with is a [`Monitor`] of either kind, and the order of operations is Apache's: that is what the
//! number of `futex` calls per hand-off depends on.

use super::monitor::{HandOff, Monitor};
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

struct Ring<T> {
    items: VecDeque<T>,
    interrupts: u64,
    closed: bool,
}

/// Work for the workers, first in, first out, and the workers that wait for it likewise.
pub struct Queue<T> {
    /// Waited for while it is empty.
    ring: Monitor<Ring<T>>,
}

impl<T> Queue<T> {
    /// Room for one item per worker.
    pub fn new(kind: HandOff, workers: usize) -> Queue<T> {
        let ring = Ring { items: VecDeque::with_capacity(workers), interrupts: 0, closed: false };
        Queue { ring: Monitor::new(kind, ring) }
    }

    /// Hands an item to a worker that was reserved.
    pub fn push(&self, item: T) {
        let mut ring = self.ring.lock();
        ring.items.push_back(item);
        ring.wake_one();
    }

    /// Waits for an item. What is in the queue when it is closed is still handed out.
    pub fn pop(&self) -> Popped<T> {
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
            ring.wait();
        }
    }

    /// Makes every worker that waits look whether to leave.
    pub fn interrupt(&self) {
        let mut ring = self.ring.lock();
        ring.interrupts += 1;
        ring.wake_all();
    }

    /// No more items will come.
    pub fn close(&self) {
        let mut ring = self.ring.lock();
        ring.closed = true;
        ring.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const KINDS: [HandOff; 2] = [HandOff::Pthread, HandOff::ParkingLot];

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
        for kind in KINDS {
            let idlers = Idlers::new(kind);
            let queue = Queue::new(kind, WORKERS);
            let (sum, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..WORKERS {
                    scope.spawn(|| {
                        loop {
                            idlers.set_idle();
                            match queue.pop() {
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
            assert_eq!((count.into_inner(), sum.into_inner()), (ITEMS, ITEMS * (ITEMS - 1) / 2));
        }
    }

    #[test]
    fn closing_ends_a_blocked_reservation_and_a_blocked_pop() {
        for kind in KINDS {
            let idlers = Idlers::new(kind);
            let queue: Queue<()> = Queue::new(kind, 1);
            thread::scope(|scope| {
                let reservation = scope.spawn(|| idlers.reserve());
                let pop = scope.spawn(|| queue.pop());
                idlers.close();
                queue.close();
                assert!(!reservation.join().unwrap());
                assert_eq!(pop.join().unwrap(), Popped::Closed);
            });
        }
    }

    #[test]
    fn an_interrupt_ends_a_blocked_pop_and_only_that() {
        for kind in KINDS {
            let queue: Queue<u32> = Queue::new(kind, 1);
            thread::scope(|scope| {
                let pop = scope.spawn(|| queue.pop());
                // The worker may not wait yet when it is told: again until it has been.
                while !pop.is_finished() {
                    queue.interrupt();
                    thread::yield_now();
                }
                assert_eq!(pop.join().unwrap(), Popped::Interrupted);
            });
            queue.push(7);
            assert_eq!(queue.pop(), Popped::Item(7));
        }
    }
}
