//! UUIDs beside texts and beside bytes: both sides of a comparison are UUIDs then.
//!
//! `u = 'AAAA0000-...'` is true of the UUID that is written in small letters too. A text that is
//! none is an error, as in DuckDB. The same goes for UUIDs [inside](super::uuid_places) of lists
//! and structs, and for constants beside them in CASE, `coalesce`, lists and UNION.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, HigherOrderFunction, InList, InSubquery,
};
use datafusion::logical_expr::{
    Case, Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    TryCast, Union, lit,
};
use swingdb_common::uuid;
use swingdb_common::uuid::{has_bytes, is_marked, marked, with_places};
use swingdb_functions::json::to_json::unmarked;
use swingdb_functions::nested::parts::{AS_PARTS, TRY_AS_PARTS, as_parts};
use swingdb_functions::text::uuids::{AS_UUID, TRY_AS_UUID, as_uuid};

use crate::nodes::expressions::any_part;
use crate::nodes::list_functions::{JOIN_FUNCTIONS, REPLACE_FUNCTIONS, SEARCH_FUNCTIONS};
use crate::plan::uuid_places::{ONE_OF_ALL, UUID, fit, is_text, of_map, places, taken, type_name};

const NULLIF: &str = "nullif";
const TYPEOF: &str = "typeof";
/// Functions that look for a key in a map.
const OF_MAPS: [&str; 2] = ["map_extract", "map_extract_value"];

/// Whether columns of a node are UUIDs or have such inside, or what it computes does.
pub(crate) fn are_in(node: &LogicalPlan) -> bool {
    const MAKE: [&str; 6] = [AS_UUID, TRY_AS_UUID, AS_PARTS, TRY_AS_PARTS, "uuid", "uuidv7"];
    let is = |field: &FieldRef| !is_silent(field) || has_bytes(field);
    node.schema().fields().iter().any(is)
        || any_part(
            node,
            |part| matches!(part, Expr::ScalarFunction(call) if MAKE.contains(&call.name())),
        )
}

/// Whether a function compares the elements of a list with its second argument, or those of it. The
/// keys of a map are not compared with its values.
fn is_of_lists(function: &str) -> bool {
    [SEARCH_FUNCTIONS, JOIN_FUNCTIONS].iter().any(|functions| functions.contains(&function))
        && function != "map_of_lists"
}

/// Whether this compares.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) | Expr::Case(_) => true,
        Expr::ScalarFunction(call) => {
            ONE_OF_ALL.contains(&call.name())
                || is_of_lists(call.name())
                || OF_MAPS.contains(&call.name())
                || matches!(call.name(), NULLIF | TYPEOF)
        }
        Expr::HigherOrderFunction(_) => true,
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_string()
        }
        _ => false,
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// What an operand is, beside others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A UUID in canonical form.
    Canonical,
    /// The bytes of a UUID.
    Bytes,
    Text,
    Other,
}

fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr.to_field(schema) {
        Ok((_, field)) if is_marked(&field) => Kind::Canonical,
        Ok((_, field)) if field.data_type().is_string() => match places(expr, schema) {
            Some(places) if places == UUID => Kind::Canonical,
            _ => Kind::Text,
        },
        Ok((_, field)) if has_bytes(&field) => Kind::Bytes,
        _ => Kind::Other,
    }
}

