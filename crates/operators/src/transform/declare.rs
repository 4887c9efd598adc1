//! Declaring the variables of a processor.

use super::handles::{ListState, MapState, ValueState};
use super::layout::{VariableId, variable_id};
use super::lists::Lists;
use super::maps::Maps;
use super::processor::TimeMode;
use super::state_row::StateRow;
use super::stored::Stored;
use super::values::Values;
use arrow::datatypes::Fields;
use fluvial_core::{Error, Result, StateField, StateVariable, VariableKind as Kind};
use std::marker::PhantomData;
use std::time::Duration;

/// How a variable is declared: its name, and what else there is to say about it.
///
/// ```
/// use fluvial_operators::transform::Variable;
/// use std::time::Duration;
///
/// let variable = Variable::named("seen").ttl(Duration::from_secs(3600));
/// # let _ = variable;
/// ```
#[derive(Debug, Clone)]
pub struct Variable {
    name: String,
    ttl: Option<Duration>,
    key_fields: Option<Fields>,
    fields: Option<Fields>,
}

impl Variable {
    /// A variable of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ttl: None, key_fields: None, fields: None }
    }

    /// What is written goes after this time, by the time of batches, unless it is written again.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Columns of the values: for records, or for other names than `value`, `_1`, `_2`, ...
    #[must_use]
    pub fn fields(self, fields: impl Into<Fields>) -> Self {
        Self { fields: Some(fields.into()), ..self }
    }

    /// Columns of the keys of a map.
    #[must_use]
    pub fn key_fields(self, fields: impl Into<Fields>) -> Self {
        Self { key_fields: Some(fields.into()), ..self }
    }
}

impl From<&str> for Variable {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

/// Columns as they are recorded.
pub(super) fn state_fields(fields: &Fields) -> Vec<StateField> {
    fields.iter().map(|field| StateField::of(field.name(), field.data_type())).collect()
}

/// A declared variable.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) key_fields: Fields,
    pub(super) fields: Fields,
    /// Milliseconds.
    pub(super) ttl_ms: Option<i64>,
    pub(super) id: VariableId,
    /// Its position among the variables.
    pub(super) slot: usize,
    /// Makes the memory of the variable for one batch.
    pub(super) open: fn(&Self) -> Result<Box<dyn Stored>>,
}

impl Declared {
    /// `ValueState<n: Int64>`: what must not change.
    fn description(kind: Kind, key_fields: &Fields, fields: &Fields, ttl: bool) -> String {
        let list = |fields: &Fields| {
            let each = fields.iter().map(|f| format!("{}: {}", f.name(), f.data_type()));
            each.collect::<Vec<_>>().join(", ")
        };
        let keys = match kind {
            Kind::Map => format!("{} -> ", list(key_fields)),
            Kind::Value | Kind::List => String::new(),
        };
        let ttl = if ttl { " with TTL" } else { "" };
        format!("{kind}<{keys}{}>{ttl}", list(fields))
    }

    pub(super) fn state_field(&self) -> StateField {
        let ttl = self.ttl_ms.is_some();
        let data_type = Self::description(self.kind, &self.key_fields, &self.fields, ttl);
        StateField { name: self.name.clone(), data_type }
    }

    /// What a reader needs who has no query.
    pub(super) fn state_variable(&self) -> StateVariable {
        StateVariable {
            name: self.name.clone(),
            kind: self.kind,
            keys: state_fields(&self.key_fields),
            values: state_fields(&self.fields),
            expires: self.ttl_ms.is_some(),
        }
    }
}

/// The variables of a processor, while it declares them.
#[derive(Debug)]
pub struct Variables {
    time_mode: TimeMode,
    pub(super) declared: Vec<Declared>,
    pub(super) deleted: Vec<String>,
}

impl Variables {
    pub(super) fn new(time_mode: TimeMode) -> Self {
        Self { time_mode, declared: Vec::new(), deleted: Vec::new() }
    }

    /// The time mode of the operator.
    pub fn time_mode(&self) -> TimeMode {
        self.time_mode
    }

