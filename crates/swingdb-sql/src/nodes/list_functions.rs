//! Functions of lists that compare elements, as rules about equality have to know them.

/// Functions that look for values among the elements of lists.
pub(crate) const SEARCH_FUNCTIONS: &[&str] = &[
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_union",
    "arrays_overlap",
    "map_of_lists",
];

/// Functions that put elements, or those of another list, beside the elements of a list.
pub(crate) const JOIN_FUNCTIONS: &[&str] = &["array_append", "array_concat", "joined_lists"];

/// Functions whose first argument is a list and whose third is an element for that list, too.
pub(crate) const REPLACE_FUNCTIONS: &[&str] =
    &["array_replace", "array_replace_all", "array_replace_n"];
