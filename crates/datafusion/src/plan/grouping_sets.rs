//! `ROLLUP`, `CUBE` and `GROUPING SETS` over a stream: every row once for each set, below the
//! aggregation, with null for the groups that are not in the set, and with the set's id.
//!
//! As Spark's Expand. Inside, the sets of a row are a list of structs that is unnested, so that the
//! input is read once.

use super::event_time::EVENT_TIME_KEY;
use super::windows::unused_name;
use arrow::array::{Array, ArrayRef, ListArray, StructArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Column, Result, internal_err, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{FieldMetadata, GroupingSet};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most groups that sets may be made of: their ids have a bit for each.
const GROUPS_MAX: usize = 32;

/// Sets of groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sets {
    /// For each set, which of the groups are in it.
    members: Vec<Vec<bool>>,
    /// The type of the id of a set.
    id: DataType,
}

/// The groups, and the sets of them, if a grouping has sets.
pub(super) fn of(group: &[Expr]) -> Result<Option<(Vec<Expr>, Sets)>> {
    let [Expr::GroupingSet(sets)] = group else { return Ok(None) };
    let exprs: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
    if exprs.len() > GROUPS_MAX {
        return plan_err!("grouping sets have {} groups, at most {GROUPS_MAX}", exprs.len());
    }
    let member = |set: &[&Expr]| exprs.iter().map(|e| set.contains(&e)).collect::<Vec<bool>>();
    let members: Vec<Vec<bool>> = match sets {
        GroupingSet::GroupingSets(sets) => {
            sets.iter().map(|set| member(&set.iter().collect::<Vec<_>>())).collect()
        }
        GroupingSet::Rollup(all) => {
            (0..=all.len()).rev().map(|n| member(&all[..n].iter().collect::<Vec<_>>())).collect()
        }
        GroupingSet::Cube(all) => (0..1_usize << all.len())
            .map(|mask| {
                let chosen = all.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0);
                member(&chosen.map(|(_, e)| e).collect::<Vec<_>>())
            })
            .collect(),
    };
    let highest = ordinals(&members).into_iter().max().unwrap_or_default();
    let id = Aggregate::grouping_id_type(exprs.len(), highest);
    Ok(Some((exprs, Sets { members, id })))
}

/// How often each set was there before: equal sets have different ids.
fn ordinals(members: &[Vec<bool>]) -> Vec<usize> {
    let before = |at: usize| members[..at].iter().filter(|other| **other == members[at]).count();
    (0..members.len()).map(before).collect()
}

impl Sets {
    /// The ids, as DataFusion's `grouping()` reads them: a bit for each group that is not in the
    /// set, the last group's the lowest, and above them which of equal sets it is.
    fn ids(&self) -> Vec<u64> {
        let bits =
            |set: &Vec<bool>| set.iter().fold(0_u64, |id, member| id << 1 | u64::from(!member));
        let width = self.members.first().map_or(0, Vec::len);
        let each = self.members.iter().zip(ordinals(&self.members));
        each.map(|(set, ordinal)| (ordinal as u64) << width | bits(set)).collect()
    }
}

/// The input with each row once for each set, and the groups and the id over it.
pub(super) fn expand(
    input: LogicalPlan,
    groups: Vec<Expr>,
    sets: Sets,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    let name = unused_name(&input, "__sets");
    let mut marks = Vec::with_capacity(groups.len());
    for group in &groups {
        marks.push(group.to_field(input.schema())?.1.metadata().contains_key(EVENT_TIME_KEY));
    }
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let count = groups.len();
    let expansion = Expansion { sets, signature: Signature::any(count, Volatility::Immutable) };
    let groups: Vec<Expr> = groups.into_iter().map(|group| group.unalias_nested().data).collect();
    columns.push(ScalarUDF::from(expansion).call(groups).alias(&name));
    let input = LogicalPlanBuilder::from(input)
        .project(columns)?
        .unnest_column(Column::new_unqualified(&name))?
        .build()?;
    let column = Expr::Column(Column::new_unqualified(&name));
    let mut expanded: Vec<Expr> = (0..count)
        .zip(marks)
        .map(|(at, marked)| {
            let metadata: BTreeMap<String, String> = marked
                .then(|| (EVENT_TIME_KEY.to_owned(), "true".to_owned()))
                .into_iter()
                .collect();
            let group = get_field(column.clone(), group_name(at));
            group.alias_with_metadata(group_name(at), Some(FieldMetadata::new(metadata)))
        })
        .collect();
    expanded.push(get_field(column, ID).alias(Aggregate::INTERNAL_GROUPING_ID));
    Ok((input, expanded))
}

