//! Which field of a struct becomes which field of the struct that it is cast to.

use arrow::datatypes::{Field, Fields};

/// For each of the targets the place of the field that goes there: the one of its name, or else the
/// one whose name differs in capitals only. A field that only says its place, as those of `ROW(1,
/// 2)` do, goes to that place. `None`: there is no such field, and the value is NULL.
pub(super) fn sources(fields: &Fields, targets: &Fields) -> Vec<Option<usize>> {
    let source = |(place, target): (usize, &std::sync::Arc<Field>)| {
        let same = fields.iter().position(|field| field.name() == target.name());
        same.or_else(|| {
            let alike = |field: &Field| field.name().eq_ignore_ascii_case(target.name());
            fields.iter().position(|field| alike(field) && !is_name_of(targets, field))
        })
        .or_else(|| {
            let unnamed = |field: &Field| *field.name() == format!("c{place}");
            let field = fields.get(place).filter(|field| unnamed(field));
            field.filter(|field| !is_like_one_of(targets, field)).map(|_| place)
        })
    };
    targets.iter().enumerate().map(source).collect()
}

/// Whether no field of a struct goes anywhere.
pub(super) fn have_nothing_in_common(fields: &Fields, targets: &Fields) -> bool {
    !targets.is_empty() && sources(fields, targets).iter().all(Option::is_none)
}

fn is_name_of(targets: &Fields, field: &Field) -> bool {
    targets.iter().any(|target| target.name() == field.name())
}

fn is_like_one_of(targets: &Fields, field: &Field) -> bool {
    targets.iter().any(|target| target.name().eq_ignore_ascii_case(field.name()))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn by_name_then_without_regard_to_case_then_by_place() {
        let of = |names: &[&str]| -> Fields {
            names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect()
        };
        let found = |from: &[&str], to: &[&str]| sources(&of(from), &of(to));
        assert_eq!(found(&["b", "a"], &["a", "b"]), [Some(1), Some(0)]);
        assert_eq!(found(&["a", "z"], &["a", "q"]), [Some(0), None]);
        assert_eq!(found(&["A", "a"], &["a", "b"]), [Some(1), None]);
        assert_eq!(found(&["A", "a"], &["A", "a"]), [Some(0), Some(1)]);
        assert_eq!(found(&["B"], &["a", "b"]), [None, Some(0)]);
        assert_eq!(found(&["c0", "c1"], &["x", "y"]), [Some(0), Some(1)]);
        assert_eq!(found(&["c0", "c1"], &["c1", "y"]), [Some(1), None]);
        assert!(have_nothing_in_common(&of(&["y", "z"]), &of(&["a", "b"])));
    }
}
