//! `window`, `session_window` and `window_time`.
//!
//! In a streaming plan the first two are markers that the planner rewrites. A tumbling window is
//! also a plain function of its time; sliding and session windows are not, since a row may lie
//! in several.

use super::cast::is_string;
use super::error::{spark, unexpected_type, wrong_arguments};
use crate::plan::event_time::{EVENT_TIME_KEY, is_window};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::ddl::timestamp;
use fluvial_operators::{WindowSpec, window_time, window_type};
use std::sync::Arc;

/// `window(time, size[, slide[, start]])`: a struct of `start` and `end`.
pub fn window_udf() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(WindowFunction::new(Kind::Window)))
}

/// `session_window(time, gap)`: a struct of `start` and `end`.
pub fn session_window_udf() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(WindowFunction::new(Kind::Session)))
}

/// `window_time(window)`: the last microsecond of a window, its event time.
pub fn window_time_udf() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(WindowTime {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Window,
    Session,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowFunction {
    kind: Kind,
    signature: Signature,
}

impl WindowFunction {
    fn new(kind: Kind) -> Self {
        Self { kind, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The event-time mark of the argument, kept on the result.
fn with_mark_of(field: Field, argument: &Field) -> FieldRef {
    let mark = argument.metadata().get_key_value(EVENT_TIME_KEY);
    let metadata = mark.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect();
    Arc::new(field.with_metadata(metadata))
}

impl ScalarUDFImpl for WindowFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Window => "window",
            Kind::Session => "session_window",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (expected, fits) = match self.kind {
            Kind::Window => ("2 to 4", (2..=4).contains(&types.len())),
            Kind::Session => ("2", types.len() == 2),
        };
        if !fits {
            return Err(wrong_arguments(self.name(), expected, types.len()));
        }
        let mut coerced = types.to_vec();
        coerced[0] = match &types[0] {
            t @ DataType::Timestamp(TimeUnit::Microsecond, _) => t.clone(),
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            t if is_window(t) => t.clone(),
            DataType::Date32 | DataType::Null => timestamp(),
            t if is_string(t) => timestamp(),
            other => {
                return Err(unexpected_type(self.name(), "a timestamp or a window", other));
            }
        };
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.first() {
            Some(DataType::Timestamp(_, zone)) => window_type(zone.clone()),
            Some(window) => window.clone(),
            None => return Err(wrong_arguments(self.name(), "at least 2", 0)),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let result = self.return_type(&types)?;
        let time = &args.arg_fields[0];
        Ok(with_mark_of(Field::new(self.name(), result, time.is_nullable()), time))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((time, texts)) = args.args.split_first() else {
            return internal_err!("{} has arguments", self.name());
        };
        let mut durations = Vec::with_capacity(texts.len());
        for text in texts {
            match text {
                ColumnarValue::Scalar(value) if value.try_as_str().flatten().is_some() => {
                    durations.push(value.try_as_str().flatten().unwrap_or_default().to_owned());
                }
                _ => {
                    return Err(spark(
                        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                        "window durations are literals such as '5 minutes'",
                    ));
                }
            }
        }
        let text = |i: usize| durations.get(i).map(String::as_str);
        let spec = WindowSpec::parse(text(0).unwrap_or_default(), text(1), text(2))
            .map_err(crate::error::plan)?;
        if self.kind == Kind::Session || !spec.is_tumbling() {
            return Err(spark(
                "WINDOW_OUTSIDE_OF_QUERY",
                format!(
                    "a row lies in several of these windows: {} is for GROUP BY and for a \
                     column of a SELECT, not inside another expression",
                    self.name()
                ),
            ));
        }
        let mut times: ArrayRef = time.to_array(args.number_rows)?;
        if let Some(windows) = times.as_struct_opt() {
            times = Arc::new(window_time(windows).map_err(crate::error::plan)?);
        }
        let Some(times) = times.as_primitive_opt::<TimestampMicrosecondType>() else {
            return internal_err!("window takes timestamps, not {}", times.data_type());
        };
        Ok(ColumnarValue::Array(Arc::new(spec.tumbling(times))))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowTime {
    signature: Signature,
}

impl ScalarUDFImpl for WindowTime {
    fn name(&self) -> &str {
        "window_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [window] if is_window(window) => Ok(types.to_vec()),
            [other] => Err(unexpected_type("window_time", "a window", other)),
            _ => Err(wrong_arguments("window_time", "1", types.len())),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Struct(fields)] if fields.len() == 2 => Ok(fields[1].data_type().clone()),
            _ => internal_err!("window_time takes a window"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [window] = args.arg_fields else { return internal_err!("window_time takes a window") };
        let result = self.return_type(&[window.data_type().clone()])?;
        Ok(with_mark_of(Field::new(self.name(), result, window.is_nullable()), window))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [window] = args.args.as_slice() else {
            return internal_err!("window_time takes a window");
        };
        let windows = window.to_array(args.number_rows)?;
        let Some(windows) = windows.as_struct_opt() else {
            return internal_err!("window_time takes windows, not {}", windows.data_type());
        };
        Ok(ColumnarValue::Array(Arc::new(window_time(windows).map_err(crate::error::plan)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(udf: &ScalarUDF, argument: &FieldRef, texts: usize) -> FieldRef {
        let text = Arc::new(Field::new("t", DataType::Utf8, false));
        let mut fields = vec![Arc::clone(argument)];
        fields.extend(std::iter::repeat_n(text, texts));
        let scalars = vec![None; fields.len()];
        let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars };
        udf.return_field_from_args(args).unwrap()
    }

    #[test]
    fn the_mark_goes_from_time_to_window_and_back() {
        let mark = [(EVENT_TIME_KEY.to_owned(), "true".to_owned())];
        let time = Arc::new(Field::new("ts", timestamp(), true).with_metadata(mark.into()));
        let window = field_of(&window_udf(), &time, 1);
        assert!(is_window(window.data_type()));
        assert!(window.metadata().contains_key(EVENT_TIME_KEY));
        let back = field_of(&window_time_udf(), &window, 0);
        assert_eq!(back.data_type(), time.data_type());
        assert!(back.metadata().contains_key(EVENT_TIME_KEY));
        let plain = Arc::new(Field::new("ts", timestamp(), true));
        assert!(field_of(&window_udf(), &plain, 1).metadata().is_empty());
    }

    #[test]
    fn other_types_are_refused() {
        let types = [DataType::Int64, DataType::Utf8];
        let error = window_udf().coerce_types(&types).unwrap_err();
        let error = crate::error::from_datafusion(error);
        assert_eq!(error.condition(), Some("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"));
    }
}
