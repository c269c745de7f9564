//! Static files, as Apache's default handler serves them.

use crate::context::ThreadContext;
use crate::http::head::Head;
use crate::http::response::{Body, FileBody, Length, Piece, Response};
use crate::sys;
use std::path::Path;

/// Serves a file below the document root.
pub fn serve(cx: &ThreadContext<'_>, head: &Head, buffer: &[u8]) -> Response {
    let target = String::from_utf8_lossy(head.target.of(buffer)).into_owned();
    if target.contains("..") {
        return Response::new(404);
    }
    let path = cx.server.root.join(Path::new(target.trim_start_matches('/')));
    match sys::stat(&path) {
        Ok(stat) if stat.is_file() => match sys::open_read(&path) {
            Ok(file) => {
                let mut response = Response::new(200);
                response.length = Length::Known(stat.size);
                if stat.size > 0 {
                    response.body = Body::File(FileBody {
                        file,
                        pieces: vec![Piece::File { offset: 0, length: stat.size }],
                    });
                }
                response
            }
            Err(_) => Response::new(403),
        },
        _ => {
            let mut response = Response::new(404);
            response.length = Length::Known(0);
            response
        }
    }
}
