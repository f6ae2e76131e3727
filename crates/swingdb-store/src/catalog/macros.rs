//! Macros: names for pieces of SQL that have parameters, kept as text.
//!
//! A scalar macro stands for an expression, a table macro for a query; the two kinds do not share
//! names. Of one name there may be several variants, which differ in their parameters. The store
//! keeps the text and does not look into it: what it means is found out where it is used.

use std::sync::Arc;

use swingdb_common::error::{Error, ObjectKind, Result};

use crate::catalog::names::check_name;
use crate::codec::{Reader, Writer};

/// Variants that a macro may have.
const MAX_VARIANTS: usize = 100;
/// Parameters that a variant may have.
const MAX_PARAMETERS: usize = 250;

/// What a macro stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MacroKind {
    /// An expression.
    Scalar,
    /// A query, in the place of a table.
    Table,
}

impl MacroKind {
    /// What errors call it.
    pub fn object(self) -> ObjectKind {
        match self {
            Self::Scalar => ObjectKind::Macro,
            Self::Table => ObjectKind::TableMacro,
        }
    }
}

/// A macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macro {
    /// Name.
    pub name: String,
    /// What it stands for.
    pub kind: MacroKind,
    /// What it stands for with which parameters; at least one.
    pub variants: Vec<MacroVariant>,
}

/// What a macro stands for with certain parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroVariant {
    /// Its parameters, in order.
    pub parameters: Vec<MacroParameter>,
    /// The expression or query.
    pub sql: String,
}

/// A parameter of a macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroParameter {
    /// Name.
    pub name: String,
    /// The expression that stands for it in calls that do not give it.
    pub default: Option<String>,
}

impl Macro {
    /// The order of macros in a schema.
    pub(crate) fn key(&self) -> (MacroKind, Arc<str>) {
        (self.kind, Arc::from(self.name.as_str()))
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.bool(self.kind == MacroKind::Table);
        w.text(&self.name);
        w.len(self.variants.len());
        for variant in &self.variants {
            w.len(variant.parameters.len());
            for parameter in &variant.parameters {
                w.text(&parameter.name);
                w.option(parameter.default.as_ref(), |w, sql| w.text(sql));
            }
            w.text(&variant.sql);
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let kind = if r.bool()? { MacroKind::Table } else { MacroKind::Scalar };
        let name = r.text()?.to_owned();
        let variants = r.list(|r| {
            let parameters = r.list(|r| {
                let name = r.text()?.to_owned();
                Ok(MacroParameter { name, default: r.option(|r| Ok(r.text()?.to_owned()))? })
            })?;
            Ok(MacroVariant { parameters, sql: r.text()?.to_owned() })
        })?;
        Ok(Self { name, kind, variants })
    }

    /// That it can be made.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        if self.variants.is_empty() || self.variants.len() > MAX_VARIANTS {
            return Err(Error::plan(format!("a macro has 1 to {MAX_VARIANTS} variants")));
        }
        if self.variants.iter().any(|variant| variant.parameters.len() > MAX_PARAMETERS) {
            return Err(Error::plan(format!("a macro has at most {MAX_PARAMETERS} parameters")));
        }
        let parameters = self.variants.iter().flat_map(|variant| &variant.parameters);
        parameters.into_iter().try_for_each(|parameter| check_name(&parameter.name))
    }
}
