//! `nextval`, `currval` and `setval`.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result as DfResult, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use parking_lot::Mutex;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::bind::sequences::{CURRENT, NEXT, Named, SET};
use swingdb_store::{Catalog, Sequence};

/// The sequences of a session, while one of its statements may take numbers from them.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    /// The state before the statement.
    catalog: Arc<Catalog>,
    /// Sequences that numbers were taken from.
    moved: BTreeMap<Named, Sequence>,
}

impl Running {
    fn sequence(&self, named: &Named) -> Result<Sequence> {
        let known = self.moved.get(named).cloned();
        let stored = || self.catalog.sequence(&named.schema, &named.name);
        known.or_else(|| stored().map(|stored| (*stored).clone())).ok_or_else(|| {
            let names = self.catalog.sequence_names(&named.schema);
            Error::not_found(ObjectKind::Sequence, named.name.as_str(), names)
        })
    }
}

/// While it lives, statements of the session may take numbers.
pub(crate) struct Taking<'a>(&'a Numbers);

impl Taking<'_> {
    /// The sequences that numbers were taken from, with their schemas.
    pub(crate) fn moved(&self) -> Vec<(String, Sequence)> {
        let mut running = self.0.running.lock();
        let moved = running.as_mut().map(|running| std::mem::take(&mut running.moved));
        let moved = moved.into_iter().flatten();
        moved.map(|(named, sequence)| (named.schema, sequence)).collect()
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() = None;
    }
}

impl Numbers {
    /// A statement begins that may take numbers, in this state of the database.
    pub(crate) fn begin(&self, catalog: Arc<Catalog>) -> Taking<'_> {
        *self.running.lock() = Some(Running { catalog, moved: BTreeMap::new() });
        Taking(self)
    }

    /// So many numbers of a sequence, by its resolved name.
    pub(crate) fn take(&self, text: &str, count: usize) -> Result<Int64Array> {
        self.with(text, |running, named| {
            let mut sequence = running.sequence(&named)?;
            let taken = (0..count).map(|_| sequence.take()).collect::<Result<Vec<_>>>()?;
            running.moved.insert(named, sequence);
            Ok(Int64Array::from(taken))
        })
    }

    /// Sets a sequence to numbers one after the other, each of which was given out or not.
    fn set(&self, text: &str, given: &[(Option<i64>, Option<bool>)]) -> Result<Int64Array> {
        self.with(text, |running, named| {
            let mut sequence = running.sequence(&named)?;
            let set = given.iter().map(|(value, is_given)| {
                let (Some(value), Some(is_given)) = (value, is_given) else { return Ok(None) };
                sequence.set(*value, *is_given)?;
                Ok(Some(*value))
            });
            let set = set.collect::<Result<Int64Array>>()?;
            running.moved.insert(named, sequence);
            Ok(set)
        })
    }

    /// The number that was given out last.
    fn last(&self, text: &str) -> Result<i64> {
        self.with(text, |running, named| {
            running.sequence(&named)?.last.ok_or_else(|| {
                Error::plan(format!("sequence {:?} has given out no number yet", named.name))
            })
        })
    }

    fn with<T>(&self, text: &str, run: impl FnOnce(&mut Running, Named) -> Result<T>) -> Result<T> {
        match self.running.lock().as_mut() {
            Some(running) => run(running, Named::of(text)),
            None => Err(Error::unsupported(format!(
                "numbers of sequence {text:?} in this place; SELECT, statements that change \
                 tables, and their defaults can take some"
            ))),
        }
    }
}

/// The functions of a session.
pub(crate) fn functions(numbers: &Arc<Numbers>) -> [ScalarUDF; 3] {
    let exact = TypeSignature::Exact;
    [NEXT, CURRENT, SET].map(|name| {
        let signature = match name {
            SET => vec![
                exact(vec![DataType::Utf8, DataType::Int64]),
                exact(vec![DataType::Utf8, DataType::Int64, DataType::Boolean]),
            ],
            _ => vec![exact(vec![DataType::Utf8])],
        };
        let signature = Signature::one_of(signature, Volatility::Volatile);
        ScalarUDF::new_from_impl(Take { name, numbers: Arc::clone(numbers), signature })
    })
}

#[derive(Debug)]
struct Take {
    name: &'static str,
    numbers: Arc<Numbers>,
    signature: Signature,
}

impl PartialEq for Take {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.numbers, &other.numbers)
    }
}

impl Eq for Take {}

impl Hash for Take {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Take {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))), others @ ..] =
            args.args.as_slice()
        else {
            return plan_err!("{} takes the name of a sequence", self.name);
        };
        Ok(match self.name {
            SET => {
                let given = numbers_to_set(others, args.number_rows)?;
                ColumnarValue::Array(Arc::new(self.numbers.set(text, &given)?))
            }
            NEXT => ColumnarValue::Array(Arc::new(self.numbers.take(text, args.number_rows)?)),
            _ => ColumnarValue::Scalar(ScalarValue::Int64(Some(self.numbers.last(text)?))),
        })
    }
}

/// The numbers of a `setval`, and for each whether it counts as given out.
fn numbers_to_set(
    args: &[ColumnarValue],
    rows: usize,
) -> DfResult<Vec<(Option<i64>, Option<bool>)>> {
    let Some(numbers) = args.first() else { return plan_err!("{SET} takes a number") };
    let numbers = cast(&numbers.to_array(rows)?, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let Some(given) = args.get(1) else {
        return Ok(numbers.iter().map(|number| (number, Some(true))).collect());
    };
    let given = cast(&given.to_array(rows)?, &DataType::Boolean)?;
    Ok(numbers.iter().zip(given.as_boolean()).collect())
}
