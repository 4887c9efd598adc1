//! Which columns a clause of MERGE sets, and fields inside of them.

use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use fluvial_core::{Error, NameCase, Result};
use fluvial_datafusion::from_datafusion;

/// One `a.b.c = value`.
pub(crate) struct Assignment {
    /// The column and the fields inside of it, as the table spells them.
    path: Vec<String>,
    value: Expr,
}

/// The parts of a name: dots within backticks separate nothing.
pub(crate) fn parts(name: &str) -> Vec<String> {
    let (mut found, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // Doubled, it stands for itself.
            '`' if quoted && chars.peek() == Some(&'`') => part.extend(chars.next()),
            '`' => quoted = !quoted,
            '.' if !quoted => found.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    found.push(part);
    found
}

impl Assignment {
    /// The whole of a column by its own name.
    pub(crate) fn to(column: &str, value: Expr) -> Self {
        Self { path: vec![column.to_owned()], value }
    }

    /// Finds what `names` mean in the table.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no such column, or the column no such field.
    pub(crate) fn new(
        table: &Fields,
        names: &[String],
        value: Expr,
        case: NameCase,
    ) -> Result<Self> {
        let (first, rest) = names.split_first().ok_or_else(|| unresolved("", "the table"))?;
        let column = table.iter().find(|field| case.same(field.name(), first));
        let mut field: &Field = column.ok_or_else(|| unresolved(first, "the table"))?;
        let mut path = vec![field.name().clone()];
        for name in rest {
            let fields = fields_of(field, name)?;
            let found = fields.iter().find(|field| case.same(field.name(), name));
            field = found.ok_or_else(|| no_field(fields, name))?;
            path.push(field.name().clone());
        }
        Ok(Self { path, value })
    }
}

fn fields_of<'a>(field: &'a Field, name: &str) -> Result<&'a Fields> {
    match field.data_type() {
        DataType::Struct(fields) => Ok(fields),
        other => Err(Error::invalid(format!(
            "the merge sets field {name:?} of {:?}, which is {other} and has no fields",
            field.name()
        ))
        .with_condition("INVALID_EXTRACT_BASE_FIELD_TYPE")),
    }
}

fn no_field(fields: &Fields, name: &str) -> Error {
    let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
    Error::invalid(format!("the merge sets field {name:?}, which is none of {}", names.join(", ")))
        .with_condition("FIELD_NOT_FOUND")
}

pub(crate) fn unresolved(name: &str, place: &str) -> Error {
    Error::invalid(format!("the merge names column {name:?}, which {place} does not have"))
        .with_condition("DELTA_MERGE_UNRESOLVED_EXPRESSION")
}

/// Refuses what is set twice, also as a part of what is set whole.
fn refuse_twice(set: &[Assignment], condition: &'static str) -> Result<()> {
    for (i, one) in set.iter().enumerate() {
        for other in &set[..i] {
            let length = one.path.len().min(other.path.len());
            if one.path[..length] == other.path[..length] {
                return Err(Error::invalid(format!(
                    "one clause of the merge sets both {} and {}: set each column once",
                    other.path.join("."),
                    one.path.join(".")
                ))
                .with_condition(condition));
            }
        }
    }
    Ok(())
}

/// The values of INSERT.
///
/// # Errors
///
/// `Invalid` for a column that comes twice, or a field of one.
pub(crate) fn inserted(set: Vec<Assignment>) -> Result<Vec<(String, Expr)>> {
    refuse_twice(&set, "DELTA_DUPLICATE_COLUMNS_ON_INSERT")?;
    let whole = |Assignment { mut path, value }: Assignment| match path.len() {
        1 => Ok((path.remove(0), value)),
        _ => Err(Error::invalid(format!(
            "INSERT of a merge sets {}, which is a part of a column: set all of {}",
            path.join("."),
            path[0]
        ))
        .with_condition("DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION")),
    };
    set.into_iter().map(whole).collect()
}

/// The values of UPDATE, one for each column: one of which fields are set keeps the others.
///
/// # Errors
///
/// `Invalid` for what is set twice.
pub(crate) fn updated(
    set: Vec<Assignment>,
    row: &DFSchema,
    old: impl Fn(&str) -> Expr,
) -> Result<Vec<(String, Expr)>> {
    refuse_twice(&set, "DELTA_CONFLICT_SET_COLUMN")?;
    let mut columns: Vec<(String, Vec<Assignment>)> = Vec::new();
    for mut one in set {
        let column = one.path.remove(0);
        match columns.iter_mut().find(|(name, _)| *name == column) {
            Some((_, parts)) => parts.push(one),
            None => columns.push((column, vec![one])),
        }
    }
    let value = |(name, parts): (String, Vec<Assignment>)| -> Result<(String, Expr)> {
        let value = with_parts(old(&name), parts, row).map_err(from_datafusion)?;
        Ok((name, value))
    };
    columns.into_iter().map(value).collect()
}

