//! Java's datetime patterns, as far as Spark takes them: `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`.

use crate::functions::error::spark;
use datafusion::common::{DataFusionError, Result};

/// A piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// Text that stands for itself.
    Literal(String),
    /// So many of a letter.
    Field(char, usize),
    /// What may be missing when reading.
    Optional(Vec<Item>),
}

/// A pattern, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(super) items: Vec<Item>,
}

/// Letters and how many of each are allowed.
const LETTERS: &[(char, usize)] = &[
    ('G', 4),
    ('y', 10),
    ('u', 10),
    ('M', 4),
    ('L', 4),
    ('d', 2),
    ('D', 3),
    ('E', 4),
    ('F', 1),
    ('Q', 4),
    ('q', 4),
    ('a', 1),
    ('h', 2),
    ('K', 2),
    ('H', 2),
    ('k', 2),
    ('m', 2),
    ('s', 2),
    ('S', 9),
    ('V', 2),
    ('z', 4),
    ('O', 4),
    ('X', 5),
    ('x', 5),
    ('Z', 5),
];

impl Pattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    ///
    /// `INVALID_DATETIME_PATTERN...` with what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut chars = text.chars().peekable();
        let mut open: Vec<Vec<Item>> = Vec::new();
        let mut items: Vec<Item> = Vec::new();
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
                            None => return Err(invalid(text, "a quote is not closed")),
                        }
                    }
                    // Two quotes in a row are one.
                    let literal = if literal.is_empty() { "'".to_owned() } else { literal };
                    items.push(Item::Literal(literal));
                }
                '[' => open.push(std::mem::take(&mut items)),
                ']' => {
                    let Some(outer) = open.pop() else {
                        return Err(invalid(text, "`]` has no `[`"));
                    };
                    let inner = std::mem::replace(&mut items, outer);
                    items.push(Item::Optional(inner));
                }
                c if c.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while chars.next_if_eq(&c).is_some() {
                        count += 1;
                    }
                    items.push(field(text, c, count)?);
                }
                '{' | '}' | '#' => {
                    return Err(invalid(text, &format!("`{c}` is reserved")));
                }
                c => items.push(Item::Literal(c.to_string())),
            }
        }
        if !open.is_empty() {
            return Err(invalid(text, "`[` is not closed"));
        }
        Ok(Self { items })
    }
}

fn field(pattern: &str, letter: char, count: usize) -> Result<Item> {
    let Some((_, most)) = LETTERS.iter().find(|(l, _)| *l == letter) else {
        return Err(spark(
            "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER",
            format!(
                "the datetime pattern '{pattern}' has the letter '{letter}', which has no meaning; put text into quotes"
            ),
        ));
    };
    if count > *most || (letter == 'V' && count != 2) {
        return Err(spark(
            "INVALID_DATETIME_PATTERN.LENGTH",
            format!("the datetime pattern '{pattern}' has {count} times '{letter}'"),
        ));
    }
    Ok(Item::Field(letter, count))
}

fn invalid(pattern: &str, what: &str) -> DataFusionError {
    spark("INVALID_DATETIME_PATTERN", format!("'{pattern}' is not a datetime pattern: {what}"))
}

pub(super) const MONTHS: [&str; 12] = [
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

pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_taken_apart() {
        let pattern = Pattern::parse("yyyy-MM'T''x'[ HH]").unwrap();
        assert_eq!(
            pattern.items,
            [
                Item::Field('y', 4),
                Item::Literal("-".into()),
                Item::Field('M', 2),
                Item::Literal("T'x".into()),
                Item::Optional(vec![Item::Literal(" ".into()), Item::Field('H', 2)]),
            ]
        );
        for bad in ["'x", "[", "]", "b", "MMMMM", "V", "{"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
