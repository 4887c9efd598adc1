//! Rows that a generator makes, beside the row that it makes them from: `LATERAL VIEW`, and
//! generators of several columns in a SELECT.
//!
//! sqlparser reads a view, DataFusion has no plan for it. Views become the last relation of a FROM
//! clause, behind a mark; [`Generators`] takes them out there again and plans them.

mod plan;

use super::lower::call;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, LateralView, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
pub(super) use plan::Generators;

/// Behind this a relation is a view of ours. No text can contain it.
const MARK: &str = "\u{0}generator";

/// The functions that make rows.
const GENERATORS: &[&str] = &[
    "explode",
    "explode_outer",
    "posexplode",
    "posexplode_outer",
    "inline",
    "inline_outer",
    "stack",
    "json_tuple",
];

/// How the views of generators in a SELECT are called.
const ITEM: &str = "__fluvial_generator";

/// Moves the lateral views of a SELECT into its FROM, and generators that give several columns.
pub(super) fn into_from(select: &mut Select) {
    generators_of_items(select);
    let views = std::mem::take(&mut select.lateral_views);
    if views.is_empty() && !select.from.iter().any(has_lateral) {
        return;
    }
    let relations = std::mem::take(&mut select.from).into_iter().map(absorbed);
    let mut from = relations.reduce(|left, right| match of_lateral(&right.relation) {
        Some(view) if right.joins.is_empty() => beside(nested(left), view),
        _ => TableWithJoins { relation: nested(left), joins: vec![cross(nested(right))] },
    });
    for view in views {
        let relation = from.map_or_else(|| marked(Vec::new(), false, None), nested);
        from = Some(beside(relation, of_view(view)));
    }
    select.from.extend(from);
}

/// A relation with a view of its rows.
fn beside(relation: TableFactor, view: TableFactor) -> TableWithJoins {
    let joins = vec![cross(view)];
    TableWithJoins { relation: nested(TableWithJoins { relation, joins }), joins: Vec::new() }
}

fn has_lateral(from: &TableWithJoins) -> bool {
    let joined = from.joins.iter().map(|join| &join.relation);
    std::iter::once(&from.relation).chain(joined).any(|r| of_lateral(r).is_some())
}

/// A relation whose joins with `LATERAL explode(..)` are views.
fn absorbed(from: TableWithJoins) -> TableWithJoins {
    let mut whole = TableWithJoins { relation: from.relation, joins: Vec::new() };
    for join in from.joins {
        let inner = matches!(
            join.join_operator,
            JoinOperator::CrossJoin(_)
                | JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
        );
        match of_lateral(&join.relation).filter(|_| inner) {
            Some(view) => whole = beside(nested(whole), view),
            None => whole.joins.push(join),
        }
    }
    whole
}

/// The view that `LATERAL explode(..) AS t(x)` is.
fn of_lateral(relation: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Function { lateral: true, name, args, alias, .. } = relation else {
        return None;
    };
    let function = name.to_string().to_ascii_lowercase();
    if !GENERATORS.contains(&function.as_str()) {
        return None;
    }
    let arguments = args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let name = || Ident::with_quote('`', function.clone());
    let alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: name(),
        columns: Vec::new(),
        at: None,
    });
    Some(marked(vec![call(&function, arguments.collect())], false, Some(alias)))
}

fn nested(from: TableWithJoins) -> TableFactor {
    match from.joins.is_empty() {
        true => from.relation,
        false => TableFactor::NestedJoin { table_with_joins: Box::new(from), alias: None },
    }
}

fn cross(relation: TableFactor) -> Join {
    let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
    Join { relation, global: false, join_operator }
}

fn of_view(view: LateralView) -> TableFactor {
    let name = view.lateral_view_name.0.last().and_then(|part| part.as_ident()).cloned();
    let column = |name| TableAliasColumnDef { name, data_type: None };
    let alias = TableAlias {
        explicit: true,
        name: name.unwrap_or_else(|| Ident::new(MARK)),
        columns: view.lateral_col_alias.into_iter().map(column).collect(),
        at: None,
    };
    marked(vec![view.lateral_view], view.outer, Some(alias))
}

fn marked(array_exprs: Vec<SqlExpr>, outer: bool, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::UNNEST {
        alias,
        array_exprs,
        with_offset: outer,
        with_offset_alias: Some(Ident::new(MARK)),
        with_ordinality: false,
    }
}

fn is_marked(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::UNNEST { with_offset_alias: Some(mark), .. } if mark.value == MARK)
}

/// `SELECT k, posexplode(xs)` is `SELECT k, g.* .. LATERAL VIEW posexplode(xs) g`, and so are
/// several generators, each for every row of the others. Of a query that is grouped nothing is
/// moved: its generators would see the groups. One array alone is left to the planner.
fn generators_of_items(select: &mut Select) {
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    let items = select.projection.iter().enumerate();
    let found: Vec<Moved> = items.filter_map(|(at, item)| Moved::of(at, item)).collect();
    let moves = found.len() > 1 || found.iter().any(|moved| moved.perhaps_several);
    let has_star = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    // A star has the columns of a view already, at its end.
    let fits = !has_star || found.iter().all(|moved| moved.at == select.projection.len() - 1);
    if grouped || !moves || !fits {
        return;
    }
    for Moved { at, expr, names, .. } in found {
        let name = ObjectName::from(vec![Ident::with_quote('`', format!("{ITEM}_{at}"))]);
        if has_star {
            select.projection.remove(at);
        } else {
            let of = SelectItemQualifiedWildcardKind::ObjectName(name.clone());
            let options = WildcardAdditionalOptions::default();
            select.projection[at] = SelectItem::QualifiedWildcard(of, options);
        }
        // A view makes rows before WHERE does: the same, as WHERE cannot name what it makes.
        select.lateral_views.push(LateralView {
            lateral_view: expr,
            lateral_view_name: name,
            lateral_col_alias: names,
            outer: false,
        });
    }
}

/// A column of a SELECT that is a generator.
struct Moved {
    at: usize,
    expr: SqlExpr,
    /// The names that it gives its columns.
    names: Vec<Ident>,
    perhaps_several: bool,
}

impl Moved {
    fn of(at: usize, item: &SelectItem) -> Option<Self> {
        let (expr, names) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, Vec::new()),
            SelectItem::ExprWithAlias { expr, alias } => (expr, vec![alias.clone()]),
            SelectItem::ExprWithAliases { expr, aliases } => (expr, aliases.clone()),
            _ => return None,
        };
        let SqlExpr::Function(function) = expr else { return None };
        let name = function.name.to_string().to_ascii_lowercase();
        if !GENERATORS.contains(&name.as_str()) {
            return None;
        }
        // `explode` of a map gives two columns; with one name it can only be meant for an array.
        let perhaps_several = !name.starts_with("explode") || names.len() != 1;
        Some(Self { at, expr: expr.clone(), names, perhaps_several })
    }
}
