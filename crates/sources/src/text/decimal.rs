//! Decimals as text, rounded half up to their scale.

/// Reads a number (`-12.5e3`); `None` if it is none or does not fit the precision.
pub(crate) fn parse(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let exponent = match rest.iter().position(|b| matches!(b, b'e' | b'E')) {
        None => 0,
        Some(at) => {
            let text = std::str::from_utf8(&rest[at + 1..]).ok()?;
            rest = &rest[..at];
            // What is far out of range is zero or does not fit, so its size does not matter.
            text.parse::<i64>().ok()?.clamp(-100_000, 100_000)
        }
    };
    let point = rest.iter().position(|b| *b == b'.').unwrap_or(rest.len());
    let fraction = rest.get(point + 1..).unwrap_or_default();
    if point + fraction.len() == 0 {
        return None;
    }
    // The digits up to `keep` are before the last place that counts.
    let keep = (point as i64).saturating_add(exponent).saturating_add(i64::from(scale));
    let magnitude = digits(rest[..point].iter().chain(fraction), keep)?;
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (magnitude < limit).then_some(if negative { -magnitude } else { magnitude })
}

/// The number of the first `keep` digits, rounded by the next one; zeros are added if there are
/// not as many.
fn digits<'a>(all: impl Iterator<Item = &'a u8>, keep: i64) -> Option<i128> {
    let (mut value, mut count, mut up) = (0i128, 0i64, false);
    for byte in all {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if count < keep {
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        } else if count == keep {
            up = digit >= 5;
        }
        count += 1;
    }
    while count < keep && value != 0 {
        value = value.checked_mul(10)?;
        count += 1;
    }
    value.checked_add(i128::from(up))
}

/// Reads a text that may have commas between its digits (`1,234.5`), as Spark does.
pub(crate) fn parse_text(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    if text.contains(&b',') {
        let digits: Vec<u8> = text.iter().copied().filter(|b| *b != b',').collect();
        return parse(&digits, precision, scale);
    }
    parse(text, precision, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_half_up_and_refuses_what_does_not_fit() {
        for (text, value) in [
            ("1.239", Some(124)),
            ("-1.235", Some(-124)),
            ("1.225", Some(123)),
            ("1e2", Some(10_000)),
            ("12345678.9", None),
            ("9999.994", Some(999_999)),
            ("9999.995", None),
            ("1e-10", Some(0)),
            ("0.005", Some(1)),
            ("5e-3", Some(1)),
            ("4e-3", Some(0)),
            ("0.05e-1", Some(1)),
            ("5e-99999999999", Some(0)),
            ("1e99", None),
            ("0e99", Some(0)),
            ("+7", Some(700)),
            (".5", Some(50)),
            ("5.", Some(500)),
            ("", None),
            (".", None),
            ("-", None),
            ("1e", None),
            ("1..2", None),
            (" 1.5 ", None),
            ("x", None),
        ] {
            assert_eq!(parse(text.as_bytes(), 6, 2), value, "{text}");
        }
        assert_eq!(parse_text(b"1,234.5", 6, 2), Some(123_450));
        let most = "9".repeat(38);
        assert_eq!(parse(most.as_bytes(), 38, 0), most.parse().ok());
        assert_eq!(parse(format!("{most}0").as_bytes(), 38, 0), None);
    }
}
