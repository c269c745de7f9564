//! Apache's built-in pages for redirects and errors, word for word (recorded from 2.4.71; ServerSignature Off).

use crate::http::head::Detail;
use crate::http::response::{Body, Length, Response, status_text};
use crate::http::write::push_html;
use std::borrow::Cow;

/// What a page may mention besides its status.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The request's method.
    pub method: &'a [u8],
    /// Where a redirect leads.
    pub location: &'a [u8],
    /// The expectation that was not met.
    pub expect: &'a [u8],
    /// Which limit a 400 is about.
    pub detail: Option<Detail>,
    /// The answer that this error took the place of.
    pub instead_of: Option<u16>,
}

/// A response that is such a page. Closes the connection where the status demands it.
pub fn answer(status: u16, subject: &Subject<'_>) -> Response {
    let mut response = Response::new(status);
    let page = page(status, subject);
    response.length = Length::Known(page.len() as u64);
    response.body = Body::Memory(page);
    response.content_type = Some(Cow::Borrowed("text/html; charset=iso-8859-1"));
    response.close = closes(status);
    response
}

/// Statuses after which the rest of the input cannot be trusted, or is not worth reading (htaccess-semantics 7.4).
fn closes(status: u16) -> bool {
    matches!(status, 400 | 408 | 411 | 413 | 414 | 500 | 501 | 503)
}

/// The page's text.
pub fn page(status: u16, subject: &Subject<'_>) -> Vec<u8> {
    let title = status_text(status).unwrap_or("500 Internal Server Error");
    let heading = title.get(4..).unwrap_or(title);
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(
        b"<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
          <html><head>\n<title>",
    );
    out.extend_from_slice(title.as_bytes());
    out.extend_from_slice(b"</title>\n</head><body>\n<h1>");
    out.extend_from_slice(heading.as_bytes());
    out.extend_from_slice(b"</h1>\n");
    paragraph(status, subject, &mut out);
    if let Some(first) = subject.instead_of.and_then(status_text) {
        out.extend_from_slice(b"<p>Additionally, a ");
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(
            b"\nerror was encountered while trying to use an ErrorDocument to handle the request.</p>\n",
        );
    }
    out.extend_from_slice(b"</body></html>\n");
    out
}

/// What the page says about its status.
fn paragraph(status: u16, subject: &Subject<'_>, out: &mut Vec<u8>) {
    // A text with one gap, and what goes into it.
    let (before, gap, after): (&str, &[u8], &str) = match status {
        301 | 302 | 307 | 308 => {
            ("<p>The document has moved <a href=\"", subject.location, "\">here</a>.</p>\n")
        }
        303 => {
            ("<p>The answer to your request is located <a href=\"", subject.location, "\">here</a>.</p>\n")
        }
        400 => {
            let note: &[u8] = match subject.detail {
                Some(Detail::TooManyFields) => {
                    b"The number of request header fields exceeds this server's limit."
                }
                Some(Detail::FieldTooLong) => b"Size of a request header field exceeds server limit.",
                Some(Detail::Body) | None => b"",
            };
            ("<p>Your browser sent a request that this server could not understand.<br />\n", note, "</p>\n")
        }
        403 => ("<p>You don't have permission to access this resource.</p>\n", b"", ""),
        404 => ("<p>The requested URL was not found on this server.</p>\n", b"", ""),
        405 => ("<p>The requested method ", subject.method, " is not allowed for this URL.</p>\n"),
        408 => ("<p>Server timeout waiting for the HTTP request from the client.</p>\n", b"", ""),
        412 => ("<p>The precondition on the request\nfor this URL evaluated to false.</p>\n", b"", ""),
        413 => (
            "The requested resource does not allow request data with ",
            subject.method,
            " requests, or the amount of data provided in\nthe request exceeds the capacity limit.\n",
        ),
        414 => (
            "<p>The requested URL's length exceeds the capacity\nlimit for this server.<br />\n</p>\n",
            b"",
            "",
        ),
        416 => (
            "<p>None of the range-specifier values in the Range\nrequest-header field overlap the current extent\n\
             of the selected resource.</p>\n",
            b"",
            "",
        ),
        417 => (
            "<p>The expectation given in the Expect request-header\nfield could not be met by this server.\n\
             The client sent<pre>\n    Expect: ",
            subject.expect,
            "\n</pre>\n</p><p>Only the 100-continue expectation is supported.</p>\n",
        ),
        501 => ("<p>", subject.method, " not supported for current URL.<br />\n</p>\n"),
        503 => (
            "<p>The server is temporarily unable to service your\nrequest due to maintenance downtime or capacity\n\
             problems. Please try again later.</p>\n",
            b"",
            "",
        ),
        _ => (
            "<p>The server encountered an internal error or\nmisconfiguration and was unable to complete\n\
             your request.</p>\n<p>Please contact the server administrator at \n ",
            b"[no address given]",
            " to inform them of the time this error occurred,\n and the actions you performed just before this error.\
             </p>\n<p>More information about this error may be available\nin the server error log.</p>\n",
        ),
    };
    out.extend_from_slice(before.as_bytes());
    push_html(out, gap);
    out.extend_from_slice(after.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// htaccess-semantics 7.4 lists the lengths of these pages; the golden answers hold the texts themselves.
    #[test]
    fn pages_have_the_measured_lengths() {
        let subject =
            Subject { method: b"POST", location: b"http://example.test/dir/", ..Subject::default() };
        for (status, length) in [
            (400, 266),
            (403, 239),
            (404, 236),
            (405, 257 + 4),
            (408, 261),
            (412, 273),
            (414, 288),
            (416, 354),
            (500, 571),
            (501, 239 + 4),
            (503, 339),
            (301, 248 + 24),
        ] {
            assert_eq!(page(status, &subject).len(), length, "{status}");
        }
    }

    #[test]
    fn what_the_client_sent_is_escaped() {
        let subject = Subject { expect: b"<script>\"&", ..Subject::default() };
        let page = String::from_utf8(page(417, &subject)).unwrap();
        assert!(page.contains("Expect: &lt;script&gt;&quot;&amp;\n"), "{page}");
    }

    #[test]
    fn only_some_statuses_close() {
        for (status, closes) in
            [(400, true), (404, false), (405, false), (413, true), (501, true), (301, false)]
        {
            assert_eq!(answer(status, &Subject::default()).close, closes, "{status}");
        }
    }
}
