//! Casts that the engine must not move: `kept(CAST(x AS t))` has the value of the cast.
//!
//! The engine turns `CAST(x AS INT) = 5` into `x = 5`, with the constant in the type of `x`. That
//! is wrong for values that do not fit, where TRY_CAST gives NULL and CAST fails, and for values
//! that are rounded to 5. Against a column of whole seconds it cuts the fraction off the constant.
//! The engine takes each cast between types of time for one that keeps the order; the time of day
//! begins anew each day. The engine does not look into functions. So [`kept`] wraps casts that are
//! not strictly monotonic or may fail. The engine may move casts that widen.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::logical_expr_common::casts::is_supported_type;

/// The cast, where the engine would leave it out wrongly.
pub(super) fn kept(cast: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function(), vec![cast]))
}

/// The function that gives the value of a cast.
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Kept { signature }))
    });
    Arc::clone(&FUNCTION)
}

/// Whether comparisons of a cast are not those of what is cast; `safe`: of TRY_CAST.
pub(super) fn is_concerned(from: &DataType, to: &DataType, safe: bool) -> bool {
    use DataType as D;
    let (from, to) = (plain(from), plain(to));
    if is_time(to) && !is_time(from) {
        return true;
    }
    if from == to || !is_supported_type(from) || !is_supported_type(to) {
        return false;
    }
    match (from, to) {
        (from, to) if to.is_string() => from.is_binary(),
        (from, to) if from.is_string() => !to.is_binary(),
        // All dates in question are timestamps too.
        (D::Date32 | D::Date64, D::Timestamp(..)) => safe,
        (D::Timestamp(..), D::Date32 | D::Date64) => false,
        (D::Timestamp(unit, _), D::Timestamp(finer, _)) => {
            per_second(unit) < per_second(finer) || !is_same_zone(from, to)
        }
        (from, to) => match (digits(from), digits(to)) {
            (Some(from), Some(to)) => !from.fit(&to),
            _ => true,
        },
    }
}

fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// Whether a cast between timestamps leaves the moment.
fn is_same_zone(from: &DataType, to: &DataType) -> bool {
    let zone = |data_type: &DataType| match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    match (zone(from), zone(to)) {
        (None, Some(zone)) | (Some(zone), None) => matches!(zone.as_ref(), "UTC" | "+00:00"),
        _ => true,
    }
}

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Numbers that a type holds: least and greatest where they are whole, or digits.
enum Digits {
    Whole { least: i128, greatest: i128 },
    Decimal { before: i16, behind: i16 },
}

impl Digits {
    fn fit(&self, to: &Digits) -> bool {
        use Digits::{Decimal, Whole};
        match (self, to) {
            (Whole { least, greatest }, Whole { least: from, greatest: to }) => {
                from <= least && greatest <= to
            }
            (Whole { least, greatest }, Decimal { before, behind }) => {
                let all = greatest.max(&-least).to_string().len();
                usize::try_from(*before).is_ok_and(|before| all <= before) && *behind >= 0
            }
            (Decimal { before, behind }, Decimal { before: to, behind: parts }) => {
                before <= to && behind <= parts
            }
            (Decimal { .. }, Whole { .. }) => false,
        }
    }
}

