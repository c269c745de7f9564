//! One process that accepts alone, and starts somebody for every connection: the loop that [`fork`](crate::fork) and
//! [`thread`](crate::thread) share.
//!
//! It waits in one place for everything: a connection, an order, the end of somebody it started. At MaxRequestWorkers it stops
//! looking at its listeners until one has ended, so new connections wait in the kernel's queue. On its way out (told to, or
//! after MaxConnectionsPerChild connections) it closes its listeners and waits for those it started.

use super::accept::{Accepted, Fresh, accept_from};
use crate::process::orders::{News, Orders};
use crate::process::pod::Order;
use crate::process::spare::{Note, SpawnPlan};
use crate::{Child, ExitReason, View};
use mpmlab_core::slot::Status;
use nix::errno::Errno;
use std::time::Duration;

/// How often those who serve are told again to stop at once: a thread may have been told just before it began to wait.
const TELL_AGAIN: Duration = Duration::from_millis(10);

/// Those who were started. Each has a column of the process's scoreboard row while it serves.
pub trait Hands {
    /// Starts somebody who serves the connection to its end, and whose end is then news to [`Orders`].
    ///
    /// # Errors
    /// The system refuses another one. The connection is closed unanswered.
    fn start(&mut self, column: usize, fresh: Fresh) -> nix::Result<()>;
    /// The columns of those who have ended since the last call.
    fn ended(&mut self) -> Vec<usize>;
    /// Tells all of them: to finish what is begun, or to end at once.
    fn tell(&self, order: Order);
}

/// Accepts and starts until the process is to end and everybody it started has ended.
pub fn run(child: &Child<'_>, orders: &Orders, hands: &mut dyn Hands) -> ExitReason {
    // An old acceptor may be waiting at the same sockets: whoever is second must not block.
    child.listeners.iter().for_each(|listener| listener.set_nonblocking(true));
    let room = child.threads();
    // The lowest column goes first, so that the busy ones stand together.
    let mut free: Vec<usize> = (0..room).rev().collect();
    let mut left = child.budget();
    let mut outcome = ExitReason::Finished;
    let (mut told, mut turn, mut shown) = (false, 0, None);
    loop {
        for column in hands.ended() {
            child.slot(column).set(Status::Dead);
            free.push(column);
        }
        if left == Some(0) {
            child.leaving.begin_graceful();
        }
        let stopping = child.leaving.stopping();
        if stopping && !std::mem::replace(&mut told, true) {
            child.board.process(child.row).set_quiescing();
            child.close_listeners();
            hands.tell(Order::Graceful);
        }
        if child.leaving.immediately() {
            hands.tell(Order::Now);
        }
        if stopping && free.len() == room {
            return outcome;
        }
        let next = if stopping { None } else { free.last().copied() };
        show(child, std::mem::replace(&mut shown, next), next);
        // Taken in turn, so that none of several listeners is preferred.
        let count = next.map_or(0, |_| child.listeners.len());
        turn += 1;
        let chosen = |index: usize| (turn + index) % count;
        let fds: Vec<_> = (0..count).map(|index| child.listeners[chosen(index)].fd()).collect();
        let pod = (!stopping).then_some(child.pod);
        let limit = child.leaving.immediately().then_some(TELL_AGAIN);
        let failed = match orders.wait_or_ready(pod, &fds, limit) {
            Ok(ready) => match accept_from(child, chosen(ready)) {
                Accepted::Connection(fresh) => {
                    left = left.map(|n| n - 1);
                    let column = free.pop().expect("listeners are looked at only while a column is free");
                    shown = None;
                    child.slot(column).set(Status::Starting);
                    hands.start(column, fresh).inspect_err(|_| {
                        child.slot(column).set(Status::Dead);
                        free.push(column);
                    })
                }
                Accepted::Nothing => Ok(()),
                Accepted::Sick(errno) => Err(errno),
            },
            Err(News::Order(Order::Now)) => {
                child.leaving.begin_now();
                Ok(())
            }
            Err(News::Order(Order::Graceful) | News::Leave) => {
                child.leaving.begin_graceful();
                Ok(())
            }
            Err(News::Look) => Ok(()),
        };
        if let Err(errno) = failed {
            outcome = sick(child, errno);
        }
    }
}

/// Who accepts is seen as ready, in the column of whoever it will start next.
fn show(child: &Child<'_>, before: Option<usize>, now: Option<usize>) {
    if before == now {
        return;
    }
    if let Some(column) = before {
        child.slot(column).set(Status::Dead);
    }
    if let Some(column) = now {
        child.slot(column).claim(0, std::process::id() as i32, child.generation);
        child.slot(column).set(Status::Ready);
    }
}

/// What the process lacks, another may have: this one finishes what it has.
fn sick(child: &Child<'_>, errno: Errno) -> ExitReason {
    child.leaving.begin_graceful();
    ExitReason::Sick(errno)
}

/// The parent's decision: for each bucket of listeners (normally there is one) there is one acceptor of the running
/// generation, which grows and shrinks by itself.
pub fn maintain(view: &View<'_>) -> SpawnPlan {
    let (rows, buckets) = (view.rows(), usize::try_from(view.limits.buckets).unwrap_or(1).max(1));
    let mut plan = SpawnPlan::default();
    for bucket in 0..buckets {
        let mut own = rows.iter().enumerate().skip(bucket).step_by(buckets);
        if own.clone().any(|(_, row)| row.present && row.current && !row.quiescing) {
            continue;
        }
        match own.find(|(_, row)| !row.present) {
            Some((row, _)) => plan.start.push(row),
            None => plan.notes.push(Note::ScoreboardFull),
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::scoreboard::{Layout, Scoreboard};
    use mpmlab_core::config::MpmDirectives;
    use mpmlab_core::config::clamp::{Shape, resolve};

    #[test]
    fn there_is_one_acceptor_for_each_bucket() {
        let board = Scoreboard::new(4, 2, Layout::Packed, None).unwrap();
        let (mut limits, _) = resolve(&MpmDirectives::default(), Shape::Acceptor);
        let decide = |limits: &_| maintain(&View { board: &board, limits });
        assert_eq!(decide(&limits).start, [0]);
        board.process(0).claim(100, 0);
        assert_eq!(decide(&limits), SpawnPlan::default());
        limits.buckets = 2;
        assert_eq!(decide(&limits).start, [1]);
        // A new generation, and one that retires: both need another, in a row of their bucket.
        board.process(1).claim(101, 1);
        board.set_generation(1);
        board.process(1).set_quiescing();
        assert_eq!(decide(&limits).start, [2, 3]);
        board.process(2).claim(102, 0);
        board.process(3).claim(103, 1);
        assert_eq!(decide(&limits).notes, [Note::ScoreboardFull]);
    }
}
