//! Aggregates whose answer depends on the order of the rows: `array_agg(x ORDER BY y)`,
//! `string_agg`, `nth_value`, `mode`.
//!
//! The query engine sorts the rows below such aggregates, so that it refuses two that want
//! different orders. [`Ordered`] gathers what it is given and sorts it by itself when all is there:
//! each aggregate has an order of its own, however the rows come. Rows that are equal in the order
//! stay as they came. Without ORDER BY it is the function it stands for.
//!
//! `first_value` and `last_value` of the engine keep one row and compare; they are left alone.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt32Array};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use swingdb_common::uuid;

use super::gathered_groups::{GatheredGroups, Joined};
use super::group_rows::{GroupRows, state_field};
use crate::engines_own::as_engines_values;

/// Rows up to which nobody looks for values that are there twice.
const LEAST: usize = 1 << 16;

/// The function `plain`, that with ORDER BY is `sorted` of the values in that order.
pub(crate) fn ordered(plain: Arc<AggregateUDF>, sorted: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::new_from_impl(Ordered { plain, sorted })
}

/// What a function is of values in order.
pub(super) fn sorted(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let inner: &dyn Any = function.inner().as_ref();
    Arc::clone(inner.downcast_ref::<Ordered>().map_or(function, |ordered| &ordered.sorted))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    plain: Arc<AggregateUDF>,
    sorted: Arc<AggregateUDF>,
}

impl Ordered {
    /// Whether the rows of a group are gathered: they are to be in order, or different ones.
    fn gathers(&self, is_ordered: bool, is_distinct: bool) -> bool {
        is_ordered || is_distinct && self.joins()
    }

    /// Whether the values of a group are put together, not counted or picked.
    fn joins(&self) -> bool {
        matches!(self.plain.name(), "array_agg" | "string_agg")
    }

    /// The types of the value and the keys that are gathered.
    fn types(&self, args: &AccumulatorArgs<'_>) -> Result<Vec<DataType>> {
        let once = args.is_distinct;
        if once && !args.order_bys.iter().all(|key| is_made_of(&key.expr, args.exprs)) {
            return plan_err!(
                "{}(DISTINCT ... ORDER BY ...) can only be ordered by what it is called with",
                self.name()
            );
        }
        let mut types = vec![args.expr_fields[0].data_type().clone()];
        for key in args.order_bys {
            types.push(key.expr.data_type(args.schema)?);
        }
        Ok(types)
    }

    fn gathered(&self, args: AccumulatorArgs<'_>) -> Result<Gathered> {
        let (types, once) = (self.types(&args)?, args.is_distinct);
        let options = args.order_bys.iter().map(|key| key.options).collect();
        let work = self.sorted.accumulator(AccumulatorArgs {
            order_bys: &[],
            is_reversed: false,
            is_distinct: false,
            ..args
        })?;
        Ok(Gathered { work, rows: Gathering::new(&types, 1, options, once) })
    }
}

/// The state of an aggregate that gathers its rows: a list of values and keys.
pub(super) fn gathered_field(args: &StateFieldsArgs<'_>, values: &[FieldRef]) -> FieldRef {
    let parts = values.iter().chain(args.ordering_fields);
    let fields = parts.enumerate().map(|(place, part)| state_field(place, part.data_type()));
    let rows = Field::new_list_field(DataType::Struct(fields.collect()), true);
    let name = format!("{}[rows]", args.name);
    Arc::new(Field::new(name, DataType::List(Arc::new(rows)), true))
}

/// Whether an expression has no columns but those inside of `args`.
pub(super) fn is_made_of(expr: &Arc<dyn PhysicalExpr>, args: &[Arc<dyn PhysicalExpr>]) -> bool {
    let mut is_made = true;
    // Never fails.
    let _ = expr.apply(|part| {
        if args.contains(part) {
            return Ok(TreeNodeRecursion::Jump);
        }
        is_made &= part.downcast_ref::<Column>().is_none();
        Ok(TreeNodeRecursion::Continue)
    });
    is_made
}

/// Whether an argument behind the first is NULL, as the delimiter in `string_agg(x, NULL)`.
pub(super) fn has_null(args: &[Arc<dyn PhysicalExpr>]) -> bool {
    let mut constants = args.iter().skip(1).filter_map(|arg| arg.downcast_ref::<Literal>());
    constants.any(|constant| constant.value().is_null())
}