/// The comparison with UUIDs on all sides, where there is one.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(name) = type_of(&expr, schema) {
        return Ok(Transformed::yes(lit(name)));
    }
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            unify(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            unify(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            unify(std::iter::once(expr.as_mut()).chain(list).collect(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            let rows = Arc::clone(&subquery.subquery);
            let (relation, field) = rows.schema().qualified_field(0);
            let column = Expr::Column((relation, field).into());
            let name = field.name().clone();
            let (mut one, mut other) = (expr.as_ref().clone(), column.clone());
            let changed = unify_both([&mut one, &mut other], [schema, rows.schema()]);
            if other != column {
                let plan = LogicalPlanBuilder::from(rows).project([other.alias(name)])?.build()?;
                subquery.subquery = Arc::new(plan);
            }
            **expr = one;
            changed
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            as_text(expr.as_mut(), schema)
        }
        Expr::Case(case) => of_case(case, schema),
        Expr::ScalarFunction(call) if ONE_OF_ALL.contains(&call.name()) => {
            constants(call.args.iter_mut().collect(), schema)
        }
        Expr::ScalarFunction(call) if call.name() == NULLIF => {
            unify(call.args.iter_mut().collect(), schema)
        }
        Expr::ScalarFunction(call) if OF_MAPS.contains(&call.name()) => {
            of_key(&mut call.args, schema)
        }
        Expr::ScalarFunction(call) => {
            let replaces = REPLACE_FUNCTIONS.contains(&call.name());
            match call.args.as_mut_slice() {
                [list, one, other, ..] if replaces => {
                    of_list(list, one, schema) | of_list(list, other, schema)
                }
                [list, other, ..] => of_list(list, other, schema),
                _ => false,
            }
        }
        Expr::HigherOrderFunction(call) => of_lambda(call, schema)?,
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// What `typeof` says of a value with UUIDs inside, which its type does not know.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let of = call.args.first().filter(|_| call.name() == TYPEOF)?;
    Some(type_name(&of.get_type(schema).ok()?, &places(of, schema)?))
}

/// Makes text of UUIDs that are cast to text: the engine keeps the mark.
fn as_text(expr: &mut Expr, schema: &DFSchema) -> bool {
    let of = kind(expr, schema);
    match of {
        Kind::Canonical => *expr = unmarked(std::mem::take(expr)),
        Kind::Bytes => *expr = unmarked(as_uuid(std::mem::take(expr))),
        Kind::Text | Kind::Other => {}
    }
    matches!(of, Kind::Canonical | Kind::Bytes)
}

/// The keys of a join.
pub(crate) fn rewrite_join(mut join: Join) -> Transformed<Join> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        changed |= unify_both([one, other], [&left, &right]);
    }
    Transformed::new_transformed(join, changed)
}

/// What CASE compares, and the constants that it may give.
fn of_case(case: &mut Case, schema: &DFSchema) -> bool {
    let (mut whens, mut thens) = (Vec::new(), Vec::new());
    for (when, then) in &mut case.when_then_expr {
        whens.push(when.as_mut());
        thens.push(then.as_mut());
    }
    thens.extend(case.else_expr.as_deref_mut());
    let compared = match case.expr.as_deref_mut() {
        Some(operand) => {
            whens.push(operand);
            unify(whens, schema)
        }
        None => false,
    };
    compared | constants(thens, schema)
}

/// Makes UUIDs of texts that are constants, where all others are UUIDs.
fn constants(values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let kinds = values.iter().map(|value| kind(value, schema)).collect::<Vec<_>>();
    let fits = |(value, kind): (&&mut Expr, &Kind)| match kind {
        Kind::Canonical => true,
        Kind::Text => is_text(value),
        Kind::Bytes | Kind::Other => value.get_type(schema).is_ok_and(|given| given.is_null()),
    };
    if !kinds.contains(&Kind::Canonical) || !values.iter().zip(&kinds).all(fits) {
        return false;
    }
    let mut changed = false;
    for (value, kind) in values.into_iter().zip(&kinds) {
        if *kind == Kind::Text {
            *value = as_uuid(std::mem::take(value));
            changed = true;
        }
    }
    changed
}

/// A list and what is looked for in it: an element, or another list.
fn of_list(list: &mut Expr, other: &mut Expr, schema: &DFSchema) -> bool {
    let element = |list: &Option<String>| list.as_ref()?.strip_prefix('[').map(str::to_string);
    let (in_list, in_other) = (places(list, schema), places(other, schema));
    if unify_inside(vec![&mut *list, &mut *other], &[schema, schema]) {
        return true;
    }
    match (element(&in_list), in_other) {
        (Some(wanted), None) => wrap(other, &wanted, schema),
        (None, Some(wanted)) => wrap(list, &format!("[{wanted}"), schema),
        _ => false,
    }
}

/// A map and a key that is looked for in it.
fn of_key(args: &mut [Expr], schema: &DFSchema) -> bool {
    let [map, key] = args else { return false };
    match of_map(map, schema) {
        Some([Some(wanted), _]) if places(key, schema).is_none() => wrap(key, &wanted, schema),
        _ => false,
    }
}