    /// Declares one value for each key.
    ///
    /// # Errors
    ///
    /// `Invalid`: the name is taken, the TTL is not positive or the time mode has none, or the
    /// columns do not fit `T`.
    pub fn value<T: StateRow>(&mut self, variable: impl Into<Variable>) -> Result<ValueState<T>> {
        let variable = variable.into();
        let fields = T::fields(variable.fields.as_ref());
        let slot = self.add(Kind::Value, variable, Ok(Fields::empty()), fields, |declared| {
            Ok(Box::new(Values::<T>::new(declared)?))
        })?;
        Ok(ValueState { slot, of: PhantomData })
    }

    /// Declares a list for each key.
    ///
    /// # Errors
    ///
    /// As [`Self::value`].
    pub fn list<T: StateRow>(&mut self, variable: impl Into<Variable>) -> Result<ListState<T>> {
        let variable = variable.into();
        let fields = T::fields(variable.fields.as_ref());
        let slot = self.add(Kind::List, variable, Ok(Fields::empty()), fields, |declared| {
            Ok(Box::new(Lists::<T>::new(declared)?))
        })?;
        Ok(ListState { slot, of: PhantomData })
    }

    /// Declares a map for each key.
    ///
    /// # Errors
    ///
    /// As [`Self::value`].
    pub fn map<K: StateRow, V: StateRow>(
        &mut self,
        variable: impl Into<Variable>,
    ) -> Result<MapState<K, V>> {
        let variable = variable.into();
        let keys = K::fields(variable.key_fields.as_ref());
        let fields = V::fields(variable.fields.as_ref());
        let slot = self.add(Kind::Map, variable, keys, fields, |declared| {
            Ok(Box::new(Maps::<K, V>::new(declared)?))
        })?;
        Ok(MapState { slot, of: PhantomData })
    }

    /// Lets go of a variable that the processor no longer declares: its entries are removed.
    /// Without this they stay, unread.
    pub fn delete_if_exists(&mut self, name: &str) {
        self.deleted.push(name.to_owned());
    }

    fn add(
        &mut self,
        kind: Kind,
        variable: Variable,
        key_fields: Result<Fields>,
        fields: Result<Fields>,
        open: fn(&Declared) -> Result<Box<dyn Stored>>,
    ) -> Result<u32> {
        let Variable { name, ttl, .. } = variable;
        let of_it = |error: Error| error.at(format_args!("state variable {name}"));
        let (key_fields, fields) = (key_fields.map_err(of_it)?, fields.map_err(of_it)?);
        if self.declared.iter().any(|other| other.name == name) {
            return Err(Error::invalid(format!("two state variables have the name {name}"))
                .with_condition("STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED"));
        }
        let ttl_ms = ttl.map(|ttl| self.ttl_ms(&name, ttl)).transpose()?;
        let description = Declared::description(kind, &key_fields, &fields, ttl_ms.is_some());
        let id = variable_id(&name, &description);
        if let Some(other) = self.declared.iter().find(|other| other.id[..2] == id[..2]) {
            return Err(Error::invalid(format!(
                "the state variables {} and {name} have the same short name in the state: rename \
                 the newer one",
                other.name
            )));
        }
        let slot = self.declared.len();
        let declared =
            Declared { name: name.clone(), kind, key_fields, fields, ttl_ms, id, slot, open };
        // Codecs are made anew for each batch; that they can be made is known now.
        (declared.open)(&declared).map_err(of_it)?;
        self.declared.push(declared);
        Ok(slot as u32)
    }

    fn ttl_ms(&self, name: &str, ttl: Duration) -> Result<i64> {
        if ttl.as_millis() == 0 {
            return Err(Error::invalid(format!(
                "the TTL of state variable {name} must be a millisecond or more"
            ))
            .with_condition("STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE"));
        }
        if self.time_mode != TimeMode::ProcessingTime {
            return Err(Error::invalid(format!(
                "state variable {name} has a TTL, which runs by processing time: the time mode is \
                 {}",
                self.time_mode
            ))
            .with_condition("STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL"));
        }
        Ok(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }
}
