//! `GROUP BY` of sets in sets, of keys in brackets and of keys by number, written out as the plain
//! sets of keys that the query engine knows.
//!
//! `GROUPING SETS (ROLLUP (a, b), CUBE (c))` has the sets `(a, b), (a), (), (c), ()`; a ROLLUP or
//! CUBE takes keys in brackets as one; what stands beside it is a part of every set. A key that is
//! in a set twice is in it once. The parser knows no GROUPING SETS inside of others: these are
//! written as a function first, and an empty set in them as an empty ROLLUP.
//!
//! Of `GROUP BY id, ROLLUP (name)` the engine makes all columns that `id` determines keys of every
//! set, `name` among them, if `id` is a PRIMARY KEY or what a subquery groups by. So keys beside
//! sets are always written out.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
    SelectItem,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build::is_named;
use crate::ast::walk::rewrite_own_exprs;
use crate::text::grouping_sets::INNER;

/// Sets that one GROUP BY may have.
const MAX_SETS: usize = 4096;

/// The keys of one set.
type Set = Vec<Expr>;

/// Writes out the sets of a SELECT, unless the engine knows them as they are.
pub(crate) fn rewrite(select: &mut Select) -> Result<()> {
    fill_calls(select)?;
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return Ok(()) };
    let count = keys.iter().fold(1_usize, |count, key| count.saturating_mul(sets_in(key)));
    if count > MAX_SETS {
        return Err(too_many());
    }
    let is_mixed = keys.len() > 1 && keys.iter().any(is_sets);
    if !modifiers.is_empty() || !(is_mixed || keys.iter().any(is_unknown)) {
        return Ok(());
    }
    let mut sets: Vec<Set> = vec![Vec::new()];
    for key in keys.iter() {
        let of_key = sets_of(key)?;
        if sets.len().saturating_mul(of_key.len()) > MAX_SETS {
            return Err(too_many());
        }
        let joined = |set: &Set| {
            let with = |more: &Set| set.iter().chain(more).cloned().collect::<Set>();
            of_key.iter().map(with).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(joined).collect();
    }
    for set in &mut sets {
        *set = numbered(std::mem::take(set), &select.projection);
    }
    let is_plain = keys.iter().all(|key| !is_sets(key));
    *keys = match (is_plain, sets.pop()) {
        (true, Some(set)) => set,
        (_, last) => vec![Expr::GroupingSets(sets.into_iter().chain(last).collect())],
    };
    Ok(())
}

/// `GROUPING_ID()` and `GROUPING()` without columns tell of all keys.
fn fill_calls(select: &mut Select) -> Result<()> {
    let is_grouped =
        matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty());
    let mut is_there = false;
    if is_grouped {
        for_grouped(select, &mut |expr| {
            is_there |= matches!(expr, Expr::Function(call) if tells_of_all(call));
        });
    }
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
    if !is_there {
        return Ok(());
    }
    let sets = keys.iter().map(sets_of).collect::<Result<Vec<_>>>()?;
    let all = numbered(sets.into_iter().flatten().flatten().collect(), &select.projection);
    let args = all.into_iter().map(|key| FunctionArg::Unnamed(FunctionArgExpr::Expr(key)));
    let args = args.collect::<Vec<_>>();
    for_grouped(select, &mut |expr| {
        if let Expr::Function(call) = expr
            && tells_of_all(call)
            && let FunctionArguments::List(list) = &mut call.args
        {
            list.args.clone_from(&args);
        }
    });
    Ok(())
}

/// The expressions that are computed of groups.
fn for_grouped(select: &mut Select, change: &mut dyn FnMut(&mut Expr)) {
    rewrite_own_exprs(&mut select.projection, change);
    rewrite_own_exprs(&mut select.having, change);
    rewrite_own_exprs(&mut select.qualify, change);
}

fn tells_of_all(call: &Function) -> bool {
    let is_empty = matches!(&call.args, FunctionArguments::List(list) if list.args.is_empty());
    is_empty && ["grouping", "grouping_id"].iter().any(|name| is_named(&call.name, name))
}

/// How many sets a key stands for; at least one of each that it is written with.
fn sets_in(key: &Expr) -> usize {
    let of_cube = |keys: usize| {
        u32::try_from(keys).ok().and_then(|keys| 1_usize.checked_shl(keys)).unwrap_or(usize::MAX)
    };
    match key {
        Expr::Cube(keys) => of_cube(keys.len()),
        Expr::Rollup(keys) => keys.len() + 1,
        Expr::GroupingSets(sets) => sets.len(),
        _ => 1,
    }
}

fn too_many() -> Error {
    Error::unsupported(format!("GROUP BY of more than {MAX_SETS} sets; name those you need"))
}

fn is_sets(key: &Expr) -> bool {
    matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))
}

/// Whether a key is one the engine does not know.
fn is_unknown(key: &Expr) -> bool {
    match key {
        Expr::Tuple(parts) => !parts.is_empty(),
        Expr::Rollup(parts) | Expr::Cube(parts) => {
            let keys = || parts.iter().flatten();
            let repeated =
                || keys().enumerate().any(|(n, key)| keys().skip(n + 1).any(|k| k == key));
            parts.iter().any(|part| part.len() != 1) || keys().any(is_inside) || repeated()
        }
        Expr::GroupingSets(sets) => sets.iter().flatten().any(is_inside),
        _ => false,
    }
}

