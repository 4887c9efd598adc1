//! MERGE, clause by clause.

use crate::dataframe::StreamingDataFrame;
use crate::expressions;
use crate::merge_set::{Assignment, by_name, inserted, parts, unresolved, updated};
use crate::session::Session;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::collect;
use fluvial_core::{Error, NameCase, Result};
use fluvial_datafusion::from_datafusion;
use fluvial_delta::{
    Merge, MergeAction, MergeClause, MergeReport, MergeTransaction, MergeWhen, TableLocation,
};
use std::sync::Arc;

/// Describes a merge into a Delta table. Of several clauses for a row the first whose condition
/// holds counts. `execute` does it.
#[must_use = "nothing is merged until execute()"]
pub struct MergeBuilder {
    session: Session,
    location: TableLocation,
    target: String,
    source: DataFrame,
    source_alias: Option<String>,
    condition: String,
    clauses: Vec<Clause>,
    evolve_schema: bool,
    once: Option<String>,
    transaction: Option<MergeTransaction>,
}

/// A clause as text.
pub(crate) struct Clause {
    pub(crate) when: MergeWhen,
    pub(crate) condition: Option<String>,
    pub(crate) action: Action,
}

/// What a clause does, as text.
pub(crate) enum Action {
    Delete,
    UpdateAll,
    Update(Vec<(String, String)>),
    InsertAll,
    Insert(Vec<(String, String)>),
}

/// For rows of the table that have a row in the source.
#[must_use = "say what happens: update, update_all or delete"]
pub struct WhenMatched(MergeBuilder, Option<String>);

/// For rows of the source that have no row in the table.
#[must_use = "say what happens: insert or insert_all"]
pub struct WhenNotMatched(MergeBuilder, Option<String>);

/// For rows of the table that have no row in the source.
#[must_use = "say what happens: update or delete"]
pub struct WhenNotMatchedBySource(MergeBuilder, Option<String>);

impl MergeBuilder {
    pub(crate) fn new(
        session: Session,
        location: TableLocation,
        target: String,
        source: DataFrame,
        condition: String,
    ) -> Self {
        let clauses = Vec::new();
        let (source_alias, once, transaction) = (None, None, None);
        let evolve_schema = false;
        Self {
            session,
            location,
            target,
            source,
            source_alias,
            condition,
            clauses,
            evolve_schema,
            once,
            transaction,
        }
    }

    /// What the source is called in expressions; the DataFrame's own alias, or `source`, if not
    /// given.
    pub fn source_alias(mut self, name: impl Into<String>) -> Self {
        self.source_alias = Some(name.into());
        self
    }

    /// Begins a clause for rows of the table that have a row in the source.
    pub fn when_matched(self) -> WhenMatched {
        WhenMatched(self, None)
    }

    /// Begins a clause for rows of the source that have no row in the table.
    pub fn when_not_matched(self) -> WhenNotMatched {
        WhenNotMatched(self, None)
    }

    /// Begins a clause for rows of the table that have no row in the source.
    pub fn when_not_matched_by_source(self) -> WhenNotMatchedBySource {
        WhenNotMatchedBySource(self, None)
    }

    /// Adds columns that the source has and the table lacks, where `update_all` and `insert_all`
    /// write them.
    pub fn with_schema_evolution(mut self) -> Self {
        self.evolve_schema = true;
        self
    }

    /// Inside of `foreach_batch`: the merge happens once for each batch, however often the batch
    /// comes. `name` must be another one for each merge or write of a batch into one table.
    pub fn exactly_once(mut self, name: impl Into<String>) -> Self {
        self.once = Some(name.into());
        self
    }

    /// The merge happens once for each version, which must grow: Spark's `txnAppId` and
    /// `txnVersion`.
    pub fn transaction(mut self, app: impl Into<String>, version: u64) -> Self {
        self.transaction = Some(MergeTransaction { app: app.into(), version });
        self
    }

    pub(crate) fn clause(mut self, clause: Clause) -> Self {
        self.clauses.push(clause);
        self
    }

    fn with(self, when: MergeWhen, condition: Option<String>, action: Action) -> Self {
        self.clause(Clause { when, condition, action })
    }

