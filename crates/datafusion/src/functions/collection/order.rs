//! Arrays in another order, and their extremes.

use super::list::{item_of, list, list_type, of_places, range};
use crate::functions::error::unexpected_type;
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::string_reverse;
use arrow::array::{Array, ArrayRef, AsArray, UInt32Builder, make_comparator};
use arrow::compute::{self, SortOptions};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use std::cmp::Ordering;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Boolean};
    let same = || Gives::Of(|types| list_type("sort_array", &types[0]));
    let item = || {
        Gives::Of(|types| match item_of(&types[0]) {
            Some(item) => Ok(item.data_type().clone()),
            None => Err(unexpected_type("array_max", "an array", &types[0])),
        })
    };
    vec![
        // Nulls are the least for `sort_array`, and last for `array_sort`.
        Spec::new(&["sort_array"], &[Any, Boolean], same(), |c| {
            let ascending = match c.args.get(1) {
                Some(flags) => flags.as_boolean().iter().next().flatten().unwrap_or(true),
                None => true,
            };
            sorted(c, SortOptions { descending: !ascending, nulls_first: ascending })
        })
        .optional_from(1),
        Spec::new(&["array_sort"], &[Any], same(), |c| {
            sorted(c, SortOptions { descending: false, nulls_first: false })
        }),
        Spec::new(
            &["reverse"],
            &[Any],
            Gives::Of(|types| match &types[0] {
                list @ DataType::List(_) => list_type("reverse", list),
                _ => Ok(DataType::Utf8),
            }),
            |c| match c.args[0].data_type() {
                DataType::List(_) => arranged(c, |places| places.reverse()),
                _ => string_reverse(c),
            },
        ),
        Spec::new(&["array_max"], &[Any], item(), |c| extreme(c, Ordering::Greater)).may_be_null(),
        Spec::new(&["array_min"], &[Any], item(), |c| extreme(c, Ordering::Less)).may_be_null(),
    ]
}

fn sorted(call: &Call<'_>, options: SortOptions) -> Result<ArrayRef> {
    let values = list(call, 0)?.values().clone();
    let compare = make_comparator(&values, &values, options)?;
    arranged(call, |places| places.sort_by(|a, b| compare(*a, *b)))
}

/// Arrays with their elements put in another order.
fn arranged(call: &Call<'_>, arrange: impl Fn(&mut Vec<usize>)) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    for row in 0..list.len() {
        let mut own = Vec::new();
        if list.is_valid(row) {
            let (start, end) = range(list, row);
            own.extend(start..end);
            arrange(&mut own);
        }
        lengths.push(own.len());
        places.extend(own.into_iter().map(|at| (0, at)));
    }
    of_places(call, &[list.values().as_ref()], places, lengths, list.nulls().cloned())
}

/// The greatest or least element that is not null.
fn extreme(call: &Call<'_>, wanted: Ordering) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let values = list.values();
    let compare = make_comparator(values, values, SortOptions::default())?;
    let mut places = UInt32Builder::with_capacity(list.len());
    for row in 0..list.len() {
        let (start, end) = range(list, row);
        let candidates = (start..end).filter(|at| list.is_valid(row) && values.is_valid(*at));
        let best = candidates.reduce(|a, b| if compare(b, a) == wanted { b } else { a });
        places.append_option(best.map(|at| at as u32));
    }
    Ok(compute::take(values, &places.finish(), None)?)
}
