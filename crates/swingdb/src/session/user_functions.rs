//! Scalar functions that a program adds to a session: [`ScalarFunction`].
//!
//! A function belongs to its session and is gone with it. It is called with Arrow arrays, one for
//! each argument, by any thread that runs a statement, and several threads may call it at a time.
//! What it returns is checked: an array of another type or length is an error, never read.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::error::Result;
use swingdb_sql::engine::declared_types;

/// What a function that a program has added is called as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    Scalar,
    Aggregate,
    Table,
}

/// Computes a function's values: of the arguments' arrays, for so many rows.
pub type ScalarCall = Arc<dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync>;

/// A scalar function as [`Connection::create_function`](crate::Connection::create_function) takes
/// it.
pub struct ScalarFunction {
    /// Its name in SQL, in lower case.
    pub name: String,
    /// The types of its arguments; values are cast to them where none is lost.
    pub arguments: Vec<DataType>,
    /// The type of its values.
    pub returns: DataType,
    /// Whether it may give different values for the same arguments, and so is called for each row.
    pub volatile: bool,
    /// What computes it.
    pub call: ScalarCall,
}

impl ScalarFunction {
    /// The function as the query engine knows it.
    pub(crate) fn into_udf(self) -> ScalarUDF {
        let volatility = if self.volatile { Volatility::Volatile } else { Volatility::Immutable };
        let signature = if self.arguments.is_empty() {
            Signature::nullary(volatility)
        } else {
            Signature::user_defined(volatility)
        };
        let (name, arguments, returns, call) = (self.name, self.arguments, self.returns, self.call);
        ScalarUDF::new_from_impl(UserFunction { name, signature, arguments, returns, call })
    }
}

struct UserFunction {
    name: String,
    signature: Signature,
    arguments: Vec<DataType>,
    returns: DataType,
    call: ScalarCall,
}

impl UserFunction {
    /// Tells this function from others: one that replaces it has another call.
    fn identity(&self) -> (&str, *const ()) {
        (&self.name, Arc::as_ptr(&self.call).cast())
    }
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for UserFunction {}

impl Hash for UserFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Debug for UserFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ScalarUDFImpl for UserFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> EngineResult<Vec<DataType>> {
        declared_types(&self.name, &self.arguments, given)
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args
            .args
            .into_iter()
            .map(|value| value.into_array(rows))
            .collect::<EngineResult<Vec<_>>>()?;
        let values = (self.call)(&arrays, rows)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        if values.data_type() != &self.returns || values.len() != rows {
            return Err(DataFusionError::Execution(format!(
                "the function {} gave {} values of type {}, not {rows} of type {}",
                self.name,
                values.len(),
                values.data_type(),
                self.returns
            )));
        }
        Ok(ColumnarValue::Array(values))
    }
}
