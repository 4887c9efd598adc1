//! The `WATERMARK` clause.

use crate::plan::parse_idle_after;
use crate::sql::place::Place;
use crate::sql::relation::WatermarkClause;
use crate::sql::token::{Tokens, is_alias, is_word, parse_all, shown};
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use fluvial_core::interval::CalendarInterval;
use fluvial_core::{Error, EventDuration, Result};
use std::time::Duration;

/// Whether a clause starts here, as opposed to a relation that has the alias `watermark`.
pub(super) fn starts(tokens: &Tokens<'_>) -> bool {
    is_word(tokens.peek(), "WATERMARK")
        && match tokens.peek_at(1) {
            word @ Token::Word(_) => is_alias(word),
            Token::EOF | Token::Comma | Token::RParen | Token::SemiColon => false,
            _ => true,
        }
}

/// Reads `WATERMARK expr [AS name] DELAY OF INTERVAL ... [IDLE AFTER INTERVAL ...]`.
pub(super) fn parse(tokens: &mut Tokens<'_>, dialect: &dyn Dialect) -> Result<WatermarkClause> {
    let place = tokens.place();
    tokens.expect_word("WATERMARK")?;
    let (expr_tokens, delay_place) = until_delay(tokens)?;
    let source = tokens.source();
    let ExprWithAlias { expr, alias } =
        parse_all(source, dialect, expr_tokens, delay_place, "the event time", |parser| {
            let expr = parser.parse_expr()?;
            let named = is_word(&parser.peek_token_ref().token, "AS");
            if !named {
                return Ok(ExprWithAlias { expr, alias: None });
            }
            parser.advance_token();
            Ok(ExprWithAlias { expr, alias: Some(parser.parse_identifier()?) })
        })?;
    let name = alias.map(|alias| alias.value);
    let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if name.is_none() && !is_column {
        return Err(source.named_error(
            "REQUIRES_EXPLICIT_NAME_IN_WATERMARK_CLAUSE",
            place,
            format!(
                "the watermark is on an expression, which needs a name: \
                 WATERMARK {expr} AS event_time DELAY OF ..."
            ),
        ));
    }
    let delay = delay(tokens)?;
    let idle_after = if tokens.words(&["IDLE", "AFTER"]) { Some(silence(tokens)?) } else { None };
    Ok(WatermarkClause { expr, name, delay, idle_after, place })
}

/// Takes everything up to and with `DELAY OF`.
fn until_delay(tokens: &mut Tokens<'_>) -> Result<(Vec<TokenWithSpan>, Place)> {
    let mut ahead = tokens.clone();
    let mut depth = 0_usize;
    let mut count = 0;
    loop {
        match ahead.peek() {
            Token::EOF => break,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word if depth == 0 && is_word(word, "DELAY") && is_word(ahead.peek_at(1), "OF") => {
                let expr = tokens.take(count);
                let place = tokens.place();
                tokens.words(&["DELAY", "OF"]);
                return Ok((expr.to_vec(), place));
            }
            _ => {}
        }
        ahead.next();
        count += 1;
    }
    Err(tokens.source().error(
        tokens.place(),
        "a watermark says how late events may come: \
         WATERMARK event_time DELAY OF INTERVAL 10 MINUTES",
    ))
}

/// Reads the interval behind `DELAY OF`: positive and under a month.
fn delay(tokens: &mut Tokens<'_>) -> Result<EventDuration> {
    let place = tokens.place();
    let text = interval_text(tokens)?;
    let pointed = |error: Error| tokens.source().point_at(place, &error);
    let interval = CalendarInterval::parse(&text).map_err(pointed)?;
    if interval.months != 0 {
        return Err(tokens.source().named_error(
            "WATERMARK_DELAY_TOO_LONG",
            place,
            format!("the delay {interval} has months: a delay is under a month, such as 30 days"),
        ));
    }
    interval.to_delay().map_err(pointed)
}

/// Reads the interval behind `IDLE AFTER`: positive and without months.
fn silence(tokens: &mut Tokens<'_>) -> Result<Duration> {
    let place = tokens.place();
    let text = interval_text(tokens)?;
    parse_idle_after(&text).map_err(|error| tokens.source().point_at(place, &error))
}

/// Takes an interval literal and gives it as text: `interval` and then pairs of a number and a
/// unit, or one string with or without a unit.
fn interval_text(tokens: &mut Tokens<'_>) -> Result<String> {
    if !tokens.word("INTERVAL") {
        return Err(tokens.expected("an interval, such as INTERVAL 10 MINUTES"));
    }
    let mut words = vec!["interval".to_owned()];
    while let Some(value) = value(tokens) {
        words.push(value);
        let is_unit = |token: &Token| matches!(token, Token::Word(_)) && !is_word(token, "AS");
        if is_unit(tokens.peek()) && UNITS.iter().any(|unit| is_word(tokens.peek(), unit)) {
            words.push(shown(tokens.next()));
            if is_word(tokens.peek(), "TO") && is_unit(tokens.peek_at(1)) {
                words.push(shown(tokens.next()));
                words.push(shown(tokens.next()));
            }
        }
    }
    if words.len() == 1 {
        return Err(tokens.expected("a number and a unit, such as INTERVAL 10 MINUTES"));
    }
    Ok(words.join(" "))
}

/// Units by all their names; a word that is none of them is the alias of the relation.
const UNITS: [&str; 20] = [
    "YEAR",
    "YEARS",
    "MONTH",
    "MONTHS",
    "WEEK",
    "WEEKS",
    "DAY",
    "DAYS",
    "HOUR",
    "HOURS",
    "MINUTE",
    "MINUTES",
    "SECOND",
    "SECONDS",
    "MILLISECOND",
    "MILLISECONDS",
    "MICROSECOND",
    "MICROSECONDS",
    "NANOSECOND",
    "NANOSECONDS",
];

/// Takes a number or a string with an optional sign.
fn value(tokens: &mut Tokens<'_>) -> Option<String> {
    let signed = usize::from(matches!(tokens.peek(), Token::Minus | Token::Plus));
    let value = match tokens.peek_at(signed) {
        Token::Number(digits, _) => digits.clone(),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => format!("'{text}'"),
        _ => return None,
    };
    let sign = if signed == 1 { shown(tokens.next()) } else { String::new() };
    tokens.next();
    Some(sign + &value)
}