    /// Does it; `None` if it was done before. When others change meanwhile what it read, it is
    /// done anew.
    ///
    /// # Errors
    ///
    /// `Invalid` for names and types that do not fit, or several rows of the source for one of the
    /// table; `NotFound` if there is no table.
    pub async fn execute(self) -> Result<Option<MergeReport>> {
        if self.source.is_streaming() {
            return Err(Error::invalid(
                "a stream cannot be merged: merge its batches, in foreach_batch",
            )
            .with_condition("MERGE_SOURCE_IS_STREAM"));
        }
        let target = fluvial_delta::table_schema(&self.location).await?;
        let transaction = match (&self.once, &self.transaction) {
            (Some(name), _) => {
                let (app, version) = self.session.batch()?.transaction(name);
                Some(MergeTransaction { app, version })
            }
            (None, transaction) => transaction.clone(),
        };
        let alias = self.source_alias.clone().or_else(|| alias_of(&self.source));
        // What the rows will have: types are final once the plan is analyzed.
        let context = Arc::new(self.source.task_ctx());
        let plan = self.source.create_physical_plan().await.map_err(from_datafusion)?;
        let schema = plan.schema();
        let alias = alias.unwrap_or_else(|| "source".into());
        let scope = Scope::new(&self.session, (&self.target, &target), (&alias, &schema))?;
        refuse_unreachable(&self.clauses)?;
        let condition = scope.both(&self.condition)?;
        let clauses = self.clauses.iter().map(|clause| scope.clause(clause, self.evolve_schema));
        let clauses = clauses.collect::<Result<Vec<_>>>()?;
        if clauses.is_empty() {
            return Err(
                Error::invalid("a merge needs a WHEN clause").with_condition("MERGE_WITHOUT_WHEN")
            );
        }
        let source = collect(plan, context).await.map_err(from_datafusion)?;
        let merge = Merge {
            source,
            schema,
            source_alias: alias,
            target_alias: self.target,
            condition,
            clauses,
            evolve_schema: self.evolve_schema,
            transaction,
        };
        fluvial_delta::merge(&self.location, &merge).await
    }
}

impl WhenMatched {
    /// Only if this holds too.
    pub fn and(self, condition: impl Into<String>) -> Self {
        Self(self.0, Some(condition.into()))
    }

    /// Sets columns of the table: name and expression.
    pub fn update<C: Into<String>, E: Into<String>>(
        self,
        values: impl IntoIterator<Item = (C, E)>,
    ) -> MergeBuilder {
        self.0.with(MergeWhen::Matched, self.1, Action::Update(owned(values)))
    }

    /// Sets all columns of the table to those of the source.
    pub fn update_all(self) -> MergeBuilder {
        self.0.with(MergeWhen::Matched, self.1, Action::UpdateAll)
    }

    /// Removes the row.
    pub fn delete(self) -> MergeBuilder {
        self.0.with(MergeWhen::Matched, self.1, Action::Delete)
    }
}

impl WhenNotMatched {
    /// Only if this holds too.
    pub fn and(self, condition: impl Into<String>) -> Self {
        Self(self.0, Some(condition.into()))
    }

    /// Adds a row with these values: name and expression. Other columns are null.
    pub fn insert<C: Into<String>, E: Into<String>>(
        self,
        values: impl IntoIterator<Item = (C, E)>,
    ) -> MergeBuilder {
        self.0.with(MergeWhen::NotMatched, self.1, Action::Insert(owned(values)))
    }

    /// Adds the row of the source.
    pub fn insert_all(self) -> MergeBuilder {
        self.0.with(MergeWhen::NotMatched, self.1, Action::InsertAll)
    }
}

impl WhenNotMatchedBySource {
    /// Only if this holds too.
    pub fn and(self, condition: impl Into<String>) -> Self {
        Self(self.0, Some(condition.into()))
    }

    /// Sets columns of the table: name and expression.
    pub fn update<C: Into<String>, E: Into<String>>(
        self,
        values: impl IntoIterator<Item = (C, E)>,
    ) -> MergeBuilder {
        self.0.with(MergeWhen::NotMatchedBySource, self.1, Action::Update(owned(values)))
    }

    /// Removes the row.
    pub fn delete(self) -> MergeBuilder {
        self.0.with(MergeWhen::NotMatchedBySource, self.1, Action::Delete)
    }
}

fn owned<C: Into<String>, E: Into<String>>(
    values: impl IntoIterator<Item = (C, E)>,
) -> Vec<(String, String)> {
    values.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The one name by which all columns of a DataFrame go.
fn alias_of(frame: &DataFrame) -> Option<String> {
    let mut names =
        frame.schema().iter().map(|(qualifier, _)| qualifier.map(TableReference::table));
    let first = names.next()??;
    // DataFusion's own name for a table without one.
    let plain = first.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain && names.all(|name| name == Some(first))).then(|| first.to_owned())
}

/// Refuses clauses behind one that takes every row of its kind.
fn refuse_unreachable(clauses: &[Clause]) -> Result<()> {
    for (i, clause) in clauses.iter().enumerate() {
        if clause.condition.is_some() || clauses[i + 1..].iter().all(|c| c.when != clause.when) {
            continue;
        }
        let (what, condition) = match clause.when {
            MergeWhen::Matched => ("MATCHED", "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"),
            MergeWhen::NotMatched => {
                ("NOT MATCHED", "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION")
            }
            MergeWhen::NotMatchedBySource => {
                ("NOT MATCHED BY SOURCE", "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION")
            }
        };
        return Err(Error::invalid(format!(
            "only the last clause WHEN {what} of a merge may be without a condition: those behind \
             it would never be reached"
        ))
        .with_condition(condition));
    }
    Ok(())
}

/// What becomes of what the source does not say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Null,
}

