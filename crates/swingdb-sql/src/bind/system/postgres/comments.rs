//! Comments on objects.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;

use crate::bind::system::objects::{Context, Objects, What};
use crate::bind::system::postgres::{PG_CLASS, PG_PROC};
use crate::bind::system::rows::{Kind, Rows, cells};

use Kind::{Big, Int, Text};

/// All comments: the table they are of, the object, the column or 0, the text.
pub(super) fn all(context: &Context<'_>) -> Result<Vec<(i64, i64, i64, String)>> {
    let objects = Objects::of(context)?;
    let mut all = Vec::new();
    for (_, _, relation) in objects.own_relations() {
        all.extend(relation.comment.clone().map(|text| (PG_CLASS, relation.oid, 0, text)));
        let What::Table(table) = &relation.what else { continue };
        let notes = table.notes();
        let columns = notes.columns.iter();
        all.extend(
            columns.map(|(at, text)| (PG_CLASS, relation.oid, *at as i64 + 1, text.clone())),
        );
        for (index, oid) in notes.indexes.iter().zip(&relation.indexes) {
            all.extend(index.comment.clone().map(|text| (PG_CLASS, *oid, 0, text)));
        }
    }
    for (_, schema) in objects.own_schemas() {
        for one in &schema.sequences {
            all.extend(one.comment.clone().map(|text| (PG_CLASS, one.oid, 0, text)));
        }
        for one in &schema.macros {
            all.extend(one.comment.clone().map(|text| (PG_PROC, one.oid, 0, text)));
        }
    }
    Ok(all)
}

pub(crate) fn description(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("objoid", Big), ("classoid", Big), ("objsubid", Int), ("description", Text)]);
    for (class, object, column, text) in all(context)? {
        rows.add(cells![object, class, column, text]);
    }
    rows.finish()
}
