//! fork: a new process for every connection.
//!
//! **The problem.** The first of all: serve several clients with a program that knows how to serve one.
//!
//! **The picture.** One process accepts. For each connection it forks; the new process serves it to its end and is gone. So
//! worked the CERN server, and so works whatever inetd starts. Nothing is kept ready: a connection costs a fork, which prefork
//! was invented to save, and memory that is fresh every time, which nothing can leak into. The process table is bounded by
//! MaxRequestWorkers: at the bound the acceptor stops accepting, and new clients wait in the kernel's queue.
//!
//! ```text
//!            parent (never accepts)
//!               | fork, once
//!            acceptor --accept, fork--> process --> client, to the end
//!                    \--accept, fork--> process --> client
//! ```
//!
//! **The loop** is [`alone::run`]: accept, start, collect who has ended. Here is what starting and ending mean. The parent knows
//! only the acceptor; should that be killed, the kernel kills its processes.

use crate::kit::accept::Fresh;
use crate::kit::alone::{self, Hands};
use crate::kit::drive::drive;
use crate::process::orders::Orders;
use crate::process::pod::Order;
use crate::process::spare::{SpawnPlan, Spawning};
use crate::process::{fork, signals};
use crate::{Card, Child, ExitReason, Mpm, ParkSet, View, worker};
use mpmlab_core::config::LogLevel;
use mpmlab_core::config::clamp::Shape;
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::Wake;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// See the module's documentation.
pub struct Fork;

static CARD: Card = Card {
    name: "fork",
    sentence: "one process accepts and forks another for every connection, which serves it and ends",
    shape: Shape::Acceptor,
    holder: "process",
    parks: ParkSet::NONE,
    faithful: &[("linger", "wait-first"), ("coalesce", "on"), ("later-line", "keep-alive")],
    profile: Profile::Apache,
    obeys: &[],
    deviations: &[
        "Apache has no such model; inside a connection it is prefork's, and its messages have worker's numbers",
        "there is one acceptor and nothing is spare: StartServers, Min/MaxSpare... and Thread... are not read",
        "MaxConnectionsPerChild counts the acceptor's connections; each process has one",
    ],
    messages: worker::CARD.messages,
};

impl Mpm for Fork {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let orders = match Orders::new(true) {
            Ok(orders) => orders,
            Err(errno) => return ExitReason::Sick(errno),
        };
        orders.hear_of_children();
        alone::run(child, &orders, &mut Processes { child, serving: Vec::new() })
    }

    fn maintain(&self, view: &View<'_>, _: &mut Spawning) -> SpawnPlan {
        alone::maintain(view)
    }
}

/// The processes that serve, each with its column.
struct Processes<'a, 'c> {
    child: &'a Child<'c>,
    serving: Vec<(Pid, usize)>,
}

impl Hands for Processes<'_, '_> {
    fn start(&mut self, column: usize, fresh: Fresh) -> nix::Result<()> {
        let (child, acceptor) = (self.child, Pid::this());
        let pid = fork::spawn(move || {
            fork::die_with(acceptor);
            child.close_listeners();
            // As in prefork: TERM ends it at once, USR1 lets it finish. What came since the fork comes now.
            signals::prepare_prefork_child(&[]);
            child.slot(column).claim(0, std::process::id() as i32, child.generation);
            let mut cx = child.context(column);
            drive(&mut fresh.into_connection(), &mut cx, Wake::Ready, ParkSet::NONE);
            ExitReason::Finished
        })?;
        self.serving.push((pid, column));
        Ok(())
    }

    fn ended(&mut self) -> Vec<usize> {
        let mut columns = Vec::new();
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { break };
            if let WaitStatus::Signaled(_, signal, _) = status
                && !self.child.leaving.immediately()
            {
                let text = format!("AH00052: child pid {pid} exit signal {signal} ({})", signal as i32);
                self.child.log.say(LogLevel::Notice, &text);
            }
            if let Some(index) = self.serving.iter().position(|(serving, _)| *serving == pid) {
                let (_, column) = self.serving.swap_remove(index);
                self.child.slot(column).end_process(mpmlab_core::sys::now_us());
                columns.push(column);
            }
        }
        columns
    }

    fn tell(&self, order: Order) {
        let signal = match order {
            Order::Graceful => Signal::SIGUSR1,
            Order::Now => Signal::SIGTERM,
        };
        for (pid, _) in &self.serving {
            // One that has just ended is still a zombie: the signal cannot hit a stranger.
            let _ = kill(*pid, signal);
        }
    }
}