/// What names in expressions mean.
struct Scope<'a> {
    session: &'a Session,
    case: NameCase,
    target_alias: &'a str,
    source_alias: &'a str,
    target: DFSchemaRef,
    source: DFSchemaRef,
    both: DFSchemaRef,
}

impl<'a> Scope<'a> {
    fn new(
        session: &'a Session,
        (target_alias, target): (&'a str, &Schema),
        (source_alias, source): (&'a str, &Schema),
    ) -> Result<Self> {
        if target_alias.eq_ignore_ascii_case(source_alias) {
            return Err(Error::invalid(format!(
                "table and source are both called {source_alias}: give one of them an alias"
            )));
        }
        let qualified = |alias: &str, schema: &Schema| {
            DFSchema::try_from_qualified_schema(TableReference::bare(alias), schema)
        };
        let target = qualified(target_alias, target).map_err(from_datafusion)?;
        let source = qualified(source_alias, source).map_err(from_datafusion)?;
        let both = Arc::new(source.join(&target).map_err(from_datafusion)?);
        let (target, source) = (Arc::new(target), Arc::new(source));
        let case = session.settings().case;
        Ok(Self { session, case, target_alias, source_alias, target, source, both })
    }

    fn both(&self, text: &str) -> Result<Expr> {
        self.expr(text, &self.both)
    }

    fn expr(&self, text: &str, schema: &DFSchemaRef) -> Result<Expr> {
        expressions::typed(&self.session.state(), text, schema)
    }

    fn clause(&self, clause: &Clause, evolve: bool) -> Result<MergeClause> {
        let schema = match clause.when {
            MergeWhen::Matched => &self.both,
            MergeWhen::NotMatched => &self.source,
            MergeWhen::NotMatchedBySource => &self.target,
        };
        let condition = match &clause.condition {
            Some(text) => Some(self.expr(text, schema)?),
            None => None,
        };
        let each = |values: &[(String, String)]| -> Result<Vec<Assignment>> {
            let one = |(name, text): &(String, String)| {
                self.assignment(name, self.expr(text, schema)?, evolve)
            };
            values.iter().map(one).collect()
        };
        let action = match &clause.action {
            Action::Delete => MergeAction::Delete,
            Action::Update(values) => {
                MergeAction::Update(updated(each(values)?, schema, |name| self.of_target(name))?)
            }
            Action::Insert(values) => MergeAction::Insert(inserted(each(values)?)?),
            Action::UpdateAll => MergeAction::Update(self.all(evolve, schema, Fate::Kept)?),
            Action::InsertAll => MergeAction::Insert(self.all(evolve, schema, Fate::Null)?),
        };
        Ok(MergeClause { when: clause.when, condition, action })
    }

    /// What a column of the table, or a field in one, gets; its name may have the table's alias in
    /// front. With schema evolution it may be a column that only the source has.
    fn assignment(&self, name: &str, value: Expr, evolve: bool) -> Result<Assignment> {
        let mut names = parts(name);
        if names.len() > 1 && self.case.same(&names[0], self.target_alias) {
            names.remove(0);
        }
        let is_named = |field: &&Arc<Field>| self.case.same(field.name(), &names[0]);
        if evolve
            && names.len() == 1
            && !self.target.fields().iter().any(|field| is_named(&field))
            && let Some(new) = self.source.fields().iter().find(is_named)
        {
            return Ok(Assignment::to(new.name(), value));
        }
        Assignment::new(self.target.fields(), &names, value, self.case)
    }

    /// Every column of the table from the column of the source with its name.
    fn all(&self, evolve: bool, row: &DFSchema, missing: Fate) -> Result<Vec<(String, Expr)>> {
        let mut values = Vec::new();
        for field in self.target.fields() {
            let name = field.name();
            match self.source.fields().iter().find(|f| self.case.same(f.name(), name)) {
                Some(found) if evolve => {
                    let old = (missing == Fate::Kept).then(|| self.of_target(name));
                    let (from, to) = (self.of_source(found.name()), field.data_type());
                    let value = by_name(from, to, old, row, self.case).map_err(from_datafusion)?;
                    values.push((name.clone(), value));
                }
                Some(found) => values.push((name.clone(), self.of_source(found.name()))),
                // As in Spark: with schema evolution what the source lacks stays, or is null.
                None if evolve => {}
                None => return Err(unresolved(name, "the source")),
            }
        }
        if evolve {
            for field in self.source.fields() {
                let known =
                    self.target.fields().iter().any(|f| self.case.same(f.name(), field.name()));
                if !known {
                    values.push((field.name().clone(), self.of_source(field.name())));
                }
            }
        }
        Ok(values)
    }

    fn of_source(&self, name: &str) -> Expr {
        Expr::Column(Column::new(Some(TableReference::bare(self.source_alias)), name))
    }

    fn of_target(&self, name: &str) -> Expr {
        Expr::Column(Column::new(Some(TableReference::bare(self.target_alias)), name))
    }
}
