//! Hooking: areas of other processes become areas of this one.
//!
//! By token, by the name that an area has besides ([`crate::names`]), or by the name of an area of
//! the namespace that has no token: the heap of a preloaded program, a database. What comes of it
//! has a token of its own in each case.

use std::sync::Arc;
use std::time::Duration;

use swing::{
    AreaName, AreaOffset, ExtentId, ExtentState, HookAt, HookError, HookOptions, IfStale, NotFresh,
    Snapshot,
};

use crate::areas::{Entry, Registry, entry, token_name};
use crate::error::{Code, Failure, Result};

/// How long a live owner may take to give its present state.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// How often a name may become another area's while it is hooked.
const MAX_TRIES: u32 = 100;

/// How to hook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookMode {
    pub at: HookAt,
    /// The state of this moment, not the one last published.
    pub live: bool,
    pub if_stale: IfStale,
}

/// Why an area that is there cannot be hooked, in the words of who looked for it.
fn refused(what: &str, error: HookError) -> Failure {
    let why = match error {
        HookError::NotShared { .. } => "its owner has neither published it nor allowed hooks yet",
        HookError::NotHookable { .. } => {
            "its owner refuses hooks at the moment, or more is kept for those who have hooked it \
             than its threshold allows"
        }
        HookError::NotFresh { why, .. } => {
            let text = format!(
                "{what} has not given its state of this moment: {why}. SWING_STALE (in Python \
                 stale=True) takes the one it has published last instead, which may be older"
            );
            return Failure::new(Code::Stale, text);
        }
        other => return other.into(),
    };
    debug_assert!(!what.is_empty() && !why.is_empty(), "who reads this can act on it");
    Failure::new(Code::Refused, format!("{what} cannot be hooked: {why}"))
}

impl Registry {
    pub(crate) fn hook(&self, origin: i32, mode: HookMode) -> Result<Arc<Entry>> {
        self.check(origin)?;
        if !self.tokens.is_held(origin) {
            self.sweep();
            let text = format!("no living process has an area with token {origin}");
            return Err(Failure::new(Code::NotFound, text));
        }
        let name = token_name(origin)?;
        let is_alive = || self.tokens.is_held(origin);
        let snapshot = self.snapshot(&format!("area {origin}"), &name, mode, is_alive)?;
        self.hooked(snapshot, mode.at)
    }

    /// The area that has a name: one that has it besides its token, or one of the namespace's own,
    /// as the heap of a preloaded program.
    pub(crate) fn hook_named(&self, name: &[u8], mode: HookMode) -> Result<Arc<Entry>> {
        for _ in 0..MAX_TRIES {
            let token = match self.find(name) {
                Ok(token) => token,
                Err(Failure { code: Code::NotFound, .. }) => {
                    return self.hook_other(name, mode);
                }
                Err(failure) => return Err(failure),
            };
            let hooked = self.hook(token, mode)?;
            // Another area may have got the token in between; then this one has the name no more.
            if self.find(name).is_ok_and(|again| again == token) {
                return Ok(hooked);
            }
            self.release(hooked.token)?;
        }
        Err(Failure::new(Code::Busy, "the name was another area's at every try"))
    }

    fn hook_other(&self, name: &[u8], mode: HookMode) -> Result<Arc<Entry>> {
        let text = String::from_utf8_lossy(name);
        let none = || Failure::new(Code::NotFound, format!("no living area has the name {text:?}"));
        let name = AreaName::new(&text).map_err(|e| Failure::new(Code::Argument, e))?;
        // What a process that has ended left is no area any more, unless it is asked for.
        let is_alive = || {
            let areas = self.ns.list().unwrap_or_default();
            areas.iter().any(|area| area.name.as_ref() == Some(&name) && area.owner.is_some())
        };
        match self.snapshot(&format!("{text:?}"), &name, mode, is_alive) {
            Ok(snapshot) => self.hooked(snapshot, mode.at),
            Err(Failure { code: Code::NotFound, .. }) => Err(none()),
            Err(failure) => Err(failure),
        }
    }

    /// A snapshot as an area of this process.
    fn hooked(&self, snapshot: Snapshot, at: HookAt) -> Result<Arc<Entry>> {
        assert!(at == HookAt::Anywhere || snapshot.is_at_origin(), "or it fails");
        self.with_token(|token, name| {
            let at_origin = snapshot.is_at_origin();
            let (published_ns, is_fresh) = (snapshot.published_ns(), snapshot.is_fresh());
            let area = snapshot.derive(Some(name))?;
            area.track()?;
            Ok(Entry { at_origin, published_ns, is_fresh, ..entry(token, area) })
        })
    }

    /// The state last published or, live, that of a moment after the call. Where nobody answers,
    /// because that was never allowed, it is refused.
    fn snapshot(
        &self,
        what: &str,
        name: &AreaName,
        mode: HookMode,
        is_alive: impl Fn() -> bool,
    ) -> Result<Snapshot> {
        let options = HookOptions { at: mode.at, if_stale: mode.if_stale, patience: MAX_WAIT };
        if !mode.live {
            return self.ns.hook_with(name, options).map_err(|e| refused(what, e));
        }
        let nobody = |snapshot: &std::result::Result<Snapshot, HookError>| {
            let why = NotFresh::NobodyAnswers;
            matches!(snapshot, Err(HookError::NotFresh { why: w, .. }) if *w == why)
        };
        let hooked = self.ns.hook_live_with(name, options);
        let is_fresh = hooked.as_ref().is_ok_and(Snapshot::is_fresh);
        let was_asked = is_fresh || !(hooked.is_ok() || nobody(&hooked));
        if !was_asked && !is_alive() {
            return Err(Failure::new(Code::NotFound, format!("{what} has ended meanwhile")));
        }
        if nobody(&hooked) {
            let text = format!(
                "{what} cannot be hooked live: its owner has not allowed that, only published a \
                 state (SWING_PUBLISHED; in Python live=False)"
            );
            return Err(Failure::new(Code::Refused, text));
        }
        hooked.map_err(|e| refused(what, e))
    }

    /// The next addresses of an area from `from` on that have memory: where they begin, and how
    /// many bytes.
    pub(crate) fn next_range(&self, token: i32, from: usize) -> Result<(usize, u64)> {
        let of = self.own(token)?;
        let geometry = of.area.geometry();
        let offset = from.saturating_sub(of.base) as u64;
        let none = || Failure::new(Code::NotFound, "the area has no memory from there on");
        if offset >= of.len {
            return Err(none());
        }
        let has_memory = |i: &u32| of.area.extent_state(ExtentId(*i)) != ExtentState::Absent;
        let all = geometry.extent_count();
        let first = (geometry.extent_of(AreaOffset(offset)).0..all).find(has_memory);
        let first = first.ok_or_else(none)?;
        let last = (first..all).take_while(has_memory).last().unwrap_or(first);
        let start = geometry.range(ExtentId(first)).start.0.max(offset);
        let end = geometry.range(ExtentId(last)).end.0;
        assert!(start < end && end <= of.len, "inside the area");
        Ok((of.base + start as usize, end - start))
    }
}
