//! Parts of dates and times that are counted in whole numbers, exactly: since 1970, and of the
//! calendar.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, TimestampMicrosecondArray};
use arrow::compute::kernels::arity::binary;
use arrow::compute::{DatePart, cast, date_part};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimeUnit};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::points::{micros, nanos, of_texts, thousandths};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Milliseconds since 1970; of a whole number the timestamp that lies so many behind.
    EpochMs,
    EpochUs,
    EpochNs,
    Decade,
    /// So many years; the first begins with the year 1.
    Era(i64),
    /// The year of the weeks' numbers, and the week.
    YearWeek,
    /// 1 after Christ, 0 before.
    AfterChrist,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("epoch_ms", Kind::EpochMs),
    ("epoch_us", Kind::EpochUs),
    ("epoch_ns", Kind::EpochNs),
    ("decade", Kind::Decade),
    ("century", Kind::Era(100)),
    ("millennium", Kind::Era(1_000)),
    ("yearweek", Kind::YearWeek),
    ("era", Kind::AfterChrist),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Part { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl ScalarUDFImpl for Part {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        use DataType::{Date32, Date64, Duration, Interval, Time32, Time64, Timestamp};
        let [given] = types else { return plan_err!("{} takes one value", self.name) };
        let since = matches!(self.kind, Kind::EpochMs | Kind::EpochUs | Kind::EpochNs);
        let of_years = matches!(self.kind, Kind::Decade | Kind::Era(_));
        Ok(match given {
            whole if whole.is_integer() && self.kind == Kind::EpochMs => MICROS,
            Date32 | Date64 | Timestamp(..) => DataType::Int64,
            Time32(_) | Time64(_) | Duration(_) if since => DataType::Int64,
            Interval(_) if since || of_years => DataType::Int64,
            other if other.is_null() || other.is_string() => DataType::Int64,
            other => return plan_err!("{} takes a date or timestamp, not {other}", self.name),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = args.args.as_slice() else {
            return plan_err!("{} takes one value", self.name);
        };
        let mut values = values.to_array(crate::args::rows_of(&args))?;
        if values.data_type().is_string() {
            values = of_texts(&values)?;
        } else if values.data_type().is_null() {
            values = cast(&values, &MICROS)?;
        }
        let found: ArrayRef = match self.kind {
            Kind::EpochMs if values.data_type().is_integer() => Arc::new(at_millis(&values)?),
            Kind::EpochMs => Arc::new(millis(&values)?),
            Kind::EpochUs => Arc::new(micros(&values)?),
            Kind::EpochNs => Arc::new(nanos(&values)?),
            Kind::Decade => Arc::new(years(&values)?.unary::<_, Int64Type>(|year| year / 10)),
            Kind::Era(length) => Arc::new(eras(&values, length)?),
            Kind::YearWeek => Arc::new(year_weeks(&values)?),
            Kind::AfterChrist => {
                Arc::new(years(&values)?.unary::<_, Int64Type>(|year| i64::from(year > 0)))
            }
        };
        crate::args::as_given(&args, found)
    }
}

fn at_millis(values: &ArrayRef) -> Result<TimestampMicrosecondArray> {
    let values = cast(values, &DataType::Int64)?;
    values.as_primitive::<Int64Type>().try_unary(|millis| {
        let micros = millis.checked_mul(1_000);
        micros.ok_or_else(|| exec_datafusion_err!("epoch_ms: {millis} is out of range"))
    })
}

fn millis(values: &ArrayRef) -> Result<Int64Array> {
    let micros = micros(values)?;
    // A point in time is rounded, what is counted from zero is cut.
    Ok(match values.data_type() {
        DataType::Timestamp(..) => micros.unary(thousandths),
        _ => micros.unary(|micros| micros / 1_000),
    })
}

fn part(values: &ArrayRef, part: DatePart) -> Result<Int64Array> {
    let found = date_part(values, part)?;
    Ok(found.as_primitive::<Int32Type>().unary(i64::from))
}

fn years(values: &ArrayRef) -> Result<Int64Array> {
    part(values, DatePart::Year)
}

fn eras(values: &ArrayRef, length: i64) -> Result<Int64Array> {
    let years = years(values)?;
    Ok(match values.data_type() {
        DataType::Interval(_) => years.unary(|year| year / length),
        _ => years.unary(|year| match year > 0 {
            true => (year - 1) / length + 1,
            false => year / length - 1,
        }),
    })
}

fn year_weeks(values: &ArrayRef) -> Result<Int64Array> {
    let (years, weeks) = (part(values, DatePart::YearISO)?, part(values, DatePart::Week)?);
    Ok(binary(&years, &weeks, |year, week| match year < 0 {
        true => year * 100 - week,
        false => year * 100 + week,
    })?)
}
