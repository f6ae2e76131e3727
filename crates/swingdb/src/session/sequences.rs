//! `nextval` and `currval`.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::Int64Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parking_lot::Mutex;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::bind::sequences::{CURRENT, NEXT, Named};
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
pub(crate) fn functions(numbers: &Arc<Numbers>) -> [ScalarUDF; 2] {
    [NEXT, CURRENT].map(|name| {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Volatile);
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
        let [ColumnarValue::Scalar(ScalarValue::Utf8(Some(text)))] = args.args.as_slice() else {
            return plan_err!("{} takes the name of a sequence", self.name);
        };
        Ok(match self.name {
            NEXT => ColumnarValue::Array(Arc::new(self.numbers.take(text, args.number_rows)?)),
            _ => ColumnarValue::Scalar(ScalarValue::Int64(Some(self.numbers.last(text)?))),
        })
    }
}
