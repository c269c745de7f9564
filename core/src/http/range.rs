//! Byte ranges (RFC 9110 section 14), read, merged and limited as Apache's byterange filter does (htaccess-semantics 7.3).

use super::response::Piece;
use super::write::push_decimal;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// First and last byte, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub first: u64,
    /// Last byte.
    pub last: u64,
}

impl ByteRange {
    fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a Range field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing that counts: the whole file.
    Whole,
    /// These parts; at least one.
    Parts(Vec<ByteRange>),
    /// Only bytes that are not there: 416.
    Unsatisfiable,
}

/// MaxRanges, MaxRangeOverlaps and MaxRangeReversals: their defaults. Who asks for more gets the whole file.
const MAX_RANGES: usize = 200;
const MAX_OVERLAPS: u32 = 20;
const MAX_REVERSALS: u32 = 20;

/// Reads the field's value for a file of `size` bytes, which must not be empty.
pub fn parse(value: &[u8], size: u64) -> Wanted {
    let Some(specs) = value.get(6..).filter(|_| value[..6].eq_ignore_ascii_case(b"bytes=")) else {
        return Wanted::Whole;
    };
    let mut parts = Vec::new();
    let mut open: Option<ByteRange> = None;
    let (mut unsatisfiable, mut overlaps, mut reversals) = (false, 0, 0);
    // Commas in a row count as one; a field that begins with one has no first specification and so none at all.
    if specs.first() == Some(&b',') {
        return Wanted::Whole;
    }
    for spec in specs.split(|&b| b == b',').filter(|spec| !spec.is_empty()) {
        // Everything from the start: nothing else matters any more, not even what is not understood.
        if let Some(zeros) = spec.strip_suffix(b"-").filter(|zeros| !zeros.is_empty())
            && zeros.iter().all(|&b| b == b'0')
        {
            return Wanted::Parts(vec![ByteRange { first: 0, last: size - 1 }]);
        }
        // One specification that is not understood voids the field.
        let Some(asked) = spec_of(spec, size) else {
            return Wanted::Whole;
        };
        let Some(range) = asked else {
            unsatisfiable = true;
            continue;
        };
        let Some(last) = &mut open else {
            open = Some(range);
            continue;
        };
        // Ranges that overlap or touch the one before are merged with it.
        let mut merged = range.first >= last.first && range.last <= last.last;
        if range.first < last.first && range.last + 1 >= last.first {
            last.first = range.first;
            reversals += 1;
            merged = true;
        }
        if range.last >= last.last && range.first <= last.last + 1 {
            last.last = range.last;
            merged = true;
        }
        if merged {
            overlaps += 1;
        } else {
            reversals += u32::from(range.first < last.first);
            parts.push(*last);
            open = Some(range);
        }
    }
    parts.extend(open);
    if parts.is_empty() {
        return if unsatisfiable { Wanted::Unsatisfiable } else { Wanted::Whole };
    }
    let total = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.length()));
    if total > size || parts.len() > MAX_RANGES || overlaps > MAX_OVERLAPS || reversals > MAX_REVERSALS {
        return Wanted::Whole;
    }
    Wanted::Parts(parts)
}

/// One `a-b`, `a-` or `-n`. Outer `None`: not understood; inner: understood, but behind the end.
fn spec_of(spec: &[u8], size: u64) -> Option<Option<ByteRange>> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (before, after) = (&spec[..dash], &spec[dash + 1..]);
    let (first, last) = if before.is_empty() {
        let suffix = number(after)?;
        if suffix < 1 {
            return None;
        }
        (size.saturating_sub(suffix), size - 1)
    } else {
        let first = number(before)?;
        let last = if after.is_empty() { size - 1 } else { number(after)? };
        if !after.is_empty() && first > last {
            return None;
        }
        (first, last.min(size - 1))
    };
    Some((first < size).then_some(ByteRange { first, last }))
}

/// Digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))?;
    (value <= i64::MAX as u64).then_some(value)
}

/// `bytes a-b/n`.
pub fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.first, range.last)
}

/// The pieces of a multipart/byteranges body, and its length.
pub fn multipart(parts: &[ByteRange], size: u64, content_type: Option<&str>) -> (Vec<Piece>, u64) {
    let mut pieces = Vec::with_capacity(parts.len() * 2 + 1);
    let mut length = 0;
    for &part in parts {
        let mut text = Vec::with_capacity(128);
        text.extend_from_slice(b"\r\n--");
        text.extend_from_slice(boundary().as_bytes());
        if let Some(content_type) = content_type {
            text.extend_from_slice(b"\r\nContent-type: ");
            text.extend_from_slice(content_type.as_bytes());
        }
        text.extend_from_slice(b"\r\nContent-range: bytes ");
        push_decimal(&mut text, part.first);
        text.push(b'-');
        push_decimal(&mut text, part.last);
        text.push(b'/');
        push_decimal(&mut text, size);
        text.extend_from_slice(b"\r\n\r\n");
        length += text.len() as u64 + part.length();
        pieces.push(Piece::Memory(text));
        pieces.push(Piece::File { offset: part.first, length: part.length() });
    }
    let end = [b"\r\n--", boundary().as_bytes(), b"--\r\n"].concat();
    length += end.len() as u64;
    pieces.push(Piece::Memory(end));
    (pieces, length)
}

