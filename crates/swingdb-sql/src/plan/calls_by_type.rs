//! Functions that are others for some types, as DuckDB has them.
//!
//! | call | of | |
//! |---|---|---|
//! | `concat(a, b)` | lists | one list; the engine joins their texts |
//! | `concat_ws(',', a, b)` | lists among others | of the elements of the lists |
//! | `array_to_string(l, ',')` | times, fractions, bytes ... | of the texts that casts make |
//! | `trim(x)`, `ltrim(x)` ... | texts | with the blanks that are cut off |
//! | `round(x, n)`, `trunc(x, n)` | floating point | `rounded`, `truncated`, for any `n` |
//! | `trunc(x)`, `trunc(x, n)` | whole numbers, decimals | [`cut`], and not as a DOUBLE |
//! | `ceil(x)`, `floor(x)` | decimals | [`cut`], with room for a digit more |
//! | `sqrt(x)`, `ln(x)`, `sin(x)` ... | REAL | of the same DOUBLE; the engine uses 32 bits |
//! | `date_part('microsecond', i)` | intervals | with the fraction of the second |
//! | `date_part('quarter', i)` | intervals | of the months beyond whole years |
//! | `l[i]`, `l[i:j]` | lists | with places that the engine does not count to |
//! | `to_timestamp_millis(x)` ... | texts | as a cast reads them |

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::list_ndims;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions::math::expr_fn::log10;
use datafusion::functions_nested::expr_fn::{array_to_string, make_array};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast, lit};
use swingdb_common::types::sql_names::sql_name;
use swingdb_functions::nested::joined_lists::concat_lists;
use swingdb_functions::nested::places::with_all_places;
use swingdb_functions::numbers::places::{Cut, cut, is_exact};
use swingdb_functions::numbers::rounding::{rounded, truncated};
use swingdb_functions::time::minutes::fraction_of_minute;

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;

/// Functions whose results are numbers of 64 bits, by the names that the engine has for them.
const OF_DOUBLES: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cot",
    "degrees", "exp", "ln", "log", "log10", "log2", "power", "radians", "sin", "sinh", "sqrt",
    "tan", "tanh",
];

/// Functions that cut blanks off, where nothing says what else.
const TRIMS: [&str; 3] = ["btrim", "ltrim", "rtrim"];

/// What is a blank there: Unicode's separators of words (category Zs). Tabs and line breaks are
/// none.
const BLANKS: &str = " \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\
    \u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{205f}\u{3000}";

/// Functions of lists of numbers.
const OF_NUMBERS: &[&str] = &[
    "array_add",
    "array_avg",
    "array_distance",
    "array_normalize",
    "array_product",
    "array_scale",
    "array_subtract",
    "array_sum",
    "cosine_distance",
    "inner_product",
];

/// Whether this may be such a call.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => match call.name() {
            "concat" | "concat_ws" | "array_to_string" | "array_sort" => true,
            name if TRIMS.contains(&name) => call.args.len() == 1,
            "array_element" | "array_slice" => true,
            "round" => call.args.len() == 2,
            "ceil" | "floor" | "trunc" => true,
            name if OF_DOUBLES.contains(&name) || OF_NUMBERS.contains(&name) => true,
            name if unit_of(name).is_some() => call.args.len() == 1,
            "date_part" => true,
            _ => false,
        },
        _ => false,
    }
}

/// Refuses parts that an interval does not have: the engine gives 0 for its week. And lists of
/// lists as texts that are put together. And an order of a list that may be another one in each
/// row, of which the engine takes the first.
pub(crate) fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    if let Expr::ScalarFunction(call) = expr
        && call.name() == "concat_ws"
    {
        for arg in &call.args {
            if arg.get_type(schema).is_ok_and(|given| list_ndims(&given) > 1) {
                return plan_err!(
                    "concat_ws takes no lists of lists; flatten(x) makes one of them"
                );
            }
        }
    }
    if let Expr::ScalarFunction(call) = expr
        && OF_NUMBERS.contains(&call.name())
    {
        let types = call.args.iter().filter_map(|arg| arg.get_type(schema).ok());
        if let Some(other) = types.into_iter().find(has_no_numbers) {
            return plan_err!("{} takes lists of numbers, not {}", call.name(), sql_name(&other));
        }
    }
    if let Expr::ScalarFunction(call) = expr
        && call.name() == "array_sort"
        && !call.args.iter().skip(1).all(is_constant)
    {
        return plan_err!(
            "the order of a sorted list is a constant; write CASE WHEN order = 'DESC' \
             THEN list_sort(list, 'DESC') ELSE list_sort(list) END"
        );
    }
    if let Expr::ScalarFunction(call) = expr
        && call.name() == "date_part"
        && let [part, of] = call.args.as_slice()
        && part_named(part).is_some_and(|part| matches!(part.as_str(), "week" | "weeks" | "w"))
        && matches!(of.get_type(schema), Ok(DataType::Interval(_)))
    {
        return plan_err!("an INTERVAL has no week; take its days");
    }
    Ok(())
}

