//! A request head to a response: Apache's request phases, in order.
//!
//! translate (`map`) - access - fixup (directories) - handler. What ends before the handler is answered without looking
//! at the method or, if the client waits for a 100, at the body.

pub mod map;

use crate::config::Handler;
use crate::config::location;
use crate::context::ThreadContext;
use crate::handler::dir::{self, Index};
use crate::handler::error_page::{self, Subject};
use crate::handler::{file, status, trace};
use crate::http::head::{BodyFraming, Detail, Head, Method, Refusal, Version};
use crate::http::response::{Body, Length, Response};
use map::{Found, Place, is_hidden};
use std::borrow::Cow;
use std::net::SocketAddr;

/// What is known about the connection a request came over.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The client.
    pub remote: SocketAddr,
    /// The address it reached us at.
    pub local: SocketAddr,
}

/// Answers a complete head. Never waits on a socket; may open and stat files.
pub fn handle(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], peer: &Peer) -> Response {
    // How far a request got decides about its body.
    let mut response = match answer(cx, head, buffer, peer) {
        Ok(response) => response,
        Err(mut response) => {
            response.early = true;
            *response
        }
    };
    // A body that could be read in two ways is not read at all.
    let ambiguous = head.must_close && head.body == BodyFraming::Chunked;
    response.skip_body |= response.status == 400 || ambiguous;
    let limit = cx.server.config.limit_request_body;
    if let BodyFraming::Counted(length) = head.body
        && limit > 0
        && length > limit
        && !response.skip_body
    {
        // The body is the first thing a handler asks for. An answer from before it is then mentioned in passing.
        let instead_of = response.early.then_some(response.status);
        response = too_large(head, buffer, instead_of);
    } else if head.expects_continue && response.early {
        // The client keeps its body until a 100 that will not come.
        response.skip_body = true;
        response.close = true;
    }
    finish(response, head)
}

/// Answers a head that was refused. `head` holds what was understood before the refusal.
pub fn refuse(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], refusal: Refusal) -> Response {
    let _ = cx;
    let expect = if refusal.status == 417 { head.joined(buffer, "expect") } else { None };
    let subject = Subject {
        method: head.method_text.of(buffer),
        expect: expect.as_deref().unwrap_or_default(),
        detail: refusal.detail,
        instead_of: refusal.instead_of,
        ..Subject::default()
    };
    let mut response = error_page::answer(refusal.status, &subject);
    if refusal.detail == Some(Detail::Body) || refusal.instead_of.is_some() {
        response.length = Length::Unknown;
    }
    // Apache gives the connection up after a 417 without announcing it.
    response.hang_up = refusal.status == 417;
    response.close = !response.hang_up;
    response.skip_body = true;
    finish(response, head)
}

/// What holds for every answer.
fn finish(mut response: Response, head: &Head) -> Response {
    response.close |= head.must_close;
    if head.method == Method::Head {
        response.head_only = true;
        // Apache leaves the length open when there would be no content, and on its own pages.
        if matches!(response.body, Body::Memory(_)) || response.length == Length::Known(0) {
            response.length = Length::Absent;
        }
        response.body = Body::Empty;
    } else if matches!(response.length, Length::Unknown | Length::Chunked) && head.version != Version::Http11
    {
        response.close = true;
    }
    response
}

/// 413 for a body over LimitRequestBody, which stays unread.
fn too_large(head: &Head, buffer: &[u8], instead_of: Option<u16>) -> Response {
    let subject = Subject { method: head.method_text.of(buffer), instead_of, ..Subject::default() };
    let mut response = error_page::answer(413, &subject);
    response.length = Length::Unknown;
    response.skip_body = true;
    response
}

/// The phases. `Err`: one before the handler answered.
fn answer(
    cx: &ThreadContext<'_>,
    head: &Head,
    buffer: &[u8],
    peer: &Peer,
) -> Result<Response, Box<Response>> {
    let config = &cx.server.config;
    let subject = Subject { method: head.method_text.of(buffer), ..Subject::default() };
    let path = head.path.of(buffer);
    if path == b"*" {
        return Ok(empty(None));
    }
    let mut place = match Place::new(&cx.server.root, path) {
        Ok(place) => place,
        Err(status) => return early(error_page::answer(status, &subject)),
    };
    if head.method == Method::Trace {
        return trace(config.trace_enable, head, buffer, &subject);
    }
    let applied = location::apply(&config.locations, place.url_path());
    let mut found = place.look_up();
    let admitted = applied.admits(peer.remote.ip(), peer.local.ip());
    if found == Found::Denied || is_hidden(place.name()) || !admitted {
        return early(error_page::answer(403, &subject));
    }
    if applied.handler == Handler::ServerStatus
        && let Some(response) = status::answer(cx, head, buffer, peer)
    {
        return Ok(response);
    }
    if found == Found::Directory {
        if !place.url_path().ends_with(b"/") {
            return early(dir::redirect(cx, head, buffer, peer, place.url_path()));
        }
        match dir::choose(cx, &mut place) {
            Index::File(stat) => found = Found::File(stat),
            Index::Directory => {
                return early(dir::redirect(cx, head, buffer, peer, place.url_path()));
            }
            Index::Denied => return early(error_page::answer(403, &subject)),
            Index::None => {}
        }
    }
    Ok(default_handler(cx, head, buffer, &place, found, &subject))
}

fn early(response: Response) -> Result<Response, Box<Response>> {
    Err(Box::new(response))
}