/// Lets a lambda know that the elements it gets are UUIDs.
fn of_lambda(call: &mut HigherOrderFunction, schema: &DFSchema) -> Result<bool> {
    let [list, Expr::Lambda(lambda), ..] = call.args.as_mut_slice() else { return Ok(false) };
    let Some(element) = places(list, schema).and_then(|p| p.strip_prefix('[').map(str::to_string))
    else {
        return Ok(false);
    };
    let at = usize::from(call.func.name() == "list_reduce");
    let Some(name) = lambda.params.get(at).cloned() else { return Ok(false) };
    let mut known = None;
    let told = |field: FieldRef| {
        let field = field.as_ref().clone();
        Arc::new(if element == UUID { marked(field) } else { with_places(field, &element) })
    };
    let body = with_variable(std::mem::take(lambda.body.as_mut()), &name, &mut |field| {
        known = Some(Arc::clone(&field));
        told(field)
    })?;
    let body = body.transform_data(|body| body.transform_up(|part| again(part, schema)))?;
    // The engine knows nothing of UUIDs in lists.
    let body = body.transform_data(|body| {
        with_variable(body, &name, &mut |field| known.clone().unwrap_or(field))
    })?;
    *lambda.body = body.data;
    Ok(body.transformed)
}

/// An expression with another field of a variable of the lambda that it is the body of.
fn with_variable(
    body: Expr,
    name: &str,
    field: &mut dyn FnMut(FieldRef) -> FieldRef,
) -> Result<Transformed<Expr>> {
    body.transform_down(|part| match part {
        Expr::LambdaVariable(mut variable) if variable.name == name => {
            variable.field = variable.field.map(&mut *field);
            Ok(Transformed::yes(Expr::LambdaVariable(variable)))
        }
        Expr::Lambda(inner) if inner.params.iter().any(|param| param == name) => {
            Ok(Transformed::new(Expr::Lambda(inner), false, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })
}

fn again(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if is_concerned(&part) { rewrite(part, schema) } else { Ok(Transformed::no(part)) }
}

/// Brings the UUIDs in a value to their form, if it can have some there.
fn wrap(value: &mut Expr, wanted: &str, schema: &DFSchema) -> bool {
    let given = value.get_type(schema);
    let fits = given.is_ok_and(|given| fit(wanted, &given));
    if fits {
        let inner = std::mem::take(value);
        *value = if wanted == UUID { as_uuid(inner) } else { as_parts(inner, wanted) };
    }
    fits
}

/// Lists and structs where some have UUIDs inside: then all do.
fn unify_inside(operands: Vec<&mut Expr>, schemas: &[&DFSchema]) -> bool {
    let given = operands.iter().zip(schemas.iter().cycle());
    let given = given.map(|(operand, schema)| places(operand, schema)).collect::<Vec<_>>();
    let Some(wanted) = given.iter().flatten().find(|places| *places != UUID).cloned() else {
        return false;
    };
    let mut changed = false;
    for ((operand, given), schema) in operands.into_iter().zip(&given).zip(schemas.iter().cycle()) {
        changed |= given.is_none() && wrap(operand, &wanted, schema);
    }
    changed
}

fn unify(mut operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    if unify_inside(operands.iter_mut().map(|operand| &mut **operand).collect(), &[schema]) {
        return true;
    }
    let kinds = operands.iter().map(|operand| kind(operand, schema)).collect::<Vec<_>>();
    convert(operands, &kinds)
}

fn unify_both([one, other]: [&mut Expr; 2], schemas: [&DFSchema; 2]) -> bool {
    if unify_inside(vec![&mut *one, &mut *other], &schemas) {
        return true;
    }
    let operands = [one, other];
    let kinds = [kind(operands[0], schemas[0]), kind(operands[1], schemas[1])];
    convert(operands.into(), &kinds)
}

/// Makes UUIDs of texts and bytes, where a UUID is beside them.
fn convert(operands: Vec<&mut Expr>, kinds: &[Kind]) -> bool {
    let is_uuid = |kind: &Kind| matches!(kind, Kind::Canonical | Kind::Bytes);
    let same = kinds.iter().all(|kind| Some(kind) == kinds.first());
    if same || !kinds.iter().any(is_uuid) {
        return false;
    }
    let mut changed = false;
    for (operand, kind) in operands.into_iter().zip(kinds) {
        if matches!(kind, Kind::Text | Kind::Bytes) {
            *operand = as_uuid(std::mem::take(operand));
            changed = true;
        }
    }
    changed
}

/// The node with the keys of joins brought to UUIDs, and with columns that say where UUIDs are in
/// them.
pub(crate) fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Join(join) => rewrite_join(join).update_data(LogicalPlan::Join),
        LogicalPlan::Projection(list) => of_columns(list)?,
        LogicalPlan::Union(union) => of_union(union)?,
        LogicalPlan::Unnest(unnest) => of_elements(LogicalPlan::Unnest(unnest))?,
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => of_groups(plan)?,
        other => Transformed::no(other),
    })
}

