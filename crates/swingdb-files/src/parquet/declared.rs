//! Types of columns that a table says, beside those that a file has.

use arrow::datatypes::{DataType, FieldRef};

/// Whether both are the same, but for the names of parts of lists and maps, for how texts and bytes
/// are held, and for what may be NULL.
pub(super) fn same(wanted: &DataType, found: &DataType) -> bool {
    match (wanted, found) {
        (DataType::Struct(wanted), DataType::Struct(found)) => {
            let same = |(a, b): (&FieldRef, &FieldRef)| {
                a.name() == b.name() && same(a.data_type(), b.data_type())
            };
            wanted.len() == found.len() && wanted.iter().zip(found).all(same)
        }
        _ => parts(wanted, found, same),
    }
}

/// Whether a file's column can be the table's: as [`same`], and structs may lack fields that were
/// added later.
pub(super) fn fits(wanted: &DataType, found: &DataType) -> bool {
    match (wanted, found) {
        (DataType::Struct(wanted), DataType::Struct(found)) => {
            let known = |field: &FieldRef| {
                let wanted = wanted.find(field.name());
                wanted.is_some_and(|(_, wanted)| fits(wanted.data_type(), field.data_type()))
            };
            let given =
                |field: &FieldRef| field.is_nullable() || found.find(field.name()).is_some();
            found.iter().all(known) && wanted.iter().all(given)
        }
        _ => parts(wanted, found, fits),
    }
}

/// Compares the parts of lists and maps, and other types as they are.
fn parts(a: &DataType, b: &DataType, of_part: fn(&DataType, &DataType) -> bool) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => of_part(a.data_type(), b.data_type()),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (a.data_type(), b.data_type()) {
            (DataType::Struct(a), DataType::Struct(b)) => {
                let same = |(a, b): (&FieldRef, &FieldRef)| of_part(a.data_type(), b.data_type());
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            _ => false,
        },
        _ => a == b || (is_text(a) && is_text(b)) || (is_bytes(a) && is_bytes(b)),
    }
}

/// Texts are views, but for keys of maps.
fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(of: &DataType) -> bool {
    matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn structs_may_lack_later_fields() {
        let pair = |names: &[&str]| {
            let fields = names.iter().map(|name| Field::new(*name, DataType::Int64, true));
            DataType::Struct(fields.collect())
        };
        let list = |item: DataType, name| DataType::List(Field::new(name, item, true).into());
        let (old, new) = (pair(&["a"]), pair(&["a", "b"]));
        assert!(fits(&new, &old) && !same(&new, &old) && !fits(&old, &new));
        assert!(fits(&list(new.clone(), "item"), &list(old, "element")));
        assert!(same(&list(new.clone(), "item"), &list(new, "element")));
        assert!(!fits(&DataType::Int64, &DataType::Int32));
        assert!(same(&DataType::Utf8View, &DataType::Utf8));
    }
}
