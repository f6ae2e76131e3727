//! Functions and operators of SQL: those that the query engine lacks, and those whose answer is
//! another one than SQL's.
//!
//! Nothing here knows a table or the text of a statement. [`of_rows`], [`of_groups`] and
//! [`of_windows`] are what a session registers under names that users write. Other functions stand
//! in plans only: [`arithmetic`] that checks for overflow, [`keys`] that compare as SQL does,
//! [`bounded`] calls that ask for the memory of large results.
//!
//! A new function goes into the file of its kind, and into the list of that file's `functions`.

#![deny(unsafe_code)]

pub mod aggregates;
mod args;
pub mod arithmetic;
pub mod bounded;
mod engines_own;
pub mod json;
pub mod keys;
pub mod nested;
pub mod numbers;
pub mod text;
pub mod time;
mod windows;

use std::sync::Arc;

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};

use aggregates::{
    compensated, counted, distinct, firsts, moments, ordered, ordered_windows, quantiles, sliding,
};
use json::{paths, to_json};
use nested::{chosen, fields, lambdas, lists, map, map_values, structs};
use text::{
    accents, blobs, captures, enums, format, like_pattern, regexp_replace, reports, reversed,
    texts, uuids,
};
use time::{
    age, buckets, extracted, made, series, spans, strftime, strptime, to_char, truncation, zones,
};
use windows::{places, shifts};

/// Functions of single rows that the engine lacks; some are aggregates of lists.
pub fn of_rows(aggregates: &[Arc<AggregateUDF>]) -> impl Iterator<Item = ScalarUDF> {
    let of_values = numbers::functions().chain(format::functions());
    let of_json = paths::functions().chain(json::parts::functions()).chain(to_json::functions());
    let of_json = of_json.chain(json::rows::functions()).chain(json::edits::functions());
    let of_texts = of_json.chain(texts::functions()).chain(blobs::functions());
    let of_texts = of_texts.chain([regexp_replace::function(), accents::function()]);
    let of_texts = of_texts.chain(captures::functions()).chain([reversed::function()]);
    let of_lists = lists::functions(aggregates).chain(chosen::functions());
    let others = structs::functions()
        .chain(fields::functions())
        .chain(reports::functions())
        .chain(map::functions());
    let others = others.chain(map_values::functions());
    let others = others
        .chain(like_pattern::functions())
        .chain(uuids::functions())
        .chain(enums::functions())
        .chain(nested::parts::functions());
    let others = others.chain([nested::joined_lists::function(), nested::membership::function()]);
    let others = others.chain(nested::appended::functions()).chain(nested::sorted::functions());
    let others = others.chain(nested::elements::functions());
    let others = others.chain(nested::lengths::functions()).chain(nested::unified::functions());
    let of_times = time::parts::functions().chain(spans::functions()).chain(strptime::functions());
    let of_times = of_times.chain([truncation::function(), buckets::function()]);
    let of_times = of_times.chain(series::functions()).chain(zones::functions());
    let of_times = of_times.chain([strftime::function(), to_char::function()]);
    let of_times =
        of_times.chain([age::function(), extracted::function()]).chain(made::functions());
    of_texts.chain(of_values).chain(of_lists).chain(of_times).chain(others)
}

/// Adds the aggregates that the engine lacks, and lets each have an order of its own whose answer
/// depends on it.
pub fn of_groups(all: &mut Vec<Arc<AggregateUDF>>) {
    for function in all.iter_mut() {
        if matches!(function.name(), "array_agg" | "string_agg" | "nth_value") {
            let in_order = ordered::ordered(Arc::clone(function), Arc::clone(function));
            *function = Arc::new(in_order);
        }
    }
    distinct::replace(all);
    quantiles::replace(all);
    sliding::replace(all);
    firsts::replace(all);
    all.extend(
        counted::functions()
            .chain(moments::functions())
            .chain(compensated::functions())
            .map(Arc::new),
    );
    let of_windows = ordered_windows::functions(all);
    all.extend(of_windows);
}

/// The engine's functions that call lambdas, with those in place that it lacks or has wrong.
pub fn of_lambdas() -> Vec<Arc<HigherOrderUDF>> {
    let mut all = SessionStateDefaults::default_higher_order_functions();
    for function in lambdas::functions() {
        all.retain(|engines| engines.name() != function.name());
        all.push(function);
    }
    all
}

/// The engine's functions of windows, with those in place that it has wrong.
pub fn of_windows() -> Vec<Arc<WindowUDF>> {
    let mut all = SessionStateDefaults::default_window_functions();
    for function in shifts::functions().into_iter().chain(places::functions()) {
        all.retain(|engines| engines.name() != function.name());
        all.push(function);
    }
    all
}