impl AggregateUDFImpl for Ordered {
    as_engines_values!(plain);

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let returned = self.plain.return_field(fields)?;
        let Some(element) = fields.first().filter(|_| self.plain.name() == "array_agg") else {
            return Ok(returned);
        };
        // A list of UUIDs says that it is one.
        let places = match uuid::places(element) {
            Some(places) => format!("[{places}"),
            None if uuid::is_marked(element) => "[u".to_string(),
            None => return Ok(returned),
        };
        Ok(Arc::new(uuid::with_places(returned.as_ref().clone(), &places)))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let is_nothing = has_null(args.exprs);
        let work: Box<dyn Accumulator> =
            match self.gathers(!args.order_bys.is_empty(), args.is_distinct) {
                true => Box::new(self.gathered(args)?),
                false => self.plain.accumulator(args)?,
            };
        Ok(if is_nothing { Box::new(Nothing(work)) } else { work })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match has_null(args.exprs) || !args.order_bys.is_empty() {
            true => self.accumulator(args),
            false => self.plain.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.gathers(!args.order_bys.is_empty(), args.is_distinct) {
            true => self.joins() && !has_null(args.exprs),
            false => !has_null(args.exprs) && self.plain.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if !self.gathers(!args.order_bys.is_empty(), args.is_distinct) {
            return self.plain.create_groups_accumulator(args);
        }
        let types = self.types(&args)?;
        let options = args.order_bys.iter().map(|key| key.options).collect();
        let rows = GroupRows::new(&types, options, args.is_distinct);
        let joined = Joined::of(self.name(), &args)?;
        let ignores_nulls = args.ignore_nulls || matches!(joined, Joined::Text(_));
        let keys = args.order_bys.len();
        Ok(Box::new(GatheredGroups::new(rows, keys, ignores_nulls, joined)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !self.gathers(!args.ordering_fields.is_empty(), args.is_distinct) {
            return self.plain.state_fields(args);
        }
        let Some(value) = args.input_fields.first() else {
            return plan_err!("{} takes a value", self.name());
        };
        Ok(vec![gathered_field(&args, std::slice::from_ref(value))])
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

/// Gives the values to `work` in order, all at once.
#[derive(Debug)]
struct Gathered {
    work: Box<dyn Accumulator>,
    rows: Gathering,
}

impl Accumulator for Gathered {
    /// The values, the other arguments, which are constants, and the keys.
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let keys = values.len() - self.rows.options.len();
        let columns = values[..1].iter().chain(&values[keys..]);
        self.rows.add(columns.map(Arc::clone))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.rows.add_lists(&states[0])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = if self.rows.once { self.rows.sorted()? } else { self.rows.whole()? };
        Ok(vec![self.rows.as_list(columns)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.rows.sorted()?;
        self.work.update_batch(&columns[..1])?;
        self.work.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.work.size() + self.rows.bytes
    }
}

/// Rows of values and the keys of their order.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Of the values and of each key.
    fields: Fields,
    /// How many columns are values; those behind them are keys.
    values: usize,
    options: Vec<SortOptions>,
    /// Each value once.
    once: bool,
    /// The pieces of each column, values first.
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    pub(super) bytes: usize,
    /// So many rows may be there before the same values are sought.
    room: usize,
}

impl Gathering {
    /// Of values and keys of these types; the first `values` are those of values.
    pub(super) fn new(
        types: &[DataType],
        values: usize,
        options: Vec<SortOptions>,
        once: bool,
    ) -> Self {
        let fields = types.iter().enumerate().map(|(place, of)| state_field(place, of)).collect();
        let columns = vec![Vec::new(); types.len()];
        Self { fields, values, options, once, columns, rows: 0, bytes: 0, room: LEAST }
    }

    pub(super) fn add(&mut self, columns: impl Iterator<Item = ArrayRef>) -> Result<()> {
        for (place, (pieces, column)) in self.columns.iter_mut().zip(columns).enumerate() {
            self.rows += if place == 0 { column.len() } else { 0 };
            self.bytes += column.to_data().get_slice_memory_size()? + size_of::<StructArray>();
            pieces.push(column);
        }
        if self.once && self.rows > self.room {
            let shortened = self.sorted()?;
            self.replace(&shortened)?;
            self.room = LEAST.max(self.rows * 2);
        }
        Ok(())
    }

    /// Rows as [`gathered_field`] keeps them.
    pub(super) fn as_list(&self, columns: Vec<ArrayRef>) -> Result<ScalarValue> {
        let rows = StructArray::try_new(self.fields.clone(), columns, None)?;
        Ok(SingleRowListArrayBuilder::new(Arc::new(rows)).build_list_scalar())
    }

    /// Adds the rows of such lists.
    pub(super) fn add_lists(&mut self, lists: &ArrayRef) -> Result<()> {
        for rows in lists.as_list::<i32>().iter().flatten() {
            self.add(rows.as_struct().columns().iter().map(Arc::clone))?;
        }
        Ok(())
    }

    fn replace(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows = columns[0].len();
        self.bytes = 0;
        for (pieces, column) in self.columns.iter_mut().zip(columns) {
            self.bytes += column.to_data().get_slice_memory_size()?;
            *pieces = vec![Arc::clone(column)];
        }
        Ok(())
    }

    /// All rows, as whole columns.
    pub(super) fn whole(&mut self) -> Result<Vec<ArrayRef>> {
        let whole = self.columns.iter().zip(self.fields.iter()).map(|(pieces, field)| {
            let parts: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            Ok(match parts.as_slice() {
                [] => arrow::array::new_empty_array(field.data_type()),
                parts => concat(parts)?,
            })
        });
        let whole = whole.collect::<Result<Vec<_>>>()?;
        self.replace(&whole)?;
        Ok(whole)
    }

    /// One of the pieces in which the rows came, or all rows once they were put together.
    pub(super) fn piece(&self, place: usize) -> Option<Vec<ArrayRef>> {
        self.columns.iter().map(|pieces| pieces.get(place).map(Arc::clone)).collect()
    }

    /// Keeps all rows, which may [leave](Self::leave) again.
    pub(super) fn with_leaving(self) -> Self {
        Self { room: usize::MAX, ..self }
    }

    /// Leaves out rows that came first.
    pub(super) fn leave(&mut self, rows: usize) -> Result<()> {
        let left = self.whole()?.iter().map(|c| c.slice(rows, c.len() - rows)).collect::<Vec<_>>();
        self.replace(&left)
    }

    /// All rows in order, of the same values only the first one's if they are to be there once.
    pub(super) fn sorted(&mut self) -> Result<Vec<ArrayRef>> {
        let columns = self.whole()?;
        let (values, keys) = columns.split_at(self.values);
        let Ok(rows) = u32::try_from(columns[0].len()) else {
            return exec_err!("more than {} values in one ordered aggregate", u32::MAX);
        };
        let mut places: Vec<u32> = (0..rows).collect();
        if !keys.is_empty() {
            let of = keys.iter().zip(&self.options).map(|(key, options)| {
                SortField::new_with_options(key.data_type().clone(), *options)
            });
            let keys = as_rows(of.collect(), keys)?;
            places.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        }
        if self.once {
            let of = values.iter().map(|value| SortField::new(value.data_type().clone()));
            let values = as_rows(of.collect(), values)?;
            let mut seen = hashbrown::HashSet::new();
            places.retain(|place| seen.insert(values.row(*place as usize)));
        }
        let places = UInt32Array::from(places);
        columns.iter().map(|column| Ok(take(column, &places, None)?)).collect()
    }
}

fn as_rows(fields: Vec<SortField>, columns: &[ArrayRef]) -> Result<Rows> {
    Ok(RowConverter::new(fields)?.convert_columns(columns)?)
}

/// An aggregate of no rows, whatever there is.
#[derive(Debug)]
pub(super) struct Nothing(pub(super) Box<dyn Accumulator>);

impl Accumulator for Nothing {
    fn update_batch(&mut self, _values: &[ArrayRef]) -> Result<()> {
        Ok(())
    }

    fn retract_batch(&mut self, _values: &[ArrayRef]) -> Result<()> {
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
