//! What the system said when it refused something, as all of mpmlab's messages put it.
use std::io;

/// The system's reason without Rust's "(os error N)", in lower case as within a sentence: `no such file or directory`.
/// Errors that are not the system's are passed on as they are.
///
/// ```
/// use mpmlab_experiments::reason::reason;
/// assert_eq!(reason(&std::io::Error::from_raw_os_error(2)), "no such file or directory");
/// assert_eq!(reason(&std::io::Error::other("No port is free")), "No port is free");
/// ```
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(_) => text.split(" (os error").next().unwrap_or(&text).to_lowercase(),
        None => text,
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
