//! From the listener thread to an idle worker (mpm-semantics 3.1).
//!
//! Two objects, as in Apache. [`Idlers`] counts workers with nothing to do; the listener *reserves* one before it takes
//! anything that needs one. [`Queue`] then carries the work. Because a push happens only after a reservation, the queue never
//! overflows and never holds work that has no worker. Neither allocates after its start.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

/// How many workers are idle; below zero, how many listeners wait for one.
#[derive(Debug, Default)]
pub struct Idlers {
    count: AtomicI32,
    closed: AtomicBool,
    lock: Mutex<()>,
    someone: Condvar,
}

impl Idlers {
    /// Nobody is idle yet.
    pub fn new() -> Idlers {
        Idlers::default()
    }

    /// The calling worker has nothing to do any more.
    pub fn set_idle(&self) {
        if self.count.fetch_add(1, SeqCst) < 0 {
            // The lock orders this after the waiter's look at the count, so the signal cannot come before its wait.
            drop(self.lock.lock());
            self.someone.notify_one();
        }
    }

    /// Reserves an idle worker, waiting for one without limit. `false`: closed meanwhile.
    pub fn reserve(&self) -> bool {
        if self.count.fetch_sub(1, SeqCst) <= 0 {
            let mut guard = self.lock.lock();
            // There is one listener, so a count below zero is its own unmet reservation.
            while self.count.load(SeqCst) < 0 && !self.closed.load(SeqCst) {
                self.someone.wait(&mut guard);
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
        drop(self.lock.lock());
        self.someone.notify_all();
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

#[derive(Debug)]
struct Ring<T> {
    items: VecDeque<T>,
    interrupts: u64,
    closed: bool,
}

/// Work for the workers, first in, first out, and the workers that wait for it likewise.
#[derive(Debug)]
pub struct Queue<T> {
    ring: Mutex<Ring<T>>,
    not_empty: Condvar,
}

impl<T> Queue<T> {
    /// Room for one item per worker.
    pub fn new(workers: usize) -> Queue<T> {
        let ring = Ring { items: VecDeque::with_capacity(workers), interrupts: 0, closed: false };
        Queue { ring: Mutex::new(ring), not_empty: Condvar::new() }
    }

    /// Hands an item to a worker that was reserved.
    pub fn push(&self, item: T) {
        self.ring.lock().items.push_back(item);
        // After the lock is free, so that the woken worker does not meet it.
        self.not_empty.notify_one();
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
            self.not_empty.wait(&mut ring);
        }
    }

    /// Makes every worker that waits look whether to leave.
    pub fn interrupt(&self) {
        self.ring.lock().interrupts += 1;
        self.not_empty.notify_all();
    }

    /// No more items will come.
    pub fn close(&self) {
        self.ring.lock().closed = true;
        self.not_empty.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn a_reservation_is_met_by_exactly_one_idle_worker() {
        let idlers = Idlers::new();
        assert!(!idlers.try_reserve());
        idlers.set_idle();
        idlers.set_idle();
        assert!(idlers.try_reserve());
        assert!(idlers.reserve());
        assert!(!idlers.try_reserve());
        assert_eq!(idlers.idle(), 0);
    }

    #[test]
    fn everything_pushed_is_popped_once_and_the_queue_never_outgrows_the_workers() {
        const WORKERS: usize = 3;
        const ITEMS: usize = 20_000;
        let idlers = Idlers::new();
        let queue = Queue::new(WORKERS);
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

    #[test]
    fn closing_ends_a_blocked_reservation_and_a_blocked_pop() {
        let idlers = Idlers::new();
        let queue: Queue<()> = Queue::new(1);
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
