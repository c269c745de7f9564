//! Apache httpd as a target: the installed 2.4 with a generated configuration, in the foreground, on a free port.

use super::process::{Announces, Launch};
use super::treatment::Pool;
use super::{Site, Target, find_program, first_line, free_port};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Apache with one of its models.
#[derive(Debug, Clone)]
pub struct Apache {
    /// Name of the target.
    pub name: &'static str,
    /// Which `mod_mpm_*` is loaded: `prefork`, `worker` or `event`.
    pub mpm: &'static str,
    /// What gives that its size.
    pub pool: Pool,
}

/// Modules besides the model: only what serving files with an index, a content type and a permission needs.
const MODULES: [&str; 5] = ["unixd", "authz_core", "authz_host", "dir", "mime"];

/// The executable.
///
/// # Errors
/// It is not installed: one line.
pub(crate) fn program() -> Result<PathBuf, String> {
    find_program("apache2")
        .or_else(|| find_program("httpd"))
        .ok_or_else(|| "apache2 is not installed".to_owned())
}

/// `LoadModule` lines for a model, what serving files needs, and `more`, by the names in `mod_NAME.so`. Modules that a build
/// has compiled in are not in its directory and are left out.
///
/// # Errors
/// There is no such directory: one line.
pub(crate) fn load_modules(model: &str, more: &[&str]) -> Result<String, String> {
    let directory = modules()?;
    let mpm = format!("mpm_{model}");
    let mut text = String::new();
    for name in MODULES.iter().chain(more).chain([&mpm.as_str()]) {
        let path = directory.join(format!("mod_{name}.so"));
        if path.is_file() {
            writeln!(text, "LoadModule {name}_module \"{}\"", path.display())
                .expect("writing to a String cannot fail");
        }
    }
    Ok(text)
}

fn modules() -> Result<PathBuf, String> {
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"]
        .iter()
        .map(PathBuf::from)
        .find(|directory| directory.is_dir())
        .ok_or_else(|| "apache2's modules were not found under /usr/lib".to_owned())
}

impl Apache {
    fn configuration(&self, site: &Site<'_>, address: SocketAddr) -> Result<String, String> {
        let mut text = load_modules(self.mpm, &[])?;
        let mut line = |line: String| writeln!(text, "{line}").expect("writing to a String cannot fail");
        for (name, file) in
            [("ServerRoot", ""), ("DefaultRuntimeDir", ""), ("PidFile", "pid"), ("ErrorLog", "error.log")]
        {
            line(format!("{name} \"{}\"", site.scratch.join(file).display()));
        }
        line(format!("Listen {address}"));
        line(format!("DocumentRoot \"{}\"", site.root.display()));
        for (name, value) in self.settings(site) {
            line(format!("{name} {value}"));
        }
        if Path::new("/etc/mime.types").is_file() {
            line("TypesConfig /etc/mime.types".to_owned());
        }
        line("<Directory />\n  AllowOverride None\n  Require all granted\n</Directory>".to_owned());
        Ok(text)
    }
}

impl Target for Apache {
    fn name(&self) -> &str {
        self.name
    }

    fn sentence(&self) -> String {
        format!("the installed Apache 2.4 with its {} model", self.mpm)
    }

    fn installed(&self) -> Result<String, String> {
        let module = modules()?.join(format!("mod_mpm_{}.so", self.mpm));
        if !module.is_file() {
            return Err(format!("apache2 lacks {}", module.display()));
        }
        first_line(&program()?, "-v")
    }

    fn settings(&self, site: &Site<'_>) -> Vec<(String, String)> {
        self.pool.directives(site.start)
    }

    fn launch(&self, site: &Site<'_>) -> io::Result<Launch> {
        let address = free_port()?;
        let file = site.scratch.join("apache2.conf");
        std::fs::write(&file, self.configuration(site, address).map_err(io::Error::other)?)?;
        Ok(Launch {
            program: program().map_err(io::Error::other)?,
            arguments: vec!["-f".into(), file.into(), "-DFOREGROUND".into()],
            announces: Announces::Knows(address),
            processes: self.pool.processes(site.start),
            log: site.scratch.join("stderr.log"),
            more_logs: vec![site.scratch.join("error.log")],
            probe_path: site.probe_path.to_owned(),
        })
    }
}
