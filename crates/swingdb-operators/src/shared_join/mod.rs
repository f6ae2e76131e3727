//! A hash join whose one table is built by all threads, and probed by all.
//!
//! DataFusion's `HashJoinExec` either collects the build side into one partition and builds the
//! table on one thread, or repartitions both sides by the key. [`SharedHashJoinExec`] does neither:
//!
//! 1. **Collect.** Each partition of the build side is collected by a task of its own.
//! 2. **Join the batches.** The columns are concatenated, each by one task. A build row is from now
//!    on a number: rows are numbered by partition, and by their order in the partition.
//! 3. **Scatter.** Workers take ranges of rows, hash the keys, and sort the rows by the top bits of
//!    the hash, or of the key where keys are dense whole numbers. The result is a list of rows for
//!    each *part* of the table.
//! 4. **Build.** Workers take parts. A part is small enough for a processor's cache, and only
//!    one worker writes it, so that building needs no lock and no atomic operation.
//! 5. **Publish.** The least and greatest keys, and a set of all of them or the table itself,
//!    become a condition for the scans of the probe side.
//! 6. **Probe.** Each partition of the probe side streams through the table as it comes.
//!
//! # Invariants
//!
//! - The matches of one probe row come in the order of the build rows' numbers. So the rows of a
//!   join do not depend on the number of workers.
//! - Rows of the probe side keep their order, unmatched ones included.
//! - No batch of the output is larger than the session's batch size.
//!
//! # Concurrency
//!
//! The build is one future that all probing partitions share; its tasks end when the last of them
//! is dropped. Which build rows found a partner is kept in atomic words. Where the type of the join
//! asks for rows of the build side, the partitions wait for each other. Each gives out some of
//! them. The partition that ends last gives out all of them instead where others cannot wait. Outer
//! joins have given rows before; and a reader may want all rows of one partition before it asks
//! the next.
//!
//! [`SharedHashJoinExec`] keeps a `HashJoinExec` to describe the join: schema, properties,
//! statistics, and what may be pushed through it are the engine's own answers. Only the execution
//! differs. `x NOT IN (list)` is an anti join that also knows whether the list has a NULL, and
//! whether it is empty; the engine's join knows it only with a table of the rows that have `x`.

mod bounds;
mod buffers_once;
mod build;
mod direct;
mod equal;
mod exec;
mod hashed;
mod key_set;
mod keys;
mod marks;
mod metrics;
mod output;
mod pairs;
mod probe;
mod published;
mod rule;
mod scattered;
mod table;
mod workers;

pub use exec::SharedHashJoinExec;
pub use rule::SharedJoins;
