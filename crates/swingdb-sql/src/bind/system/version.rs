//! `version()`: the database and its version, or what the program that serves it says.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result as EngineResult, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionConfig;

/// Ours, not the query engine's.
const OWN: &str = concat!("SwingDB ", env!("CARGO_PKG_VERSION"));

/// The version of PostgreSQL whose catalog and formats these are, as its clients read it.
pub(super) const POSTGRES: &str = concat!("14.0 (SwingDB ", env!("CARGO_PKG_VERSION"), ")");

/// The same as a number.
pub(super) const POSTGRES_NUMBER: &str = "140000";

/// What `version()` is in a session whose clients expect another form.
#[derive(Clone, Debug)]
pub struct Version(pub String);

impl Version {
    /// Puts it into a configuration.
    pub fn carry(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
    }
}

/// The function, in the state that a statement sees.
pub(super) fn function(state: &SessionState) -> ScalarUDF {
    let given = state.config().get_extension::<Version>();
    let text = given.map_or_else(|| OWN.to_string(), |given| given.0.clone());
    let signature = Signature::nullary(Volatility::Stable);
    ScalarUDF::new_from_impl(Function { text, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    text: String,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        "version"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(self.text.clone()))))
    }
}
