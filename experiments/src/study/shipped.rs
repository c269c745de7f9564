//! The studies that come with mpmlab, and finding the one that is meant: by name, or a file.

use super::StudyError;
use super::file::{self, Study};
use super::nearest::nearest;
use crate::reason::reason;
use std::path::Path;

/// Name and text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../../studies/quick.toml")),
    ("prefork-beside-apache", include_str!("../../studies/prefork-beside-apache.toml")),
    ("worker-beside-apache", include_str!("../../studies/worker-beside-apache.toml")),
    ("shedding", include_str!("../../studies/shedding.toml")),
    ("event-beside-apache", include_str!("../../studies/event-beside-apache.toml")),
];

/// The study of that name, or the one in the file of that name; its targets must be among `targets`.
pub fn load(name: &str, targets: &[&str]) -> Result<Study, StudyError> {
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return file::parse(&format!("{name}.toml"), text, Some(targets));
    }
    let path = Path::new(name);
    if path.exists() {
        let text = std::fs::read_to_string(path)
            .map_err(|error| StudyError::Usage(format!("{name}: cannot be read: {}", reason(&error))))?;
        return file::parse(name, &text, Some(targets));
    }
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(name, &names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("name a file, or one of: {}", names.join(", ")),
    };
    Err(StudyError::Usage(format!("no study and no file is called `{name}`; {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_study_is_sound_and_is_called_what_its_file_says() {
        let known = crate::target::known(Path::new(""), &[]);
        let others = known.iter().map(|target| target.name());
        let targets: Vec<&str> = ["prefork", "worker", "event"].into_iter().chain(others).collect();
        for (name, _) in SHIPPED {
            let study = load(name, &targets).unwrap();
            assert_eq!(study.name, *name);
            assert!(study.question.ends_with('?'), "{name} asks no question");
        }
    }

    #[test]
    fn a_mistyped_study_is_refused_with_the_nearest_name() {
        let error = load("quikc", &[]).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains("did you mean `quick`"), "{error}");
    }
}
