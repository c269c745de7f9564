//! The servers a study can measure, each driven from outside as a process with an equal configuration.
//!
//! A new server is one file that implements [`Target`] and one line in [`known`]; mpmlab's own models, all that the
//! executable has, get no other treatment than Apache's or nginx's.

pub mod apache2;
pub mod mpmlab;
pub mod nginx;
pub mod pin;
pub mod process;
pub mod ready;
pub mod treatment;
pub(crate) mod watchdog;

use crate::reason::reason;
use process::Launch;
use std::io;
use std::path::{Path, PathBuf};

/// A kind of server that can be measured.
pub trait Target: std::fmt::Debug {
    /// Its name as a level of the factor `target`.
    fn name(&self) -> &str;
    /// One sentence for `study show` and the report.
    fn sentence(&self) -> String;
    /// Its version, or one line saying why it cannot be measured here.
    fn installed(&self) -> Result<String, String>;
    /// Every setting it is given, by the names of its own manual, for the record.
    fn settings(&self, site: &Site<'_>) -> Vec<(String, String)>;
    /// Writes what it needs into `site.scratch` and says how to start it. Called anew for each round.
    fn launch(&self, site: &Site<'_>) -> io::Result<Launch>;
    /// Whether a study may go on without it: true for servers that need not be installed.
    fn optional(&self) -> bool {
        true
    }
}

/// What a server is given for one round.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The document root.
    pub root: &'a Path,
    /// An empty directory of its own for configuration, logs and pid files.
    pub scratch: &'a Path,
    /// A path below the root that answers 200.
    pub probe_path: &'a str,
    /// Cores it may use.
    pub cores: usize,
    /// How much of its pool it starts with.
    pub start: treatment::Start,
}

/// Adds the variants that a study names: `event shed=off` is event with that knob set so.
///
/// # Errors
/// The server of a variant is not one of mpmlab's models: one line.
pub fn add_variants(
    known: &mut Vec<Box<dyn Target>>,
    mpmlab: &Path,
    models: &[mpmlab::Model],
    names: &[String],
) -> Result<(), String> {
    for name in names {
        let Some((base, knobs)) = name.split_once(' ') else { continue };
        let Some(model) = models.iter().find(|model| model.name == base) else {
            return Err(format!("target `{name}`: only mpmlab's own models have knobs, {base} has none"));
        };
        let knobs = knobs.split_whitespace().map(str::to_owned).collect();
        known.push(Box::new(mpmlab::Mpmlab {
            model: model.clone(),
            program: mpmlab.to_owned(),
            name: name.clone(),
            knobs,
        }));
    }
    Ok(())
}

/// Every target, mpmlab's own models first: `models` are those that the executable `mpmlab` has.
pub fn known(mpmlab: &Path, models: &[mpmlab::Model]) -> Vec<Box<dyn Target>> {
    use treatment::Pool::{Processes, Threads};
    let own = |model: &mpmlab::Model| -> Box<dyn Target> {
        let name = model.name.clone();
        Box::new(mpmlab::Mpmlab { model: model.clone(), program: mpmlab.to_owned(), name, knobs: Vec::new() })
    };
    let others: [Box<dyn Target>; 4] = [
        Box::new(apache2::Apache { name: "apache2", mpm: "event", pool: Threads }),
        Box::new(apache2::Apache { name: "apache2-prefork", mpm: "prefork", pool: Processes }),
        Box::new(apache2::Apache { name: "apache2-worker", mpm: "worker", pool: Threads }),
        Box::new(nginx::Nginx),
    ];
    models.iter().map(own).chain(others).collect()
}

/// Looks for an executable in `PATH` and, as they are not in a plain user's, in the `sbin` directories.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// The first line a program prints, to either stream, when run with `argument`; for versions.
pub(crate) fn first_line(program: &Path, argument: &str) -> Result<String, String> {
    let output = std::process::Command::new(program)
        .arg(argument)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {}", program.display(), reason(&error)))?;
    let text = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned();
    if output.status.success() { Ok(line) } else { Err(format!("{} {argument}: {line}", program.display())) }
}

/// A port that was free a moment ago, for servers that cannot choose one themselves.
pub(crate) fn free_port() -> io::Result<std::net::SocketAddr> {
    std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

/// The account that servers started by root run as, `None` when not root: then everything runs as the caller.
pub(crate) fn unprivileged() -> Option<(String, String)> {
    use nix::unistd::{Gid, Group, Uid, User};
    if !Uid::effective().is_root() {
        return None;
    }
    ["www-data", "http", "nobody"].iter().find_map(|name| {
        let user = User::from_name(name).ok()??;
        let group = Group::from_gid(Gid::from_raw(user.gid.as_raw())).ok()??;
        Some((user.name, group.name))
    })
}
