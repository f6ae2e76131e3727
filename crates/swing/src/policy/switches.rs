//! A switch for each choice that only buys speed: to measure what each buys, and to test that
//! nothing else depends on any of them.
//!
//! [`WITHOUT_VARIABLE`] names what is switched off, for measurements and tests only. It is read
//! when a namespace is opened. All are the owner's: what it leaves out, a hooker does not find.

/// The environment variable that switches such choices off, separated by commas: `SWING_WITHOUT=
/// copy-ahead,affinity`. For measurements only; nothing but time and memory depends on it.
pub const WITHOUT_VARIABLE: &str = "SWING_WITHOUT";

/// Which of them are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    /// The responder runs on the processor of the thread that stores (`live/affinity.rs`).
    pub affinity: bool,
    /// Where nearly all is stored to in each interval, all extents go to two planes by turns
    /// (`policy/alternation.rs`).
    pub alternation: bool,
    /// An extent apart from those around it goes through a third plane, and does not come back to
    /// that (`policy/plane_choice.rs`).
    pub rejoining: bool,
    /// A store right after a live hook waits for the memory that the hook sets free
    /// (`trap/spare_wait.rs`).
    pub spare_wait: bool,
    /// What stores have left behind is protected before the next publish (`tracked/early.rs`).
    pub early_protection: bool,
    /// Page tables of long ranges are moved away, so that no page has to be protected one by one
    /// (`publish/detach_tables.rs`).
    pub detached_tables: bool,
    /// What will be stored to is copied before it is, where a program says so
    /// (`tracked/copy_ahead.rs`).
    pub copy_ahead: bool,
    /// The next manifest is made before a live hook asks for it, and the hooker watches it
    /// (`publish/made_ahead.rs`, `live/pending.rs`).
    pub made_ahead: bool,
    /// A hooker notifies an eventfd, where it would send a request (`sys/notifier.rs`).
    pub notifier: bool,
}

type Field = fn(&mut Switches) -> &mut bool;

/// What each is called in the variable.
const NAMES: [(&str, Field); 9] = [
    ("affinity", |s| &mut s.affinity),
    ("alternation", |s| &mut s.alternation),
    ("rejoining", |s| &mut s.rejoining),
    ("spare-wait", |s| &mut s.spare_wait),
    ("early-protection", |s| &mut s.early_protection),
    ("detached-tables", |s| &mut s.detached_tables),
    ("copy-ahead", |s| &mut s.copy_ahead),
    ("made-ahead", |s| &mut s.made_ahead),
    ("notifier", |s| &mut s.notifier),
];

impl Switches {
    /// All of them.
    pub(crate) const ON: Self = Self {
        affinity: true,
        alternation: true,
        rejoining: true,
        spare_wait: true,
        early_protection: true,
        detached_tables: true,
        copy_ahead: true,
        made_ahead: true,
        notifier: true,
    };

    /// All but those in a list of names, separated by commas; an error that tells the names, where
    /// one is none of them.
    pub(crate) fn without(list: &str) -> Result<Self, String> {
        let mut switches = Self::ON;
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let Some((_, field)) = NAMES.iter().find(|(name, _)| *name == word) else {
                let names = NAMES.map(|(name, _)| name).join(", ");
                return Err(format!("{WITHOUT_VARIABLE} has {word:?}: it may name {names}"));
            };
            *field(&mut switches) = false;
        }
        Ok(switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_switches_one_off() {
        let mut seen = Vec::new();
        for (name, field) in NAMES {
            let mut switches = Switches::without(name).unwrap();
            assert!(!*field(&mut switches), "{name}");
            assert!(!seen.contains(&switches), "{name} is another's");
            seen.push(switches);
            *field(&mut switches) = true;
            assert_eq!(switches, Switches::ON, "{name} switches one off");
        }
        // Every field has a name: with all names everything is off.
        let all = Switches::without(&NAMES.map(|(name, _)| name).join(",")).unwrap();
        assert!(!format!("{all:?}").contains("true"), "{all:?}");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        for nothing in ["", " ", ","] {
            assert_eq!(Switches::without(nothing), Ok(Switches::ON));
        }
        let two = Switches::without("copy-ahead, affinity").unwrap();
        assert_eq!(two, Switches { copy_ahead: false, affinity: false, ..Switches::ON });
        for wrong in ["copyahead", "affinity,none", "Affinity", "affinity spare-wait"] {
            let error = Switches::without(wrong).unwrap_err();
            let tells = NAMES.iter().all(|(name, _)| error.contains(name));
            assert!(tells && error.contains(WITHOUT_VARIABLE), "{error}");
        }
    }
}