/// A value of the source for a column of type `to`: fields of structures by their names, what the
/// source lacks as in `old`, and what the table lacks behind them.
pub(crate) fn by_name(
    from: Expr,
    to: &DataType,
    old: Option<Expr>,
    row: &DFSchema,
    case: NameCase,
) -> DfResult<Expr> {
    let (DataType::Struct(theirs), DataType::Struct(ours)) = (from.get_type(row)?, to) else {
        return Ok(from);
    };
    let same = theirs.len() == ours.len()
        && theirs.iter().zip(ours).all(|(a, b)| a.name() == b.name() && !b.data_type().is_nested());
    if same {
        return Ok(from);
    }
    let mut values = Vec::new();
    for field in ours {
        let old = old.clone().map(|old| get_field(old, field.name().as_str()));
        let value = match theirs.iter().find(|f| case.same(f.name(), field.name())) {
            Some(found) => {
                let from = get_field(from.clone(), found.name().as_str());
                by_name(from, field.data_type(), old, row, case)?
            }
            None => match old {
                Some(old) => old,
                None => lit(ScalarValue::try_from(field.data_type())?),
            },
        };
        values.extend([lit(field.name().as_str()), value]);
    }
    for field in theirs.iter().filter(|f| !ours.iter().any(|o| case.same(o.name(), f.name()))) {
        let name = field.name().as_str();
        values.extend([lit(name), get_field(from.clone(), name)]);
    }
    Ok(named_struct(values))
}

/// `of`, or what is set in its place or in its fields.
fn with_parts(of: Expr, mut parts: Vec<Assignment>, row: &DFSchema) -> DfResult<Expr> {
    if parts.first().is_some_and(|part| part.path.is_empty()) {
        return Ok(parts.swap_remove(0).value);
    }
    let DataType::Struct(fields) = of.get_type(row)? else { return Ok(of) };
    let mut values = Vec::with_capacity(2 * fields.len());
    for field in &fields {
        let is_in = |part: &Assignment| part.path.first() == Some(field.name());
        let (inside, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_in);
        parts = others;
        let old = get_field(of.clone(), field.name().as_str());
        let value = match inside.is_empty() {
            true => old,
            false => {
                let deeper = |Assignment { mut path, value }: Assignment| {
                    path.remove(0);
                    Assignment { path, value }
                };
                with_parts(old, inside.into_iter().map(deeper).collect(), row)?
            }
        };
        let fits = value.get_type(row)? == *field.data_type();
        let value = if fits { value } else { cast(value, field.data_type().clone()) };
        values.extend([lit(field.name().as_str()), value]);
    }
    Ok(named_struct(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_backticks_separate_nothing() {
        assert_eq!(parts("t.b.x"), ["t", "b", "x"]);
        assert_eq!(parts("t.`a.b`"), ["t", "a.b"]);
        assert_eq!(parts("`a``.b`.c"), ["a`.b", "c"]);
    }

    #[test]
    fn a_part_and_the_whole_are_set_twice() {
        let field = Field::new("x", DataType::Int32, true);
        let b = Field::new("b", DataType::Struct(vec![field].into()), true);
        let table = Fields::from(vec![b]);
        let set = |name: &str| {
            Assignment::new(&table, &parts(name), lit(1), NameCase::Insensitive).unwrap()
        };
        for (one, other) in [("b", "B"), ("b.x", "b"), ("b", "B.X"), ("b.x", "b.x")] {
            let error = refuse_twice(&[set(one), set(other)], "TWICE").unwrap_err();
            assert_eq!(error.condition(), Some("TWICE"), "{one} {other}");
        }
        let error = Assignment::new(&table, &parts("b.y"), lit(1), NameCase::Insensitive);
        assert_eq!(error.err().unwrap().condition(), Some("FIELD_NOT_FOUND"));
        let error = Assignment::new(&table, &parts("b.x.z"), lit(1), NameCase::Insensitive);
        assert_eq!(error.err().unwrap().condition(), Some("INVALID_EXTRACT_BASE_FIELD_TYPE"));
    }
}
