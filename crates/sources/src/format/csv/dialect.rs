//! The signs of CSV.

use fluvial_core::{Options, Result};

/// Which characters separate, quote, escape and comment.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    pub(super) separator: String,
    pub(super) quote: Option<char>,
    pub(super) escape: Option<char>,
    comment: Option<char>,
    pub(super) trim_start: bool,
    pub(super) trim_end: bool,
}

/// What tells whether a line end is inside of quotes.
#[derive(Debug, Clone)]
pub(crate) struct Quotes {
    pub(super) separator: Vec<u8>,
    pub(super) quote: Option<u8>,
    pub(super) escape: Option<u8>,
    pub(super) trim_start: bool,
}

impl Dialect {
    pub(super) fn take(options: &mut Options) -> Result<Self> {
        let sep = options.take("delimiter");
        let separator = match options.take("sep").or(sep) {
            None => ",".into(),
            Some(text) => match text.as_str() {
                "\\t" => "\t".into(),
                "" | "\n" | "\r" => {
                    return Err(Options::invalid_value("sep", &text, "one or more characters"));
                }
                _ => text,
            },
        };
        let blanks = |options: &mut Options, name| {
            options.take_bool(name).map(|found| found.unwrap_or(false))
        };
        let quote = sign(options, "quote", Some('"'))?;
        if quote.is_some_and(|quote| separator.starts_with(quote)) {
            let expected = "something else than the quote";
            return Err(Options::invalid_value("sep", &separator, expected));
        }
        Ok(Self {
            separator,
            quote,
            escape: sign(options, "escape", Some('\\'))?,
            comment: sign(options, "comment", None)?,
            trim_start: blanks(options, "ignoreLeadingWhiteSpace")?,
            trim_end: blanks(options, "ignoreTrailingWhiteSpace")?,
        })
    }

    pub(super) fn is_comment(&self, line: &str) -> bool {
        self.comment.is_some_and(|sign| line.starts_with(sign))
    }

    pub(super) fn quotes(&self) -> Quotes {
        // Only ASCII signs get here.
        let byte = |sign: Option<char>| sign.map(|sign| sign as u8);
        Quotes {
            separator: self.separator.clone().into_bytes(),
            quote: byte(self.quote),
            escape: byte(self.escape),
            trim_start: self.trim_start,
        }
    }
}

/// A single ASCII character, or none.
fn sign(options: &mut Options, name: &str, default: Option<char>) -> Result<Option<char>> {
    let Some(text) = options.take(name) else { return Ok(default) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (None, _) | (Some('\0'), None) => Ok(None),
        (Some(sign), None) if sign.is_ascii() && sign != '\n' && sign != '\r' => Ok(Some(sign)),
        _ => Err(Options::invalid_value(name, &text, "one ASCII character")),
    }
}