/// Whether that is so of a key inside of sets.
fn is_inside(key: &Expr) -> bool {
    matches!(key, Expr::Tuple(_) | Expr::Value(_)) || inner_sets(key).is_some()
}

/// The name and the arguments, if the parser took sets for a function.
fn inner_sets(key: &Expr) -> Option<(&str, Vec<Expr>)> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = key else {
        return None;
    };
    let name = ["rollup", "cube", INNER].into_iter().find(|known| is_named(name, known))?;
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    Some((name, args.collect::<Option<_>>()?))
}

/// The sets that one key of GROUP BY stands for.
fn sets_of(key: &Expr) -> Result<Vec<Set>> {
    match key {
        Expr::Rollup(parts) => Ok(rolled_up(&parts.iter().map(|p| flat(p)).collect::<Vec<_>>())),
        Expr::Cube(parts) => cube(&parts.iter().map(|part| flat(part)).collect::<Vec<_>>()),
        Expr::GroupingSets(sets) => {
            let each = sets.iter().map(|set| match set.as_slice() {
                [one] => sets_of(one),
                several => Ok(vec![flat(several)]),
            });
            Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        key => match inner_sets(key) {
            Some(("rollup", args)) => Ok(rolled_up(&each_flat(&args))),
            Some(("cube", args)) => cube(&each_flat(&args)),
            Some((_, args)) => {
                let each = args.iter().map(sets_of).collect::<Result<Vec<_>>>()?;
                Ok(each.into_iter().flatten().collect())
            }
            None => Ok(vec![flat(std::slice::from_ref(key))]),
        },
    }
}

fn each_flat(keys: &[Expr]) -> Vec<Set> {
    keys.iter().map(|key| flat(std::slice::from_ref(key))).collect()
}

/// Keys without the brackets around several.
fn flat(keys: &[Expr]) -> Set {
    let parts = keys.iter().flat_map(|key| match key {
        Expr::Tuple(parts) => flat(parts),
        Expr::Nested(inner) => flat(std::slice::from_ref(inner.as_ref())),
        other => vec![other.clone()],
    });
    parts.collect()
}

fn rolled_up(parts: &[Set]) -> Vec<Set> {
    (0..=parts.len()).rev().map(|count| parts[..count].concat()).collect()
}

fn cube(parts: &[Set]) -> Result<Vec<Set>> {
    let count = u32::try_from(parts.len()).ok().and_then(|parts| 1_usize.checked_shl(parts));
    let Some(count) = count.filter(|count| *count <= MAX_SETS) else { return Err(too_many()) };
    let set = |chosen: usize| {
        let parts = parts.iter().enumerate().filter(|(place, _)| chosen >> place & 1 == 1);
        parts.flat_map(|(_, part)| part.iter().cloned()).collect()
    };
    Ok((0..count).rev().map(set).collect())
}

/// Keys that are numbers are those columns of the result; each key is there once.
fn numbered(set: Set, columns: &[SelectItem]) -> Set {
    let mut keys = Set::with_capacity(set.len());
    for key in set {
        let key = crate::ast::select_items::column(&key, columns).unwrap_or(key);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;
    use crate::text::forms::tests::parsed;

    fn groups(sql: &str) -> String {
        let sql = format!("SELECT a, b, count(*) FROM t GROUP BY {sql}");
        let text = rewritten(&parsed(&sql)).unwrap();
        text.split_once("GROUP BY ").unwrap().1.to_string()
    }

    #[test]
    fn sets_are_written_out() {
        for (given, expected) in [
            ("(a, b)", "a, b"),
            ("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("CUBE (a, a)", "GROUPING SETS ((a), (a), (a), ())"),
            ("GROUPING SETS (ROLLUP (a, b), CUBE (c))", "GROUPING SETS ((a, b), (a), (), (c), ())"),
            (
                "GROUPING SETS (a, GROUPING SETS ((b), (a, b)), ())",
                "GROUPING SETS ((a), (b), (a, b), ())",
            ),
            ("GROUPING SETS (a, GROUPING SETS ((b), ()))", "GROUPING SETS ((a), (b), ())"),
            (
                "GROUPING SETS (GROUPING SETS ((), GROUPING SETS (b, ()), ROLLUP (a)), ())",
                "GROUPING SETS ((), (b), (), (a), (), ())",
            ),
            ("c, ROLLUP ((a, b))", "GROUPING SETS ((c, a, b), (c))"),
            ("a, CUBE (b)", "GROUPING SETS ((a, b), (a))"),
            ("ROLLUP (2)", "GROUPING SETS ((b), ())"),
        ] {
            assert_eq!(groups(given), expected, "{given}");
        }
    }

    #[test]
    fn what_the_engine_knows_stays() {
        for same in ["a, b", "ROLLUP (a, b)", "GROUPING SETS ((a), (b))", "1"] {
            assert_eq!(groups(same), same);
        }
    }

    #[test]
    fn sets_without_end() {
        let keys = (0..13).map(|key| format!("c{key}")).collect::<Vec<_>>().join(", ");
        for groups in [
            "CUBE (@, c0)",
            "CUBE (@)",
            "CUBE (@), a",
            "ROLLUP (@), CUBE (a, b, c, d, e, f, g, h, i)",
        ] {
            let sql = format!("SELECT 1 FROM t GROUP BY {}", groups.replace('@', &keys));
            assert!(rewritten(&sql).is_err(), "{sql}");
        }
    }
}
