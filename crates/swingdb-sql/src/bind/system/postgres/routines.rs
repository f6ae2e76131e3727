//! Functions and sequences.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;

use crate::bind::system::objects::{Context, Objects};
use crate::bind::system::postgres::{OWNER, USER};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};

use Cell::Null;
use Kind::{Big, Bigs, Bool, Int, Text, Texts};

pub(crate) fn procedures(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("proname", Text),
        ("pronamespace", Big),
        ("proowner", Big),
        ("prokind", Text),
        ("proretset", Bool),
        ("pronargs", Int),
        ("prosrc", Text),
        ("prolang", Big),
        ("prorettype", Big),
        ("proargtypes", Bigs),
        ("provolatile", Text),
        ("proisstrict", Bool),
        ("proacl", Texts),
        ("proparallel", Text),
        ("prosecdef", Bool),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.macros {
            let set = one.definition.kind == swingdb_store::MacroKind::Table;
            for variant in &one.definition.variants {
                let (name, count) = (&one.definition.name, variant.parameters.len());
                let sql = &variant.sql;
                // Parameters and results of macros have no types.
                rows.add(cells![
                    one.oid, name, schema.oid, OWNER, "f", set, count, sql, 0i64, 0i64, Null, "v",
                    false, Null, "s", false,
                ]);
            }
        }
    }
    rows.finish()
}

pub(crate) fn sequences(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("sequencename", Text),
        ("sequenceowner", Text),
        ("data_type", Text),
        ("start_value", Big),
        ("min_value", Big),
        ("max_value", Big),
        ("increment_by", Big),
        ("cycle", Bool),
        ("cache_size", Big),
        ("last_value", Big),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.sequences {
            let known = &one.sequence;
            rows.add(cells![
                &schema.name,
                &known.name,
                USER,
                "bigint",
                known.start,
                known.min,
                known.max,
                known.increment,
                known.cycle,
                1i64,
                known.last,
            ]);
        }
    }
    rows.finish()
}

/// `pg_sequence`: what `pg_sequences` shows, by number.
pub(crate) fn sequence_numbers(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("seqrelid", Big),
        ("seqtypid", Big),
        ("seqstart", Big),
        ("seqincrement", Big),
        ("seqmax", Big),
        ("seqmin", Big),
        ("seqcache", Big),
        ("seqcycle", Bool),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.sequences {
            let known = &one.sequence;
            rows.add(cells![
                one.oid,
                20i64,
                known.start,
                known.increment,
                known.max,
                known.min,
                1i64,
                known.cycle,
            ]);
        }
    }
    rows.finish()
}
