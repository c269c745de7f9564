//! Static files, as Apache's default handler serves them: validators, conditions, ranges (htaccess-semantics 7.1 to 7.3).

use crate::context::ThreadContext;
use crate::handler::error_page::{self, Subject};
use crate::http::conditional::{Validators, Verdict};
use crate::http::etag::ETag;
use crate::http::head::{Head, Method, Version};
use crate::http::range::{self, Wanted};
use crate::http::response::{Body, FileBody, Length, Piece, Response};
use crate::request::map::Place;
use crate::sys::{self, FileStat};
use std::borrow::Cow;

/// Serves a regular file that was just found. Costs one `openat`.
pub fn serve(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8], place: &Place, stat: &FileStat) -> Response {
    // Opened first, like Apache: who may not read a file learns nothing from conditions on it.
    let Ok(file) = sys::open_read(place.path()) else {
        return error_page::answer(403, &Subject::default());
    };
    let now = cx.clock.now_s();
    let validators = Validators {
        etag: ETag::of_file(stat.size, stat.mtime_us, cx.clock.now_us()),
        modified: stat.mtime_us.div_euclid(1_000_000),
        now,
    };
    let mut response = Response::new(200);
    // A date in the future is told as the present (RFC 9110 section 8.8.2.1).
    response.last_modified = Some(validators.modified.min(now));
    response.etag = Some(validators.etag);
    response.accept_ranges = true;
    match validators.judge(head, buffer) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            response.status = 304;
            return response;
        }
        Verdict::Failed => {
            response.status = 412;
            response.content_type = content_type(cx, place).map(Cow::Borrowed);
            // Apache forgets the content but, for HEAD, not its length.
            response.length = Length::Known(if head.method == Method::Head { stat.size } else { 0 });
            return response;
        }
    }
    let content_type = content_type(cx, place);
    response.content_type = content_type.map(Cow::Borrowed);
    response.length = Length::Known(stat.size);
    if stat.size == 0 {
        return response;
    }
    let mut pieces = Vec::new();
    match wanted(head, buffer, &validators, stat.size) {
        Wanted::Whole => pieces.push(Piece::File { offset: 0, length: stat.size }),
        Wanted::Unsatisfiable => {
            let mut response = error_page::answer(416, &Subject::default());
            response.length = Length::Unknown;
            return response;
        }
        Wanted::Parts(parts) => {
            response.status = 206;
            if let [part] = *parts {
                let length = part.last - part.first + 1;
                response.length = Length::Known(length);
                response.content_range = Some(range::content_range(part, stat.size));
                pieces.push(Piece::File { offset: part.first, length });
            } else {
                let (parts, length) = range::multipart(&parts, stat.size, content_type);
                response.length = Length::Known(length);
                response.content_type =
                    Some(Cow::Owned(format!("multipart/byteranges; boundary={}", range::boundary())));
                pieces = parts;
            }
        }
    }
    response.body = Body::File(FileBody { file, pieces });
    response
}

/// What the Range field asks for, if it counts at all. HTTP/0.9 has no way to say that an answer is partial.
fn wanted(head: &Head, buffer: &[u8], validators: &Validators, size: u64) -> Wanted {
    match head.field(buffer, "range") {
        None => Wanted::Whole,
        Some(_) if head.version == Version::Http09 || !validators.range_applies(head, buffer) => {
            Wanted::Whole
        }
        Some(_) => range::parse(&head.joined(buffer, "range").unwrap_or_default(), size),
    }
}

/// The type that mod_mime gives a place.
pub fn content_type(cx: &ThreadContext<'_>, place: &Place) -> Option<&'static str> {
    cx.server.mime.of_bytes(place.name())
}
