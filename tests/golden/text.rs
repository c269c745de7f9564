//! Bytes as text that people can read and edit: escapes, and runs written as `{x*1000}`.

/// Shorter runs are written out.
const RUN: usize = 20;

/// Text to bytes.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((inner, count, after)) = repetition(rest) {
            out.extend(unescape(inner).repeat(count));
            rest = after;
            continue;
        }
        let (bytes, after) = one(rest);
        out.extend(bytes);
        rest = after;
    }
    out
}

/// A leading `{text*N}`. A brace that is not the start of one stands for itself.
fn repetition(text: &str) -> Option<(&str, usize, &str)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let (inner, count) = inner.rsplit_once('*')?;
    Some((inner, count.parse().ok()?, after))
}

/// The first character, with its escape resolved, and the rest.
fn one(text: &str) -> (Vec<u8>, &str) {
    let mut chars = text.chars();
    let first = chars.next().expect("not empty");
    if first != '\\' {
        return (first.to_string().into_bytes(), chars.as_str());
    }
    let byte = match chars.next() {
        Some('r') => b'\r',
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('x') => {
            let (digits, after) = chars.as_str().split_at(2);
            return (vec![u8::from_str_radix(digits, 16).unwrap()], after);
        }
        Some(itself @ ('\\' | '{' | '}')) => itself as u8,
        other => panic!("unknown escape {other:?} in {text}"),
    };
    (vec![byte], chars.as_str())
}

/// Bytes to text without line ends in it.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let run = bytes[at..].iter().take_while(|&&b| b == byte).count();
        let single = match byte {
            b'\r' => "\\r".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\t' => "\\t".to_owned(),
            b'\\' | b'{' | b'}' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        if run >= RUN {
            out.push_str(&format!("{{{single}*{run}}}"));
            at += run;
        } else {
            out.push_str(&single);
            at += 1;
        }
    }
    out
}
