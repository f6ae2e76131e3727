//! Names of columns that must differ: [`free_name`].

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
