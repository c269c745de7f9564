//! The parts that models are made of.
//!
//! | file | part |
//! |---|---|
//! | `drive` | serve a connection until it is closed or parked |
//! | `accept` | take connections from one listener, or from several in turn |
//! | `handoff` | from the listener thread to an idle worker |
//! | `monitor` | the lock and condition that hand-offs are made with, of two kinds |
//! | `lot` | parked connections: epoll and a list per time-out |
//! | `alone` | one process that accepts, and starts somebody for every connection |
//! | `crew` | the threads of a child, from their start to their end |

pub mod accept;
pub mod alone;
pub mod crew;
pub mod drive;
pub mod handoff;
pub mod lot;
pub mod monitor;
