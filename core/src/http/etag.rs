//! Entity tags as FileETag's default makes them, and the lists of them that conditional fields carry.

use super::write::hex_digits;

/// `"<size>-<mtime>"` in hexadecimal, made without a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag {
    text: [u8; 40],
    length: u8,
}

impl ETag {
    /// The tag of a file. `now_us` is the time of the request: what was changed less than a second before it may change
    /// again within the same tick, so its tag is weak.
    pub fn of_file(size: u64, mtime_us: i64, now_us: i64) -> ETag {
        let mut tag = ETag { text: [0; 40], length: 0 };
        if now_us.saturating_sub(mtime_us) <= 1_000_000 {
            tag.push(b'W');
            tag.push(b'/');
        }
        tag.push(b'"');
        hex_digits(size, |digit| tag.push(digit));
        tag.push(b'-');
        hex_digits(mtime_us as u64, |digit| tag.push(digit));
        tag.push(b'"');
        tag
    }

    /// W/, two quotes, a dash and two numbers of 16 digits are 37 bytes: there is room.
    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.length)] = byte;
        self.length += 1;
    }

    /// The tag with its quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }

    /// The tag with its quotes.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("only ASCII is ever put in")
    }

    /// Whether it may be compared byte for byte only loosely.
    pub fn is_weak(&self) -> bool {
        self.text[0] == b'W'
    }
}

/// Whether a comma-separated list of tags holds this one. A weak comparison (RFC 9110 section 8.8.3.2) ignores `W/` on
/// both sides; a strong one never matches where either is weak.
pub fn list_holds(list: &[u8], tag: &ETag, weakly: bool) -> bool {
    let opaque = |t: &'_ [u8]| -> (bool, usize) { if t.starts_with(b"W/") { (true, 2) } else { (false, 0) } };
    let (_, skip) = opaque(tag.as_bytes());
    let wanted = &tag.as_bytes()[skip..];
    let mut rest = list;
    while !rest.is_empty() {
        let item_end = end_of_item(rest);
        let item = rest[..item_end].trim_ascii();
        let (weak, skip) = opaque(item);
        if &item[skip..] == wanted && (weakly || !(weak || tag.is_weak())) {
            return true;
        }
        rest = &rest[(item_end + 1).min(rest.len())..];
    }
    false
}

/// Where the first item ends: at a comma outside quotes.
fn end_of_item(list: &[u8]) -> usize {
    let mut quoted = false;
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
    }
    list.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_apache_sends() {
        assert_eq!(ETag::of_file(0x400, 0x60dedc0582f35, i64::MAX).as_str(), "\"400-60dedc0582f35\"");
        assert_eq!(ETag::of_file(4, -86_400_000_000, 0).as_str(), "\"4-ffffffebe228a000\"");
        assert!(ETag::of_file(7, 5_000_000, 5_999_999).is_weak());
        assert!(!ETag::of_file(7, 5_000_000, 6_000_001).is_weak());
        assert_eq!(ETag::of_file(u64::MAX, -1, -1).as_bytes().len(), 37);
    }

    #[test]
    fn is_found_in_lists() {
        let tag = ETag::of_file(1, 2, i64::MAX);
        for (list, weakly, strongly) in [
            ("\"1-2\"", true, true),
            ("\"a\" , \"1-2\"", true, true),
            ("W/\"1-2\"", true, false),
            ("\"a,\", W/\"1-2\"", true, false),
            ("1-2", false, false),
            ("\"x,\"1-2\"", false, false),
            ("", false, false),
            (",,", false, false),
        ] {
            assert_eq!(list_holds(list.as_bytes(), &tag, true), weakly, "{list}");
            assert_eq!(list_holds(list.as_bytes(), &tag, false), strongly, "{list}");
        }
    }
}
