//! The least and greatest keys of the build side.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use datafusion_functions_aggregate_common::min_max::{MaxAccumulator, MinAccumulator};

/// The least and greatest values of one key that are not NULL; NULL where there is none.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) least: ScalarValue,
    pub(crate) greatest: ScalarValue,
}

/// Collects the bounds of each key; of keys without a simple order there are none.
pub(crate) struct BoundsOfKeys(Vec<Option<(MinAccumulator, MaxAccumulator)>>);

impl BoundsOfKeys {
    pub(crate) fn new(types: &[DataType]) -> Result<Self> {
        let of_type = |data_type: &DataType| {
            let accumulators =
                || Ok((MinAccumulator::try_new(data_type)?, MaxAccumulator::try_new(data_type)?));
            is_ordered(data_type).then(accumulators).transpose()
        };
        Ok(Self(types.iter().map(of_type).collect::<Result<_>>()?))
    }

    pub(crate) fn add(&mut self, keys: &[ArrayRef]) -> Result<()> {
        for (bounds, key) in self.0.iter_mut().zip(keys) {
            if let Some((least, greatest)) = bounds {
                least.update_batch(std::slice::from_ref(key))?;
                greatest.update_batch(std::slice::from_ref(key))?;
            }
        }
        Ok(())
    }

    /// The bounds of the keys that several collectors have seen.
    pub(crate) fn of_all(collected: Vec<Self>) -> Result<Vec<Option<Bounds>>> {
        let mut all = Vec::new();
        let mut collected = collected.into_iter();
        let Some(mut first) = collected.next() else { return Ok(all) };
        for other in collected {
            for (bounds, seen) in first.0.iter_mut().zip(other.0) {
                let (Some((least, greatest)), Some((mut low, mut high))) = (bounds, seen) else {
                    continue;
                };
                least.merge_batch(&[low.evaluate()?.to_array()?])?;
                greatest.merge_batch(&[high.evaluate()?.to_array()?])?;
            }
        }
        for bounds in first.0 {
            all.push(match bounds {
                Some((mut least, mut greatest)) => {
                    Some(Bounds { least: least.evaluate()?, greatest: greatest.evaluate()? })
                }
                None => None,
            });
        }
        Ok(all)
    }
}

/// Whether comparing with a bound is cheap, and orders values as the accumulators do.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType as D;
    data_type.is_integer()
        || data_type.is_floating()
        || data_type.is_temporal()
        || matches!(data_type, D::Decimal128(..) | D::Decimal256(..) | D::Boolean)
        || matches!(data_type, D::Utf8 | D::LargeUtf8 | D::Utf8View)
        || matches!(data_type, D::Binary | D::LargeBinary | D::BinaryView)
}
