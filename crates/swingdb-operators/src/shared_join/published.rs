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
use datafusion::common::utils::take_function_args;
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
        all.push(match (self.list(keys)?, set, self.on.as_slice()) {
            (Some(list), ..) => list,
            (None, Some(set), [key]) => Arc::new(InSet { key: Arc::clone(key), set }),
            (None, ..) => {
                let (table, null_equality) = (Arc::clone(table), self.null_equality);
                Arc::new(InTable { on: self.on.clone(), table, null_equality })
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

/// Whether the key is in the set of a join's keys.
#[derive(Debug)]
struct InSet {
    key: PhysicalExprRef,
    set: Arc<KeySet>,
}

impl fmt::Display for InSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in_join_keys")
    }
}

// Sets are compared by identity, as tables are.
impl PartialEq for InSet {
    fn eq(&self, other: &Self) -> bool {
        self.key.as_ref() == other.key.as_ref() && Arc::ptr_eq(&self.set, &other.set)
    }
}

impl Eq for InSet {}

impl Hash for InSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        Arc::as_ptr(&self.set).hash(state);
    }
}

impl PhysicalExpr for InSet {
    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.key]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        let [key] = take_function_args("in_join_keys", children)?;
        Ok(Arc::new(Self { key, set: Arc::clone(&self.set) }))
    }

    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let key = self.key.evaluate(batch)?.into_array(batch.num_rows())?;
        match self.set.contains(key.as_ref()) {
            Some(found) => Ok(ColumnarValue::Array(Arc::new(found))),
            None => exec_err!("a key of type {} is no whole number", key.data_type()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Whether the keys may be in the table of a join.
#[derive(Debug)]
struct InTable {
    on: Vec<PhysicalExprRef>,
    table: Arc<Table>,
    null_equality: NullEquality,
}

impl fmt::Display for InTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in_join_table")
    }
}

// Tables are compared by identity: comparing their contents would take longer than a scan saves.
impl PartialEq for InTable {
    fn eq(&self, other: &Self) -> bool {
        self.on == other.on
            && self.null_equality == other.null_equality
            && Arc::ptr_eq(&self.table, &other.table)
    }
}

impl Eq for InTable {}

impl Hash for InTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.on.hash(state);
        Arc::as_ptr(&self.table).hash(state);
    }
}

impl PhysicalExpr for InTable {
    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.on.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        let (table, null_equality) = (Arc::clone(&self.table), self.null_equality);
        Ok(Arc::new(Self { on: children, table, null_equality }))
    }

    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = evaluate_expressions_to_arrays(&self.on, batch)?;
        let found = self.table.contains(&keys, batch.num_rows(), self.null_equality)?;
        Ok(ColumnarValue::Array(Arc::new(found)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
