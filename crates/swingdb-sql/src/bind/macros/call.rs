//! Which argument of a call is for which parameter.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};
use swingdb_common::error::{Error, Result};
use swingdb_store::{Macro, MacroVariant};

/// What is put for the parameters, by their names in lower case.
pub(crate) type Values = BTreeMap<String, Expr>;

/// The arguments of a call.
pub(crate) struct Given {
    positional: Vec<Expr>,
    /// The names as they are written.
    named: Vec<(String, Expr)>,
}

impl Given {
    pub(crate) fn of(name: &str, args: &[FunctionArg]) -> Result<Self> {
        let mut given = Self { positional: Vec::new(), named: Vec::new() };
        for arg in args {
            let (parameter, arg) = match arg {
                FunctionArg::Unnamed(arg) => (None, arg),
                FunctionArg::Named { name, arg, .. } => (Some(name.value.clone()), arg),
                FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => {
                    (Some(name.value.clone()), arg)
                }
                FunctionArg::ExprNamed { name: wrong, .. } => {
                    return Err(Error::plan(format!("macro {name}: {wrong} names no parameter")));
                }
            };
            let FunctionArgExpr::Expr(value) = arg else {
                return Err(Error::plan(format!("macro {name} takes values, and not {arg}")));
            };
            match parameter {
                Some(parameter) => given.named.push((parameter, value.clone())),
                None if given.named.is_empty() => given.positional.push(value.clone()),
                None => {
                    let message = format!("macro {name}: {value} has no name, and follows a named");
                    return Err(Error::plan(format!("{message} argument; write it before those")));
                }
            }
        }
        Ok(given)
    }

    /// What is put for the parameters of a variant; those that are not there have defaults.
    fn for_variant(&self, variant: &MacroVariant) -> Result<Values, String> {
        let names: Vec<String> =
            variant.parameters.iter().map(|parameter| parameter.name.to_lowercase()).collect();
        let count = self.positional.len();
        if count > names.len() {
            let given = count + self.named.len();
            return Err(format!("takes at most {} arguments, and {given} are given", names.len()));
        }
        let mut values: Values = names.iter().cloned().zip(self.positional.clone()).collect();
        for (name, value) in &self.named {
            let folded = name.to_lowercase();
            if !names.contains(&folded) {
                return Err(format!("has no parameter {name:?}"));
            }
            if values.insert(folded, value.clone()).is_some() {
                return Err(format!("gets its parameter {name:?} twice"));
            }
        }
        let lacks = |(at, name): &(usize, &String)| {
            variant.parameters[*at].default.is_none() && !values.contains_key(*name)
        };
        match names.iter().enumerate().find(lacks) {
            Some((at, _)) => {
                let name = &variant.parameters[at].name;
                Err(format!("needs a value for its parameter {name:?}"))
            }
            None => Ok(values),
        }
    }

    /// The variant that is called, and what is put for its parameters.
    pub(crate) fn choose(&self, of: &Macro) -> Result<(usize, Values)> {
        let all = of.variants.iter().map(|variant| self.for_variant(variant));
        let mut all: Vec<(usize, Result<Values, String>)> = all.enumerate().collect();
        if let [(_, Err(message))] = all.as_slice() {
            let signature = signature(&of.name, &of.variants[0]);
            return Err(Error::plan(format!("macro {signature} {message}")));
        }
        all.retain(|(_, values)| values.is_ok());
        if let [(at, Ok(values))] = all.as_mut_slice() {
            return Ok((*at, std::mem::take(values)));
        }
        let known = of.variants.iter().map(|variant| signature(&of.name, variant));
        let known = known.collect::<Vec<_>>().join(", ");
        let count = self.positional.len() + self.named.len();
        let what = if all.is_empty() { "no variant takes" } else { "several variants take" };
        Err(Error::plan(format!("macro {}: {what} these {count} arguments: {known}", of.name)))
    }
}

/// `name(a, b := 1)`.
pub(crate) fn signature(name: &str, variant: &MacroVariant) -> String {
    format!("{name}({})", parameters(variant))
}

/// `a, b := 1`.
pub fn parameters(variant: &MacroVariant) -> String {
    let shown = variant.parameters.iter().map(|parameter| match &parameter.default {
        Some(default) => format!("{} := {default}", parameter.name),
        None => parameter.name.clone(),
    });
    shown.collect::<Vec<_>>().join(", ")
}
