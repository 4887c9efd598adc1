//! Bytes as text, in the standard alphabet with padding.

/// Appends the bytes of `text`; `false` if it is not base64, when some may be appended.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let padding = text.iter().rev().take(2).take_while(|b| **b == b'=').count();
    if !text.len().is_multiple_of(4) || padding > text.len() {
        return false;
    }
    let mut bits = 0u32;
    for (i, byte) in text[..text.len() - padding].iter().enumerate() {
        let Some(value) = value(*byte) else { return false };
        bits = bits << 6 | u32::from(value);
        if i % 4 > 0 {
            // Every character but the first of four completes a byte.
            let rest = 6 - 2 * (i as u32 % 4);
            out.push((bits >> rest) as u8);
        }
    }
    true
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_groups_are_read() {
        for (text, bytes) in
            [("", ""), ("aA==", "h"), ("aGk=", "hi"), ("aGkh", "hi!"), ("aGkhISE/", "hi!!!?")]
        {
            let mut out = Vec::new();
            assert!(decode(text.as_bytes(), &mut out), "{text}");
            assert_eq!(out, bytes.as_bytes(), "{text}");
        }
        for bad in ["aGk", "aG k=", "!!", "=", "====", "a===", "aGk=aGk=", "aGk\n"] {
            assert!(!decode(bad.as_bytes(), &mut Vec::new()), "{bad}");
        }
    }
}
