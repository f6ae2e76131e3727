//! Rows that may be partners in a join, and where they are looked for.

/// Where the possible partners of a probe row are: a range of a part's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) probe: u32,
    pub(crate) part: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// How far the listing of pairs has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// The span that is next, or under way.
    pub(crate) span: usize,
    /// Entries of it that are done.
    pub(crate) done: u32,
}

/// Rows that may be partners, as numbers of both sides.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) build: Vec<u32>,
    pub(crate) probe: Vec<u32>,
}

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.build.len()
    }

    pub(crate) fn push(&mut self, build: u32, probe: u32) {
        self.build.push(build);
        self.probe.push(probe);
    }

    /// Keeps the pairs of which a test holds.
    pub(crate) fn retain(&mut self, mut holds: impl FnMut(usize, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.build.len() {
            let (build, probe) = (self.build[at], self.probe[at]);
            self.build[kept] = build;
            self.probe[kept] = probe;
            kept += usize::from(holds(build as usize, probe as usize));
        }
        self.build.truncate(kept);
        self.probe.truncate(kept);
    }
}
