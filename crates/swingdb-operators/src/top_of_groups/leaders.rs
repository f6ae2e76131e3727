//! The first keys of each group so far: [`Leaders`].

/// The `fetch` least keys of each group, of all keys that were offered. Keys are bytes, all of one
/// length, in the order of their bytes.
#[derive(Debug)]
pub(crate) struct Leaders {
    fetch: usize,
    width: usize,
    /// `fetch` places for each group, filled from the front in the order of the keys.
    keys: Vec<u8>,
    /// How many places of each group are filled.
    filled: Vec<u8>,
}

/// Most keys of a group.
pub(crate) const MOST_LEADERS: usize = 32;

impl Leaders {
    /// Keeps `fetch` keys of `width` bytes of each group.
    pub(crate) fn new(fetch: usize, width: usize) -> Self {
        debug_assert!((1..=MOST_LEADERS).contains(&fetch));
        Self { fetch, width, keys: Vec::new(), filled: Vec::new() }
    }

    /// Makes room for so many groups.
    pub(crate) fn reserve(&mut self, groups: usize) {
        if groups > self.filled.len() {
            self.filled.resize(groups, 0);
            self.keys.resize(groups * self.fetch * self.width, 0);
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.capacity() + self.filled.capacity()
    }

    /// Whether a key may be among the first of its group: not if `fetch` others are less.
    pub(crate) fn offer(&mut self, group: usize, key: &[u8]) -> bool {
        let width = self.width;
        debug_assert_eq!(key.len(), width);
        let start = group * self.fetch * width;
        let places = &mut self.keys[start..start + self.fetch * width];
        let mut filled = usize::from(self.filled[group]);
        if filled == self.fetch {
            match key.cmp(&places[(filled - 1) * width..]) {
                std::cmp::Ordering::Greater => return false,
                // It takes no place, and pushes none out.
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => filled -= 1,
            }
        }
        let mut place = filled;
        while place > 0 && key < &places[(place - 1) * width..place * width] {
            place -= 1;
        }
        places.copy_within(place * width..filled * width, (place + 1) * width);
        places[place * width..(place + 1) * width].copy_from_slice(key);
        self.filled[group] = (filled + 1) as u8;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_refused_when_enough_others_are_less() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (fetch, range) = (random.usize(1..6), random.u8(1..40));
            let mut leaders = Leaders::new(fetch, 2);
            let mut seen: [Vec<u8>; 3] = Default::default();
            for _ in 0..200 {
                let (group, key) = (random.usize(..3), random.u8(..range));
                leaders.reserve(group + 1);
                let less = seen[group].iter().filter(|&&other| other < key).count();
                assert_eq!(leaders.offer(group, &[0, key]), less < fetch, "{fetch}: {seen:?}");
                seen[group].push(key);
            }
        }
    }
}
