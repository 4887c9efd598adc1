//! What a string means.

use super::scan::Quoted;
use memchr::memchr;

/// Appends what a checked string means. A lone surrogate becomes `?`, as in Spark.
pub(super) fn unescape(quoted: Quoted<'_>, out: &mut Vec<u8>) {
    let mut rest = quoted.raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let code = rest.get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = unescape_unit(rest, out),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
}

/// Appends the character of the four digits at the start of `rest`, and of a second escape if
/// both are one pair of surrogates; returns what follows.
fn unescape_unit<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (unit, after) = hex4(rest);
    let (character, after) = match (unit, after) {
        (0xd800..=0xdbff, [b'\\', b'u', low @ ..]) => match hex4(low) {
            (second @ 0xdc00..=0xdfff, after) => {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                (char::from_u32(code), after)
            }
            _ => (None, after),
        },
        _ => (char::from_u32(unit), after),
    };
    let mut bytes = [0; 4];
    out.extend_from_slice(character.unwrap_or('?').encode_utf8(&mut bytes).as_bytes());
    after
}

fn hex4(text: &[u8]) -> (u32, &[u8]) {
    let (digits, after) = text.split_at(text.len().min(4));
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 16 + char::from(*digit).to_digit(16).unwrap_or_default());
    (value, after)
}

#[cfg(test)]
mod tests {
    use super::super::scan::Cursor;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_mean_what_a_full_parser_says(text in "\\PC{0,12}|(\\\\[nrtbf/\\\\\"]|\\\\u00[0-9a-f]{2}|[a-z]){0,9}") {
            // Jackson lets single quotes be escaped.
            prop_assume!(!text.contains("\\'"));
            let quoted = format!("\"{text}\"");
            let expected = serde_json::from_str::<String>(&quoted);
            let mut cursor = Cursor::new(quoted.as_bytes());
            match cursor.quoted() {
                Ok(found) if cursor.done() => {
                    let mut out = Vec::new();
                    unescape(found, &mut out);
                    prop_assert_eq!(String::from_utf8(out).unwrap(), expected.unwrap());
                }
                _ => prop_assert!(expected.is_err()),
            }
        }
    }
}