/// The call of the function that it is for these types.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(call) = expr else { return Transformed::no(expr) };
    let types = call.args.iter().map(|arg| arg.get_type(schema).unwrap_or(DataType::Null));
    let types = types.collect::<Vec<_>>();
    let ScalarFunction { func, mut args } = match of_parts(call, &types) {
        Ok(changed) => return Transformed::yes(changed),
        Err(call) => call,
    };
    match func.name() {
        "array_to_string" if is_written_otherwise(&types[0]) => {
            args[0] = cast(args[0].clone(), DataType::new_list(DataType::Utf8, true));
            return Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }));
        }
        "round" if matches!(types[0], DataType::Float32 | DataType::Float64) => {
            return Transformed::yes(rounded(args));
        }
        "trunc" if args.len() == 2 && matches!(types[0], DataType::Float32 | DataType::Float64) => {
            return Transformed::yes(truncated(args));
        }
        "log" if args.len() == 1 && !types[0].is_decimal() => {
            // Of 10, without the error of a quotient of two logarithms.
            let number = cast(args.remove(0), DataType::Float64);
            return Transformed::yes(log10(number));
        }
        name if OF_DOUBLES.contains(&name) => {
            let is_narrow =
                |given: &DataType| matches!(given, DataType::Float16 | DataType::Float32);
            let changed = types.iter().any(is_narrow);
            if changed {
                args = args.into_iter().map(|arg| cast(arg, DataType::Float64)).collect();
            }
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            return Transformed::new_transformed(call, changed);
        }
        "trunc" if types[0].is_integer() && args.len() == 1 => {
            if let Some(whole) = args.pop() {
                return Transformed::yes(whole);
            }
        }
        "trunc" if is_exact(&types[0]) => return Transformed::yes(cut(Cut::Trunc, args)),
        "ceil" if is_fraction(&types[0]) => return Transformed::yes(cut(Cut::Ceil, args)),
        "floor" if is_fraction(&types[0]) => return Transformed::yes(cut(Cut::Floor, args)),
        "date_part" if types.get(1) == Some(&DataType::Interval(IntervalUnit::MonthDayNano)) => {
            let part = args.first().and_then(part_named).unwrap_or_default();
            if is_quarter(&part) {
                args[0] = lit("month");
                let months = Expr::ScalarFunction(ScalarFunction { func, args });
                return Transformed::yes(months / lit(3) + lit(1));
            }
            if let Some(unit) = nanoseconds(&part)
                && let Some(interval) = args.pop()
            {
                return Transformed::yes(fraction_of_minute(interval, unit));
            }
        }
        _ => {}
    }
    Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
}

/// The same for those that join lists and texts, or take parts of them; `Err` is another call.
fn of_parts(call: ScalarFunction, types: &[DataType]) -> std::result::Result<Expr, ScalarFunction> {
    let is_list = |given: &DataType| given.is_list();
    let of_lists = types.iter().any(is_list) && types.iter().all(|t| is_list(t) || t.is_null());
    let ScalarFunction { func, mut args } = call;
    match func.name() {
        "concat" if of_lists => {
            // NULL adds nothing.
            let lists = args.into_iter().zip(types).filter(|(_, given)| !given.is_null());
            return Ok(concat_lists(lists.map(|(list, _)| list).collect()));
        }
        name if TRIMS.contains(&name) => {
            args.push(lit(BLANKS));
            return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
        }
        "concat_ws" if types.len() > 1 && types.iter().skip(1).all(DataType::is_null) => {
            // Of nothing an empty text: the engine would leave out all but the separator.
            args = vec![args.remove(0), lit("")];
            return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
        }
        "concat_ws" if types.iter().skip(1).any(is_spread) => {
            return Ok(spread(func, args, types));
        }
        "array_element" | "array_slice" => {
            if let Some(func) = with_all_places(&func) {
                return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
            }
        }
        name if unit_of(name).is_some() && types[0].is_string() => {
            if let (Some(unit), Some(text)) = (unit_of(name), args.pop()) {
                let point = DataType::Timestamp(unit, Some("UTC".into()));
                return Ok(cast(text, point));
            }
        }
        _ => {}
    }
    Err(ScalarFunction { func, args })
}

