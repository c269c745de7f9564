//! The temporary directory of a study: test files and the servers' own; gone when the study is, however it ends.

use super::StudyError;
use crate::reason::reason;
use crate::target::watchdog;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// How its name begins.
const PREFIX: &str = "mpmlab-study-";

/// A directory that is removed when dropped, and by the watchdog if this process is killed.
#[derive(Debug)]
pub struct Scratch {
    /// `None` only while it is dropped.
    directory: Option<TempDir>,
}

impl Scratch {
    /// Makes one where temporary files belong. Servers started by root read it as somebody else.
    pub fn create() -> Result<Scratch, StudyError> {
        let create = || -> io::Result<TempDir> {
            // The watchdog needs the whole path, whatever TMPDIR says.
            let parent = std::env::temp_dir().canonicalize()?;
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX).permissions(Permissions::from_mode(0o755)).tempdir_in(parent)
        };
        let directory = create().map_err(|error| {
            let place = std::env::temp_dir();
            StudyError::Failed(format!(
                "{}: no temporary directory can be made there: {}; set TMPDIR to a place where one can",
                place.display(),
                reason(&error)
            ))
        })?;
        watchdog::guard_directory(directory.path());
        Ok(Scratch { directory: Some(directory) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.as_ref().expect("it is there until it is dropped").path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = self.path().to_owned();
        // Released only if it is really gone: what could not be removed now, the watchdog may remove later.
        if self.directory.take().is_some_and(|directory| directory.close().is_ok()) {
            watchdog::release_directory(&path);
        }
    }
}
