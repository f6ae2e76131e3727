//! Aggregates that a program gives: [`AggregateFunction`].
//!
//! The program's work on one group is an [`Aggregation`]. Several threads may work on parts of a
//! group, whose states are merged, if the program can merge them. Otherwise, and where a call needs
//! all rows of a group at a time (`DISTINCT`, `ORDER BY`, moving frames), the rows are gathered in
//! columns and one aggregation gets them all.
//!
//! What the program returns is checked: a state or value of another kind is an error.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use swingdb_common::cast::convert::check_assignable;
use swingdb_common::error;
use swingdb_common::runtime::cancel;
use swingdb_common::types::sql_names::sql_name;

use super::ordered::{Gathering, gathered_field, is_made_of};

/// What an object of the program is taken to need, whose size nobody knows.
const OBJECT_BYTES: usize = 512;

/// The work of a program on one group, or on a part of its rows.
pub trait Aggregation: fmt::Debug + Send + Sync {
    /// Adds rows: an array for each argument.
    fn update(&mut self, arguments: &[ArrayRef]) -> error::Result<()>;

    /// The value of the rows so far, as an array of one value. More rows may follow: a window asks
    /// again and again.
    fn finish(&mut self) -> error::Result<ArrayRef>;

    /// What another aggregation [merges](Self::merge); only of functions that merge.
    fn state(&mut self) -> error::Result<Vec<u8>>;

    /// Adds the rows of another aggregation.
    fn merge(&mut self, state: &[u8]) -> error::Result<()>;
}

/// Starts an aggregation, of no rows.
pub type StartAggregation = Arc<dyn Fn() -> error::Result<Box<dyn Aggregation>> + Send + Sync>;

/// An aggregate that a program adds to a session.
pub struct AggregateFunction {
    /// Its name in SQL, in lower case.
    pub name: String,
    /// The types of its arguments, of which there is one at least; values are cast to them where
    /// none is lost.
    pub arguments: Vec<DataType>,
    /// The type of its values.
    pub returns: DataType,
    /// Whether rows with a NULL among the arguments are left out.
    pub skips_nulls: bool,
    /// Whether its aggregations have states that others merge.
    pub merges: bool,
    /// How many rows an aggregation is given at a time; a statement can be ended in between.
    pub rows_at_a_time: usize,
    /// What starts an aggregation.
    pub start: StartAggregation,
}

/// The types that a program's function takes its arguments as, which are those it declares.
///
/// Values are cast as INSERT casts them, but fractions are not rounded, and texts are read as dates
/// and times only.
pub fn declared_types(
    name: &str,
    declared: &[DataType],
    given: &[DataType],
) -> Result<Vec<DataType>> {
    let is_text =
        |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let fits = |(to, from): (&DataType, &DataType)| {
        let is_read = is_text(from) && !is_text(to) && !to.is_temporal();
        let is_rounded = to.is_integer() && from.is_numeric() && !from.is_integer();
        to == from || !is_read && !is_rounded && check_assignable(from, to, "").is_ok()
    };
    if declared.len() == given.len() && declared.iter().zip(given).all(fits) {
        return Ok(declared.to_vec());
    }
    let list = |types: &[DataType]| types.iter().map(sql_name).collect::<Vec<_>>().join(", ");
    plan_err!("{name}({}) is called with ({})", list(declared), list(given))
}

impl AggregateFunction {
    /// The function as the query engine knows it; an error if it has no argument.
    pub fn into_udaf(self) -> error::Result<AggregateUDF> {
        if self.arguments.is_empty() {
            return Err(error::Error::plan("an aggregate takes one argument at least"));
        }
        let signature = Signature::user_defined(Volatility::Immutable);
        let function = Given { signature, function: Arc::new(self) };
        Ok(AggregateUDF::new_from_impl(function))
    }
}

/// Whether an aggregate was given by a program.
pub fn is_given(function: &AggregateUDF) -> bool {
    function.inner().is::<Given>()
}

struct Given {
    signature: Signature,
    function: Arc<AggregateFunction>,
}

impl Given {
    /// Tells this function from others: one that replaces it has another start.
    fn identity(&self) -> (&str, *const ()) {
        (&self.function.name, Arc::as_ptr(&self.function.start).cast())
    }

    fn gathered(&self, args: &AccumulatorArgs<'_>) -> Result<Gathered> {
        let name = &self.function.name;
        let mut types = self.function.arguments.clone();
        for key in args.order_bys {
            types.push(key.expr.data_type(args.schema)?);
        }
        let is_sorted = !args.order_bys.is_empty();
        let once = args.is_distinct;
        if once && !args.order_bys.iter().all(|key| is_made_of(&key.expr, args.exprs)) {
            return plan_err!(
                "{name}(DISTINCT ... ORDER BY ...) can only be ordered by what it is called with"
            );
        }
        let options = args.order_bys.iter().map(|key| key.options).collect();
        Ok(Gathered {
            function: Arc::clone(&self.function),
            rows: Gathering::new(&types, self.function.arguments.len(), options, once),
            as_they_come: !is_sorted && !once,
            begun: None,
        })
    }
}

impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Given {}

impl Hash for Given {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("name", &self.function.name).finish_non_exhaustive()
    }
}

impl AggregateUDFImpl for Given {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        declared_types(&self.function.name, &self.function.arguments, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.function.returns.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if self.function.merges && args.order_bys.is_empty() && !args.is_distinct {
            let work = (self.function.start)()?;
            return Ok(Box::new(Direct { function: Arc::clone(&self.function), work }));
        }
        Ok(Box::new(self.gathered(&args)?))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let gathered = self.gathered(&args)?;
        Ok(Box::new(Gathered { rows: gathered.rows.with_leaving(), ..gathered }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if self.function.merges && args.ordering_fields.is_empty() && !args.is_distinct {
            let name = format!("{}[state]", args.name);
            return Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))]);
        }
        let values: Vec<FieldRef> = self
            .function
            .arguments
            .iter()
            .map(|of| -> FieldRef { Arc::new(Field::new("value", of.clone(), true)) })
            .collect();
        Ok(vec![gathered_field(&args, &values)])
    }

    /// The rows may come in any order; the engine gives their keys to those that say so only.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _is_sorted: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

impl AggregateFunction {
    /// The rows that the function sees: columns of arguments, and others behind them.
    fn seen(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let arguments = &columns[..self.arguments.len()];
        let nulls = arguments.iter().filter(|_| self.skips_nulls).fold(None, |known, array| {
            NullBuffer::union(known.as_ref(), array.logical_nulls().as_ref())
        });
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => Ok(columns.to_vec()),
            Some(nulls) => {
                let kept = BooleanArray::new(nulls.into_inner(), None);
                columns.iter().map(|column| Ok(filter(column, &kept)?)).collect()
            }
        }
    }

    fn update(&self, work: &mut dyn Aggregation, columns: &[ArrayRef]) -> Result<()> {
        let arguments = &columns[..self.arguments.len()];
        let (mut done, rows) = (0, arguments[0].len());
        while done < rows {
            cancel::check()?;
            let next = self.rows_at_a_time.clamp(1, rows - done);
            let part: Vec<_> = arguments.iter().map(|array| array.slice(done, next)).collect();
            work.update(&part)?;
            done += next;
        }
        Ok(())
    }

    fn value(&self, work: &mut dyn Aggregation) -> Result<ScalarValue> {
        cancel::check()?;
        let value = work.finish()?;
        if value.len() != 1 || value.data_type() != &self.returns {
            return exec_err!(
                "the aggregate {} gave {} values of type {}, not one of type {}",
                self.name,
                value.len(),
                value.data_type(),
                self.returns
            );
        }
        ScalarValue::try_from_array(&value, 0)
    }
}

/// An aggregation that gets rows as they come, and whose state others merge.
#[derive(Debug)]
struct Direct {
    function: Arc<AggregateFunction>,
    work: Box<dyn Aggregation>,
}

impl fmt::Debug for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Accumulator for Direct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let seen = self.function.seen(values)?;
        self.function.update(self.work.as_mut(), &seen)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states[0].as_binary::<i32>().iter().flatten() {
            cancel::check()?;
            self.work.merge(state)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.work.state()?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.function.value(self.work.as_mut())
    }

    fn size(&self) -> usize {
        size_of_val(self) + OBJECT_BYTES
    }
}

/// Gives an aggregation the rows when its value is asked for.
#[derive(Debug)]
struct Gathered {
    function: Arc<AggregateFunction>,
    rows: Gathering,
    /// Without an order, and all of them.
    as_they_come: bool,
    /// An aggregation that has got so many of the pieces that came.
    begun: Option<(Box<dyn Aggregation>, usize)>,
}

impl Accumulator for Gathered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        cancel::check()?;
        let seen = self.function.seen(values)?;
        if seen[0].is_empty() { Ok(()) } else { self.rows.add(seen.into_iter()) }
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let left = self.function.seen(values)?[0].len();
        if left > 0 {
            self.begun = None;
            self.rows.leave(left)?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.rows.add_lists(&states[0])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.rows.whole()?;
        Ok(vec![self.rows.as_list(columns)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if !self.as_they_come {
            let mut work = (self.function.start)()?;
            let columns = self.rows.sorted()?;
            self.function.update(work.as_mut(), &columns)?;
            return self.function.value(work.as_mut());
        }
        // A growing window asks again with a few rows more.
        let (mut work, mut known) = match self.begun.take() {
            Some(begun) => begun,
            None => ((self.function.start)()?, 0),
        };
        while let Some(piece) = self.rows.piece(known) {
            self.function.update(work.as_mut(), &piece)?;
            known += 1;
        }
        let value = self.function.value(work.as_mut())?;
        self.begun = Some((work, known));
        Ok(value)
    }

    fn size(&self) -> usize {
        size_of_val(self) + OBJECT_BYTES + self.rows.bytes
    }
}
