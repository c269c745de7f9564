//! Numbers and escapes written into byte buffers, without a heap and without the formatting machinery.

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number in lower-case hexadecimal.
pub fn push_hex(out: &mut Vec<u8>, value: u64) {
    hex_digits(value, |digit| out.push(digit));
}

/// Gives the digits of a number in lower-case hexadecimal, the highest first.
pub fn hex_digits(value: u64, mut take: impl FnMut(u8)) {
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        take(b"0123456789abcdef"[(value >> (place * 4)) as usize & 15]);
    }
}

/// Appends text for use in HTML, as ap_escape_html does.
pub fn push_html(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
}

/// Appends a decoded path as it stands in a URL, as ap_os_escape_path does: lower-case hexadecimal, `&` left alone.
pub fn push_path(out: &mut Vec<u8>, path: &[u8]) {
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                b"0123456789abcdef"[usize::from(byte >> 4)],
                b"0123456789abcdef"[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_the_standard_library() {
        for value in [0, 1, 9, 10, 15, 16, 255, 256, 99_999, u64::MAX / 2, u64::MAX] {
            let (mut decimal, mut hex) = (Vec::new(), Vec::new());
            push_decimal(&mut decimal, value);
            push_hex(&mut hex, value);
            assert_eq!(decimal, value.to_string().into_bytes());
            assert_eq!(hex, format!("{value:x}").into_bytes());
        }
    }

    #[test]
    fn paths_are_escaped_as_in_apaches_redirects() {
        let mut out = Vec::new();
        push_path(&mut out, "/d\u{ef}r &<\"x\">[~;%#?".as_bytes());
        assert_eq!(out, b"/d%c3%afr%20&%3c%22x%22%3e%5b~;%25%23%3f");
    }
}
