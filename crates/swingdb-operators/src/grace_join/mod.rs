//! A hash join that goes on in temporary files where its table does not fit into memory.
//!
//! The engine's hash joins keep all rows of the build side in memory, and fail where there is not
//! enough of it. [`GraceHashJoinExec`] is the *Grace* hash join (Kitsuregawa et al., 1983), which
//! writes nothing where the rows turn out to fit, as the *hybrid* one does (DeWitt et al., 1984):
//!
//! 1. **Collect.** Each partition of the build side is collected by a task of its own, as long as
//!    there is memory.
//! 2. **Join in memory.** If all rows were collected, they are joined by the engine's operator, and
//!    no file is written.
//! 3. **Deal out.** Else each task deals its rows out to [parts](deal::PARTS) by the hash of the
//!    key, into files; after that the probe side is dealt out in the same way. Rows whose keys are
//!    equal are in the same part.
//! 4. **Join each part** as if it were the whole join, by this operator again with another hash: a
//!    part that still does not fit is dealt out once more. Rows of one key cannot be told apart, so
//!    after a [few](exec::MOST_LEVELS) times it is the engine's operator that joins or fails.
//!
//! Rows come in no order. Where the engine's operator would keep that of the probe side, this one
//! promises nothing.

mod deal;
mod exec;
mod held_rows;

pub use exec::GraceHashJoinExec;
