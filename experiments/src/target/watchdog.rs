//! Cleans up after a study that was itself killed: SIGKILL and a second Ctrl-C leave no moment to do so.
//!
//! A small shell process reads, from a pipe, which process groups run and which temporary directory is in use. When the
//! study dies, however it dies, the kernel closes the pipe, the shell reads its end, kills what is still on the list and
//! removes the directory. Asking the kernel for a signal on the parent's death (prctl(2)) would need code between fork
//! and exec, and would miss the server's own children; clearing up at the next start would need a next start.

use nix::unistd::Pid;
use std::fmt::Display;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A line is `+` or `-`, a blank, and a process group or an absolute path. A line that was cut off is none: `read` fails
/// on it. `rm -r` follows no symbolic links. A killed server may still be writing, hence more than one attempt.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
set -f
all=
IFS='
'
while IFS=' ' read -r change what; do
  if [ "$change" = + ]; then all="$all$IFS$what"; continue; fi
  kept=
  for one in $all; do [ "$one" = "$what" ] || kept="$kept$IFS$one"; done
  all=$kept
done
for one in $all; do
  case $one in /*) ;; *) kill -s KILL -- "-$one" ;; esac
done
for one in $all; do
  case $one in /*) for attempt in 1 2 3 4 5; do rm -rf -- "$one" && break; sleep 1; done ;; esac
done
"#;

/// One for the whole process, started with what it first guards. `None` where no shell can be run: then only a killed
/// study leaves things behind.
static WATCHDOG: LazyLock<Option<Mutex<ChildStdin>>> = LazyLock::new(|| {
    let mut shell = Command::new("/bin/sh");
    // A group of its own: the terminal's Ctrl-C is not for it. It ends by itself when the pipe does. In `/`, so that it
    // keeps no file system busy.
    shell
        .args(["-c", SCRIPT])
        .current_dir("/")
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

/// From now on the directory, which this process has made, is removed if this process dies. A path that is not
/// absolute, or holds a line break, cannot be guarded.
pub(crate) fn guard_directory(path: &Path) {
    tell_path('+', path);
}

/// The directory is gone, and its name may come to mean somebody else's.
pub(crate) fn release_directory(path: &Path) {
    tell_path('-', path);
}

fn tell_path(change: char, path: &Path) {
    if let Some(text) = path.to_str().filter(|text| text.starts_with('/') && !text.contains('\n')) {
        tell(change, text);
    }
}

fn tell(change: char, what: impl Display) {
    if let Some(pipe) = WATCHDOG.as_ref() {
        // In one write: this process may be killed between two.
        let line = format!("{change} {what}\n");
        // A watchdog that was killed cannot be told anything; the study itself goes on.
        let _ = pipe.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
