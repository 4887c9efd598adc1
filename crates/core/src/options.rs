//! Options as users write them: names and texts.
//!
//! Sources, sinks and triggers take what they know out of [`Options`] and then call
//! [`Options::finish`], which refuses the rest by name, with the nearest name that exists. Names
//! are compared without regard to case, as in Spark. This module knows no particular option.

use crate::error::{Error, Result};
use crate::interval::parse_duration;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// Names and texts, to be taken out one by one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Lower-case name -> name as written, text.
    entries: BTreeMap<String, (String, String)>,
}

impl Options {
    /// Collects options. Of two names that differ only in case the later one counts.
    pub fn new<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut options = Self::default();
        for (name, text) in pairs {
            options.set(name, text);
        }
        options
    }

    /// Adds or replaces one option.
    pub fn set(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let name = name.into();
        self.entries.insert(name.to_lowercase(), (name, text.into()));
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The text of an option, which stays.
    pub fn peek(&self, name: &str) -> Option<&str> {
        self.entries.get(&name.to_lowercase()).map(|(_, text)| text.as_str())
    }

    /// Takes an option out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.entries.remove(&name.to_lowercase()).map(|(_, text)| text)
    }

    /// Takes out every option whose name begins with `prefix`, with names as written, sorted.
    pub fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let prefix = prefix.to_lowercase();
        self.entries.extract_if(.., |name, _| name.starts_with(&prefix)).map(|e| e.1).collect()
    }

    /// Takes an option out and parses it; `expected` says what it must be: `"a number"`.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if the text is something else.
    pub fn take_parsed<T: FromStr>(&mut self, name: &str, expected: &str) -> Result<Option<T>> {
        self.take_with(name, expected, |text| text.parse().ok())
    }

    /// Takes `true` or `false`, in any case.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if the text is neither.
    pub fn take_bool(&mut self, name: &str) -> Result<Option<bool>> {
        self.take_with(name, "'true' or 'false'", |text| match text.to_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// Takes a positive whole number.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if the text is not one.
    pub fn take_positive(&mut self, name: &str) -> Result<Option<NonZeroU64>> {
        self.take_parsed(name, "a positive integer")
    }

    /// Takes a positive number of bytes: `1048576`, or with a unit (`10m`, `1gb`; powers of 1024).
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if the text is not one.
    pub fn take_bytes(&mut self, name: &str) -> Result<Option<NonZeroU64>> {
        self.take_with(name, "a positive integer, optionally with a unit (k, m, g, t)", |text| {
            let text = text.to_lowercase();
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let shift = match text[digits.len()..].trim_end_matches('b') {
                "" => 0,
                "k" => 10,
                "m" => 20,
                "g" => 30,
                "t" => 40,
                _ => return None,
            };
            let number: u64 = digits.trim_end().parse().ok()?;
            NonZeroU64::new(number.checked_mul(1 << shift)?)
        })
    }

    /// Takes a duration: `7 days`, `10m`, or a number of `unit`s.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if the text is not one.
    pub fn take_duration(&mut self, name: &str, unit: Duration) -> Result<Option<Duration>> {
        self.take_with(name, "a duration such as '10 seconds' or '7d'", |text| {
            match text.parse::<u32>() {
                Ok(number) => unit.checked_mul(number),
                Err(_) => parse_duration(text).ok(),
            }
        })
    }

    /// Takes an option out and parses it with `parse`; `expected` says what it must be.
    ///
    /// # Errors
    ///
    /// `Invalid` (`INVALID_OPTION_VALUE`) if `parse` has no answer.
    pub fn take_with<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        match parse(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(Self::invalid_value(name, &text, expected)),
        }
    }

    /// The error for an option whose text is not what it must be.
    pub fn invalid_value(name: &str, text: &str, expected: &str) -> Error {
        Error::invalid(format!("invalid value {text:?} for option '{name}': it must be {expected}"))
            .with_condition("INVALID_OPTION_VALUE")
    }

    /// Refuses options that Spark has and we do not have yet.
    ///
    /// # Errors
    ///
    /// `Invalid` (`OPTION_NOT_SUPPORTED`) naming the first of `names` that is set.
    pub fn refuse(&self, names: &[&str]) -> Result<()> {
        match names.iter().find(|name| self.entries.contains_key(&name.to_lowercase())) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "option '{name}' is not supported yet: remove it if the default is good enough"
            ))
            .with_condition("OPTION_NOT_SUPPORTED")),
        }
    }

    /// Checks that all options were taken. `known` lists the names that exist here.
    ///
    /// # Errors
    ///
    /// `Invalid` (`UNKNOWN_OPTION`) naming the first option left, and the nearest known name.
    pub fn finish(self, known: &[&str]) -> Result<()> {
        let Some((name, _)) = self.entries.values().next() else { return Ok(()) };
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean '{near}'?"),
            None => {
                let mut names = known.to_vec();
                names.sort_unstable();
                format!("the options are {}", names.join(", "))
            }
        };
        Err(Error::invalid(format!("unknown option '{name}': {hint}"))
            .with_condition("UNKNOWN_OPTION"))
    }
}

