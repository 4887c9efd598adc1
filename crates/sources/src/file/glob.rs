//! Patterns for one segment of a path, as Hadoop has them: `*`, `?`, `[a-c]`, `[^a]`, `{x,y}`,
//! and `\` before a character that is meant as it is.

use fluvial_core::{Error, Result};

/// More alternatives than this are refused: every `{..}` multiplies them.
const MAX_ALTERNATIVES: usize = 1000;

/// A pattern for the name of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    alternatives: Vec<Vec<Token>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(char),
    Any,
    Star,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Whether a text has a character that means something in a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_GLOB`) if a bracket is not closed.
    pub(crate) fn parse(pattern: &str) -> Result<Self> {
        let bad = |what: &str| {
            Error::invalid(format!("the pattern {pattern:?} has {what}"))
                .with_condition("INVALID_GLOB")
        };
        let mut alternatives = Vec::new();
        for flat in expand(pattern).ok_or_else(|| bad("a { without }, or too many of them"))? {
            alternatives.push(tokens(&flat).ok_or_else(|| bad("a [ without ]"))?);
        }
        Ok(Self { alternatives })
    }

    /// Whether the whole name fits.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        self.alternatives.iter().any(|tokens| fits(tokens, &name))
    }
}

/// The pattern without braces: one for each choice.
fn expand(pattern: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(next) = open.pop() {
        let Some(start) = find_brace(&next) else {
            done.push(next);
            continue;
        };
        let (head, rest) = (&next[..start], &next[start + 1..]);
        let (choices, tail) = choices(rest)?;
        if done.len() + open.len() + choices.len() > MAX_ALTERNATIVES {
            return None;
        }
        open.extend(choices.iter().rev().map(|choice| format!("{head}{choice}{tail}")));
    }
    Some(done)
}

/// The first brace that is not escaped.
fn find_brace(pattern: &str) -> Option<usize> {
    let mut escaped = false;
    pattern.char_indices().find_map(|(at, c)| {
        let found = c == '{' && !escaped;
        escaped = c == '\\' && !escaped;
        found.then_some(at)
    })
}

/// The choices up to the matching brace, and what follows it.
fn choices(rest: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut start, mut escaped) = (0, 0, false);
    let mut choices = Vec::new();
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' if depth == 0 => {
                choices.push(&rest[start..at]);
                return Some((choices, &rest[at + 1..]));
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                choices.push(&rest[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => Token::Star,
            '?' => Token::Any,
            '[' => class(&mut chars)?,
            '\\' => Token::Literal(chars.next().unwrap_or('\\')),
            c => Token::Literal(c),
        });
    }
    Some(tokens)
}

fn class(chars: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut c = chars.next()?;
    let negated = matches!(c, '^' | '!');
    if negated {
        c = chars.next()?;
    }
    loop {
        if c == ']' && !ranges.is_empty() {
            return Some(Token::Class { negated, ranges });
        }
        if c == '\\' {
            c = chars.next()?;
        }
        let mut ahead = chars.clone();
        let range = (ahead.next() == Some('-')).then(|| ahead.next()).flatten();
        match range.filter(|end| *end != ']') {
            Some(end) => {
                ranges.push((c, end));
                *chars = ahead;
            }
            None => ranges.push((c, c)),
        }
        c = chars.next()?;
    }
}

/// Greedy matching with one place to go back to: linear for a pattern, whatever the name.
fn fits(tokens: &[Token], name: &[char]) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match (tokens.get(t), name.get(n)) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                back = Some((t, n));
                t += 1;
                continue;
            }
            (Some(token), Some(c)) => token.takes(*c),
            _ => false,
        };
        if step {
            (t, n) = (t + 1, n + 1);
            continue;
        }
        match back {
            Some((star, from)) if from < name.len() => {
                back = Some((star, from + 1));
                (t, n) = (star + 1, from + 1);
            }
            _ => return false,
        }
    }
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::Any => true,
            Self::Star => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_hadoops() {
        for (pattern, name, expected) in [
            ("*", "a.json", true),
            ("*.json", "a.json", true),
            ("*.json", "a.jsonl", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[a\\-c]x", "-x", true),
            ("part-{1,2{3,4}}", "part-24", true),
            ("part-{1,2{3,4}}", "part-2", false),
            ("{a,b}{c,d}", "bd", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\{a,b\\}", "{a,b}", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("é*", "éa", true),
        ] {
            assert_eq!(Glob::parse(pattern).unwrap().matches(name), expected, "{pattern} {name}");
        }
        for bad in ["[a", "{a,b", "[", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"] {
            assert_eq!(Glob::parse(bad).unwrap_err().condition(), Some("INVALID_GLOB"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn stars_find_what_a_search_finds(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            fn slow(p: &[u8], n: &[u8]) -> bool {
                match p {
                    [] => n.is_empty(),
                    [b'*', rest @ ..] => (0..=n.len()).any(|i| slow(rest, &n[i..])),
                    [c, rest @ ..] => n.first() == Some(c) && slow(rest, &n[1..]),
                }
            }
            let expected = slow(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(Glob::parse(&pattern).unwrap().matches(&name), expected);
        }

        #[test]
        fn no_pattern_panics(pattern in "[a*?\\[\\]{}^!\\\\,-]{0,12}", name in "\\PC{0,6}") {
            if let Ok(glob) = Glob::parse(&pattern) {
                let _ = glob.matches(&name);
            }
        }
    }
}
