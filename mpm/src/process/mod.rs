//! Processes: what the forking models share. The models' room of `unsafe`.
//!
//! The parent has one thread for its whole life, because it forks for its whole life (mpm-semantics 12): a lock that
//! another thread held at the fork would stay locked in the child for ever. [`fork`] checks it.
//!
//! | file | one mechanism |
//! |---|---|
//! | `parent` | the once-a-second loop |
//! | `spare` | how many children to start or to retire: pure |
//! | `scoreboard` | what every process may read about every other |
//! | `monitor` | the same as a plain value, for the status page |
//! | `fork` | a child that can only leave by `_exit` |
//! | `signals` | handlers, masks, and waits that no signal can slip past |
//! | `pod` | the pipe of death |
//! | `orders` | what a threaded child's main thread waits for |
//! | `fd` | a descriptor that one process closes and others keep |
//! | `listen` | listening sockets, per bucket |
//! | `mutex` | the accept mutex, in every mechanism |
//! | `pthread` | the C library's mutex and condition variable |
//! | `dummy` | the connection that wakes an idle prefork child |
//! | `reclaim` | the schedule by which children are made to end |
//! | `privileges` | User and Group |
//! | `poller` | epoll, level triggered |
//! | `errorlog` | lines in Apache's form |

pub mod dummy;
pub mod errorlog;
pub mod fd;
pub mod fork;
pub mod listen;
pub mod monitor;
pub mod mutex;
pub mod orders;
pub mod parent;
pub mod pod;
pub mod poller;
pub mod privileges;
pub mod pthread;
pub mod reclaim;
pub mod scoreboard;
pub mod signals;
pub mod spare;
