//! Which pairs of rows have equal keys, compared by value.

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteArray, GenericByteViewArray, downcast_primitive_array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    ArrowNativeTypeOp, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType,
    Float32Type, Float64Type, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use datafusion::common::{NullEquality, Result};
use datafusion::physical_plan::joins::utils::JoinKeyComparator;

use super::pairs::Pairs;

/// Keeps the pairs whose keys are equal.
pub(crate) fn retain_equal(
    build: &[ArrayRef],
    probe: &[ArrayRef],
    null_equality: NullEquality,
    pairs: &mut Pairs,
) -> Result<()> {
    for (build, probe) in build.iter().zip(probe) {
        if pairs.len() == 0 {
            return Ok(());
        }
        retain_equal_in_column(build, probe, null_equality, pairs)?;
    }
    Ok(())
}

fn retain_equal_in_column(
    build: &ArrayRef,
    probe: &ArrayRef,
    null_equality: NullEquality,
    pairs: &mut Pairs,
) -> Result<()> {
    use DataType as D;
    let (left, right) = (build.as_ref(), probe.as_ref());
    if left.data_type() != right.data_type() {
        return compare(build, probe, null_equality, pairs);
    }
    match left.data_type() {
        // Equal numbers, so 0.0 and -0.0; and the same NaN.
        D::Float64 => {
            let (l, r) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
            let (l, r) = (l.values(), r.values());
            let equal = |i: usize, j: usize| l[i] == r[j] || l[i].to_bits() == r[j].to_bits();
            retain(left, right, null_equality, pairs, equal);
        }
        D::Float32 => {
            let (l, r) = (left.as_primitive::<Float32Type>(), right.as_primitive::<Float32Type>());
            let (l, r) = (l.values(), r.values());
            let equal = |i: usize, j: usize| l[i] == r[j] || l[i].to_bits() == r[j].to_bits();
            retain(left, right, null_equality, pairs, equal);
        }
        D::Float16 => return compare(build, probe, null_equality, pairs),
        D::Boolean => {
            let (l, r) = (left.as_boolean(), right.as_boolean());
            let equal = |i: usize, j: usize| l.value(i) == r.value(j);
            retain(left, right, null_equality, pairs, equal);
        }
        D::Utf8 => bytes::<Utf8Type>(left, right, null_equality, pairs),
        D::LargeUtf8 => bytes::<LargeUtf8Type>(left, right, null_equality, pairs),
        D::Binary => bytes::<BinaryType>(left, right, null_equality, pairs),
        D::LargeBinary => bytes::<LargeBinaryType>(left, right, null_equality, pairs),
        D::Utf8View => views::<StringViewType>(left, right, null_equality, pairs),
        D::BinaryView => views::<BinaryViewType>(left, right, null_equality, pairs),
        _ => downcast_primitive_array!(
            (left, right) => {
                let (l, r) = (left.values(), right.values());
                retain(left, right, null_equality, pairs, |i, j| l[i].is_eq(r[j]));
            }
            _ => return compare(build, probe, null_equality, pairs)
        ),
    }
    Ok(())
}

fn bytes<T: ByteArrayType>(
    left: &dyn Array,
    right: &dyn Array,
    null_equality: NullEquality,
    pairs: &mut Pairs,
) {
    let l: &GenericByteArray<T> = left.as_bytes::<T>();
    let r: &GenericByteArray<T> = right.as_bytes::<T>();
    retain(left, right, null_equality, pairs, |i, j| {
        AsRef::<[u8]>::as_ref(l.value(i)) == AsRef::<[u8]>::as_ref(r.value(j))
    });
}

fn views<T: ByteViewType>(
    left: &dyn Array,
    right: &dyn Array,
    null_equality: NullEquality,
    pairs: &mut Pairs,
) {
    let l: &GenericByteViewArray<T> = left.as_byte_view::<T>();
    let r: &GenericByteViewArray<T> = right.as_byte_view::<T>();
    retain(left, right, null_equality, pairs, |i, j| {
        AsRef::<[u8]>::as_ref(l.value(i)) == AsRef::<[u8]>::as_ref(r.value(j))
    });
}

/// Keeps the pairs of which `equal` holds, and by `null_equality` those of two NULLs.
fn retain(
    left: &dyn Array,
    right: &dyn Array,
    null_equality: NullEquality,
    pairs: &mut Pairs,
    equal: impl Fn(usize, usize) -> bool,
) {
    let nulls = |array: &dyn Array| array.nulls().filter(|n| n.null_count() > 0).cloned();
    let (l, r) = (nulls(left), nulls(right));
    if l.is_none() && r.is_none() {
        return pairs.retain(equal);
    }
    let both_null = null_equality == NullEquality::NullEqualsNull;
    let is_null = |nulls: &Option<arrow::buffer::NullBuffer>, at: usize| {
        nulls.as_ref().is_some_and(|nulls| nulls.is_null(at))
    };
    pairs.retain(|i, j| match (is_null(&l, i), is_null(&r, j)) {
        (false, false) => equal(i, j),
        (true, true) => both_null,
        _ => false,
    });
}

/// Types that are seldom keys: dictionaries, lists, structs.
fn compare(
    build: &ArrayRef,
    probe: &ArrayRef,
    null_equality: NullEquality,
    pairs: &mut Pairs,
) -> Result<()> {
    let (build, probe) = (std::slice::from_ref(build), std::slice::from_ref(probe));
    let options = [SortOptions::default()];
    let comparator = JoinKeyComparator::new(build, probe, &options, null_equality)?;
    pairs.retain(|i, j| comparator.is_equal(i, j));
    Ok(())
}
