//! mpmlab itself as a target: the executable's own `serve`, started like anyone's server.

use super::process::{Announces, Launch};
use super::treatment::Pool;
use super::{Site, Target, first_line};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// One of the executable's models, as its `mechanisms --json` describes it. Whatever is registered there is a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// For `--mpm`, and the target's name.
    pub name: String,
    /// What it is, in a sentence.
    pub sentence: String,
    /// What gives it its size.
    pub pool: Pool,
}

/// One of mpmlab's models.
#[derive(Debug, Clone)]
pub struct Mpmlab {
    /// The model.
    pub model: Model,
    /// The mpmlab executable.
    pub program: PathBuf,
    /// Name of the target: the model's, with the knobs behind it.
    pub name: String,
    /// Knobs that are set, `NAME=VALUE`.
    pub knobs: Vec<String>,
}

impl Target for Mpmlab {
    fn name(&self) -> &str {
        &self.name
    }

    fn sentence(&self) -> String {
        let knobs: String = self.knobs.iter().map(|knob| format!(", with {knob}")).collect();
        format!("mpmlab, {}{knobs}", self.model.sentence)
    }

    fn installed(&self) -> Result<String, String> {
        first_line(&self.program, "--version")
    }

    fn settings(&self, site: &Site<'_>) -> Vec<(String, String)> {
        let knobs = self.knobs.iter().filter_map(|knob| knob.split_once('='));
        let knobs = knobs.map(|(name, value)| (format!("--set {name}"), value.to_owned()));
        self.model.pool.directives(site.start).into_iter().chain(knobs).collect()
    }

    fn launch(&self, site: &Site<'_>) -> io::Result<Launch> {
        let mut arguments: Vec<OsString> =
            ["serve", "--mpm", &self.model.name, "--listen", "127.0.0.1:0", "--root"]
                .map(OsString::from)
                .to_vec();
        arguments.push(site.root.into());
        for (name, value) in self.model.pool.directives(site.start) {
            arguments.extend(["-c".into(), format!("{name} {value}").into()]);
        }
        arguments.extend(self.knobs.iter().flat_map(|knob| ["--set".into(), knob.into()]));
        Ok(Launch {
            program: self.program.clone(),
            arguments,
            announces: Announces::OnStderr,
            processes: self.model.pool.processes(site.start),
            log: site.scratch.join("stderr.log"),
            more_logs: Vec::new(),
            probe_path: site.probe_path.to_owned(),
        })
    }

    fn optional(&self) -> bool {
        false
    }
}
