//! Fork: a child that runs one closure and leaves by `_exit`.

use crate::ExitReason;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::{ForkResult, Pid, fork};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exit status of a child that panicked: any that means nothing else to the parent.
const PANICKED: i32 = 101;

/// Forks. The parent gets the child's pid; the child runs `child` and ends with the status of its reason, without
/// running any destructor or exit handler of what it inherited.
///
/// # Errors
/// The system refuses another process.
///
/// # Panics
/// The caller's process has more than one thread.
pub fn spawn(child: impl FnOnce() -> ExitReason) -> nix::Result<Pid> {
    assert_single_threaded();
    // SAFETY: this process has one thread, as has just been checked, so no lock can be held by a thread that does not
    // exist in the child; the child may therefore use the allocator and everything else.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let status = catch_unwind(AssertUnwindSafe(child)).map_or(PANICKED, |reason| reason.status());
            exit_now(status)
        }
    }
}

/// Ends this process at once.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes no pointer and does not return; nothing needs to be flushed (standard error is unbuffered).
    unsafe { libc::_exit(status) }
}

/// Asks the kernel to kill this process when its parent dies, so that a killed server leaves nothing behind.
///
/// Apache does not do that: its children would go on serving. A laboratory must not leave processes behind, so this is a
/// deviation. To be called after privileges were dropped, which would undo it.
pub fn die_with(parent: Pid) {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and no pointer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    // The parent may have died before the call.
    if nix::unistd::getppid() != parent {
        exit_now(0);
    }
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> i32 {
    nix::unistd::gettid().as_raw()
}

fn assert_single_threaded() {
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    // Where /proc is not mounted there is nothing to check; the parent creates no threads anyway.
    if let Ok(threads) = threads {
        assert!(threads == 1, "the parent forks and must have one thread, it has {threads}");
    }
}

/// A word for why `fork` failed.
pub fn describe(error: Errno) -> &'static str {
    match error {
        Errno::EAGAIN => "the limit of processes is reached",
        Errno::ENOMEM => "not enough memory",
        other => other.desc(),
    }
}