/// Whether a node says anew where UUIDs are in its columns.
pub(crate) fn says(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(list) = plan else {
        return false;
    };
    let says = |expr: &Expr| match expr {
        Expr::Alias(alias) => matches!(alias.expr.as_ref(), Expr::ScalarFunction(call)
            if [AS_UUID, AS_PARTS].contains(&call.name())),
        _ => false,
    };
    list.expr.iter().any(says)
}

/// Whether a field does not say yet where UUIDs are in it.
fn is_silent(field: &Field) -> bool {
    !is_marked(field) && uuid::places(field).is_none()
}

fn of_columns(list: Projection) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(list.input.schema());
    let mut changed = false;
    let mut said = Vec::with_capacity(list.expr.len());
    for expr in &list.expr {
        let is_column = matches!(expr, Expr::Column(_));
        let found = if is_column { None } else { places(expr, &schema) };
        let silent = || expr.to_field(&schema).is_ok_and(|(_, field)| is_silent(&field));
        said.push(match found.filter(|_| silent()) {
            Some(places) => {
                let (relation, name) = expr.qualified_name();
                let mut value = expr.clone().unalias();
                changed |= wrap(&mut value, &places, &schema);
                value.alias_qualified(relation, name)
            }
            None => expr.clone(),
        });
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Projection(list)));
    }
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(said, list.input)?)))
}

/// What aggregates and windows take from UUIDs: it comes behind the columns that they have beside.
fn of_groups(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let (computed, given) = match &plan {
        LogicalPlan::Aggregate(node) => (&node.aggr_expr, node.input.schema()),
        LogicalPlan::Window(node) => (&node.window_expr, node.input.schema()),
        _ => return Ok(Transformed::no(plan)),
    };
    let schema = plan.schema();
    let before = schema.fields().len().saturating_sub(computed.len());
    let mut changed = false;
    let columns = schema.iter().enumerate().map(|(at, (relation, field))| {
        let mut value = Expr::Column((relation, field).into());
        let computed = at.checked_sub(before).and_then(|at| computed.get(at));
        let found = computed.filter(|_| is_silent(field));
        match found.and_then(|computed| taken(computed, given)) {
            Some(places) if wrap(&mut value, &places, schema) => {
                changed = true;
                value.alias_qualified(relation.cloned(), field.name())
            }
            _ => value,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    if !changed {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
}

/// The elements of lists of UUIDs.
fn of_elements(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Unnest(unnest) = &plan else { return Ok(Transformed::no(plan)) };
    let given = unnest.input.schema();
    let mut changed = false;
    let columns = unnest.schema.iter().zip(&unnest.dependency_indices).map(|(column, from)| {
        let list = unnest.list_type_columns.iter().any(|(at, _)| at == from);
        let (relation, field) = column;
        let mut value = Expr::Column((relation, field).into());
        let element = uuid::places(given.field(*from)).and_then(|p| p.strip_prefix('['));
        match element.filter(|_| list && is_silent(field)) {
            Some(element) if wrap(&mut value, element, &unnest.schema) => {
                changed = true;
                value.alias_qualified(relation.cloned(), field.name())
            }
            _ => value,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    if !changed {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
}

/// Constants beside UUIDs in another query of a UNION.
fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let has_uuids =
        |at: usize| union.inputs.iter().any(|input| is_marked(input.schema().field(at)));
    let wanted = (0..union.schema.fields().len()).map(has_uuids).collect::<Vec<_>>();
    if !wanted.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut changed = false;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in &union.inputs {
        let LogicalPlan::Projection(list) = input.as_ref() else {
            inputs.push(Arc::clone(input));
            continue;
        };
        let columns = list.expr.iter().zip(&wanted).map(|(expr, wanted)| {
            let value = expr.clone().unalias();
            if !wanted || !is_text(&value) {
                return expr.clone();
            }
            changed = true;
            let (relation, name) = expr.qualified_name();
            as_uuid(value).alias_qualified(relation, name)
        });
        let columns = columns.collect::<Vec<_>>();
        let list = Projection::try_new(columns, Arc::clone(&list.input))?;
        inputs.push(Arc::new(LogicalPlan::Projection(list)));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}
