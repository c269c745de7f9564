//! Kills the servers of a study that was itself killed: SIGKILL and a second Ctrl-C leave no moment to clean up.
//!
//! A small shell process reads, from a pipe, which process groups run. When the study dies, however it dies, the kernel
//! closes the pipe, the shell reads its end and kills what is still on the list. Asking the kernel for a signal on the
//! parent's death (prctl(2)) would need code between fork and exec, and would miss the server's own children.

use nix::unistd::Pid;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
all=
while read -r change group; do
  if [ "$change" = + ]; then all="$all $group"; continue; fi
  kept=
  for one in $all; do [ "$one" = "$group" ] || kept="$kept $one"; done
  all=$kept
done
for one in $all; do kill -s KILL -- "-$one"; done 2>/dev/null
"#;

/// One for the whole process, started with its first server. `None` where no shell can be run: then only a killed study
/// leaves its server behind.
static WATCHDOG: LazyLock<Option<Mutex<ChildStdin>>> = LazyLock::new(|| {
    let mut shell = Command::new("/bin/sh");
    // A group of its own: the terminal's Ctrl-C is not for it. It ends by itself when the pipe does.
    shell
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    shell.spawn().ok().and_then(|mut shell| shell.stdin.take()).map(Mutex::new)
});

/// From now on the process group is killed if this process dies.
pub(super) fn guard(group: Pid) {
    tell('+', group);
}

/// The process group has ended and its number may come to mean somebody else.
pub(super) fn release(group: Pid) {
    tell('-', group);
}

fn tell(change: char, group: Pid) {
    if let Some(pipe) = WATCHDOG.as_ref() {
        // A watchdog that was killed cannot be told anything; the study itself goes on.
        let _ = writeln!(pipe.lock().unwrap_or_else(PoisonError::into_inner), "{change} {group}");
    }
}
