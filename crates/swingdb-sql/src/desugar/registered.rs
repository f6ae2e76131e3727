//! Casts to the types by which PostgreSQL's clients turn names into numbers and back.
//!
//! | this | becomes |
//! |---|---|
//! | `'t'::regclass`, `regnamespace`, `regrole`, `regtype` | `regclass('t')`: the number |
//! | `oid::regclass::text` | `regclass_name(oid)` |
//! | `oid::regproc` | `regproc(oid)`: the name |
//! | `x::oid`, `x::xid` | `CAST(x AS BIGINT)` |
//! | `x::name`, `x::"char"` | `CAST(x AS VARCHAR)` |

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, ObjectName};

use crate::ast::build::{call, only_argument};
use crate::ast::names::plain_parts;

/// Those whose values are numbers; each is the name of the function that stands for the cast.
const NUMBERS: [&str; 5] = ["regclass", "regdatabase", "regnamespace", "regrole", "regtype"];

/// What stands for a cast, if it is one of these; `safe`: a TRY_CAST.
pub(crate) fn rewritten(expr: &Expr, data_type: &DataType, safe: bool) -> Option<Expr> {
    let given = || expr.clone();
    let number = |function: &str| match safe {
        true => call(&format!("to_{function}"), [given()]),
        false => call(function, [given()]),
    };
    match data_type {
        DataType::Regclass => Some(number("regclass")),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let name = only_name(name)?;
            match name.as_str() {
                "regproc" | "regprocedure" => Some(call("regproc", [given()])),
                // The cast to regproc gives a name; what follows wants the number.
                "oid" if only_argument(expr, "regproc").is_some() => {
                    Some(call("to_regproc", [only_argument(expr, "regproc")?.clone()]))
                }
                "oid" | "xid" => Some(cast_as(expr, DataType::BigInt(None), safe)),
                "name" | "char" => Some(cast_as(expr, DataType::Varchar(None), safe)),
                name => NUMBERS.contains(&name).then(|| number(name)),
            }
        }
        DataType::Text | DataType::Varchar(None) => {
            let mut known = NUMBERS.iter();
            let (name, of) =
                known.find_map(|name| Some((name, only_argument(expr, name)?.clone())))?;
            Some(call(&format!("{name}_name"), [of]))
        }
        _ => None,
    }
}

fn cast_as(expr: &Expr, data_type: DataType, safe: bool) -> Expr {
    let kind = if safe { CastKind::TryCast } else { CastKind::Cast };
    Expr::Cast { kind, expr: Box::new(expr.clone()), data_type, array: false, format: None }
}

fn only_name(name: &ObjectName) -> Option<String> {
    match plain_parts(name)?.as_slice() {
        [name] => Some(name.to_lowercase()),
        _ => None,
    }
}
