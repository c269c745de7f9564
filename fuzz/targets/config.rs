//! Any bytes as a configuration file: taken or refused in one line, and what is taken can be corrected for every model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpmlab_core::config::clamp::{Shape, resolve};
use mpmlab_core::config::syntax::{quote, word};
use mpmlab_core::config::{Environment, Source, load};

fuzz_target!(|data: &[u8]| {
    let mut environment = Environment::for_model("event");
    environment.defines.push("ON".to_owned());
    environment.variables.insert("USER".to_owned(), "www-data".to_owned());
    let source = Source::Text { origin: "fuzz".to_owned(), text: data.to_vec() };
    match load(&[source], &environment) {
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz") && !line.contains(char::is_control), "{line:?}");
        }
        Ok((config, _)) => {
            for shape in [Shape::PREFORK, Shape::WORKER, Shape::EVENT] {
                let (effective, _) = resolve(&config.mpm, shape);
                assert!((1..=effective.server_limit).contains(&effective.limit), "{effective:?}");
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        // Each line on its own too: in a file the first error hides what stands behind it.
        for line in text.lines().take(4) {
            let line = Source::Line { origin: "-c".to_owned(), text: line.to_owned() };
            if let Err(error) = load(&[line], &environment) {
                assert!(error.to_string().starts_with("-c"), "{error}");
            }
        }
        let mut rest = text;
        let first = word(&mut rest);
        assert_eq!(word(&mut quote(&first).as_str()), first, "a quoted word reads back");
    }
});
