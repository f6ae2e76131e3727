//! Functions whose result can be much larger than what they get: `range(10000000000)`,
//! `repeat('x', 10000000000)`, a long constant beside each row.
//!
//! The engine takes the memory for a result without asking, and the process ends where there is
//! none. So a function that can grow stands inside of a [`Bounded`] one, which estimates the
//! result from the arguments first ([`size`]), a batch at a time, and asks the memory
//! pool for it: what does not fit is [`Error::OutOfMemory`], as it is where an operator asks. The
//! memory belongs to the pool again once the function has returned; what a result takes while
//! operators hold it, they account for.
//!
//! [`bounded_part`] puts them in place when a statement is analyzed, so that it does not
//! matter whether a name, an operator or a rewrite has brought the function in. The pool comes
//! with the configuration that the engine hands to functions ([`MemoryLeft`]).

mod column;
mod concat;
mod in_slices;
mod replaced;
pub mod size;

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use datafusion::functions::regex::regexp_like;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, lit,
};
use swingdb_common::runtime::memory::reserve;

use crate::bounded::column::Size;
use crate::bounded::concat::{CONCAT_OPERATOR, concat_operator};
use crate::bounded::in_slices::{in_slices, takes_pattern};
use crate::bounded::size::Growth;

/// Results up to this size are not asked for: the buffers of the engine itself are larger.
const UNASKED_BYTES: u64 = 16 << 20;

/// What may be put into one array of texts, or of lists: its offsets have 32 bits.
const MAX_ITEMS: u64 = i32::MAX as u64;

/// The expression with bounded functions.
pub fn bounded_expr(expr: Expr) -> Result<Expr> {
    let schema = DFSchema::empty();
    Ok(expr.transform_up(|part| Ok(bounded_part(part, &schema)))?.data)
}

/// One part of an expression over rows of a schema, bounded where it calls a function that
/// [can grow](can_grow).
pub fn bounded_part(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    bounded(called(part, schema))
}

/// Whether the result can be much larger than what it is made of.
pub fn can_grow(expr: &Expr) -> bool {
    is_concat(expr) || is_match(expr) || growth(expr).is_some()
}

/// Whether it is `text ~ pattern` with a pattern that may differ from row to row.
fn is_match(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) => {
            match_of(*op).is_some() && !matches!(**right, Expr::Literal(..))
        }
        _ => false,
    }
}

/// Whether an operator is a match that must not be, and whether without regard to case.
fn match_of(op: Operator) -> Option<(bool, bool)> {
    Some(match op {
        Operator::RegexMatch => (false, false),
        Operator::RegexIMatch => (false, true),
        Operator::RegexNotMatch => (true, false),
        Operator::RegexNotIMatch => (true, true),
        _ => return None,
    })
}

fn is_concat(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }))
}

/// The function instead of `||` of texts, and instead of `~` with patterns of rows.
fn called(expr: Expr, schema: &DFSchema) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if text_type(&left, schema).is_some_and(|of| text_type(&right, schema) == Some(of)) =>
        {
            let mut args = match *left {
                Expr::ScalarFunction(call) if call.name() == CONCAT_OPERATOR => call.args,
                other => vec![other],
            };
            args.push(*right);
            Expr::ScalarFunction(ScalarFunction::new_udf(concat_operator(), args))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if !matches!(*right, Expr::Literal(..)) && match_of(op).is_some() =>
        {
            let (negated, folded) = match_of(op).unwrap_or_default();
            let flags = folded.then(|| lit("i"));
            let args = [*left, *right].into_iter().chain(flags).collect();
            let found = Expr::ScalarFunction(ScalarFunction::new_udf(regexp_like(), args));
            if negated { !found } else { found }
        }
        other => other,
    }
}

fn text_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Expr::ScalarFunction(call) = expr
        && call.name() == CONCAT_OPERATOR
    {
        return text_type(call.args.first()?, schema);
    }
    expr.get_type(schema).ok().filter(DataType::is_string)
}

