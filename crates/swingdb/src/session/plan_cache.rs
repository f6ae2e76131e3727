//! The plans of a session's last queries: [`PlanCache`].
//!
//! To parse, bind and plan a short query takes longer than to run it. So a query whose text comes
//! again, with values of the same types, is planned from what was kept of it: the plan before it is
//! optimized, with names for its tables and places for its values; and the optimized one, where the
//! values do not matter to that ([`swingdb_sql::optimized`]). Only rows may have changed in
//! between: a plan is used under the [definitions](swingdb_store::Catalog::definitions) it was made
//! under, and with the settings and functions of then. It holds no version of a table, so that the
//! memory of old ones is free. What the optimizer made of other queries depends on the rows; it is
//! kept as well ([`SettledPlan`]), for as long as nothing is committed.
//!
//! A text is kept when it comes for the second time: most never do. UPDATE and DELETE find their
//! rows by a query, whose plan is kept in the same way. So is that of the
//! [template](swingdb_sql::text::template) of a text or of such a query, where it does not depend
//! on the values.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_sql::text::parameters::{Numbering, Params};
use swingdb_sql::text::template::{Form, Template};
use swingdb_store::Catalog;

/// Plans of a session.
const MAX_PLANS: usize = 64;
/// Bytes of the texts whose plans are kept, together: a plan takes some hundred times as much
/// memory.
const MAX_TEXTS: usize = 256 << 10;
/// Longest of these texts.
const MAX_TEXT: usize = 32 << 10;
/// Texts that are looked out for.
const MAX_SEEN: usize = 256;

/// What a plan was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A text with one statement; see [`of_text`](Self::of_text).
    Text(String),
    /// A statement that PREPARE has given a name, by its number; and the length of its text.
    Prepared(u64, usize),
    /// The query for the rows that a statement changes, as text. It may name hidden columns.
    Change(String),
}

impl Source {
    /// A text, unless it is too long for its plan to be kept: such a one is not copied either.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        (text.len() <= MAX_TEXT).then(|| Self::Text(text.to_string()))
    }

    /// The query for the rows that a statement changes.
    pub(crate) fn of_change(query: &Statement) -> Option<Self> {
        let text = query.to_string();
        (text.len() <= MAX_TEXT).then_some(Self::Change(text))
    }

    /// A query with places for values.
    pub(crate) fn of_template(template: &Template) -> Option<Self> {
        match &template.query {
            Form::Text(text) => Self::of_text(text),
            Form::Bound(query) => Self::of_change(query),
        }
    }

    /// Bytes of the text.
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Change(text) => text.len(),
            Self::Prepared(_, len) => *len,
        }
    }

    /// What is compared to know it again; `None` of what has a number.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Change(text) => Some(text),
            Self::Prepared(..) => None,
        }
    }
}

/// A plan, and under which conditions it is the right one.
#[derive(Clone, Debug)]
pub(crate) struct KeptPlan {
    pub(crate) source: Source,
    /// How its parameters are numbered.
    pub(crate) numbering: Numbering,
    /// The types of its values.
    pub(crate) types: Vec<DataType>,
    pub(crate) conditions: Conditions,
    /// The plan, before it is optimized, of named tables.
    pub(crate) plan: LogicalPlan,
    /// The same optimized, of named tables, where that does not depend on the values.
    pub(crate) optimized: Option<LogicalPlan>,
    /// The same optimized for the rows and values that there were the last time.
    pub(crate) settled: Option<SettledPlan>,
}

/// An optimized plan, of named tables, that is right for one state of the database.
#[derive(Clone, Debug)]
pub(crate) struct SettledPlan {
    catalog: Weak<Catalog>,
    plan: LogicalPlan,
}

impl SettledPlan {
    pub(crate) fn new(catalog: &Arc<Catalog>, plan: LogicalPlan) -> Self {
        Self { catalog: Arc::downgrade(catalog), plan }
    }

    /// The plan, if this is the state.
    pub(crate) fn at(&self, catalog: &Arc<Catalog>) -> Option<LogicalPlan> {
        std::ptr::eq(self.catalog.as_ptr(), Arc::as_ptr(catalog)).then(|| self.plan.clone())
    }
}

/// What may not change while a plan is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// What the database defines.
    pub(crate) definitions: u64,
    /// Counts changes of the session's settings, functions and attached databases.
    pub(crate) session: u64,
}

/// Hashes of the last texts.
#[derive(Default)]
struct LastTexts {
    hashes: Vec<u64>,
    oldest: usize,
}

impl LastTexts {
    fn has(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }

    /// Adds one, in place of the oldest.
    fn add(&mut self, hash: u64) {
        if self.hashes.len() < MAX_SEEN {
            self.hashes.push(hash);
        } else {
            self.hashes[self.oldest] = hash;
            self.oldest = (self.oldest + 1) % MAX_SEEN;
        }
    }
}

