//! Numbers for people.

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 row`, `16 rows`.
pub(super) fn rows(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "row" } else { "rows" })
}

/// Rows per second: whole ones, but for slow streams one decimal.
pub(super) fn rate(rate: f64) -> String {
    if rate < 10.0 {
        format!("{rate:.1} rows/s")
    } else {
        // A rate is never negative, and beyond u64 nobody reads the digits.
        format!("{} rows/s", grouped(rate.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((rows(1), rows(2000)), ("1 row".into(), "2,000 rows".into()));
    }

    #[test]
    fn slow_rates_have_a_decimal() {
        assert_eq!(rate(0.26), "0.3 rows/s");
        assert_eq!(rate(1630.4), "1,630 rows/s");
        assert_eq!(rate(f64::MAX), rate(u64::MAX as f64));
    }
}
