//! Live hooks, the hooker's side: a snapshot of the state of this moment.
//!
//! The hooker asks the owner, and watches the manifest that the owner has made ahead. It maps the
//! state as soon as that is known, while the owner makes it current.

use std::sync::Arc;
use std::time::Instant;

use crate::hook::options::{HookOptions, IfStale};
use crate::hook::snapshot::Snapshot;
use crate::hook::sources::hold_sources;
use crate::live::ask::{self, Answer, ask};
use crate::live::pending::Watch;
use crate::model::error::{Context, Fault, HookError, NotFresh, Result};
use crate::model::name::AreaName;
use crate::namespace::handle::Namespace;
use crate::namespace::newest;
use crate::sys::file::Folder;

/// How often a hooker asks again whose connection was closed before there was an answer.
const MAX_ASKS: u32 = 3;

impl Namespace {
    /// A snapshot of the area's state of this moment, if its owner allows live hooks and answers
    /// within five seconds; else an error. The owner publishes the state after this was called.
    pub fn hook_live(&self, name: &AreaName) -> Result<Snapshot, HookError> {
        self.hook_live_with(name, HookOptions::default())
    }

    /// As [`Namespace::hook_live`], with options.
    pub fn hook_live_with(
        &self,
        name: &AreaName,
        options: HookOptions,
    ) -> Result<Snapshot, HookError> {
        // Nothing comes before the question.
        let result = self.hook_live_inner(name, options);
        result.map_err(|fault| HookError::from_fault(fault, &Context::named(name, self.path())))
    }

    /// Whether the area's owner is there to answer [`Namespace::hook_live`], if only to refuse, or
    /// is stopped: `false` for one that has never allowed live hooks, or has ended.
    pub fn answers_live_hooks(&self, name: &AreaName) -> Result<bool, HookError> {
        let answered = ask::is_answered(self.folder(), name);
        answered.map_err(|fault| HookError::from_fault(fault, &Context::named(name, self.path())))
    }

    fn hook_live_inner(&self, name: &AreaName, options: HookOptions) -> Result<Snapshot> {
        let end = Instant::now() + options.patience;
        let mut why = NotFresh::NobodyAnswers;
        for _ in 0..MAX_ASKS {
            match self.hook_asking(name, options, end)? {
                Asked::Hooked(snapshot) => return Ok(snapshot.fresh()),
                Asked::Again => {}
                Asked::NotFresh(reason) => {
                    why = reason;
                    break;
                }
            }
        }
        if options.if_stale == IfStale::Accept {
            return self.hook_inner(name, options);
        }
        // One that has nothing to hook says that.
        newest::open_newest(&self.folder().open_folder(&name.folder())?)?;
        Err(Fault::NotFresh(why))
    }

    /// Asks once.
    fn hook_asking(&self, name: &AreaName, options: HookOptions, end: Instant) -> Result<Asked> {
        let (answer, folder) = ask(self.folder(), name, end)?;
        match answer {
            Answer::Refused => Err(Fault::NotHookable),
            Answer::Coming(coming) => {
                let snapshot = self.hook_watched(&folder, &coming.watch, options);
                if !coming.is_of(self.folder(), name) {
                    return Ok(Asked::Again);
                }
                match coming.wait_until_current() {
                    Ok(()) => snapshot.map(Asked::Hooked),
                    // The kept connection was to an owner before this one: the manifest that was
                    // watched is its successor's, whom somebody else has asked.
                    Err(NotFresh::NobodyAnswers) => Ok(Asked::Again),
                    // Its owner has failed to make it current.
                    Err(why) => Ok(Asked::NotFresh(why)),
                }
            }
            // In the same folder, unless something has happened to it: what has the name then is
            // newer than the question.
            Answer::Fresh => match self.hook_folder(&folder, options) {
                Err(Fault::NotFound | Fault::Contended) => self.hook_inner(name, options),
                other => other,
            }
            .map(Asked::Hooked),
            Answer::Closed => Ok(Asked::Again),
            Answer::None(why) => Ok(Asked::NotFresh(why)),
        }
    }

    /// Maps a state that has been watched.
    pub(crate) fn hook_watched(
        &self,
        folder: &Folder,
        watch: &Watch,
        options: HookOptions,
    ) -> Result<Snapshot> {
        let (manifest, lease) = watch.leased(folder)?;
        let held = hold_sources(folder, &manifest, Arc::new(lease))?;
        Snapshot::map(self, manifest, held, options.at)
    }
}

/// What became of asking once.
enum Asked {
    Hooked(Snapshot),
    /// The connection was closed, or the area is another one by now.
    Again,
    NotFresh(NotFresh),
}