/// The default handler: files for GET, HEAD and POST, a list of methods for OPTIONS, a refusal for the rest.
fn default_handler(
    cx: &ThreadContext<'_>,
    head: &Head,
    buffer: &[u8],
    place: &Place,
    found: Found,
    subject: &Subject<'_>,
) -> Response {
    let allow = allowed(cx.server.config.trace_enable);
    match (head.method, found) {
        (Method::Get | Method::Head | Method::Post, Found::File(stat)) => {
            file::serve(cx, head, buffer, place, &stat)
        }
        (Method::Get | Method::Head | Method::Post, Found::Special) => error_page::answer(403, subject),
        (Method::Get | Method::Head | Method::Post | Method::Trace, _) => error_page::answer(404, subject),
        (Method::Options, found) => {
            let mut response = empty(Some(allow));
            response.content_type = match found {
                Found::Directory => Some(Cow::Borrowed("httpd/unix-directory")),
                _ => file::content_type(cx, place).map(Cow::Borrowed),
            };
            response
        }
        (Method::Known | Method::Unknown, _) => {
            let status = if head.method == Method::Known { 405 } else { 501 };
            let mut response = error_page::answer(status, subject);
            response.allow = Some(allow);
            response
        }
    }
}

/// TRACE is answered before any file is looked at.
fn trace(
    enabled: bool,
    head: &Head,
    buffer: &[u8],
    subject: &Subject<'_>,
) -> Result<Response, Box<Response>> {
    if !enabled {
        let mut response = error_page::answer(405, subject);
        response.allow = Some("");
        return early(response);
    }
    if !matches!(head.body, BodyFraming::None | BodyFraming::Counted(0)) {
        let mut response = error_page::answer(413, subject);
        response.skip_body = true;
        return Ok(response);
    }
    Ok(trace::echo(head, buffer))
}

/// 200 without content.
fn empty(allow: Option<&'static str>) -> Response {
    let mut response = Response::new(200);
    response.allow = allow;
    response.length = Length::Known(0);
    response
}

/// The methods served. Apache lists them in an order that changes with each start; this is one of them.
fn allowed(trace_enable: bool) -> &'static str {
    if trace_enable { "HEAD,GET,POST,OPTIONS,TRACE" } else { "HEAD,GET,POST,OPTIONS" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::{Leaving, ThreadContext};
    use crate::http::head::Parsed;
    use crate::server::Server;
    use crate::slot::Slot;

    /// The answer to a request in a root with `file.txt`, `sub/` and `.htaccess`; bodies over 10 bytes are too large.
    fn answered(request: &str) -> Response {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file.txt"), "0123456789").unwrap();
        std::fs::write(root.path().join(".htaccess"), "").unwrap();
        std::fs::create_dir(root.path().join("sub")).unwrap();
        let config =
            Config { document_root: root.path().to_owned(), limit_request_body: 10, ..Config::default() };
        let server = Server::new(config).unwrap();
        let (slot, leaving) = (Slot::default(), Leaving::new());
        let cx = ThreadContext::new(&server, &slot, &leaving);
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let mut buffer = request.as_bytes().to_vec();
        let mut head = Head::default();
        match head.parse(&mut buffer, &server.config) {
            Parsed::Complete(_) => handle(&cx, &head, &buffer, &Peer { remote: address, local: address }),
            Parsed::Refused(refusal) => refuse(&cx, &head, &buffer, refusal),
            Parsed::Partial { .. } => panic!("{request:?} is not whole"),
        }
    }

    #[test]
    fn who_waits_for_a_100_gets_it_only_from_a_handler() {
        let asked = |path: &str| {
            let response = answered(&format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
            ));
            (response.status, response.skip_body, response.close)
        };
        assert_eq!(asked("/file.txt"), (200, false, false));
        assert_eq!(asked("/missing"), (404, false, false));
        assert_eq!(asked("/sub"), (301, true, true));
        assert_eq!(asked("/.htaccess"), (403, true, true));
        assert_eq!(asked("/a%2fb"), (404, true, true));
        assert_eq!(asked("/%zz"), (400, true, true));
    }

    #[test]
    fn too_large_a_body_is_refused_unread() {
        let response = answered("POST /file.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n");
        assert_eq!((response.status, response.length), (413, Length::Unknown));
        assert!(response.skip_body && response.close);
        assert_eq!(answered("POST /file.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n").status, 200);
    }

    #[test]
    fn an_unmet_expectation_hangs_up_without_saying_so() {
        let response = answered("GET /file.txt HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n");
        assert_eq!((response.status, response.hang_up, response.close), (417, true, false));
    }

    #[test]
    fn a_redirect_without_any_name_leads_to_where_the_client_is() {
        let response = answered("GET /sub?q HTTP/1.0\r\n\r\n");
        assert_eq!(response.location.as_deref(), Some(&b"http://127.0.0.1:8080/sub/?q"[..]));
    }

    #[test]
    fn old_clients_learn_an_unknown_length_from_the_close() {
        let range = "Range: bytes=99-\r\n\r\n";
        assert!(answered(&format!("GET /file.txt HTTP/1.0\r\n{range}")).close);
        assert!(!answered(&format!("GET /file.txt HTTP/1.1\r\nHost: a\r\n{range}")).close);
        assert!(!answered(&format!("HEAD /file.txt HTTP/1.0\r\n{range}")).close);
    }
}
