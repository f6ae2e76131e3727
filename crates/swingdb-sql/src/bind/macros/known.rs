//! All macros that a statement can call.

use swingdb_store::{Macro, MacroKind};

use crate::bind::catalogs::Catalogs;

/// The kinds of macros.
pub const KINDS: [MacroKind; 2] = [MacroKind::Scalar, MacroKind::Table];

/// Names and kinds of all macros, as SHOW FUNCTIONS lists functions.
pub fn names(view: &Catalogs) -> Vec<(String, &'static str)> {
    each(view).into_iter().map(|(_, _, one)| (one.name.clone(), kind(one.kind))).collect()
}

/// What a kind is called in listings.
pub fn kind(kind: MacroKind) -> &'static str {
    match kind {
        MacroKind::Scalar => "macro",
        MacroKind::Table => "table macro",
    }
}

/// The macros of all databases, with the names of their databases and schemas.
pub fn each(view: &Catalogs) -> Vec<(String, String, std::sync::Arc<Macro>)> {
    let mut all = Vec::new();
    for source in view.temp.iter().chain([&view.main]).chain(view.attached.values()) {
        for schema in source.catalog.schema_names() {
            for kind in KINDS {
                for name in source.catalog.macro_names(&schema, kind) {
                    let found = source.catalog.find_macro(&schema, &name, kind);
                    all.extend(found.map(|one| (source.name.clone(), schema.clone(), one)));
                }
            }
        }
    }
    all
}