fn growth(expr: &Expr) -> Option<Growth> {
    match expr {
        Expr::ScalarFunction(call) => {
            let inner: &dyn Any = call.func.inner().as_ref();
            Growth::of(call.name()).filter(|_| !inner.is::<Bounded>())
        }
        _ => None,
    }
}

fn bounded(expr: Expr) -> Transformed<Expr> {
    if let Expr::Not(inner) = expr {
        return bounded(*inner).update_data(|inner| !inner);
    }
    match (growth(&expr), expr) {
        (Some(growth), Expr::ScalarFunction(ScalarFunction { func, args })) => {
            let func = ScalarUDF::new_from_impl(Bounded { inner: func, growth });
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(func), args)))
        }
        (_, other) => Transformed::no(other),
    }
}

/// Asks for so much memory, which belongs to the pool again when what is returned is dropped; small
/// sizes are not asked for.
pub(crate) fn ask(
    name: &str,
    config: &ConfigOptions,
    bytes: u64,
) -> Result<Option<MemoryReservation>> {
    match config.extensions.get::<MemoryLeft>() {
        Some(MemoryLeft(pool)) if bytes > UNASKED_BYTES => Ok(Some(reserve(name, pool, bytes)?)),
        _ => Ok(None),
    }
}

/// A function of the engine that asks whether there is memory for its result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(found) = in_slices(&self.inner, &args)? {
            return Ok(found);
        }
        let size = self.growth.size(&args.args)?;
        if size.bytes <= UNASKED_BYTES {
            return self.inner.invoke_with_args(args);
        }
        // Held until the function has returned.
        let _reservation = ask(self.name(), &args.config_options, size.bytes)?;
        self.check_offsets(&size, args.return_field.data_type())?;
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if takes_pattern(self.inner.name()) && !matches!(args.get(1), Some(Expr::Literal(..))) {
            // An operator, which `regexp_like` would become, keeps all patterns of a batch.
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.inner.simplify(args, info)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

impl Bounded {
    /// Fails where the engine's builders would panic.
    fn check_offsets(&self, size: &Size, result: &DataType) -> Result<()> {
        let narrow = matches!(result, DataType::Utf8 | DataType::Binary | DataType::List(_));
        if !narrow || size.items <= MAX_ITEMS {
            return Ok(());
        }
        let what = if matches!(result, DataType::List(_)) { "elements" } else { "bytes of text" };
        exec_err!(
            "{}: {} {what} in one result or batch of rows; the most is {MAX_ITEMS}",
            self.name(),
            size.items
        )
    }
}

/// The memory pool of a session, where its functions find it.
#[derive(Clone, Debug)]
pub struct MemoryLeft(pub Arc<dyn MemoryPool>);

impl ConfigExtension for MemoryLeft {
    const PREFIX: &'static str = "swingdb_memory";
}

impl ExtensionOptions for MemoryLeft {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        exec_err!("{key} cannot be set")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion::prelude::col;

    use super::*;

    /// As an operator it would compile the patterns of all rows of a batch, and keep them.
    #[test]
    fn patterns_of_rows_stay_with_the_function() {
        let fields = ["s", "p"].map(|name| Field::new(name, DataType::Utf8, true));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).unwrap();
        let info = SimplifyContext::builder().with_schema(Arc::new(schema)).build();
        let becomes_operator = |pattern: Expr| {
            let call = ScalarFunction::new_udf(regexp_like(), vec![col("s"), pattern]);
            let bounded = bounded_expr(Expr::ScalarFunction(call)).unwrap();
            let Expr::ScalarFunction(ScalarFunction { func, args }) = bounded else {
                panic!("{bounded}")
            };
            matches!(func.simplify(args, &info).unwrap(), ExprSimplifyResult::Simplified(_))
        };
        assert!(becomes_operator(lit("a")));
        assert!(!becomes_operator(col("p")));
    }
}
