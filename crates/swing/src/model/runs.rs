//! What is mapped where: a map from area ranges to file ranges, kept merged.
//!
//! The map is both the picture of the address range (each run is one mapping, apart from
//! protection) and the body of the next manifest. So publish needs no walk over extents. Neighbours
//! that are contiguous in the area and in the file are one run.

use std::collections::BTreeMap;

/// `len` bytes at area offset `start` are `len` bytes of file `source` at `file_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: u64,
    pub len: u64,
    /// Index into the table of sources; 0 is the area's own memory file.
    pub source: u32,
    pub file_offset: u64,
}

impl Run {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Whether the other's addresses have the same bytes of the same file in this one.
    fn shows(&self, other: &Run) -> bool {
        self.start <= other.start
            && other.end() <= self.end()
            && self.source == other.source
            && self.file_offset.checked_add(other.start - self.start) == Some(other.file_offset)
    }

    /// The part of the run inside `start..end`, which must overlap it.
    fn clip(&self, start: u64, end: u64) -> Run {
        let s = self.start.max(start);
        let e = self.end().min(end);
        assert!(s < e, "only overlapping runs are cut");
        Run {
            start: s,
            len: e - s,
            source: self.source,
            file_offset: self.file_offset + (s - self.start),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    len: u64,
    source: u32,
    file_offset: u64,
}

/// Runs without a gap between them.
fn stretches(runs: &[Run]) -> impl Iterator<Item = &[Run]> {
    runs.chunk_by(|a, b| a.end() == b.start)
}

/// What to map one after the other, later over earlier, so that ordered runs come about. Extents
/// that were stored to here and there lie in two planes by turns: then one of these is mapped as a
/// whole first, and only the pieces of the other over it, which saves half of the calls. Nothing is
/// mapped where no run is, nor beyond what the runs of a file reach.
pub(crate) fn layers(runs: &[Run]) -> Vec<Run> {
    let mut layers = Vec::with_capacity(runs.len());
    for stretch in stretches(runs) {
        let below = longest_line(stretch);
        layers.extend(below);
        layers.extend(stretch.iter().filter(|run| below.is_none_or(|line| !line.shows(run))));
    }
    layers
}

/// The run that would show the most of these neighbours, if it spares more than it costs: a piece
/// that is mapped over another mapping, and cuts it in two, takes half as long again.
fn longest_line(stretch: &[Run]) -> Option<Run> {
    let mut lines: BTreeMap<(u32, u64), (usize, Run)> = BTreeMap::new();
    for run in stretch {
        let line = (run.source, run.file_offset.wrapping_sub(run.start));
        let (count, whole) = lines.entry(line).or_insert((0, *run));
        *count += 1;
        whole.len = run.end() - whole.start;
    }
    let (count, line) = lines.into_values().max_by_key(|(count, line)| (*count, line.start))?;
    let inside = stretch.iter().filter(|r| line.start < r.start && r.end() < line.end()).count();
    let over = (inside + 2).saturating_sub(count);
    (count > 1 && 2 * (count - 1) >= over).then_some(line)
}

/// The merged, ordered, non-overlapping runs of an area.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunMap {
    map: BTreeMap<u64, Piece>,
    /// Mapped bytes by source.
    bytes: Vec<u64>,
}

impl RunMap {
    pub(crate) fn from_runs(runs: impl IntoIterator<Item = Run>) -> Self {
        let mut map = Self::default();
        for run in runs {
            map.set(run);
        }
        map
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.map.iter().map(|(&start, p)| run(start, p))
    }

    pub(crate) fn count(&self) -> usize {
        self.map.len()
    }

    /// Bytes mapped from one source.
    pub(crate) fn bytes_of(&self, source: u32) -> u64 {
        self.bytes.get(source as usize).copied().unwrap_or(0)
    }

    /// Bytes mapped in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The runs that overlap `start..end`, cut to it, in order.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Vec<Run> {
        self.first_before(start, end)
            .into_iter()
            .chain(self.map.range(start..end.max(start)).map(|(&s, p)| run(s, p)))
            .map(|r| r.clip(start, end))
            .collect()
    }