const ID: &str = "id";

fn group_name(at: usize) -> String {
    format!("group_{at}")
}

/// The sets of each row, as a list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Expansion {
    sets: Sets,
    signature: Signature,
}

impl Expansion {
    fn fields(&self, groups: &[DataType]) -> Fields {
        let groups = groups
            .iter()
            .enumerate()
            .map(|(at, data_type)| Field::new(group_name(at), data_type.clone(), true));
        groups.chain([Field::new(ID, self.sets.id.clone(), false)]).collect()
    }
}

impl ScalarUDFImpl for Expansion {
    fn name(&self) -> &str {
        "grouping_sets"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = DataType::Struct(self.fields(types));
        Ok(DataType::List(Arc::new(Field::new_list_field(item, false))))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, sets) = (args.number_rows, self.sets.members.len());
        let Ok(_) = i32::try_from(rows * sets) else {
            return plan_err!("{rows} rows in {sets} grouping sets: read fewer rows at a time");
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(args.args.len() + 1);
        for (at, group) in args.args.iter().enumerate() {
            let group = group.to_array(rows)?;
            let indices: UInt32Array = (0..rows)
                .flat_map(|row| {
                    self.sets.members.iter().map(move |set| set[at].then_some(row as u32))
                })
                .collect();
            columns.push(take(&group, &indices, None)?);
        }
        let ids = self.sets.ids();
        let ids = UInt64Array::from_iter_values((0..rows).flat_map(|_| ids.iter().copied()));
        columns.push(cast(&ids, &self.sets.id)?);
        let types: Vec<DataType> =
            columns[..args.args.len()].iter().map(|column| column.data_type().clone()).collect();
        let DataType::List(field) = self.return_type(&types)? else {
            return internal_err!("grouping sets are a list");
        };
        let items = StructArray::try_new(self.fields(&types), columns, None)?;
        let offsets = OffsetBuffer::from_repeated_length(sets, rows);
        let lists = ListArray::try_new(field, offsets, Arc::new(items), None)?;
        Ok(ColumnarValue::Array(Arc::new(lists)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, ident};

    fn sets(set: GroupingSet) -> (Vec<Vec<bool>>, Vec<u64>) {
        let (_, sets) = of(&[Expr::GroupingSet(set)]).unwrap().unwrap();
        let ids = sets.ids();
        (sets.members, ids)
    }

    #[test]
    fn a_rollup_drops_groups_from_the_right() {
        let (members, ids) = sets(GroupingSet::Rollup(vec![col("a"), col("b")]));
        assert_eq!(members, [vec![true, true], vec![true, false], vec![false, false]]);
        assert_eq!(ids, [0, 1, 3]);
    }

    #[test]
    fn a_cube_has_all_sets() {
        let (members, ids) = sets(GroupingSet::Cube(vec![col("a"), col("b")]));
        assert_eq!(members.len(), 4);
        assert_eq!(ids, [0, 2, 1, 3]);
    }

    #[test]
    fn equal_sets_have_different_ids() {
        let set = || vec![ident("a")];
        let (_, ids) = sets(GroupingSet::GroupingSets(vec![set(), vec![ident("b")], set()]));
        assert_eq!(ids, [1, 2, 5]);
        assert!(of(&[col("a")]).unwrap().is_none());
    }
}
