//! Processors with lists.

use super::{Call, HandlerResult, InputRows, Key, StatefulProcessor, Variables, name, variable};
use fluvial::transform::ListState;

/// Driven by rows of (action, value).
#[derive(Default)]
pub(super) struct ListOps {
    list: ListState<Option<String>>,
}

fn parts(text: &str) -> impl Iterator<Item = Option<String>> + '_ {
    text.split(',').map(|part| Some(part.to_owned()))
}

impl StatefulProcessor for ListOps {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.list = variables.list(variable("l", "v STRING")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let mut shown = Vec::new();
        for row in rows {
            let value = row.get::<Option<&str>>("value")?;
            let text = value.unwrap_or_default();
            match row.get::<&str>("action")? {
                "emit" => shown.push(value.map(str::to_owned)),
                "emitAll" => {
                    shown.extend(self.list.get(call)?);
                    self.list.clear(call)?;
                }
                "append" => self.list.append(call, value.map(str::to_owned))?,
                "appendAll" => self.list.append_all(call, parts(text))?,
                "put" => self.list.put(call, parts(text))?,
                "remove" => self.list.clear(call)?,
                "exists" => shown.push(Some(self.list.exists(call)?.to_string())),
                "appendEmpty" => self.list.append_all(call, [])?,
                "putEmpty" => self.list.put(call, [])?,
                "appendNull" => self.list.append(call, None)?,
                other => return Err(format!("action {other} is unknown").into()),
            }
        }
        for value in shown {
            call.emit((name(key)?, value))?;
        }
        Ok(())
    }
}

/// Collects values, sorted in each batch, until there are four.
#[derive(Default)]
pub(super) struct ListBuffer {
    values: ListState<i64>,
}

impl StatefulProcessor for ListBuffer {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.values = variables.list(variable("buf", "v BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let values = rows.iter().map(|row| row.get::<i64>("v"));
        let mut values = values.collect::<fluvial::Result<Vec<_>>>()?;
        values.sort_unstable();
        self.values.append_all(call, values)?;
        let all = self.values.get(call)?;
        if all.len() >= 4 {
            self.values.clear(call)?;
        }
        let text = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        call.emit((name(key)?, all.len() as i64, text))?;
        Ok(())
    }
}

/// Counts by the length of a list.
#[derive(Default)]
pub(super) struct CountAsList {
    list: ListState<i64>,
}

impl StatefulProcessor for CountAsList {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.list = variables.list(variable("cnt", "n BIGINT")?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for _ in rows {
            self.list.append(call, 1)?;
        }
        let count = self.list.get(call)?.len() as i64;
        call.emit((name(key)?, count))?;
        Ok(())
    }
}
