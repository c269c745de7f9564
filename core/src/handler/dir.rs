//! Directories, as mod_dir treats them: the redirect to the name with a slash, and the choice of an index
//! (htaccess-semantics 6.3).

use crate::context::ThreadContext;
use crate::handler::error_page::{self, Subject};
use crate::http::head::Head;
use crate::http::response::Response;
use crate::http::write::{push_decimal, push_path};
use crate::request::Peer;
use crate::request::map::{Found, Place, is_hidden};
use crate::sys::FileStat;

/// What stands for a directory.
pub enum Index {
    /// This file; the place now names it.
    File(FileStat),
    /// One of the names is itself a directory: on to it.
    Directory,
    /// None, but one is there that may not be seen.
    Denied,
    /// None.
    None,
}

/// Tries the names of DirectoryIndex in order. One that may not be seen does not stop a later one from being served.
pub fn choose(cx: &ThreadContext<'_>, place: &mut Place) -> Index {
    let directory = place.directory_end();
    let mut verdict = Index::None;
    for name in &cx.server.config.directory_index {
        place.set_name(directory, name.as_bytes());
        let found = place.look_up(cx.server.config.knobs.walk_start);
        match found {
            Found::File(_) | Found::Directory | Found::Denied if is_hidden(place.name()) => {
                verdict = Index::Denied
            }
            Found::File(stat) => return Index::File(stat),
            Found::Directory => return Index::Directory,
            Found::Denied | Found::Special => verdict = Index::Denied,
            Found::Missing | Found::Beyond => {}
        }
    }
    place.set_name(directory, b"");
    verdict
}

/// 301 to the same URL with a slash behind its path. The host is the client's own name for us if it gave one
/// (UseCanonicalName Off).
pub fn redirect(
    cx: &ThreadContext<'_>,
    head: &Head,
    buffer: &[u8],
    peer: &Peer,
    url_path: &[u8],
) -> Response {
    let mut location = Vec::with_capacity(128);
    location.extend_from_slice(b"http://");
    match (&head.host, &cx.server.config.server_name) {
        (Some(host), _) => {
            location.extend(host.of(buffer).iter().map(u8::to_ascii_lowercase));
            if let Some(port) = head.port.filter(|&p| p != 80) {
                location.push(b':');
                push_decimal(&mut location, u64::from(port));
            }
        }
        (None, Some(name)) => location.extend_from_slice(name.as_bytes()),
        (None, None) => location.extend_from_slice(
            match peer.local.port() {
                80 if peer.local.is_ipv6() => format!("[{}]", peer.local.ip()),
                80 => peer.local.ip().to_string(),
                _ => peer.local.to_string(),
            }
            .as_bytes(),
        ),
    }
    push_path(&mut location, url_path);
    location.push(b'/');
    if let Some(query) = head.query {
        location.push(b'?');
        location.extend_from_slice(query.of(buffer));
    }
    let mut response = error_page::answer(301, &Subject { location: &location, ..Subject::default() });
    response.location = Some(location);
    response
}
