//! Decisions from a byte string.

/// Takes numbers from a byte string; zeros when it is used up.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What has not been taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(super) fn next(&mut self) -> i64 {
        i64::from(self.byte())
    }

    /// A number below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let number =
            u64::from_le_bytes(std::array::from_fn(|i| if i < 3 { self.byte() } else { 0 }));
        number as usize % end
    }

    pub(super) fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        let at = self.below(choices.len());
        &choices[at]
    }
}

/// Damages `contents` a few times as the bytes say.
pub(super) fn damage(contents: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    for _ in 0..1 + bytes.byte() % 4 {
        let at = bytes.below(contents.len().max(1));
        match (bytes.byte() % 8, contents.get(at).copied()) {
            (0, _) => contents.truncate(at),
            (1, _) => contents.extend_from_slice(&bytes.rest()[..bytes.rest().len().min(64)]),
            (2, Some(_)) => contents[at] = bytes.byte(),
            (3, Some(_)) => contents[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
            (4, Some(_)) => contents[at..].iter_mut().take(8).for_each(|byte| *byte = 0),
            (5, Some(_)) => {
                let end = (at + usize::from(bytes.byte())).min(contents.len());
                contents.drain(at..end);
            }
            (_, Some(old)) => contents[at] = old ^ (1 << (bytes.byte() % 8)),
            (_, None) => contents.push(bytes.byte()),
        }
    }
}
