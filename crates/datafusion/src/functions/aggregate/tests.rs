//! Laws of all aggregate functions: merging states is updating, whatever the cut, for one group
//! and for many.

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{AggregateUDF, EmitTo};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{col, lit};
use std::sync::Arc;

fn rows() -> RecordBatch {
    let v = [Some(3), None, Some(7), Some(3), Some(-2), None, Some(0), Some(11), Some(7), Some(7)];
    let d = [Some(1.5), Some(-2.25), None, Some(0.1), Some(8.5), None, Some(4.0), Some(-0.0)];
    let d = d.into_iter().chain([Some(f64::NAN), Some(1e9)]);
    let s = ["x", "a", "x", "é", "", "b", "c", "x", "a", "zz"];
    let b = v.iter().map(|v| v.map(|v| v > 2));
    let dec = v.iter().map(|v| v.map(|v| i128::from(v) * 125));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("v", Arc::new(Int64Array::from(v.to_vec()))),
        ("d", Arc::new(d.collect::<Float64Array>())),
        ("s", Arc::new(StringArray::from(s.to_vec()))),
        ("b", Arc::new(b.collect::<BooleanArray>())),
        (
            "dec",
            Arc::new(dec.collect::<Decimal128Array>().with_data_type(DataType::Decimal128(10, 2))),
        ),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, c)| c).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Calls of every function: the columns, then the literals.
fn calls() -> Vec<(Arc<AggregateUDF>, Vec<&'static str>, Vec<ScalarValue>)> {
    let mut calls = Vec::new();
    for function in super::functions() {
        let (columns, literals): (Vec<Vec<&str>>, Vec<ScalarValue>) = match function.name() {
            "bool_and" | "bool_or" | "count_if" => (vec![vec!["b"]], vec![]),
            "bit_and" | "bit_or" | "bit_xor" => (vec![vec!["v"]], vec![]),
            "string_agg" => (vec![vec!["s"]], vec![ScalarValue::from("-")]),
            "max_by" | "min_by" => (vec![vec!["s", "v"], vec!["v", "d"]], vec![]),
            "percentile" | "percentile_approx" => (vec![vec!["d"]], vec![ScalarValue::from(0.3)]),
            "percentile_cont" | "percentile_disc" => {
                (vec![vec!["d"]], vec![ScalarValue::from(0.3), ScalarValue::from(true)])
            }
            "histogram_numeric" => (vec![vec!["d"]], vec![ScalarValue::from(20_i32)]),
            "corr" | "covar_pop" | "covar_samp" => (vec![vec!["d", "d"]], vec![]),
            name if name.starts_with("regr") => (vec![vec!["d", "d"]], vec![]),
            "sum" | "try_sum" | "avg" | "try_avg" => {
                (vec![vec!["v"], vec!["d"], vec!["dec"]], vec![])
            }
            "min"
            | "max"
            | "first"
            | "last"
            | "any_value"
            | "collect_list"
            | "collect_set"
            | "mode"
            | "mode_descending"
            | "approx_count_distinct"
            | "count" => (vec![vec!["v"], vec!["d"], vec!["s"], vec!["b"], vec!["dec"]], vec![]),
            _ => (vec![vec!["d"]], vec![]),
        };
        for columns in columns {
            calls.push((Arc::clone(&function), columns, literals.clone()));
        }
    }
    calls
}

fn expr_of(
    function: &Arc<AggregateUDF>,
    columns: &[&str],
    literals: &[ScalarValue],
    rows: &RecordBatch,
) -> (AggregateFunctionExpr, Vec<ArrayRef>) {
    let schema = rows.schema();
    let mut args: Vec<Arc<dyn PhysicalExpr>> =
        columns.iter().map(|name| col(name, &schema).unwrap()).collect();
    args.extend(literals.iter().map(|value| lit(value.clone())));
    let types: Vec<DataType> = args.iter().map(|a| a.data_type(&schema).unwrap()).collect();
    let coerced = match function.coerce_types(&types) {
        Ok(coerced) => coerced,
        Err(_) => types.clone(),
    };
    let args: Vec<Arc<dyn PhysicalExpr>> = args
        .into_iter()
        .zip(&coerced)
        .map(|(arg, to)| {
            datafusion::physical_expr::expressions::cast(arg, &schema, to.clone()).unwrap()
        })
        .collect();
    let values = args
        .iter()
        .map(|a| a.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap())
        .collect();
    let expr = AggregateExprBuilder::new(Arc::clone(function), args)
        .schema(schema)
        .alias("x")
        .build()
        .unwrap();
    (expr, values)
}

