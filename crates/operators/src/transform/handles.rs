//! Handles of variables: what a processor keeps and asks through a [`Call`].

use super::call::Call;
use super::lists::Lists;
use super::maps::Maps;
use super::state_row::StateRow;
use super::values::Values;
use fluvial_core::Result;
use std::fmt;
use std::marker::PhantomData;

/// The slot of a handle that nobody declared.
const UNDECLARED: u32 = u32::MAX;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($of:ident),*>) => {
        $(#[$doc])*
        ///
        /// Declared in [`super::StatefulProcessor::init`]; by default it is declared nowhere, and
        /// every use is an error.
        pub struct $name<$($of),*> {
            pub(super) slot: u32,
            pub(super) of: PhantomData<fn() -> ($($of,)*)>,
        }

        impl<$($of),*> Default for $name<$($of),*> {
            fn default() -> Self {
                Self { slot: UNDECLARED, of: PhantomData }
            }
        }

        impl<$($of),*> Clone for $name<$($of),*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($of),*> Copy for $name<$($of),*> {}

        impl<$($of),*> fmt::Debug for $name<$($of),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.slot)
            }
        }
    };
}

handle! {
    /// One value for each key.
    ValueState<T>
}
handle! {
    /// A list for each key.
    ListState<T>
}
handle! {
    /// A map for each key.
    MapState<K, V>
}

impl<T: StateRow> ValueState<T> {
    /// The value, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn get(&self, call: &mut Call<'_>) -> Result<Option<T>> {
        let (values, part) = call.variable::<Values<T>>(self.slot)?;
        values.get(part.block, part.at, part.clock, part.state)
    }

    /// Whether there is a value.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn exists(&self, call: &mut Call<'_>) -> Result<bool> {
        Ok(self.get(call)?.is_some())
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// If the handle was not declared.
    pub fn update(&self, call: &mut Call<'_>, value: T) -> Result<()> {
        let (values, part) = call.variable::<Values<T>>(self.slot)?;
        values.update(part.at, value);
        Ok(())
    }

    /// Removes the value.
    ///
    /// # Errors
    ///
    /// If the handle was not declared.
    pub fn clear(&self, call: &mut Call<'_>) -> Result<()> {
        let (values, part) = call.variable::<Values<T>>(self.slot)?;
        values.clear(part.at);
        Ok(())
    }
}

impl<T: StateRow> ListState<T> {
    /// The elements, in the order in which they were appended.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn get(&self, call: &mut Call<'_>) -> Result<Vec<T>> {
        let (lists, part) = call.variable::<Lists<T>>(self.slot)?;
        lists.get(part.block, part.at, part.clock, part.state)
    }

    /// Whether there is an element.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn exists(&self, call: &mut Call<'_>) -> Result<bool> {
        let (lists, part) = call.variable::<Lists<T>>(self.slot)?;
        lists.exists(part.block, part.at, part.clock, part.state)
    }

    /// Appends an element; the others are not read.
    ///
    /// # Errors
    ///
    /// If the handle was not declared.
    pub fn append(&self, call: &mut Call<'_>, element: T) -> Result<()> {
        self.append_all(call, [element])
    }

    /// Appends elements.
    ///
    /// # Errors
    ///
    /// `ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE` if there are none.
    pub fn append_all(
        &self,
        call: &mut Call<'_>,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        let (lists, part) = call.variable::<Lists<T>>(self.slot)?;
        lists.append(part.at, elements.into_iter().collect())
    }

    /// Sets the elements.
    ///
    /// # Errors
    ///
    /// `ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE` if there are none: clear the list instead.
    pub fn put(&self, call: &mut Call<'_>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let (lists, part) = call.variable::<Lists<T>>(self.slot)?;
        lists.put(part.at, elements.into_iter().collect())
    }

    /// Removes all elements.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn clear(&self, call: &mut Call<'_>) -> Result<()> {
        let (lists, part) = call.variable::<Lists<T>>(self.slot)?;
        lists.clear(part.block, part.at, part.state, part.tally)
    }
}

impl<K: StateRow, V: StateRow> MapState<K, V> {
    /// The value of a key, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn get(&self, call: &mut Call<'_>, key: &K) -> Result<Option<V>> {
        let (maps, part) = call.variable::<Maps<K, V>>(self.slot)?;
        maps.get(part.block, part.at, key, part.clock, part.state)
    }

    /// Whether there is a value for a key.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn contains_key(&self, call: &mut Call<'_>, key: &K) -> Result<bool> {
        Ok(self.get(call, key)?.is_some())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// If key or value do not fit the declared columns.
    pub fn update(&self, call: &mut Call<'_>, key: K, value: V) -> Result<()> {
        let (maps, part) = call.variable::<Maps<K, V>>(self.slot)?;
        maps.update(part.at, key, value)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// If the key does not fit the declared columns.
    pub fn remove(&self, call: &mut Call<'_>, key: &K) -> Result<()> {
        let (maps, part) = call.variable::<Maps<K, V>>(self.slot)?;
        maps.remove(part.at, key)
    }

    /// All entries, in the order of their keys.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn entries(&self, call: &mut Call<'_>) -> Result<Vec<(K, V)>> {
        let (maps, part) = call.variable::<Maps<K, V>>(self.slot)?;
        maps.entries(part.block, part.at, part.clock, part.state)
    }

    /// All keys, in their order.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn keys(&self, call: &mut Call<'_>) -> Result<Vec<K>> {
        Ok(self.entries(call)?.into_iter().map(|(key, _)| key).collect())
    }

    /// Whether there is an entry.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn exists(&self, call: &mut Call<'_>) -> Result<bool> {
        Ok(!self.entries(call)?.is_empty())
    }

    /// Removes all entries.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn clear(&self, call: &mut Call<'_>) -> Result<()> {
        let (maps, part) = call.variable::<Maps<K, V>>(self.slot)?;
        maps.clear(part.block, part.at, part.clock, part.state)
    }
}
