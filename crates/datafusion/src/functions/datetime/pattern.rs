//! Java's datetime patterns, as far as Spark takes them: `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`.

use crate::functions::error::spark;
use datafusion::common::{DataFusionError, Result};
use fluvial_core::date_pattern::parse_pattern;
pub(super) use fluvial_core::date_pattern::{DAYS, MONTHS, PatternItem as Item};

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
        let items = parse_pattern(text).map_err(|what| invalid(text, &what))?;
        check(text, &items)?;
        Ok(Self { items })
    }
}

fn check(pattern: &str, items: &[Item]) -> Result<()> {
    items.iter().try_for_each(|item| match item {
        Item::Literal(_) => Ok(()),
        Item::Field(letter, count) => field(pattern, *letter, *count),
        Item::Optional(inner) => check(pattern, inner),
    })
}

fn field(pattern: &str, letter: char, count: usize) -> Result<()> {
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
    Ok(())
}

fn invalid(pattern: &str, what: &str) -> DataFusionError {
    spark("INVALID_DATETIME_PATTERN", format!("'{pattern}' is not a datetime pattern: {what}"))
}

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