impl fmt::Debug for Options {
    /// Names only: a text may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.values().map(|(name, _)| name)).finish()
    }
}

/// The name of `known` that looks most like `name`, if any looks like it at all.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let far = 1 + name.chars().count() / 3;
    known
        .iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), *candidate))
        .min_by_key(|(distance, candidate)| (*distance, *candidate))
        .filter(|(distance, _)| *distance <= far)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Options {
        Options::new([("maxFilesPerTrigger", text)])
    }

    #[test]
    fn a_prefix_takes_a_family_of_names() {
        let pairs = [("Kafka.group.id", "g"), ("kafka.acks", "all"), ("topic", "t")];
        let mut options = Options::new(pairs);
        let taken = options.take_prefixed("kafka.");
        assert_eq!(
            taken,
            [("kafka.acks", "all"), ("Kafka.group.id", "g")].map(|(k, v)| (k.into(), v.into()))
        );
        assert_eq!(options.take("topic").as_deref(), Some("t"));
        assert!(options.is_empty());
    }

    #[test]
    fn names_have_no_case_and_the_last_one_counts() {
        let mut options = Options::new([("Path", "a"), ("PATH", "b")]);
        assert_eq!(options.peek("path"), Some("b"));
        assert_eq!(options.take("pAtH"), Some("b".into()));
        assert!(options.is_empty() && options.finish(&[]).is_ok());
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let known = ["maxFilesPerTrigger", "maxFileAge", "latestFirst"];
        let check = |name: &str, hint: &str| {
            let error = Options::new([(name, "1")]).finish(&known).unwrap_err();
            assert_eq!(error.condition(), Some("UNKNOWN_OPTION"));
            assert!(error.message().contains(name), "{error}");
            assert!(error.message().contains(hint), "{error}");
        };
        check("maxFilePerTriger", "did you mean 'maxFilesPerTrigger'?");
        check("latestfrist", "did you mean 'latestFirst'?");
        check("colour", "the options are latestFirst, maxFileAge, maxFilesPerTrigger");
    }

    #[test]
    fn numbers_must_be_positive() {
        for bad in ["0", "-1", "10.1", "abc", "", "99999999999999999999"] {
            let error = one(bad).take_positive("maxFilesPerTrigger").unwrap_err();
            assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{bad}");
            assert!(error.message().contains("maxFilesPerTrigger"), "{error}");
        }
        assert_eq!(one(" 7 ").take_positive("maxfilespertrigger").unwrap(), NonZeroU64::new(7));
        assert_eq!(Options::default().take_positive("x").unwrap(), None);
    }

    #[test]
    fn bytes_have_units() {
        let bytes = |text| one(text).take_bytes("maxFilesPerTrigger").map(|v| v.map(u64::from));
        for (text, value) in [("30", 30), ("1k", 1024), ("2MB", 2 << 20), ("1 g", 1 << 30)] {
            assert_eq!(bytes(text).unwrap(), Some(value), "{text}");
        }
        for bad in ["0", "abc", "1x", "-5", "99999999999t", "1.5g"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_may_have_a_unit() {
        let seconds = |text| {
            let unit = Duration::from_millis(1);
            one(text).take_duration("maxFilesPerTrigger", unit).map(|v| v.map(|d| d.as_millis()))
        };
        for (text, ms) in [("250", 250), ("10s", 10_000), ("1m", 60_000), ("7 days", 604_800_000)] {
            assert_eq!(seconds(text).unwrap(), Some(ms), "{text}");
        }
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn words_are_exact() {
        assert_eq!(one("TRUE").take_bool("maxFilesPerTrigger").unwrap(), Some(true));
        let error = one("maybe").take_bool("maxFilesPerTrigger").unwrap_err();
        assert!(error.message().contains("'true' or 'false'"), "{error}");
    }

    #[test]
    fn what_is_not_supported_yet_is_said() {
        let error = one("1").refuse(&["a", "MAXFILESPERTRIGGER"]).unwrap_err();
        assert_eq!(error.condition(), Some("OPTION_NOT_SUPPORTED"));
        assert!(one("1").refuse(&["a"]).is_ok());
    }

    #[test]
    fn texts_are_not_shown() {
        assert_eq!(format!("{:?}", one("secret")), "{\"maxFilesPerTrigger\"}");
    }
}
