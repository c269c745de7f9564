//! mpmlab itself as a target: the executable's own `serve`, started like anyone's server.

use super::process::{Announces, Launch};
use super::treatment::Model;
use super::{Site, Target, first_line};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// One of mpmlab's models.
#[derive(Debug, Clone)]
pub struct Mpmlab {
    /// Name of the target.
    pub name: &'static str,
    /// The model.
    pub model: Model,
    /// The mpmlab executable.
    pub program: PathBuf,
}

impl Target for Mpmlab {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sentence(&self) -> &'static str {
        match self.model {
            Model::Prefork => "mpmlab, one process per connection",
            Model::Worker => "mpmlab, one thread per connection in a few processes",
            Model::Event => "mpmlab, threads in a few processes, waiting connections kept by a listener",
        }
    }

    fn installed(&self) -> Result<String, String> {
        first_line(&self.program, "--version")
    }

    fn settings(&self, _: &Site<'_>) -> Vec<(String, String)> {
        self.model.directives()
    }

    fn launch(&self, site: &Site<'_>) -> io::Result<Launch> {
        let mut arguments: Vec<OsString> =
            ["serve", "--mpm", self.model.name(), "--listen", "127.0.0.1:0", "--root"]
                .map(OsString::from)
                .to_vec();
        arguments.push(site.root.into());
        for (name, value) in self.settings(site) {
            arguments.extend(["-c".into(), format!("{name} {value}").into()]);
        }
        Ok(Launch {
            program: self.program.clone(),
            arguments,
            announces: Announces::OnStderr,
            processes: self.model.processes(),
            log: site.scratch.join("stderr.log"),
            more_logs: Vec::new(),
            probe_path: site.probe_path.to_owned(),
        })
    }

    fn optional(&self) -> bool {
        false
    }
}
