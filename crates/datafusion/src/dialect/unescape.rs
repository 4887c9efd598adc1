//! What stands between the quotes of a string, with its escapes read as Spark reads them.

/// The text of a string literal. `\u0041`, `\U00000041` and `\101` (octal, to `\177`) are
/// characters by number; `\%` and `\_` keep their backslash, for LIKE; of other characters behind
/// a backslash few mean anything else.
pub(super) fn unescaped(held: &str, quote: char) -> String {
    // Half a character of UTF-16 may be written by its number, and the other half behind it.
    let mut out: Vec<u16> = Vec::with_capacity(held.len());
    let mut rest = held.chars();
    while let Some(c) = rest.next() {
        if c == '\\' {
            rest = escape(rest.as_str(), &mut out).chars();
        } else {
            if c == quote {
                rest.next();
            }
            push(c, &mut out);
        }
    }
    // A half alone has no bytes in UTF-8; Java writes a question mark.
    char::decode_utf16(out).map(|c| c.unwrap_or('?')).collect()
}

/// Reads what stands behind a backslash; gives what follows it.
fn escape<'a>(text: &'a str, out: &mut Vec<u16>) -> &'a str {
    if let Some((units, rest)) = by_number(text) {
        out.extend(units);
        return rest;
    }
    let mut rest = text.chars();
    let Some(c) = rest.next() else { return text };
    if matches!(c, '%' | '_') {
        push('\\', out);
    }
    let meant = match c {
        '0' => '\0',
        'b' => '\u{8}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'Z' => '\u{1a}',
        other => other,
    };
    push(meant, out);
    rest.as_str()
}

fn push(c: char, out: &mut Vec<u16>) {
    out.extend_from_slice(c.encode_utf16(&mut [0; 2]));
}

/// A character by its number, and what follows.
fn by_number(text: &str) -> Option<(Vec<u16>, &str)> {
    if let Some(digits) = text.strip_prefix('u') {
        let (number, rest) = digits_of(digits, 4, 16)?;
        return Some((vec![u16::try_from(number).ok()?], rest));
    }
    if let Some(digits) = text.strip_prefix('U') {
        let (number, rest) = digits_of(digits, 8, 16)?;
        let c = char::from_u32(number).unwrap_or('?');
        return Some((c.encode_utf16(&mut [0; 2]).to_vec(), rest));
    }
    let (number, rest) = digits_of(text, 3, 8)?;
    (number < 0o200).then(|| (vec![number as u16], rest))
}

fn digits_of(text: &str, count: usize, radix: u32) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    let number = digits
        .chars()
        .try_fold(0, |n: u32, c| n.checked_mul(radix)?.checked_add(c.to_digit(radix)?))?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_spark() {
        let check = |held: &str, text: &str| assert_eq!(unescaped(held, '\''), text, "{held}");
        check(r"\u0041\U00000042\103", "ABC");
        check(r"\u12 \U0041 \400 \18 \08", "u12 U0041 400 18 \u{0}8");
        check(r"\uD83D\uDE00 \uD83D", "\u{1F600} ?");
        check(r"\0\b\n\r\t\Z\\\'\q\f", "\0\u{8}\n\r\t\u{1a}\\'qf");
        check(r"\%\_", r"\%\_");
        check("it''s \"so\"", "it's \"so\"");
        check(r"\u00e9ä\1", "éä1");
    }
}