/// The separator of this process's multipart bodies: 16 hexadecimal digits that nobody could know when the files were
/// written.
pub fn boundary() -> &'static str {
    static BOUNDARY: OnceLock<String> = OnceLock::new();
    BOUNDARY.get_or_init(|| {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let mixed =
            (nanos ^ u64::from(std::process::id()).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{mixed:016x}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(value: &str, size: u64) -> Vec<(u64, u64)> {
        match parse(value.as_bytes(), size) {
            Wanted::Parts(parts) => parts.into_iter().map(|p| (p.first, p.last)).collect(),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn reads_each_form_and_clips_it() {
        assert_eq!(parts("bytes=0-0", 13), [(0, 0)]);
        assert_eq!(parts("BYTES=2-5000", 13), [(2, 12)]);
        assert_eq!(parts("bytes=4-", 13), [(4, 12)]);
        assert_eq!(parts("bytes=0-1,,4-5,", 13), [(0, 1), (4, 5)]);
        assert_eq!(parts("bytes=-3", 13), [(10, 12)]);
        assert_eq!(parts("bytes=-5000", 13), [(0, 12)]);
        assert_eq!(parts("bytes=5000-,0-1", 13), [(0, 1)]);
    }

    #[test]
    fn ignores_what_is_not_understood() {
        for value in [
            "bytes",
            "bytes=",
            "lines=0-1",
            "bytes=5",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=0-1,x",
            "bytes=,0-1,,",
            "bytes=-0",
            "bytes= 0-1",
            "bytes=\t0-1",
            "bytes=+0-1",
            "bytes=0-1, 4-5",
            "bytes=--5",
            "bytes=0-99999999999999999999999",
            "bytes=0-0, 5-5 ,-1",
        ] {
            assert_eq!(parse(value.as_bytes(), 13), Wanted::Whole, "{value}");
        }
        assert_eq!(parse(b"bytes=13-", 13), Wanted::Unsatisfiable);
    }

    #[test]
    fn merges_neighbours_and_keeps_the_order_of_others() {
        assert_eq!(parts("bytes=0-50,40-60", 1000), [(0, 60)]);
        assert_eq!(parts("bytes=0-1,2-3", 1000), [(0, 3)]);
        assert_eq!(parts("bytes=2-3,0-1", 1000), [(0, 3)]);
        assert_eq!(parts("bytes=100-101,0-1", 1000), [(100, 101), (0, 1)]);
        assert_eq!(parts("bytes=1-2,0-", 1000), [(0, 999)]);
        assert_eq!(parts("bytes=5-6,00-,x", 1000), [(0, 999)]);
    }

    #[test]
    fn limits_what_is_asked_at_once() {
        let overlapping = |n: usize| format!("bytes=0-1{}", ",1-1".repeat(n));
        assert_eq!(parts(&overlapping(20), 13), [(0, 1)]);
        assert_eq!(parse(overlapping(21).as_bytes(), 13), Wanted::Whole);
        let back_and_forth = |n: usize| format!("bytes=9-9{}", ",5-5,9-9".repeat(n));
        assert_eq!(parts(&back_and_forth(20), 1000).len(), 41);
        assert_eq!(parse(back_and_forth(21).as_bytes(), 1000), Wanted::Whole);
        let distinct = |n: u32| {
            format!("bytes={}", (0..n).map(|i| format!("{}-{}", i * 4, i * 4)).collect::<Vec<_>>().join(","))
        };
        assert_eq!(parts(&distinct(200), 10_000).len(), 200);
        assert_eq!(parse(distinct(201).as_bytes(), 10_000), Wanted::Whole);
        assert_eq!(parse(b"bytes=0-8,10-12,0-8", 13), Wanted::Whole, "more than the file");
    }

    #[test]
    fn multipart_length_is_the_sum_of_its_pieces() {
        let (pieces, length) =
            multipart(&[ByteRange { first: 0, last: 3 }, ByteRange { first: 9, last: 9 }], 10, None);
        let sum: u64 = pieces
            .iter()
            .map(|p| match p {
                Piece::Memory(bytes) => bytes.len() as u64,
                Piece::File { length, .. } => *length,
            })
            .sum();
        assert_eq!(length, sum);
        assert_eq!(pieces.len(), 5);
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_file_and_sum_to_no_more(value in "bytes=([0-9]{0,3}-[0-9]{0,3},?){0,8}", size in 1_u64..500) {
            if let Wanted::Parts(parts) = parse(value.as_bytes(), size) {
                prop_assert!(!parts.is_empty());
                prop_assert!(parts.iter().all(|p| p.first <= p.last && p.last < size));
                prop_assert!(parts.iter().map(|p| p.length()).sum::<u64>() <= size);
            }
        }
    }
}
