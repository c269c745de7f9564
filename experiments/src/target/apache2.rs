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

/// Modules besides the model: only what serving files with an index, a content type and a permission needs. Those that
/// a build has compiled in are not in the directory and are left out.
const MODULES: [(&str, &str); 5] = [
    ("unixd_module", "mod_unixd.so"),
    ("authz_core_module", "mod_authz_core.so"),
    ("authz_host_module", "mod_authz_host.so"),
    ("dir_module", "mod_dir.so"),
    ("mime_module", "mod_mime.so"),
];

impl Apache {
    fn program() -> Result<PathBuf, String> {
        find_program("apache2")
            .or_else(|| find_program("httpd"))
            .ok_or_else(|| "apache2 is not installed".to_owned())
    }

    fn modules() -> Result<PathBuf, String> {
        ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"]
            .iter()
            .map(PathBuf::from)
            .find(|directory| directory.is_dir())
            .ok_or_else(|| "apache2's modules were not found under /usr/lib".to_owned())
    }

    fn configuration(&self, site: &Site<'_>, modules: &Path, address: SocketAddr) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("writing to a String cannot fail");
        let model = format!("mod_mpm_{}.so", self.mpm);
        let model_module = format!("mpm_{}_module", self.mpm);
        for (module, file) in MODULES.into_iter().chain([(model_module.as_str(), model.as_str())]) {
            let path = modules.join(file);
            if path.is_file() {
                line(format!("LoadModule {module} \"{}\"", path.display()));
            }
        }
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
        text
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
        let module = Apache::modules()?.join(format!("mod_mpm_{}.so", self.mpm));
        if !module.is_file() {
            return Err(format!("apache2 lacks {}", module.display()));
        }
        first_line(&Apache::program()?, "-v")
    }

    fn settings(&self, _: &Site<'_>) -> Vec<(String, String)> {
        self.pool.directives()
    }

    fn launch(&self, site: &Site<'_>) -> io::Result<Launch> {
        let address = free_port()?;
        let file = site.scratch.join("apache2.conf");
        let modules = Apache::modules().map_err(io::Error::other)?;
        std::fs::write(&file, self.configuration(site, &modules, address))?;
        Ok(Launch {
            program: Apache::program().map_err(io::Error::other)?,
            arguments: vec!["-f".into(), file.into(), "-DFOREGROUND".into()],
            announces: Announces::Knows(address),
            processes: self.pool.processes(),
            log: site.scratch.join("stderr.log"),
            more_logs: vec![site.scratch.join("error.log")],
            probe_path: site.probe_path.to_owned(),
        })
    }
}
