//! Functions that prepare what is cast: [`preparing`].

use std::any::Any;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::cast::normalize::{prepared, prepared_type, read_json};
use swingdb_common::time::zones::{Zone, in_zone, shown_in};

/// What makes a function that prepares what is cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparing {
    /// The type of the cast.
    pub to: DataType,
    /// Whether it is a TRY_CAST.
    pub safe: bool,
    /// The zone of the session.
    pub zone: Zone,
    /// Whether what is cast are texts that are JSON.
    pub json: bool,
}

/// The function that prepares what is cast.
pub fn preparing(of: &Preparing) -> ScalarUDF {
    ScalarUDF::new_from_impl(Prepare::new(of.clone()))
}

/// What makes a function, if it is one of [`preparing`].
pub fn preparing_of(function: &ScalarUDF) -> Option<Preparing> {
    let function: &dyn Any = function.inner().as_ref();
    let Prepare { to, safe, zone, json, .. } = function.downcast_ref::<Prepare>()?;
    Some(Preparing { to: to.clone(), safe: *safe, zone: *zone, json: *json })
}

/// Prepares what is cast to a type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Prepare {
    pub(super) to: DataType,
    safe: bool,
    /// Of the session.
    zone: Zone,
    /// What is cast are texts that are JSON.
    json: bool,
    /// Has all of this: plans name functions, and one name means one function.
    name: String,
    signature: Signature,
}

impl Prepare {
    fn new(Preparing { to, safe, zone, json }: Preparing) -> Self {
        let what = match &to {
            _ if json => "from_json",
            to if to.is_integer() => "rounded",
            to if to.is_string() => "text_of",
            _ => "prepared",
        };
        let safe_or_not = if safe { " or NULL" } else { "" };
        let name = format!("{what}[{to}{safe_or_not}, {zone}]");
        Self { to, safe, zone, json, name, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let to = in_zone(&self.to, self.zone);
        if !self.json {
            return Ok(prepared(&shown_in(array, self.zone)?, &to, self.safe)?);
        }
        let texts = cast(array, &DataType::Utf8View)?;
        let read = read_json(texts.as_string_view(), &to, self.safe)?;
        // Only the names of zones differ.
        Ok(if to == self.to { read } else { cast(&read, &self.to)? })
    }
}

impl ScalarUDFImpl for Prepare {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return plan_err!("{} takes one value", self.name()) };
        Ok(match self.json {
            true => self.to.clone(),
            false => {
                let given = in_zone(given, self.zone);
                prepared_type(&given, &in_zone(&self.to, self.zone)).unwrap_or(given)
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.apply(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = self.apply(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    /// Rounding keeps the order, and so does the text of timestamps but for years beyond 9999.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [input] if self.to.is_numeric() => input.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}
