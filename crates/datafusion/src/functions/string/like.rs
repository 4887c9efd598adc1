//! Patterns of LIKE: Spark takes fewer than Arrow does, and any character as the escape.

use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{ArrayRef, StringArray};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

/// `like_pattern(pattern, escape)`: see [`like_pattern`].
pub(crate) fn like_pattern_udf() -> Arc<ScalarUDF> {
    static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        const TWO: &[Kind] = &[Kind::Text, Kind::Text];
        Spec::new(&["like_pattern"], TWO, Gives::Text, run).udf()
    });
    Arc::clone(&UDF)
}

fn run(call: &Call<'_>) -> Result<ArrayRef> {
    let one = |(pattern, escape): (Option<&str>, Option<&str>)| {
        let both = pattern.zip(escape.and_then(|escape| escape.chars().next()));
        both.map(|(pattern, escape)| like_pattern(pattern, escape)).transpose()
    };
    let patterns = call.text(0).iter().zip(call.text(1)).map(one);
    Ok(Arc::new(patterns.collect::<Result<StringArray>>()?))
}

/// The pattern with backslashes for escapes, as Arrow reads it.
///
/// # Errors
///
/// `INVALID_FORMAT.ESC_AT_THE_END` and `INVALID_FORMAT.ESC_IN_THE_MIDDLE` if the escape stands
/// before nothing or before what needs none.
pub(crate) fn like_pattern(pattern: &str, escape: char) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        let literal = if c == escape {
            match rest.next() {
                Some(next) if next == escape || matches!(next, '%' | '_') => next,
                Some(next) => {
                    return Err(spark(
                        "INVALID_FORMAT.ESC_IN_THE_MIDDLE",
                        format!(
                            "in the pattern '{pattern}' of LIKE the escape `{escape}` stands before \
                             `{next}`: it may stand before %, _ and itself"
                        ),
                    ));
                }
                None => {
                    return Err(spark(
                        "INVALID_FORMAT.ESC_AT_THE_END",
                        format!(
                            "the pattern '{pattern}' of LIKE ends with the escape `{escape}`: \
                             write it twice, or leave it out"
                        ),
                    ));
                }
            }
        } else if c == '\\' {
            c
        } else {
            out.push(c);
            continue;
        };
        if matches!(literal, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(literal);
    }
    Ok(out)
}
