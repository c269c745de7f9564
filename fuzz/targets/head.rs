//! Any bytes as a request head: complete, refused or wanting more, the same however the bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpmlab_core::config::Config;
use mpmlab_core::http::head::{Head, Parsed, Span};

/// What a parse says, with the text behind every span.
fn said(head: &Head, parsed: Parsed, buffer: &[u8]) -> impl PartialEq + std::fmt::Debug + use<> {
    let text = |span: Span| {
        assert!(span.start <= span.end && span.end as usize <= buffer.len(), "{span:?} of {}", buffer.len());
        span.of(buffer).to_vec()
    };
    let fields: Vec<_> = head.fields.iter().map(|&(name, value)| (text(name), text(value))).collect();
    let line = (text(head.line), head.method, text(head.method_text), text(head.target), head.version);
    let meaning = (head.body, head.expects_continue, head.says_close, head.says_keep_alive);
    (parsed, line, fields, meaning)
}

fuzz_target!(|data: &[u8]| {
    // The first bytes choose where the input is cut, so that the fuzzer controls it.
    let Some((&[a, b], data)) = data.split_first_chunk::<2>() else { return };
    // Limits that short inputs can reach.
    let config = Config {
        limit_request_line: 120,
        limit_request_fields: 6,
        limit_request_field_size: 80,
        ..Config::default()
    };
    let (mut whole, mut buffer) = (Head::default(), data.to_vec());
    let whole_parsed = whole.parse(&mut buffer, &config);
    if let Parsed::Complete(length) = whole_parsed {
        assert!(length <= data.len());
    }
    let at_once = said(&whole, whole_parsed, &buffer);

    let (mut pieces, mut buffer) = (Head::default(), data.to_vec());
    let cuts = [usize::from(a), usize::from(a) + usize::from(b)];
    for cut in cuts.into_iter().filter(|&cut| cut < data.len()) {
        let parsed = pieces.parse(&mut buffer[..cut], &config);
        match parsed {
            Parsed::Partial { .. } => {}
            // Decided early: more bytes must not change it.
            Parsed::Complete(_) => {
                assert_eq!(said(&pieces, parsed, &buffer), at_once);
                return;
            }
            // As soon as it is too long, for one: then less of it is understood than of the whole.
            Parsed::Refused(early) => {
                let in_the_end = matches!(whole_parsed, Parsed::Refused(_));
                assert!(in_the_end, "refused at {cut} with {early:?}, but {whole_parsed:?} at once");
                return;
            }
        }
    }
    let parsed = pieces.parse(&mut buffer, &config);
    assert_eq!(said(&pieces, parsed, &buffer), at_once);
});
