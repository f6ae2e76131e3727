//! Reading many pieces at a time: sorted by place, neighbours merged into one request where the gap
//! between them costs less than a request of its own, as many in flight as the queue takes.

use std::sync::Arc;

use crate::error::{Cause, Fault, IoError};
use crate::log::files::LogFile;
use crate::log::format::Piece;
use crate::profile::ReadCost;
use crate::storage::{Completion, Direction, Queue, Request};
use crate::units::{UNIT_BYTES, round_down, round_up};

/// A piece to be read, and where its bytes go.
pub(crate) struct Target<'a> {
    pub(crate) file: Arc<LogFile>,
    pub(crate) piece: Piece,
    pub(crate) into: &'a mut [u8],
}

/// One request: a range of a file, and the parts of targets in it.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    /// Index of a target that lies in the run's file.
    target: usize,
    offset: u64,
    len: u64,
    parts: Vec<Part>,
}

/// `len` bytes of a target, from byte `from` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    target: usize,
    from: u64,
    len: u64,
}

/// Reads all targets and checks each against its checksum. On an error the buffers hold anything.
pub(crate) fn read_pieces(
    queue: &mut dyn Queue,
    mut targets: Vec<Target<'_>>,
    cost: &ReadCost,
) -> Result<(), Fault> {
    targets.retain(|target| target.piece.len > 0);
    targets.sort_by_key(|target| (target.piece.file, target.piece.offset));
    let places: Vec<_> = targets.iter().map(|target| target.piece).collect();
    let runs = plan(&places, cost.longest_gap(), queue.longest_buffer() as u64);
    let mut waiting = runs.iter().enumerate();
    let mut next = waiting.next();
    let mut failed = None;
    loop {
        while let Some((index, run)) = next.filter(|_| failed.is_none()) {
            if queue.in_flight() >= queue.depth() {
                break;
            }
            let Some(buffer) = queue.take_buffer(run.len as usize) else { break };
            let file = targets[run.target].file.file.clone();
            let (offset, len, tag) = (run.offset, run.len as u32, index as u64);
            queue.submit(Request { file, direction: Direction::Read, offset, len, buffer, tag });
            next = waiting.next();
        }
        match queue.wait() {
            Some(done) => match done.result {
                Ok(()) => deliver(&runs[done.tag as usize], &done, &mut targets),
                Err(error) => failed = failed.or(Some(error)),
            },
            None if next.is_some() && failed.is_none() => {
                // Nothing is in flight and yet no buffer is free, or none is long enough.
                let path = targets[0].file.path();
                failed = Some(IoError::new("find memory to read", path, Cause::Os(libc::ENOMEM)));
            }
            None => break,
        }
    }
    match failed {
        Some(error) => Err(too_short(error)),
        None => targets.iter().try_for_each(Target::check),
    }
}

/// A file that ends before its records do is damaged; the device has done what it was asked.
pub(crate) fn too_short(error: IoError) -> Fault {
    match (error.cause, error.offset, error.len) {
        (Cause::Short { moved }, Some(offset), Some(len)) => {
            let detail = format!("the file ends after {moved} of these bytes");
            Fault::damaged(&error.path, offset, len, detail)
        }
        _ => Fault::Io(error),
    }
}

fn deliver(run: &Run, done: &Completion, targets: &mut [Target<'_>]) {
    for part in &run.parts {
        let target = &mut targets[part.target];
        let source = (target.piece.offset + part.from - run.offset) as usize;
        let (from, len) = (part.from as usize, part.len as usize);
        target.into[from..from + len].copy_from_slice(&done.buffer[source..source + len]);
    }
}

impl Target<'_> {
    fn check(&self) -> Result<(), Fault> {
        check(&self.piece, self.into, &self.file)
    }
}

/// Whether `bytes` are those that the reference is to; else the damage (INV-TIER-2).
pub(crate) fn check(piece: &Piece, bytes: &[u8], file: &LogFile) -> Result<(), Fault> {
    if piece.matches(bytes, file.generation()) {
        return Ok(());
    }
    let detail = "the bytes do not match the checksum of the reference to them";
    Err(Fault::damaged(file.path(), piece.offset, u64::from(piece.len), detail))
}

