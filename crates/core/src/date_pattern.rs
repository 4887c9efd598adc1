//! Java's patterns of dates and times, taken apart: `yyyy-MM-dd'T'HH:mm[:ss]`.
//!
//! Not what letters mean, and which of them there are: who reads knows others than who writes.

/// A piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternItem {
    /// Text that stands for itself.
    Literal(String),
    /// So many of a letter.
    Field(char, usize),
    /// What may be missing.
    Optional(Vec<PatternItem>),
}

/// The months, January first.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The days of a week, Monday first.
pub const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// So many brackets within each other: who follows them does so by recursion.
const DEPTH_MAX: usize = 64;

/// Takes a pattern apart.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_pattern(text: &str) -> Result<Vec<PatternItem>, String> {
    let mut chars = text.chars().peekable();
    let mut open: Vec<Vec<PatternItem>> = Vec::new();
    let mut items: Vec<PatternItem> = Vec::new();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let mut literal = String::new();
                loop {
                    match chars.next() {
                        Some('\'') if chars.peek() == Some(&'\'') => {
                            chars.next();
                            literal.push('\'');
                        }
                        Some('\'') => break,
                        Some(c) => literal.push(c),
                        None => return Err("a quote is not closed".into()),
                    }
                }
                // Two quotes in a row are one.
                let literal = if literal.is_empty() { "'".to_owned() } else { literal };
                items.push(PatternItem::Literal(literal));
            }
            '[' if open.len() == DEPTH_MAX => {
                return Err(format!("more than {DEPTH_MAX} `[` within each other"));
            }
            '[' => open.push(std::mem::take(&mut items)),
            ']' => {
                let Some(outer) = open.pop() else { return Err("`]` has no `[`".into()) };
                let inner = std::mem::replace(&mut items, outer);
                items.push(PatternItem::Optional(inner));
            }
            c if c.is_ascii_alphabetic() => {
                let mut count = 1;
                while chars.next_if_eq(&c).is_some() {
                    count += 1;
                }
                items.push(PatternItem::Field(c, count));
            }
            '{' | '}' | '#' => return Err(format!("`{c}` is reserved")),
            c => items.push(PatternItem::Literal(c.to_string())),
        }
    }
    match open.is_empty() {
        true => Ok(items),
        false => Err("`[` is not closed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::PatternItem::{Field, Literal, Optional};
    use super::*;

    #[test]
    fn patterns_are_taken_apart() {
        let text = |text: &str| Literal(text.into());
        for (pattern, expected) in [
            ("", vec![]),
            ("yyyy-M", vec![Field('y', 4), text("-"), Field('M', 1)]),
            ("'T''x'''", vec![text("T'x'")]),
            ("''h", vec![text("'"), Field('h', 1)]),
            (
                "d[ H[:m]]é",
                vec![
                    Field('d', 1),
                    Optional(vec![
                        text(" "),
                        Field('H', 1),
                        Optional(vec![text(":"), Field('m', 1)]),
                    ]),
                    text("é"),
                ],
            ),
        ] {
            assert_eq!(parse_pattern(pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_none_is_said() {
        for (pattern, what) in [
            ("'x", "a quote is not closed"),
            ("[y", "`[` is not closed"),
            ("y]", "`]` has no `[`"),
            ("y#", "`#` is reserved"),
        ] {
            assert_eq!(parse_pattern(pattern).unwrap_err(), what, "{pattern}");
        }
        assert!(parse_pattern(&"[".repeat(1 << 20)).is_err());
    }
}
