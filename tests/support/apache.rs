//! The installed Apache, started with a configuration of ours on a port of ours.

use super::harness::{PATIENCE, identity, within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// A running Apache; stopped when dropped.
pub struct Apache {
    /// Where it listens.
    pub addr: SocketAddr,
    child: Child,
    _state: tempfile::TempDir,
}

/// Its version, as in `2.4.71`; `None` if it is not installed where Debian puts it.
pub fn version() -> Option<String> {
    let output = Command::new(PROGRAM).arg("-v").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (_, rest) = text.split_once("Apache/")?;
    rest.split_whitespace().next().map(str::to_owned)
}

impl Apache {
    /// Fills in a template and starts it.
    pub fn start(template: &str, root: &Path, types: &Path, directives: &[&str]) -> Apache {
        let state = tempfile::tempdir().unwrap();
        let addr = free_address();
        let config = template
            .replace("@STATE@", &state.path().to_string_lossy())
            .replace("@MODULES@", MODULES)
            .replace("@LISTEN@", &addr.to_string())
            .replace("@IDENTITY@", &identity().join("\n"))
            .replace("@ROOT@", &root.to_string_lossy())
            .replace("@TYPES@", &types.to_string_lossy())
            .replace("@DIRECTIVES@", &directives.join("\n"));
        let file = state.path().join("httpd.conf");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(PROGRAM)
            .arg("-f")
            .arg(&file)
            .arg("-DFOREGROUND")
            // Its prefork stops by signalling its whole process group, which otherwise would be ours.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut apache = Apache { addr, child, _state: state };
        let listens = within(PATIENCE, || match apache.child.try_wait().unwrap() {
            Some(_) => Some(false),
            None => TcpStream::connect(addr).ok().map(|_| true),
        });
        assert_eq!(listens, Some(true), "Apache does not start; it said why above");
        apache
    }
}

impl Apache {
    /// The parent process.
    #[allow(dead_code, reason = "not every test binary looks at its processes")]
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        if within(PATIENCE, || self.child.try_wait().ok().flatten()).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A port that is free now. Apache cannot be asked to choose one itself.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
