//! Shuffles that send rows to the nodes where a cut has put others with equal keys: [`ByCut`].
//!
//! Where one input of a join is on its nodes by a cut, only the other input has to move: each of
//! its rows goes to the node that has the rows with its key. `datafusion-distributed` deals rows
//! out by the engine's hash of an expression, and by nothing else. So that expression is a call of
//! this function, `partition_by_cut(column, key, ...)`: it gives each row a number whose hash is
//! the partition that the row has to come to. `column` decides the node, as in [`cut`](crate::cut);
//! all keys together decide the partition at that node, as the engine's own shuffles do there.
//!
//! The numbers are right for so many nodes and partitions only: [`check`] refuses other plans.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{Partitioning, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::{REPARTITION_RANDOM_STATE, RepartitionExec};
use datafusion_distributed::{NetworkBoundaryExt, NetworkShuffleExec};

use crate::cut::{Cut, nodes_of};

/// Partitions of all nodes together, at most: a number is looked for for each of them.
const MAX_PARTITIONS: usize = 1 << 16;

/// Where rows go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// The bounds of a range cut; `None`: a hash cut.
    pub bounds: Option<Vec<ScalarValue>>,
    /// How many nodes there are; each has one task.
    pub nodes: usize,
    /// How many partitions each task has.
    pub partitions: usize,
}

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ByCut {
    places: Places,
    name: String,
    signature: Signature,
    /// For each partition of all nodes, a number whose hash leads there.
    numbers: Vec<u64>,
}

impl ByCut {
    /// The function; `None`: there are too many partitions.
    pub fn function(places: Places) -> Option<ScalarUDF> {
        let all = places.nodes.checked_mul(places.partitions)?;
        if all == 0 || all > MAX_PARTITIONS {
            return None;
        }
        let bounds = places.bounds.as_ref().map(|bounds| {
            let bounds = bounds.iter().map(|bound| format!("{bound:?}")).collect::<Vec<_>>();
            format!(",{}", bounds.join(","))
        });
        let Places { nodes, partitions, .. } = places;
        let name = format!("partition_by_cut[{nodes},{partitions}{}]", bounds.unwrap_or_default());
        let signature = Signature::variadic_any(Volatility::Immutable);
        let numbers = numbers(all).ok()?;
        Some(ScalarUDF::new_from_impl(Self { places, name, signature, numbers }))
    }

    /// What a function of this kind does.
    pub fn of(function: &ScalarUDF) -> Option<&Places> {
        let function: &dyn Any = function.inner().as_ref();
        function.downcast_ref::<Self>().map(|own| &own.places)
    }

    fn numbers_of(&self, arrays: &[ArrayRef]) -> Result<UInt64Array> {
        let Some((column, keys)) = arrays.split_first() else {
            return Err(DataFusionError::Internal("a shuffle without a column".to_string()));
        };
        let Places { bounds, nodes, partitions } = &self.places;
        let named = String::new();
        let cut = match bounds {
            Some(_) => Cut::Range { column: named, bounds: Vec::new() },
            None => Cut::Hash { column: named },
        };
        let at = nodes_of(&cut, column, bounds.as_deref().unwrap_or_default(), *nodes)?;
        let hashes = hashes(keys, column.len())?;
        let count = *partitions as u64;
        let numbers = at.into_iter().zip(hashes).map(|(node, hash)| {
            let partition = usize::try_from(hash % count).unwrap_or(0);
            self.numbers[node * partitions + partition]
        });
        Ok(numbers.collect())
    }
}

/// The hashes by which the engine deals rows out.
fn hashes(keys: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
    let mut hashes = vec![0; rows];
    create_hashes(keys, REPARTITION_RANDOM_STATE.random_state(), &mut hashes)?;
    Ok(hashes)
}

/// For each of so many partitions, a number that the engine deals out to it.
fn numbers(partitions: usize) -> Result<Vec<u64>> {
    let mut found = vec![None; partitions];
    let (mut left, mut next) = (partitions, 0_u64);
    while left > 0 {
        let some = (next..next + 1024).collect::<Vec<_>>();
        let array: ArrayRef = Arc::new(UInt64Array::from(some.clone()));
        for (number, hash) in some.into_iter().zip(hashes(&[array], 1024)?) {
            let place = usize::try_from(hash % partitions as u64).unwrap_or(0);
            if found[place].is_none() {
                found[place] = Some(number);
                left -= 1;
            }
        }
        next += 1024;
    }
    Ok(found.into_iter().flatten().collect())
}

impl ScalarUDFImpl for ByCut {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|value| value.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(self.numbers_of(&arrays)?)))
    }
}

