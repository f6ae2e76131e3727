//! Names that nothing else has: [`free_name`] for columns that a user sees, and
//! [`hidden!`](crate::hidden) for relations and columns of our own.

/// A name that nothing has yet: the wanted one, or `name_1`, `name_2` ... `take` says whether it is
/// free, and takes it then.
pub fn free_name(wanted: &str, mut take: impl FnMut(&str) -> bool) -> String {
    let mut name = wanted.to_string();
    let mut number = 0_usize;
    while !take(&name) {
        number += 1;
        name = format!("{wanted}_{number}");
    }
    name
}

/// A name of our own, for a relation, column or function that a statement gets while it is planned
/// or carried out. It begins with a control character, so no name that a person writes is the same.
/// No stage reads an option or a text out of it. The one exception is the name of a table that is
/// read with its row ids.
///
/// ```
/// assert_eq!(swingdb_common::hidden!("rowid"), "\u{1}rowid");
/// assert_eq!(format!(swingdb_common::hidden!("side {}"), 2), "\u{1}side 2");
/// ```
#[macro_export]
macro_rules! hidden {
    ($name:literal) => {
        concat!("\u{1}", $name)
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn later_names_get_the_first_free_number() {
        let mut taken = HashSet::from(["b_1".to_string()]);
        let mut free = |wanted| free_name(wanted, |name| taken.insert(name.to_string()));
        assert_eq!(["a", "a", "a", "b", "b"].map(&mut free), ["a", "a_1", "a_2", "b", "b_2"]);
    }
}