/// Equal but for the last digits of doubles.
fn same(a: &ScalarValue, b: &ScalarValue) -> bool {
    match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => {
            (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs())
        }
        (a, b) => a == b,
    }
}

#[test]
fn merging_states_is_updating() {
    let rows = rows();
    for (function, columns, literals) in calls() {
        let name = format!("{}({columns:?})", function.name());
        let (expr, values) = expr_of(&function, &columns, &literals, &rows);
        let mut whole = expr.create_accumulator().unwrap();
        whole.update_batch(&values).unwrap();
        let expected = whole.evaluate().unwrap();
        assert_eq!(&expected.data_type(), expr.field().data_type(), "{name}");
        for cut in [0, 1, 4, 10] {
            let mut merged = expr.create_accumulator().unwrap();
            for (start, length) in [(0, cut), (cut, rows.num_rows() - cut)] {
                let part: Vec<ArrayRef> = values.iter().map(|v| v.slice(start, length)).collect();
                let mut of_part = expr.create_accumulator().unwrap();
                of_part.update_batch(&part).unwrap();
                let state: Vec<ArrayRef> =
                    of_part.state().unwrap().iter().map(|s| s.to_array().unwrap()).collect();
                let fields = expr.state_fields().unwrap();
                for (column, field) in state.iter().zip(&fields) {
                    assert_eq!(column.data_type(), field.data_type(), "{name}: a state");
                }
                assert_eq!(state.len(), fields.len(), "{name}");
                merged.merge_batch(&state).unwrap();
            }
            let found = merged.evaluate().unwrap();
            assert!(same(&found, &expected), "{name} cut at {cut}: {found} is not {expected}");
        }
    }
}

#[test]
fn groups_agree_with_single_accumulators() {
    let rows = rows();
    let groups: Vec<usize> = (0..rows.num_rows()).map(|row| row % 3).collect();
    for (function, columns, literals) in calls() {
        let name = format!("{}({columns:?})", function.name());
        let (expr, values) = expr_of(&function, &columns, &literals, &rows);
        if !expr.groups_accumulator_supported() {
            continue;
        }
        let mut partial = expr.create_groups_accumulator().unwrap();
        partial.update_batch(&values, &groups, None, 4).unwrap();
        let state = partial.state(EmitTo::All).unwrap();
        let mut last = expr.create_groups_accumulator().unwrap();
        // The fourth group is empty; the states come in another order.
        last.merge_batch(&state, &[2, 0, 1, 3], 4).unwrap();
        let results = last.evaluate(EmitTo::All).unwrap();
        for (group, at) in [(0_usize, 2), (1, 0), (2, 1)] {
            let rows_of: Vec<u32> =
                (0..groups.len() as u32).filter(|r| groups[*r as usize] == group).collect();
            let indices = arrow::array::UInt32Array::from(rows_of);
            let own: Vec<ArrayRef> =
                values.iter().map(|v| arrow::compute::take(v, &indices, None).unwrap()).collect();
            let mut single = expr.create_accumulator().unwrap();
            single.update_batch(&own).unwrap();
            let expected = single.evaluate().unwrap();
            let found = ScalarValue::try_from_array(&results, at).unwrap();
            assert!(same(&found, &expected), "{name} of {group}: {found} is not {expected}");
        }
        let one_each = expr.create_groups_accumulator().unwrap();
        let converted = one_each.convert_to_state(&values, None).unwrap();
        let mut from_rows = expr.create_groups_accumulator().unwrap();
        from_rows.merge_batch(&converted, &groups, 3).unwrap();
        let found = from_rows.evaluate(EmitTo::All).unwrap();
        for (group, at) in [(0, 2), (1, 0), (2, 1)] {
            let found = ScalarValue::try_from_array(&found, group).unwrap();
            let expected = ScalarValue::try_from_array(&results, at).unwrap();
            assert!(same(&found, &expected), "{name} by row: {found} is not {expected}");
        }
    }
}