/// A shuffle of a plan's rows, `column` of which decides the node.
pub fn shuffle(
    input: Arc<dyn ExecutionPlan>,
    places: Places,
    column: &Arc<dyn PhysicalExpr>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let partitions = places.partitions;
    let Some(function) = ByCut::function(places) else { return Ok(None) };
    let arguments = std::iter::once(column).chain(keys).cloned().collect();
    let (schema, options) = (input.schema(), Arc::new(ConfigOptions::default()));
    let call = ScalarFunctionExpr::try_new(Arc::new(function), arguments, &schema, options)?;
    let partitioning = Partitioning::Hash(vec![Arc::new(call)], partitions);
    Ok(Some(Arc::new(RepartitionExec::try_new(input, partitioning)?)))
}

/// Where a shuffle over the network sends its rows; `None`: not by a cut.
pub fn places_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Places> {
    let partitioning =
        plan.downcast_ref::<NetworkShuffleExec>()?.properties().output_partitioning();
    let Partitioning::Hash(keys, _) = partitioning else { return None };
    let [key] = keys.as_slice() else { return None };
    ByCut::of(key.downcast_ref::<ScalarFunctionExpr>()?.fun())
}

/// Refuses a plan of stages, one of which reads rows that are dealt out for another number of tasks
/// or partitions.
pub fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    check_stage(plan, 1)
}

fn check_stage(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<()> {
    if let Some(places) = places_of(plan) {
        let partitions = plan.properties().output_partitioning().partition_count();
        if tasks != places.nodes || partitions != places.partitions {
            let message = format!("{tasks} tasks read rows of {} nodes", places.nodes);
            return Err(DataFusionError::Plan(message));
        }
    }
    let boundary = plan.as_network_boundary();
    let below = match boundary.map(|boundary| boundary.input_stage().task_count()) {
        Some(tasks) => tasks,
        // Each of its inputs has some of the tasks.
        None if plan.name() == "ChildrenIsolatorUnionExec" => 0,
        None => tasks,
    };
    plan.children().into_iter().try_for_each(|child| check_stage(child, below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::Field;

    /// The partition of each row, as the engine deals it out.
    fn partitions(places: &Places, arrays: &[ArrayRef]) -> Vec<usize> {
        let function = ByCut::function(places.clone()).unwrap();
        let rows = arrays[0].len();
        let fields =
            arrays.iter().map(|array| Arc::new(Field::new("a", array.data_type().clone(), true)));
        let args = ScalarFunctionArgs {
            args: arrays.iter().cloned().map(ColumnarValue::Array).collect(),
            arg_fields: fields.collect(),
            number_rows: rows,
            return_field: Arc::new(Field::new("r", DataType::UInt64, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        let numbers = function.invoke_with_args(args).unwrap().into_array(rows).unwrap();
        let all = (places.nodes * places.partitions) as u64;
        let hashes = hashes(&[numbers], rows).unwrap();
        hashes.into_iter().map(|hash| (hash % all) as usize).collect()
    }

    #[test]
    fn rows_come_to_the_nodes_of_the_cut_and_the_partitions_of_their_keys() {
        let keys: ArrayRef =
            Arc::new((0..1000).map(|n| (n % 9 > 0).then_some(n)).collect::<Int64Array>());
        let texts = (0..1000).map(|n| Some(format!("text {}", n % 300)));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let bounds = [100_i64, 500, 700].map(|bound| ScalarValue::Int64(Some(bound)));
        for (nodes, bounds) in [(1, None), (3, None), (8, None), (4, Some(bounds.to_vec()))] {
            for partitions_each in [1, 2, 7] {
                let cut = match bounds {
                    Some(_) => Cut::Range { column: String::new(), bounds: Vec::new() },
                    None => Cut::Hash { column: String::new() },
                };
                let values = bounds.clone().unwrap_or_default();
                let at = nodes_of(&cut, &keys, &values, nodes).unwrap();
                let all = [Arc::clone(&texts), Arc::clone(&keys)];
                let within = hashes(&all, 1000).unwrap();
                let places = Places { bounds: bounds.clone(), nodes, partitions: partitions_each };
                let arguments = [Arc::clone(&keys), Arc::clone(&texts), Arc::clone(&keys)];
                let found = partitions(&places, &arguments);
                for row in 0..1000 {
                    let within = (within[row] % partitions_each as u64) as usize;
                    assert_eq!(found[row], at[row] * partitions_each + within, "{places:?} {row}");
                }
            }
        }
    }

    #[test]
    fn there_are_not_too_many_partitions() {
        let places = |nodes, partitions| Places { bounds: None, nodes, partitions };
        assert!(ByCut::function(places(100, 64)).is_some());
        for (nodes, partitions) in [(0, 1), (1, 0), (1 << 10, 1 << 10), (usize::MAX, 2)] {
            assert!(ByCut::function(places(nodes, partitions)).is_none());
        }
    }
}
