//! Parts of dates and times: `year`, `hour`, `dayofweek`, `date_part`, ...

use crate::functions::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, iso_week, iso_weekday, split_micros,
};
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::{spark, wrong_arguments};
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, TimestampMicrosecondType};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

use super::pattern::{DAYS, MONTHS};

pub(super) fn functions() -> Vec<Spec> {
    const TIME: &[Kind] = &[Kind::Time];
    macro_rules! parts {
        ($($part:ident: $($name:literal),+;)*) => {
            vec![$(Spec::new(&[$($name),+], TIME, Gives::Int, |call| part(call, Part::$part))),*]
        };
    }
    let mut functions = parts! {
        Year: "year";
        Month: "month";
        Day: "day", "dayofmonth";
        DayOfWeek: "dayofweek";
        Weekday: "weekday";
        DayOfYear: "dayofyear";
        Week: "weekofyear";
        Quarter: "quarter";
        Hour: "hour";
        Minute: "minute";
        Second: "second";
    };
    functions.push(Spec::new(&["dayname"], TIME, Gives::Text, |call| {
        named(call, |days| DAYS[(iso_weekday(days) - 1) as usize])
    }));
    functions.push(Spec::new(&["monthname"], TIME, Gives::Text, |call| {
        named(call, |days| MONTHS[(Civil::from_days(days).month - 1) as usize])
    }));
    functions
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    /// 1 = Sunday.
    DayOfWeek,
    /// 1 = Monday.
    IsoDayOfWeek,
    /// 0 = Monday.
    Weekday,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

impl Part {
    fn of(self, local: i64) -> i64 {
        let (days, of_day) = split_micros(local);
        let seconds = of_day / MICROS_PER_SECOND;
        match self {
            Self::Year => Civil::from_days(days).year,
            Self::IsoYear => iso_week(days).0,
            Self::Quarter => (Civil::from_days(days).month - 1) / 3 + 1,
            Self::Month => Civil::from_days(days).month,
            Self::Week => iso_week(days).1,
            Self::Day => Civil::from_days(days).day,
            Self::DayOfWeek => iso_weekday(days) % 7 + 1,
            Self::IsoDayOfWeek => iso_weekday(days),
            Self::Weekday => iso_weekday(days) - 1,
            Self::DayOfYear => Civil::from_days(days).day_of_year(),
            Self::Hour => seconds / 3600,
            Self::Minute => seconds / 60 % 60,
            Self::Second => seconds % 60,
        }
    }

    /// The name of a field of `date_part` and `extract`.
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" | "y" | "years" | "yr" | "yrs" => Self::Year,
            "yearofweek" => Self::IsoYear,
            "quarter" | "qtr" => Self::Quarter,
            "month" | "mon" | "mons" | "months" => Self::Month,
            "week" | "w" | "weeks" => Self::Week,
            "day" | "d" | "days" => Self::Day,
            "dayofweek" | "dow" => Self::DayOfWeek,
            "dayofweek_iso" | "dow_iso" => Self::IsoDayOfWeek,
            "doy" => Self::DayOfYear,
            "hour" | "h" | "hours" | "hr" | "hrs" => Self::Hour,
            "minute" | "m" | "min" | "mins" | "minutes" => Self::Minute,
            "second" | "s" | "sec" | "seconds" | "secs" => Self::Second,
            _ => return None,
        })
    }
}

/// Times as local microseconds.
fn local_times(times: &ArrayRef, zone: Zone) -> Result<Vec<Option<i64>>> {
    let has_zone = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let micros = match times.data_type() {
        DataType::Date32 => {
            let days = times.as_primitive::<arrow::datatypes::Date32Type>();
            return Ok(days.iter().map(|d| d.map(|d| i64::from(d) * MICROS_PER_DAY)).collect());
        }
        DataType::Timestamp(..) => times.as_primitive::<TimestampMicrosecondType>(),
        other => return internal_err!("{other} has no parts"),
    };
    let local = |t: i64| if has_zone { zone.to_local(t) } else { t };
    Ok(micros.iter().map(|t| t.map(local)).collect())
}

fn part(call: &Call<'_>, part: Part) -> Result<ArrayRef> {
    let times = local_times(&call.args[0], call.zone)?;
    let values = times.into_iter().map(|t| t.map(|t| part.of(t) as i32));
    Ok(Arc::new(values.collect::<arrow::array::PrimitiveArray<Int32Type>>()))
}

fn named(call: &Call<'_>, name: impl Fn(i64) -> &'static str) -> Result<ArrayRef> {
    let times = local_times(&call.args[0], call.zone)?;
    let names = times.into_iter().map(|t| t.map(|t| &name(t.div_euclid(MICROS_PER_DAY))[..3]));
    Ok(Arc::new(names.collect::<StringArray>()))
}

/// `date_part(field, time)` and `extract(field FROM time)`.
pub(crate) fn date_part_udf() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(DatePart { signature }).with_aliases(["datepart"]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    signature: Signature,
}

fn part_named(name: &str) -> Result<Part> {
    Part::named(name).ok_or_else(|| {
        spark("INVALID_EXTRACT_FIELD", format!("dates and times have no part `{name}`"))
    })
}

/// Seconds come with their fraction.
fn result_type(part: Part) -> DataType {
    if part == Part::Second { DataType::Decimal128(8, 6) } else { DataType::Int32 }
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        "date_part"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, time @ (DataType::Date32 | DataType::Timestamp(..))] => {
                Ok(vec![DataType::Utf8, time.clone()])
            }
            [_, _] => Ok(vec![DataType::Utf8, timestamp()]),
            _ => Err(wrong_arguments("date_part", "2", types.len())),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type depends on the field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(Some(Some(name))) =
            args.scalar_arguments.first().map(|a| a.map(|v| v.try_as_str().flatten()))
        else {
            return Err(spark(
                "NON_FOLDABLE_ARGUMENT",
                "the field of `date_part` must be a constant such as 'year'",
            ));
        };
        let nullable = args.arg_fields.iter().any(|f| f.is_nullable());
        Ok(Arc::new(Field::new("date_part", result_type(part_named(name)?), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), times] = args.args.as_slice() else {
            return internal_err!("a field and a time");
        };
        let part = part_named(name.try_as_str().flatten().unwrap_or_default())?;
        let zone = Zone::of_session(&args.config_options)?;
        let mut array = times.to_array(args.number_rows)?;
        if !matches!(array.data_type(), DataType::Date32 | DataType::Timestamp(..)) {
            array = cast_array(&array, &timestamp(), CastMode::Ansi, zone)?;
        }
        let local = local_times(&array, zone)?;
        if part == Part::Second {
            let micros = |t: i64| i128::from(t.rem_euclid(60 * MICROS_PER_SECOND));
            let values = local.into_iter().map(|t| t.map(micros)).collect::<Decimal128Array>();
            let values = values.with_data_type(result_type(part));
            return Ok(ColumnarValue::Array(Arc::new(values)));
        }
        let values = local.into_iter().map(|t| t.map(|t| part.of(t) as i32));
        let values = values.collect::<arrow::array::PrimitiveArray<Int32Type>>();
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}
