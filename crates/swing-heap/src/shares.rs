//! Which blocks of the file the shared states of a heap show (INV-OBJ-9).
//!
//! States are numbered in the order in which they are shared. A block is *born* when it is taken,
//! before the state of the next number, and is *unneeded* when the last object in it has gone, also
//! before some state. States from the one up to, and without, the other may show it. As long as
//! somebody can see one of these the block is not written anew.
//!
//! A state that ends in a lease of the area is found out by looking ([`swing::Area::live_states`]),
//! so a dead reader keeps nothing. Looking late costs room, never a wrong object.

use swing::Epoch;

/// A block that no object needs, and that states may show.
#[derive(Clone, Copy, Debug)]
struct Unneeded {
    block: u32,
    born: u64,
    since: u64,
}

/// The states that somebody can see, and the blocks that only they need.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The number of the next state.
    next: u64,
    /// Numbers and epochs, ascending.
    live: Vec<(u64, Epoch)>,
    /// Of each block: the number of the first state that may show it.
    born: Vec<u64>,
    unneeded: Vec<Unneeded>,
}

impl Shares {
    /// A block is taken: it will be written anew.
    pub(crate) fn take(&mut self, block: u32) {
        let index = block as usize;
        if index >= self.born.len() {
            self.born.resize(index + 1, self.next);
        }
        self.born[index] = self.next;
    }

    fn is_shown(&self, born: u64, since: u64) -> bool {
        let first = self.live.partition_point(|&(number, _)| number < born);
        self.live.get(first).is_some_and(|&(number, _)| number < since)
    }

    /// No object needs a block any more. `true`: a state may show it, so it is kept.
    pub(crate) fn keeps(&mut self, block: u32) -> bool {
        let born = self.born.get(block as usize).copied().unwrap_or(0);
        let shown = self.is_shown(born, self.next);
        if shown {
            self.unneeded.push(Unneeded { block, born, since: self.next });
        }
        shown
    }

    /// A state has been shared.
    pub(crate) fn add(&mut self, epoch: Epoch) {
        debug_assert!(self.live.last().is_none_or(|&(_, last)| last < epoch), "epochs only grow");
        self.live.push((self.next, epoch));
        self.next += 1;
    }

    /// Only these states can be seen still. Returns the blocks that nobody needs now.
    pub(crate) fn retain(&mut self, live: &[Epoch]) -> Vec<u32> {
        self.live.retain(|(_, epoch)| live.contains(epoch));
        let (kept, free): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unneeded)
            .into_iter()
            .partition(|b| self.is_shown(b.born, b.since));
        self.unneeded = kept;
        free.into_iter().map(|b| b.block).collect()
    }

    /// How many blocks are kept for states alone.
    pub(crate) fn kept(&self) -> usize {
        self.unneeded.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        let blocks = self.born.capacity() * size_of::<u64>();
        (blocks + self.unneeded.capacity() * size_of::<Unneeded>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Random lives of blocks and states against sets of what each state shows.
    #[test]
    fn a_block_comes_free_when_no_state_shows_it() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shares = Shares::default();
        let (mut empty, mut needed, mut kept) = (vec![0, 1, 2, 3, 4, 5, 6, 7], vec![], vec![]);
        let mut states: BTreeMap<Epoch, Vec<u32>> = BTreeMap::new();
        for step in 1..5000 {
            match random.u32(..4) {
                0 if !empty.is_empty() => {
                    let block = empty.swap_remove(random.usize(..empty.len()));
                    assert!(states.values().all(|shown| !shown.contains(&block)), "{seed}");
                    shares.take(block);
                    needed.push(block);
                }
                1 if !needed.is_empty() => {
                    let block = needed.swap_remove(random.usize(..needed.len()));
                    let shown = states.values().any(|shown| shown.contains(&block));
                    assert_eq!(shares.keeps(block), shown, "{seed}");
                    if shown { kept.push(block) } else { empty.push(block) }
                }
                2 if states.len() < 5 => {
                    shares.add(Epoch(step));
                    states.insert(Epoch(step), needed.clone());
                }
                _ if !states.is_empty() => {
                    let gone = *states.keys().nth(random.usize(..states.len())).unwrap();
                    states.remove(&gone);
                    let live: Vec<_> = states.keys().copied().collect();
                    let mut free = shares.retain(&live);
                    let is_shown = |block: &u32| states.values().any(|s| s.contains(block));
                    let (stay, mut expected): (Vec<u32>, Vec<u32>) =
                        kept.iter().partition(|block| is_shown(block));
                    free.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(free, expected, "{seed}");
                    kept = stay;
                    empty.extend(expected);
                    assert_eq!(shares.kept(), kept.len());
                }
                _ => {}
            }
        }
    }
}
