//! What to do about a malformed record, for all text formats.

use fluvial_core::{Error, Options, Result};

/// What to do about a malformed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// Keep what can be read of it.
    #[default]
    Permissive,
    /// Leave it out.
    DropMalformed,
    /// Fail.
    FailFast,
}

/// The column that takes malformed records unless another is named.
pub(crate) const CORRUPT_RECORD: &str = "_corrupt_record";

impl Mode {
    /// Takes `mode` out.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let expected = "PERMISSIVE, DROPMALFORMED or FAILFAST";
        let mode =
            options.take_with("mode", expected, |text| match text.to_uppercase().as_str() {
                "PERMISSIVE" => Some(Self::Permissive),
                "DROPMALFORMED" => Some(Self::DropMalformed),
                "FAILFAST" => Some(Self::FailFast),
                _ => None,
            })?;
        Ok(mode.unwrap_or_default())
    }
}

/// The error of a malformed record in mode `FAILFAST`.
pub(crate) fn malformed(place: &str, line: u64, record: &str) -> Error {
    const SHOWN: usize = 200;
    let mut shown: String = record.chars().take(SHOWN).collect();
    if shown.len() < record.len() {
        shown.push_str("...");
    }
    Error::invalid(format!(
        "{place}, line {line}: malformed record {shown:?}; set mode to PERMISSIVE or \
         DROPMALFORMED; or put the corrected file in under a new name, remove this one, and set \
         ignoreMissingFiles: a stream does not take a file that was changed after it was planned"
    ))
    .with_condition("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION")
}