/// Whether it is a list of what are no numbers, and can be read as none.
fn has_no_numbers(given: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        given
    else {
        return false;
    };
    let item = item.data_type();
    !(item.is_numeric() || item.is_null() || item.is_string() || *item == DataType::Boolean)
}

/// The unit of the points in time that a function makes of texts; the engine's own says a zone,
/// and gives values without one.
fn unit_of(function: &str) -> Option<TimeUnit> {
    match function {
        "to_timestamp_seconds" => Some(TimeUnit::Second),
        "to_timestamp_millis" => Some(TimeUnit::Millisecond),
        "to_timestamp_micros" => Some(TimeUnit::Microsecond),
        "to_timestamp_nanos" => Some(TimeUnit::Nanosecond),
        _ => None,
    }
}

/// Whether `concat_ws` takes the elements of such a value, and not its text.
fn is_spread(given: &DataType) -> bool {
    matches!(given, DataType::List(_) | DataType::LargeList(_))
}

/// Whether the engine writes the elements of such a list otherwise than a cast to text does.
fn is_written_otherwise(list: &DataType) -> bool {
    let (DataType::List(element)
    | DataType::LargeList(element)
    | DataType::FixedSizeList(element, _)) = list
    else {
        return false;
    };
    let given = element.data_type();
    let is_boolean = matches!(given, DataType::Boolean);
    !(is_boolean || given.is_null() || given.is_string() || given.is_integer() || given.is_list())
}

/// Whether an expression is the same for all rows.
fn is_constant(expr: &Expr) -> bool {
    let differs = |part: &Expr| {
        matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::LambdaVariable(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
        )
    };
    !expr.is_volatile() && !expr.exists(|part| Ok(differs(part))).unwrap_or(true)
}

/// A `concat_ws` of the elements of lists: of all values as one list of texts.
fn spread(func: Arc<ScalarUDF>, mut args: Vec<Expr>, types: &[DataType]) -> Expr {
    let texts = DataType::new_list(DataType::Utf8, true);
    let separator = args.remove(0);
    let lists = args.into_iter().zip(&types[1..]).map(|(arg, given)| match is_spread(given) {
        true => cast(arg, texts.clone()),
        false => make_array(vec![cast(arg, DataType::Utf8)]),
    });
    let mut lists = lists.collect::<Vec<_>>();
    let all = if lists.len() == 1 { lists.remove(0) } else { concat_lists(lists) };
    let joined = array_to_string(all, separator.clone());
    // Of nothing but NULL it is an empty text.
    Expr::ScalarFunction(ScalarFunction { func, args: vec![separator, joined] })
}

/// Whether it is a type of decimals whose digits are counted exactly.
fn is_fraction(given: &DataType) -> bool {
    given.is_decimal() && is_exact(given)
}

/// The name of the part that a `date_part` asks for.
fn part_named(part: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = part else { return None };
    match value {
        ScalarValue::Utf8(name) | ScalarValue::Utf8View(name) => {
            name.as_ref().map(|name| name.to_ascii_lowercase())
        }
        _ => None,
    }
}

fn is_quarter(part: &str) -> bool {
    matches!(part, "quarter" | "quarters" | "qtr")
}

/// The length of the parts of a second that a name stands for.
fn nanoseconds(part: &str) -> Option<i64> {
    match part {
        "nanosecond" | "nanoseconds" | "ns" => Some(1),
        "microsecond" | "microseconds" | "us" => Some(MICRO),
        "millisecond" | "milliseconds" | "ms" => Some(MILLI),
        _ => None,
    }
}