/// The plans of a session, that used last at the end.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: Vec<KeptPlan>,
    /// Texts that came once.
    seen: LastTexts,
    /// Templates whose plans depend on their values.
    unfit: LastTexts,
    hashes: RandomState,
}

impl PlanCache {
    /// Whether a plan is to be kept of what comes from here.
    pub(crate) fn wants(&mut self, source: &Source) -> bool {
        let text = match source {
            Source::Text(text) | Source::Change(text) => text,
            Source::Prepared(_, len) => return *len <= MAX_TEXT,
        };
        let hash = self.hashes.hash_one(text);
        let again = self.seen.has(hash);
        if !again {
            self.seen.add(hash);
        }
        again
    }

    /// Whether the plan of a template is to be made.
    pub(crate) fn wants_template(&mut self, source: &Source) -> bool {
        !self.is_unfit(source) && self.wants(source)
    }

    /// No plan of the template is right for all values.
    pub(crate) fn refuse_template(&mut self, source: &Source) {
        if let Some(text) = source.text() {
            self.unfit.add(self.hashes.hash_one(text));
        }
    }

    fn is_unfit(&self, source: &Source) -> bool {
        source.text().is_none_or(|text| self.unfit.has(self.hashes.hash_one(text)))
    }

    /// Keeps a plan, in place of those used longest ago.
    pub(crate) fn keep(&mut self, plan: KeptPlan) {
        self.plans.retain(|known| known.source != plan.source || known.types != plan.types);
        self.plans.push(plan);
        let texts = |plans: &[KeptPlan]| plans.iter().map(|plan| plan.source.len()).sum::<usize>();
        let mut first = self.plans.len().saturating_sub(MAX_PLANS);
        while texts(&self.plans[first..]) > MAX_TEXTS {
            first += 1;
        }
        self.plans.drain(..first);
    }

    /// Whether there is a plan for some values.
    pub(crate) fn knows(&self, source: &Source, conditions: Conditions) -> bool {
        let is_it = |plan: &KeptPlan| plan.source == *source && plan.conditions == conditions;
        self.plans.iter().any(is_it)
    }

    /// The plan for these values, and the values in its order.
    pub(crate) fn find(
        &mut self,
        source: &Source,
        params: &Params,
        conditions: Conditions,
    ) -> Option<(KeptPlan, Params)> {
        // Those that cannot be right any more only hold memory.
        self.plans.retain(|plan| plan.conditions.session == conditions.session);
        let (place, params) = self.plans.iter().enumerate().rev().find_map(|(place, plan)| {
            if plan.source != *source || plan.conditions != conditions {
                return None;
            }
            let params = params.clone().in_numbering(&plan.numbering).ok()?;
            (params.types() == plan.types).then_some((place, params))
        })?;
        self.plans[place..].rotate_left(1);
        Some((self.plans.last()?.clone(), params))
    }

    /// Keeps what the optimizer made of a plan that is kept.
    pub(crate) fn settle(&mut self, kept: &KeptPlan, settled: SettledPlan) {
        let is_it = |plan: &&mut KeptPlan| {
            (&plan.source, &plan.types, plan.conditions)
                == (&kept.source, &kept.types, kept.conditions)
        };
        if let Some(plan) = self.plans.iter_mut().rev().find(is_it) {
            plan.settled = Some(settled);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    #[test]
    fn long_texts_displace_what_was_used_longest_ago() {
        let conditions = Conditions { definitions: 1, session: 1 };
        let source = |len: usize, nth: usize| Source::Text(format!("{nth}{}", "x".repeat(len)));
        let mut cache = PlanCache::default();
        let mut keep = |source: Source| {
            let numbering = Numbering { count: 0, names: Vec::new() };
            let plan = LogicalPlanBuilder::empty(false).build().unwrap();
            let (types, optimized, settled) = (Vec::new(), None, None);
            cache.keep(KeptPlan { source, numbering, types, conditions, plan, optimized, settled });
            cache.plans.len()
        };
        let counts: Vec<usize> = (0..MAX_PLANS + 2).map(|nth| keep(source(10, nth))).collect();
        assert_eq!(counts[MAX_PLANS - 2..], [MAX_PLANS - 1, MAX_PLANS, MAX_PLANS, MAX_PLANS]);
        let long = MAX_TEXT - 1;
        let left: Vec<usize> = (0..9).map(|nth| keep(source(long, nth))).collect();
        assert_eq!(left[7..], [8, 8], "{left:?}");
        assert!(!cache.knows(&source(long, 0), conditions));
        assert!((1..9).all(|nth| cache.knows(&source(long, nth), conditions)));
        assert!(Source::of_text(&"x".repeat(MAX_TEXT + 1)).is_none());
    }
}