fn digits(data_type: &DataType) -> Option<Digits> {
    use DataType as D;
    let signed =
        |bits: u32| Digits::Whole { least: -(1 << (bits - 1)), greatest: (1 << (bits - 1)) - 1 };
    let unsigned = |bits: u32| Digits::Whole { least: 0, greatest: (1 << bits) - 1 };
    Some(match data_type {
        D::Int8 => signed(8),
        D::Int16 => signed(16),
        D::Int32 => signed(32),
        D::Int64 => signed(64),
        D::UInt8 => unsigned(8),
        D::UInt16 => unsigned(16),
        D::UInt32 => unsigned(32),
        D::UInt64 => unsigned(64),
        D::Decimal32(p, s) | D::Decimal64(p, s) | D::Decimal128(p, s) => {
            Digits::Decimal { before: i16::from(*p) - i16::from(*s), behind: i16::from(*s) }
        }
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    signature: Signature,
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &str {
        "kept"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok(given.clone()),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [given] => Ok(Arc::clone(given)),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) => Ok(value),
            None => plan_err!("{} takes one value", self.name()),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let ordered = inputs.first().filter(|input| !is_time(&input.range.data_type()));
        Ok(ordered.map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    /// Comparisons with a constant of columns of coarser timestamps are those of the column, so
    /// that scans leave out segments.
    fn preimage(
        &self,
        args: &[Expr],
        constant: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        let ([Expr::Cast(Cast { expr, field })], Expr::Literal(value, _)) = (args, constant) else {
            return Ok(PreimageResult::None);
        };
        let from = info.get_data_type(expr)?;
        let known =
            value.data_type() == *field.data_type() && is_same_zone(&from, field.data_type());
        Ok(match moments(value, &from).filter(|_| known) {
            Some(moments) => {
                PreimageResult::Range { expr: expr.as_ref().clone(), interval: Box::new(moments) }
            }
            None => PreimageResult::None,
        })
    }
}

/// The moments of a coarser type from the first that is not before one up to the first behind it.
fn moments(moment: &ScalarValue, coarser: &DataType) -> Option<Interval> {
    let (DataType::Timestamp(unit, zone), DataType::Timestamp(finer, _)) =
        (coarser, moment.data_type())
    else {
        return None;
    };
    let parts = per_second(&finer) / per_second(unit);
    let ScalarValue::Int64(Some(moment)) = moment.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    if parts <= 1 {
        return None;
    }
    let before = moment.div_euclid(parts);
    let reached = if moment.rem_euclid(parts) == 0 { before } else { before + 1 };
    let timestamp = |count| {
        let (count, zone) = (Some(count), zone.clone());
        match unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(count, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(count, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(count, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(count, zone),
        }
    };
    Interval::try_new(timestamp(reached), timestamp(before + 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_that_widen_are_the_engines() {
        use DataType as D;
        let micros = |zone: Option<&str>| D::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        for (from, to, concerned) in [
            (D::Int32, D::Int64, false),
            (D::UInt32, D::Int64, false),
            (D::Int64, D::UInt64, true),
            (D::UInt64, D::Int64, true),
            (D::Int32, D::Decimal128(10, 0), false),
            (D::Int32, D::Decimal128(12, 3), true),
            (D::Decimal128(10, 2), D::Decimal128(11, 3), false),
            (D::Decimal128(10, 2), D::Decimal128(10, 3), true),
            (D::Decimal128(10, 2), D::Decimal128(20, 1), true),
            (D::Decimal128(3, 0), D::Int64, true),
            (D::Utf8View, D::Utf8, false),
            (D::Utf8View, D::Int32, true),
            (D::Int32, D::Utf8View, false),
            (D::Timestamp(TimeUnit::Second, None), micros(None), true),
            (micros(None), D::Timestamp(TimeUnit::Second, None), false),
            (micros(None), micros(Some("UTC")), false),
            (micros(None), micros(Some("Asia/Tokyo")), true),
            (micros(None), D::Date32, false),
            (D::Float64, D::Int32, false),
            (micros(None), D::Time64(TimeUnit::Microsecond), true),
            (D::Time32(TimeUnit::Second), D::Time64(TimeUnit::Microsecond), false),
        ] {
            assert_eq!(is_concerned(&from, &to, true), concerned, "{from} to {to}");
        }
        assert!(is_concerned(&D::Date32, &micros(None), true));
        assert!(!is_concerned(&D::Date32, &micros(None), false));
    }

    #[test]
    fn moments_of_coarser_types() {
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let at = |count| ScalarValue::TimestampSecond(Some(count), None);
        for (micros, first, behind) in
            [(2_000_000, 2, 3), (2_000_001, 3, 3), (-1, 0, 0), (-1_000_000, -1, 0)]
        {
            let moment = ScalarValue::TimestampMicrosecond(Some(micros), None);
            let found = moments(&moment, &seconds).map(Interval::into_bounds);
            assert_eq!(found, Some((at(first), at(behind))), "{micros}");
        }
        let null = ScalarValue::TimestampMicrosecond(None, None);
        assert!(moments(&null, &seconds).is_none());
        assert!(moments(&at(1), &seconds).is_none());
    }
}
