//! `current_timestamp`, `current_date` and `current_timezone`: one time for a whole query. In a
//! streaming query it is the time of the batch, which the planner puts in their place.

use crate::functions::calendar::MICROS_PER_DAY;
use crate::functions::zone::Zone;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |what: Clock, aliases: &[&'static str]| {
        let signature = Signature::nullary(Volatility::Stable);
        let function = ScalarUDF::from(ClockFunction { what, signature });
        Arc::new(function.with_aliases(aliases.iter().copied()))
    };
    vec![
        of(Clock::Now, &["now"]),
        of(Clock::LocalNow, &[]),
        of(Clock::Today, &["curdate"]),
        of(Clock::Zone, &[]),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Clock {
    Now,
    LocalNow,
    Today,
    Zone,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ClockFunction {
    what: Clock,
    signature: Signature,
}

impl ScalarUDFImpl for ClockFunction {
    fn name(&self) -> &str {
        match self.what {
            Clock::Now => "current_timestamp",
            Clock::LocalNow => "localtimestamp",
            Clock::Today => "current_date",
            Clock::Zone => "current_timezone",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.what {
            Clock::Now => timestamp(),
            Clock::LocalNow => DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
            Clock::Today => DataType::Date32,
            Clock::Zone => DataType::Utf8,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let zone = Zone::of_session(info.config_options())?;
        if self.what == Clock::Zone {
            return Ok(ExprSimplifyResult::Simplified(lit(zone.name())));
        }
        let Some(start) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let micros = start.timestamp_micros();
        let value = match self.what {
            Clock::Now => ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())),
            Clock::LocalNow => ScalarValue::TimestampMicrosecond(Some(zone.to_local(micros)), None),
            _ => {
                let days = zone.to_local(micros).div_euclid(MICROS_PER_DAY);
                ScalarValue::Date32(i32::try_from(days).ok())
            }
        };
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is replaced before a query runs", self.name())
    }
}