    /// The run that shows a byte.
    pub(crate) fn at(&self, offset: u64) -> Option<Run> {
        let (&start, piece) = self.map.range(..=offset).next_back()?;
        (offset - start < piece.len).then(|| run(start, piece))
    }

    /// The run that begins before `start` and reaches into `start..end`.
    fn first_before(&self, start: u64, end: u64) -> Option<Run> {
        if start >= end {
            return None;
        }
        let (&s, p) = self.map.range(..start).next_back()?;
        (s + p.len > start).then(|| run(s, p))
    }

    /// Whether every byte of `start..end` is mapped.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        for r in self.overlapping(start, end) {
            if r.start != at {
                return false;
            }
            at = r.end();
        }
        at >= end
    }

    /// Forgets `start..end`.
    pub(crate) fn clear(&mut self, start: u64, end: u64) {
        assert!(start <= end, "a range is ordered");
        if let Some(r) = self.first_before(start, end) {
            self.take(r.start);
            self.put(r.clip(r.start, start));
            if r.end() > end {
                self.put(r.clip(end, r.end()));
            }
        }
        let inside: Vec<u64> = self.map.range(start..end).map(|(&s, _)| s).collect();
        for s in inside {
            let Some(r) = self.take(s) else { continue };
            if r.end() > end {
                self.put(r.clip(end, r.end()));
            }
        }
    }

    /// Records that a range shows a file range, replacing what it showed before.
    pub(crate) fn set(&mut self, new: Run) {
        assert!(new.len > 0 && new.start.checked_add(new.len).is_some(), "a run of some bytes");
        assert!(new.file_offset.checked_add(new.len).is_some(), "a range of a file");
        self.clear(new.start, new.end());
        let mut merged = new;
        if let Some((&s, p)) = self.map.range(..new.start).next_back() {
            let left = run(s, p);
            let joins = left.end() == merged.start && left.source == merged.source;
            if joins && left.file_offset + left.len == merged.file_offset {
                self.take(s);
                merged = Run { len: left.len + merged.len, ..left };
            }
        }
        if let Some(p) = self.map.get(&merged.end()).copied() {
            let joins = p.source == merged.source;
            if joins && merged.file_offset + merged.len == p.file_offset {
                self.take(merged.end());
                merged.len += p.len;
            }
        }
        self.put(merged);
    }

    fn take(&mut self, start: u64) -> Option<Run> {
        let piece = self.map.remove(&start)?;
        assert!(self.bytes[piece.source as usize] >= piece.len, "sums follow the runs");
        self.bytes[piece.source as usize] -= piece.len;
        Some(run(start, &piece))
    }

    fn put(&mut self, r: Run) {
        assert!(r.len > 0, "nothing is no run");
        let slot = r.source as usize;
        if self.bytes.len() <= slot {
            self.bytes.resize(slot + 1, 0);
        }
        self.bytes[slot] += r.len;
        let piece = Piece { len: r.len, source: r.source, file_offset: r.file_offset };
        let old = self.map.insert(r.start, piece);
        assert!(old.is_none(), "runs do not overlap");
    }
}

