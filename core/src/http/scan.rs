//! Finding a byte fast, in safe code: whole blocks are ruled out first, then eight bytes at a time are looked at.

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
const BLOCK: usize = 32;

/// Where `needle` first occurs.
#[inline]
pub fn find(haystack: &[u8], needle: u8) -> Option<usize> {
    let pattern = ONES * u64::from(needle);
    let mut at = 0;
    // Without an early exit the compiler turns the loop over a block into a few vector instructions.
    while let Some(block) = haystack.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        if block.iter().fold(false, |hit, &b| hit | (b == needle)) {
            break;
        }
        at += BLOCK;
    }
    while let Some(chunk) = haystack.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        // A byte of `x` is zero exactly where the needle is; the classic test leaves the lowest such byte's top bit as
        // the lowest bit set.
        let x = u64::from_le_bytes(*chunk) ^ pattern;
        let hit = x.wrapping_sub(ONES) & !x & HIGH;
        if hit != 0 {
            return Some(at + hit.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    haystack[at..].iter().position(|&b| b == needle).map(|i| at + i)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn agrees_with_the_obvious_way_at_every_offset_and_length() {
        for length in 0..100 {
            for at in 0..=length {
                let mut bytes = vec![0x0b_u8; length];
                bytes.iter_mut().enumerate().for_each(|(i, b)| *b = if i % 3 == 0 { 0x8a } else { 0x0b });
                if at < length {
                    bytes[at] = b'\n';
                }
                assert_eq!(find(&bytes, b'\n'), bytes.iter().position(|&b| b == b'\n'), "{bytes:?}");
            }
        }
    }
}
