//! What is mapped where: a map from area ranges to file ranges, kept merged.
//!
//! This is at once the picture of the address range (each run is one mapping, apart from
//! protection) and the body of the next manifest, so publish needs no walk over extents. Neighbours
//! that are contiguous in area and file are one run.

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
        for _ in 0..5000 {
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