fn run(start: u64, p: &Piece) -> Run {
    Run { start, len: p.len, source: p.source, file_offset: p.file_offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, len: u64, source: u32, file_offset: u64) -> Run {
        Run { start, len, source, file_offset }
    }

    #[test]
    fn neighbours_merge_in_any_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let map = RunMap::from_runs(order.iter().map(|i| r(i * 10, 10, 1, 100 + i * 10)));
            assert_eq!(map.iter().collect::<Vec<_>>(), [r(0, 30, 1, 100)]);
            assert_eq!(
                (map.count(), map.bytes_of(1), map.bytes_of(0), map.bytes()),
                (1, 30, 0, 30)
            );
        }
    }

    #[test]
    fn planes_by_turns_are_mapped_by_half_of_the_calls() {
        let in_plane = |i: u64, plane: u64| r(i * 10, 10, 0, plane * 1000 + i * 10);
        let runs: Vec<Run> = (0..9).map(|i| in_plane(i, i % 2)).collect();
        assert_eq!(
            layers(&runs),
            [r(0, 90, 0, 0), in_plane(1, 1), in_plane(3, 1), in_plane(5, 1), in_plane(7, 1)]
        );
        // Nothing is mapped over a gap, nor one run in two ways.
        let apart = [in_plane(0, 0), in_plane(1, 1), in_plane(3, 0), in_plane(4, 1)];
        assert_eq!(layers(&apart), apart);
        assert_eq!(layers(&[]), []);
    }

    #[test]
    fn layers_show_what_runs_do() {
        const N: u64 = 60;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..if cfg!(miri) { 5 } else { 2000 } {
            let mut map = RunMap::default();
            for _ in 0..rng.u32(0..40) {
                let start = rng.u64(0..N);
                let len = rng.u64(1..=(N - start).min(9));
                let (source, base) = (rng.u32(0..2), rng.u64(0..3) * N);
                map.set(r(start, len, source, base + start));
            }
            let runs: Vec<Run> = map.iter().collect();
            let layers = layers(&runs);
            assert!(layers.len() <= runs.len(), "never more calls");
            let mut seen = vec![None; N as usize];
            for run in &layers {
                let reached = |r: &&Run| {
                    r.source == run.source && r.file_offset + r.len >= run.file_offset + run.len
                };
                assert!(
                    runs.iter().any(|r| reached(&r)),
                    "not beyond what its file is known to have"
                );
                (0..run.len).for_each(|k| {
                    seen[(run.start + k) as usize] = Some((run.source, run.file_offset + k));
                });
            }
            let at = |i| map.at(i).map(|r| (r.source, r.file_offset + (i - r.start)));
            assert_eq!(seen, (0..N).map(at).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_hole_in_the_middle_splits() {
        let mut map = RunMap::from_runs([r(0, 30, 0, 0)]);
        map.clear(10, 20);
        assert_eq!(map.iter().collect::<Vec<_>>(), [r(0, 10, 0, 0), r(20, 10, 0, 20)]);
        assert!(
            map.covers(0, 10) && map.covers(22, 30) && !map.covers(0, 30) && !map.covers(9, 11)
        );
        assert_eq!(map.overlapping(5, 25), [r(5, 5, 0, 5), r(20, 5, 0, 20)]);
        assert_eq!(map.overlapping(10, 20), []);
        map.set(r(10, 10, 0, 10));
        assert_eq!(map.count(), 1);
    }

    #[test]
    fn agrees_with_a_plain_array() {
        const N: u64 = 60;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut map = RunMap::default();
        let mut model: Vec<Option<(u32, u64)>> = vec![None; N as usize];
        for _ in 0..if cfg!(miri) { 15 } else { 5000 } {
            let start = rng.u64(0..N);
            let len = rng.u64(1..=(N - start).min(9));
            if rng.u8(0..3) == 0 {
                map.clear(start, start + len);
                (start..start + len).for_each(|i| model[i as usize] = None);
            } else {
                let (source, base) = (rng.u32(0..3), rng.u64(0..3) * N);
                map.set(r(start, len, source, base + start));
                (start..start + len).for_each(|i| model[i as usize] = Some((source, base + i)));
            }
            let mut seen = vec![None; N as usize];
            let mut last: Option<Run> = None;
            for run in map.iter() {
                (0..run.len).for_each(|k| {
                    seen[(run.start + k) as usize] = Some((run.source, run.file_offset + k));
                });
                if let Some(l) = last {
                    let adjacent = l.end() == run.start && l.source == run.source;
                    assert!(!(adjacent && l.file_offset + l.len == run.file_offset), "not merged");
                }
                last = Some(run);
            }
            assert_eq!(seen, model);
            for s in 0..3 {
                let expected = model.iter().flatten().filter(|(source, _)| *source == s).count();
                assert_eq!(map.bytes_of(s), expected as u64);
            }
            let (a, b) = (rng.u64(0..N), rng.u64(0..=N));
            let expected = (a..b).all(|i| model[i as usize].is_some());
            assert_eq!(map.covers(a, b), expected || a >= b);
            let at = map.at(a).map(|r| (r.source, r.file_offset + (a - r.start)));
            assert_eq!(at, model[a as usize]);
        }
    }
}
