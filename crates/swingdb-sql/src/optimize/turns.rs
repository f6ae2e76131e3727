//! The place of a pass among the query engine's own rules: [`Pass`], [`in_turn`].
//!
//! The engine knows its rules by their names only. A rule that a new version of the engine calls
//! otherwise would silently lose the pass that guards it, so a name that the engine does not have,
//! or has twice, is an error.

use swingdb_common::error::{Error, Result};

/// A pass of one of the engine's stages; `R` is a rule as that stage holds it.
pub(crate) struct Pass<R> {
    /// The file, without its ending.
    pub(crate) file: &'static str,
    /// Why the pass exists, and why it runs at its turn.
    pub(crate) why: &'static str,
    pub(crate) turn: Turn<R>,
}

/// When a pass runs, and what makes its rule.
pub(crate) enum Turn<R> {
    /// Before all rules.
    First(fn() -> R),
    /// Before each of the rules with these names.
    Before(&'static [&'static str], fn() -> R),
    /// In the place of the rule with this name, which the pass is given.
    Instead(&'static str, fn(R) -> R),
    /// After the rule with this name.
    Behind(&'static str, fn() -> R),
    /// After all rules.
    Last(fn() -> R),
}

impl<R> Turn<R> {
    /// The engine's rules that it names.
    fn rules(&self) -> &[&'static str] {
        match self {
            Self::First(_) | Self::Last(_) => &[],
            Self::Before(rules, _) => rules,
            Self::Instead(rule, _) | Self::Behind(rule, _) => std::slice::from_ref(rule),
        }
    }
}

/// The engine's rules, with each pass at its turn. Passes at one turn keep their order.
pub(crate) fn in_turn<R>(
    engines: Vec<R>,
    name_of: fn(&R) -> &str,
    passes: &[Pass<R>],
) -> Result<Vec<R>> {
    for pass in passes {
        for rule in pass.turn.rules() {
            let found = engines.iter().filter(|engines| name_of(engines) == *rule).count();
            if found != 1 {
                return Err(Error::internal(format!(
                    "the query engine has {found} rules called {rule}, and {} needs one: {}",
                    pass.file, pass.why
                )));
            }
        }
    }
    let turns = || passes.iter().map(|pass| &pass.turn);
    let mut all: Vec<R> = Vec::with_capacity(engines.len() + passes.len());
    all.extend(turns().filter_map(|turn| match turn {
        Turn::First(make) => Some(make()),
        _ => None,
    }));
    for rule in engines {
        let name = name_of(&rule).to_string();
        all.extend(turns().filter_map(|turn| match turn {
            Turn::Before(rules, make) if rules.contains(&name.as_str()) => Some(make()),
            _ => None,
        }));
        all.push(turns().fold(rule, |rule, turn| match turn {
            Turn::Instead(replaced, make) if *replaced == name => make(rule),
            _ => rule,
        }));
        all.extend(turns().filter_map(|turn| match turn {
            Turn::Behind(rule, make) if *rule == name => Some(make()),
            _ => None,
        }));
    }
    all.extend(turns().filter_map(|turn| match turn {
        Turn::Last(make) => Some(make()),
        _ => None,
    }));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(turn: Turn<String>) -> Pass<String> {
        Pass { file: "", why: "", turn }
    }

    #[test]
    fn passes_take_their_turns() {
        let passes = [
            pass(Turn::Last(|| "last".into())),
            pass(Turn::Behind("a", || "behind".into())),
            pass(Turn::Before(&["a", "b"], || "before".into())),
            pass(Turn::Instead("a", |rule| format!("guarded {rule}"))),
            pass(Turn::First(|| "first".into())),
        ];
        let engines = ["a", "b", "c"].map(str::to_string).to_vec();
        assert_eq!(
            in_turn(engines, |rule| rule, &passes).unwrap(),
            ["first", "before", "guarded a", "behind", "before", "b", "c", "last"]
        );
    }

    #[test]
    fn a_rule_is_there_exactly_once() {
        let guards = || [pass(Turn::Instead("a", |rule| rule))];
        for engines in [vec!["b"], vec!["a", "b", "a"]] {
            let engines = engines.into_iter().map(str::to_string).collect();
            let error = in_turn(engines, |rule| rule, &guards()).unwrap_err();
            assert!(error.to_string().contains("rules called a"), "{error}");
        }
    }
}
