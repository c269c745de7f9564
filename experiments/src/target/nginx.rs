//! nginx as a target: the installed one with a generated configuration, in the foreground, on a free port.

use super::process::{Announces, Launch};
use super::{Site, Target, find_program, first_line, free_port, treatment, unprivileged};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// nginx, one event loop per core.
#[derive(Debug, Clone)]
pub struct Nginx;

impl Nginx {
    fn program() -> Result<PathBuf, String> {
        find_program("nginx").ok_or_else(|| "nginx is not installed".to_owned())
    }

    fn configuration(&self, site: &Site<'_>, address: SocketAddr) -> String {
        let scratch = site.scratch.display();
        let (main, rest): (Vec<_>, Vec<_>) = self
            .settings(site)
            .into_iter()
            .partition(|(name, _)| name == "worker_processes" || name == "user");
        let (events, http): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(name, _)| name == "worker_connections");
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("writing to a String cannot fail");
        // In quotes: the place for temporary files may have blanks in its name.
        line(format!("daemon off;\npid \"{scratch}/pid\";\nerror_log \"{scratch}/error.log\" warn;"));
        main.iter().for_each(|(name, value)| line(format!("{name} {value};")));
        line("events {".to_owned());
        events.iter().for_each(|(name, value)| line(format!("  {name} {value};")));
        line("}\nhttp {".to_owned());
        http.iter().for_each(|(name, value)| line(format!("  {name} {value};")));
        if Path::new("/etc/nginx/mime.types").is_file() {
            line("  include /etc/nginx/mime.types;".to_owned());
        }
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            line(format!("  {kind}_temp_path \"{scratch}/{kind}\";"));
        }
        let (root, backlog) = (site.root.display(), treatment::BACKLOG);
        line(format!(
            "  server {{ listen {address} backlog={backlog}; server_name localhost; root \"{root}\"; }}\n}}"
        ));
        text
    }
}

impl Target for Nginx {
    fn name(&self) -> &str {
        "nginx"
    }

    fn sentence(&self) -> String {
        "the installed nginx, one event loop per core it may use".to_owned()
    }

    fn installed(&self) -> Result<String, String> {
        first_line(&Nginx::program()?, "-v")
    }

    fn settings(&self, site: &Site<'_>) -> Vec<(String, String)> {
        let mut settings = vec![
            // "auto" would count the machine's cores, not the ones it is allowed.
            ("worker_processes", site.cores.max(1).to_string()),
            ("worker_connections", "1024".to_owned()),
            // As Debian ships it.
            ("sendfile", "on".to_owned()),
            ("tcp_nopush", "on".to_owned()),
            ("default_type", "application/octet-stream".to_owned()),
            ("access_log", "off".to_owned()),
            ("keepalive_timeout", format!("{}s", treatment::KEEP_ALIVE_TIMEOUT_S)),
            // nginx closes after the Nth request, Apache's N serves N + 1: this way both serve equally many.
            ("keepalive_requests", (treatment::MAX_KEEP_ALIVE_REQUESTS + 1).to_string()),
        ];
        let account = unprivileged().map(|(user, group)| format!("{user} {group}"));
        settings.extend(account.map(|account| ("user", account)));
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn launch(&self, site: &Site<'_>) -> io::Result<Launch> {
        let address = free_port()?;
        let file = site.scratch.join("nginx.conf");
        std::fs::write(&file, self.configuration(site, address))?;
        let error_log = site.scratch.join("error.log");
        Ok(Launch {
            program: Nginx::program().map_err(io::Error::other)?,
            arguments: vec![
                "-p".into(),
                site.scratch.into(),
                "-e".into(),
                error_log.clone().into(),
                "-c".into(),
                file.into(),
            ],
            announces: Announces::Knows(address),
            processes: 1 + site.cores.max(1),
            log: site.scratch.join("stderr.log"),
            more_logs: vec![error_log],
            probe_path: site.probe_path.to_owned(),
        })
    }
}
