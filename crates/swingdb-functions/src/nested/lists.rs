//! Aggregates of the elements of a list: `list_sum(l)`, `list_mode(l)`, `list_median(l)` ...; also
//! written `list_aggregate(l, 'sum')`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use swingdb_common::floats::canonical;
use swingdb_common::types::sql_names::sql_name;

/// Names of functions, and of the aggregates that they are.
const FUNCTIONS: &[(&str, &str)] = &[
    ("list_sum", "sum"),
    ("list_avg", "avg"),
    ("list_product", "product"),
    ("list_mode", "mode"),
    ("list_median", "median"),
    ("list_mad", "mad"),
    ("list_entropy", "entropy"),
    ("list_histogram", "histogram"),
    ("list_stddev", "stddev"),
    ("list_stddev_samp", "stddev"),
    ("list_stddev_pop", "stddev_pop"),
    ("list_variance", "var"),
    ("list_var_samp", "var"),
    ("list_var_pop", "var_pop"),
    ("list_skewness", "skewness"),
    ("list_kurtosis", "kurtosis"),
    ("list_kurtosis_pop", "kurtosis_pop"),
    ("list_bool_and", "bool_and"),
    ("list_bool_or", "bool_or"),
    ("list_bit_and", "bit_and"),
    ("list_bit_or", "bit_or"),
    ("list_bit_xor", "bit_xor"),
    ("list_approx_count_distinct", "approx_distinct"),
];

/// Aggregates that sort: by their bits, so that a NaN with a sign would be the least number.
const BY_ORDER: [&str; 2] = ["median", "mad"];

/// All functions of this module, of the aggregates that there are.
pub(crate) fn functions(aggregates: &[Arc<AggregateUDF>]) -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().filter_map(|(name, aggregate)| {
        let aggregate = aggregates.iter().find(|known| known.name() == *aggregate)?;
        let signature = Signature::any(1, Volatility::Immutable);
        Some(ScalarUDF::new_from_impl(OfElements {
            name,
            aggregate: Arc::clone(aggregate),
            signature,
        }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfElements {
    name: &'static str,
    aggregate: Arc<AggregateUDF>,
    signature: Signature,
}

impl OfElements {
    /// What the aggregate takes of elements of a list.
    fn taken(&self, list: &DataType) -> Result<FieldRef> {
        let element = match list {
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _) => Arc::clone(element),
            DataType::Null => Arc::new(Field::new_list_field(DataType::Null, true)),
            other => return plan_err!("{} takes a list, not {other}", self.name),
        };
        // Of no type known, as in `[NULL]`.
        let taken = match element.data_type() {
            DataType::Null => {
                let of = |element| Arc::new(Field::new_list_field(element, true));
                fields_with_udf(&[of(DataType::Int64)], self.aggregate.as_ref())
                    .or_else(|_| fields_with_udf(&[of(DataType::Boolean)], self.aggregate.as_ref()))
            }
            // It counts no numbers of floating point, but their texts.
            given if given.is_floating() && self.aggregate.name() == "approx_distinct" => {
                Ok(vec![Arc::new(Field::new_list_field(DataType::Utf8, true))])
            }
            _ => fields_with_udf(&[Arc::clone(&element)], self.aggregate.as_ref()),
        };
        match taken.as_deref() {
            Ok([taken]) => Ok(Arc::clone(taken)),
            _ => {
                let given = sql_name(element.data_type());
                plan_err!("{} takes no list with elements of type {given}", self.name)
            }
        }
    }

    fn expression(&self, taken: &FieldRef) -> Result<AggregateFunctionExpr> {
        let schema = Schema::new(vec![taken.as_ref().clone().with_name("element")]);
        let element = Arc::new(Column::new("element", 0));
        AggregateExprBuilder::new(Arc::clone(&self.aggregate), vec![element])
            .schema(Arc::new(schema))
            .alias(self.name)
            .build()
    }
}

impl ScalarUDFImpl for OfElements {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [list] = types else { return plan_err!("{} takes a list", self.name) };
        let taken = self.taken(list)?;
        self.aggregate.return_type(&[taken.data_type().clone()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list] = args.args.as_slice() else { return plan_err!("{} takes a list", self.name) };
        let taken = self.taken(&list.data_type())?;
        let of = DataType::new_list(taken.data_type().clone(), true);
        let mut lists: ArrayRef = cast(&list.to_array(crate::args::rows_of(&args))?, &of)?;
        if BY_ORDER.contains(&self.aggregate.name()) {
            lists = canonical(&lists)?;
        }
        let expression = self.expression(&taken)?;
        let nothing = ScalarValue::try_new_null(args.return_type())?;
        let one = |list: Option<ArrayRef>| match list {
            Some(elements) => {
                let mut work = expression.create_accumulator()?;
                if !elements.is_empty() {
                    work.update_batch(&[elements])?;
                }
                work.evaluate()
            }
            None => Ok(nothing.clone()),
        };
        let found = lists.as_list::<i32>().iter().map(one).collect::<Result<Vec<_>>>()?;
        let found = match found.is_empty() {
            true => arrow::array::new_empty_array(args.return_type()),
            false => ScalarValue::iter_to_array(found)?,
        };
        crate::args::as_given(&args, found)
    }
}
