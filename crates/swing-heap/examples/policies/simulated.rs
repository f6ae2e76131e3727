//! Hit rates of other policies, by simulation: all objects once, then the accesses, of which the
//! second half counts.

use std::collections::BTreeSet;

/// Evicts the object that was used least recently.
pub fn lru(objects: usize, ids: &[u32], capacity: usize) -> f64 {
    let mut last = vec![0_u64; objects];
    let mut resident: BTreeSet<(u64, u32)> = BTreeSet::new();
    let mut hits = 0;
    let all = (0..objects as u32).chain(ids.iter().copied());
    for (now, id) in (1_u64..).zip(all) {
        let hit = resident.remove(&(last[id as usize], id));
        if !hit && resident.len() >= capacity {
            resident.pop_first();
        }
        last[id as usize] = now;
        resident.insert((now, id));
        hits += u64::from(hit && now > (objects + ids.len() / 2) as u64);
    }
    rate(hits, ids)
}

/// Evicts the object whose next use is the latest one (Belady, 1966): no policy has more hits.
pub fn best(objects: usize, ids: &[u32], capacity: usize) -> f64 {
    let all: Vec<u32> = (0..objects as u32).chain(ids.iter().copied()).collect();
    let mut next = vec![usize::MAX; all.len()];
    let mut seen = vec![usize::MAX; objects];
    for (now, &id) in all.iter().enumerate().rev() {
        next[now] = std::mem::replace(&mut seen[id as usize], now);
    }
    let mut due = vec![usize::MAX; objects];
    let mut resident: BTreeSet<(usize, u32)> = BTreeSet::new();
    let mut hits = 0;
    for (now, &id) in all.iter().enumerate() {
        let hit = resident.remove(&(due[id as usize], id));
        if !hit && resident.len() >= capacity {
            resident.pop_last();
        }
        due[id as usize] = next[now];
        resident.insert((next[now], id));
        hits += u64::from(hit && now >= objects + ids.len() / 2);
    }
    rate(hits, ids)
}

fn rate(hits: u64, ids: &[u32]) -> f64 {
    hits as f64 / (ids.len() - ids.len() / 2) as f64
}
