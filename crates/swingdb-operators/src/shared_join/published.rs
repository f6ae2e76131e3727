//! The condition that scans of the probe side get from the build side: [`Published`].
//!
//! A scan that knows the least and greatest keys skips segments; a scan that knows the keys drops
//! rows before it reads other columns. The condition never drops a row that has a partner.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{NullEquality, Result, exec_err};
use datafusion::functions::core::r#struct as struct_function;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, is_null, lit,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;

use super::bounds::Bounds;
use super::key_set::KeySet;
use super::table::Table;

/// The condition that the probe side's scans evaluate, and what it is made with.
pub(crate) struct Published {
    pub(crate) filter: Arc<DynamicFilterPhysicalExpr>,
    /// The keys, in the columns of the probe side.
    pub(crate) on: Vec<PhysicalExprRef>,
    pub(crate) schema: SchemaRef,
    /// Up to so many rows are told as a list.
    pub(crate) list_rows: usize,
    /// And up to so many bytes.
    pub(crate) list_bytes: usize,
    pub(crate) null_equality: NullEquality,
}

/// What is known of the build side's keys.
pub(crate) struct Known<'a> {
    pub(crate) table: &'a Arc<Table>,
    pub(crate) set: Option<Arc<KeySet>>,
    pub(crate) keys: &'a [ArrayRef],
    pub(crate) bounds: &'a [Option<Bounds>],
}

impl Published {
    /// Tells the scans what is known now. To be called once.
    pub(crate) fn publish(&self, known: Known<'_>) -> Result<()> {
        let condition = match known.table.is_empty() {
            true => lit(false),
            false => self.condition(known)?,
        };
        self.filter.update(condition)?;
        self.filter.mark_complete();
        Ok(())
    }

    fn condition(&self, known: Known<'_>) -> Result<PhysicalExprRef> {
        let Known { table, set, keys, bounds } = known;
        let mut all = Vec::new();
        for (key, bounds) in self.on.iter().zip(bounds) {
            if let Some(Bounds { least, greatest }) = bounds {
                all.push(binary(Arc::clone(key), Operator::GtEq, lit(least.clone())));
                all.push(binary(Arc::clone(key), Operator::LtEq, lit(greatest.clone())));
            }
        }
        all.push(match self.list(keys)? {
            Some(list) => list,
            None => {
                let table = || Keys::Table(Arc::clone(table), self.null_equality);
                let keys = set.map_or_else(table, Keys::Set);
                Arc::new(InKeys { on: self.on.clone(), keys })
            }
        });
        let all = all.into_iter().reduce(|all, one| binary(all, Operator::And, one));
        let mut condition = all.unwrap_or_else(|| lit(true));
        let matches_nulls = self.null_equality == NullEquality::NullEqualsNull
            && keys.iter().any(|key| key.logical_null_count() > 0);
        if matches_nulls {
            for key in &self.on {
                if key.nullable(&self.schema)? {
                    condition = binary(is_null(Arc::clone(key))?, Operator::Or, condition);
                }
            }
        }
        Ok(condition)
    }

    /// Few keys as a list, which scans compare with the values of whole segments.
    fn list(&self, keys: &[ArrayRef]) -> Result<Option<PhysicalExprRef>> {
        let rows = keys.first().map_or(0, |key| key.len());
        let bytes = keys.iter().map(|key| key.get_array_memory_size()).sum::<usize>();
        if rows > self.list_rows || bytes > self.list_bytes {
            return Ok(None);
        }
        let (key, values): (PhysicalExprRef, ArrayRef) = match (self.on.as_slice(), keys) {
            ([key], [values]) => (Arc::clone(key), Arc::clone(values)),
            (on, keys) => {
                let fields = keys
                    .iter()
                    .enumerate()
                    .map(|(at, key)| Field::new(format!("c{at}"), key.data_type().clone(), true));
                let fields = fields.collect::<Fields>();
                let field = Field::new("struct", DataType::Struct(fields.clone()), true);
                let config = Arc::new(ConfigOptions::default());
                let key = ScalarFunctionExpr::new(
                    "struct",
                    struct_function(),
                    on.to_vec(),
                    Arc::new(field),
                    config,
                );
                let values = StructArray::try_new(fields, keys.to_vec(), None)?;
                (Arc::new(key), Arc::new(values))
            }
        };
        let list = InListExpr::try_new_from_array(key, values, false, &self.schema)?;
        Ok(Some(Arc::new(list)))
    }
}

fn binary(left: PhysicalExprRef, operator: Operator, right: PhysicalExprRef) -> PhysicalExprRef {
    Arc::new(BinaryExpr::new(left, operator, right))
}

/// Where a condition looks for keys.
#[derive(Clone, Debug)]
enum Keys {
    /// The only key of a join, a whole number.
    Set(Arc<KeySet>),
    Table(Arc<Table>, NullEquality),
}

// Tables and sets are compared by identity: comparing their contents would take longer than a scan
// saves.
impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(one), Self::Set(other)) => Arc::ptr_eq(one, other),
            (Self::Table(one, nulls), Self::Table(other, others)) => {
                nulls == others && Arc::ptr_eq(one, other)
            }
            _ => false,
        }
    }
}

impl Eq for Keys {}

impl Hash for Keys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Set(set) => Arc::as_ptr(set).hash(state),
            Self::Table(table, _) => Arc::as_ptr(table).hash(state),
        }
    }
}

/// Whether keys may be those of a join.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InKeys {
    on: Vec<PhysicalExprRef>,
    keys: Keys,
}

impl fmt::Display for InKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.keys {
            Keys::Set(_) => "in_join_keys",
            Keys::Table(..) => "in_join_table",
        })
    }
}

impl PhysicalExpr for InKeys {
    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.on.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        Ok(Arc::new(Self { on: children, keys: self.keys.clone() }))
    }

    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = evaluate_expressions_to_arrays(&self.on, batch)?;
        let found = match (&self.keys, keys.as_slice()) {
            (Keys::Table(table, nulls), keys) => table.contains(keys, batch.num_rows(), *nulls)?,
            (Keys::Set(set), [key]) => match set.contains(key.as_ref()) {
                Some(found) => found,
                None => return exec_err!("a key of type {} is no whole number", key.data_type()),
            },
            (Keys::Set(_), keys) => return exec_err!("{} keys in a set of one", keys.len()),
        };
        Ok(ColumnarValue::Array(Arc::new(found)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
