//! Synthetic traces: the ids of objects in the order of their accesses.

#[path = "../workloads/zipf.rs"]
mod zipf;

use zipf::Zipf;

type Make = fn(usize, usize) -> Vec<u32>;

/// Makes a trace of so many objects and accesses.
pub const ALL: [(&str, Make); 6] = [
    ("80/20", eighty_twenty),
    ("zipf 0.99", zipf),
    ("zipf and scans", zipf_and_scans),
    ("zipf and used once", zipf_and_used_once),
    ("80/20, hot part moves", moving),
    ("loop", cycle),
];

fn shuffled(objects: usize) -> (fastrand::Rng, Vec<u32>) {
    let mut random = fastrand::Rng::with_seed(42);
    let mut order: Vec<u32> = (0..objects as u32).collect();
    random.shuffle(&mut order);
    (random, order)
}

/// The paper's: 80 of 100 accesses go to a fifth of the objects.
fn eighty_twenty(objects: usize, accesses: usize) -> Vec<u32> {
    let (mut random, order) = shuffled(objects);
    let mut next = || {
        let hot = random.u32(..10) < 8;
        order[random.usize(..if hot { objects / 5 } else { objects })]
    };
    (0..accesses).map(|_| next()).collect()
}

/// As YCSB asks for keys.
fn zipf(objects: usize, accesses: usize) -> Vec<u32> {
    let (mut random, order) = shuffled(objects);
    let zipf = Zipf::new(objects as u64);
    (0..accesses).map(|_| order[zipf.next(&mut random) as usize]).collect()
}

/// Half of the accesses belong to scans of a tenth of all objects each.
fn zipf_and_scans(objects: usize, accesses: usize) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(9);
    let mut all = zipf(objects, accesses);
    let scan = (objects / 10).max(1);
    let mut at = 0;
    while at + 2 * scan < accesses {
        let from = random.usize(..objects);
        for step in 0..scan {
            all[at + scan + step] = ((from + step) % objects) as u32;
        }
        at += 2 * scan;
    }
    all
}

/// A third of the accesses go to objects in turn, each of which is not used again for long.
fn zipf_and_used_once(objects: usize, accesses: usize) -> Vec<u32> {
    let mut all = zipf(objects, accesses);
    for (turn, id) in all.iter_mut().skip(2).step_by(3).enumerate() {
        *id = (turn % objects) as u32;
    }
    all
}

/// The fifth that is hot is another one five times in a trace.
fn moving(objects: usize, accesses: usize) -> Vec<u32> {
    let all = eighty_twenty(objects, accesses);
    let part = accesses.div_ceil(6);
    let shift = |at: usize| (at / part * (objects / 5)) as u32;
    let (_, order) = shuffled(objects);
    let mut place = vec![0_u32; objects];
    order.iter().zip(0..).for_each(|(&id, at)| place[id as usize] = at);
    let moved = |(at, id): (usize, u32)| {
        order[((place[id as usize] + shift(at)) % objects as u32) as usize]
    };
    all.into_iter().enumerate().map(moved).collect()
}

/// All objects again and again, in order: the worst case of LRU.
fn cycle(objects: usize, accesses: usize) -> Vec<u32> {
    (0..accesses).map(|at| (at % objects) as u32).collect()
}
