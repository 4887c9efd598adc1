//! `+ - * / % div` and negation with Spark's ANSI meaning: results in Spark's types, an error on
//! overflow and on division by zero.

mod chain;
mod decimal;
mod interval;
mod number;
mod types;
mod udf;
mod unary;

pub(crate) use chain::{Chain, chained};
pub(crate) use interval::plus;
pub(crate) use types::{common_type, decimal_of_integer, decimal_type, resolve};
pub(crate) use udf::{Arithmetic, call};
pub(crate) use unary::negate_udf;

use super::cast::CastMode;

/// An arithmetic operator of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    /// `/`: a double, or a decimal.
    Divide,
    /// `div`: a whole number.
    IntegralDivide,
    Remainder,
    /// `pmod`: the remainder that is not negative.
    PositiveRemainder,
}

impl Op {
    /// As written between the operands.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::IntegralDivide => "div",
            Self::Remainder => "%",
            Self::PositiveRemainder => "pmod",
        }
    }

    /// As the name of a function.
    pub(crate) fn function(self, mode: CastMode) -> &'static str {
        match (self, mode) {
            (Self::Add, CastMode::Ansi) => "add",
            (Self::Subtract, CastMode::Ansi) => "subtract",
            (Self::Multiply, CastMode::Ansi) => "multiply",
            (Self::Divide, CastMode::Ansi) => "divide",
            (Self::IntegralDivide, _) => "div",
            (Self::Remainder, CastMode::Ansi) => "mod",
            (Self::PositiveRemainder, _) => "pmod",
            (Self::Add, CastMode::Try) => "try_add",
            (Self::Subtract, CastMode::Try) => "try_subtract",
            (Self::Multiply, CastMode::Try) => "try_multiply",
            (Self::Divide, CastMode::Try) => "try_divide",
            (Self::Remainder, CastMode::Try) => "try_mod",
        }
    }
}
