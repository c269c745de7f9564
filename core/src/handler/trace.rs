//! TRACE: the request's head as the answer's body.

use crate::http::head::Head;
use crate::http::response::{Body, Length, Response};
use std::borrow::Cow;

/// Echoes the head the way Apache's parser sees it: folds undone, blanks around values gone, and fields of one name
/// merged at the place of the first.
pub fn echo(head: &Head, buffer: &[u8]) -> Response {
    let mut text = Vec::with_capacity(256);
    text.extend_from_slice(head.line.of(buffer));
    text.extend_from_slice(b"\r\n");
    for (at, (name, _)) in head.fields.iter().enumerate() {
        let name = name.of(buffer);
        let repeated =
            head.fields[..at].iter().any(|(earlier, _)| earlier.of(buffer).eq_ignore_ascii_case(name));
        let Some(value) = std::str::from_utf8(name).ok().filter(|_| !repeated) else {
            continue;
        };
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(&head.joined(buffer, value).unwrap_or_default());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let mut response = Response::new(200);
    response.length = Length::Chunked;
    response.content_type = Some(Cow::Borrowed("message/http"));
    response.body = Body::Memory(text);
    response
}