/// Makes the requests for pieces that are sorted by place.
fn plan(pieces: &[Piece], longest_gap: u64, longest: u64) -> Vec<Run> {
    let longest = round_down(longest).max(UNIT_BYTES);
    let mut runs: Vec<Run> = Vec::new();
    for (target, piece) in pieces.iter().enumerate() {
        let mut from = 0;
        let len = u64::from(piece.len);
        while from < len {
            let start = piece.offset + from;
            let mut end = piece.end();
            let last = runs.last_mut().filter(|run| {
                let behind = run.offset + run.len;
                let reaches = run.offset <= start && round_down(start) <= behind + longest_gap;
                reaches && pieces[run.target].file == piece.file
            });
            let run = match last {
                Some(run) if round_up(end) - run.offset <= longest => run,
                _ => {
                    let offset = round_down(start);
                    end = end.min(offset + longest);
                    runs.push(Run { target, offset, len: 0, parts: Vec::new() });
                    // It has just been pushed.
                    let Some(run) = runs.last_mut() else { unreachable!("a run was pushed") };
                    run
                }
            };
            run.len = run.len.max(round_up(end) - run.offset);
            let part = end - start;
            run.parts.push(Part { target, from, len: part });
            from += part;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FileId;

    fn piece(file: u32, offset: u64, len: u32) -> Piece {
        Piece { file: FileId(file), offset, len, checksum: 0 }
    }

    fn ranges(runs: &[Run]) -> Vec<(u64, u64)> {
        runs.iter().map(|run| (run.offset, run.len)).collect()
    }

    #[test]
    fn neighbours_are_merged_up_to_the_gap_that_pays() {
        let pieces = [piece(1, 64, 100), piece(1, 5000, 10), piece(1, 40_000, 10)];
        assert_eq!(ranges(&plan(&pieces, 0, 1 << 20)), [(0, 8192), (36_864, 4096)]);
        assert_eq!(ranges(&plan(&pieces, 32 << 10, 1 << 20)), [(0, 40_960)]);
        let pieces = [piece(1, 64, 100), piece(2, 200, 10)];
        assert_eq!(plan(&pieces, 1 << 20, 1 << 20).len(), 2, "files are not merged");
    }

    #[test]
    fn no_request_is_longer_than_a_buffer() {
        let pieces = [piece(1, 64, 100_000), piece(1, 100_100, 9000)];
        let runs = plan(&pieces, 1 << 20, 16 << 10);
        assert!(runs.iter().all(|run| run.len <= 16 << 10 && run.offset % 4096 == 0));
        let bytes: u64 = runs.iter().flat_map(|run| &run.parts).map(|part| part.len).sum();
        assert_eq!(bytes, 109_000);
    }

    #[test]
    fn random_plans_cover_each_byte_once() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..if cfg!(miri) { 10 } else { 500 } {
            let mut pieces: Vec<_> = (0..random.usize(1..20))
                .map(|_| piece(random.u32(0..2), random.u64(0..100_000), random.u32(1..50_000)))
                .collect();
            pieces.sort_by_key(|piece| (piece.file, piece.offset));
            let longest = 4096 << random.u32(0..6);
            let runs = plan(&pieces, random.u64(0..50_000), longest);
            let mut covered = vec![0; pieces.len()];
            for run in &runs {
                assert!(run.len <= longest && run.len > 0);
                for part in &run.parts {
                    let start = pieces[part.target].offset + part.from;
                    assert!(run.offset <= start && start + part.len <= run.offset + run.len);
                    assert_eq!(pieces[part.target].file, pieces[run.target].file);
                    assert_eq!(covered[part.target], part.from, "parts come in order");
                    covered[part.target] += part.len;
                }
            }
            assert!(pieces.iter().zip(&covered).all(|(p, &c)| u64::from(p.len) == c));
        }
    }
}
