//! The option `locale`: the language of names of months and halves of days, and of numbers.
//!
//! All texts here are read as English ones.

use fluvial_core::{Options, Result};

/// Takes the option out.
///
/// # Errors
///
/// `Invalid` (`INVALID_OPTION_VALUE`) for another language than the one that there is.
pub(crate) fn take(options: &mut Options) -> Result<()> {
    let expected = "en-US or root: names of months and numbers are read as English ones only";
    let english =
        |text: &str| matches!(text.to_lowercase().as_str(), "en-us" | "root").then_some(());
    options.take_with("locale", expected, english).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_english_is_read() {
        let take = |text: &str| take(&mut Options::new([("locale", text)]));
        assert!(take("en-US").is_ok() && take("ROOT").is_ok());
        let error = take("de-DE").unwrap_err();
        assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{error}");
        assert!(error.message().contains("locale"), "{error}");
    }
}
