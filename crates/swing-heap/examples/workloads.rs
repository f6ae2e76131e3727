//! The workloads of FG_MM's paper on a tenth of many objects: through guards of the heap, through
//! its plain pointers, in `malloc`'s memory that the system may swap, or in a mapped file. Prints a
//! line of JSON.
//!
//!     workloads random|btree|quicksort|bloom heap|pointers|malloc|mapped OBJECTS BYTES ACCESSES \
//!         BUDGET_MIB DIRECTORY
//!
//! Run all forms under the same limit of memory: `bench/heap/workloads.py` does.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use swing_heap::{Handle, HeapOptions, ObjectHeap};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Where the objects are.
enum Objects {
    Heap(ObjectHeap, Vec<Handle>),
    Pointers(ObjectHeap, Vec<*mut u8>),
    Malloc(Vec<Box<[u8]>>),
    /// The first address of a mapped file, in which they lie one behind the other.
    Mapped(*mut u8),
}

struct Store {
    objects: Objects,
    bytes: usize,
}

impl Store {
    fn new(side: &str, count: usize, bytes: usize, budget: u64, folder: &Path) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut value = move || {
            let mut value = vec![0_u8; bytes];
            value[..8].copy_from_slice(&random.u64(..).to_le_bytes());
            value
        };
        let open = || ObjectHeap::open(folder, HeapOptions { budget, ..Default::default() });
        let objects = match side {
            "heap" => {
                let heap = open()?;
                let all = (0..count).map(|_| heap.alloc_from(&value()));
                let all = all.collect::<std::result::Result<_, _>>()?;
                Objects::Heap(heap, all)
            }
            "pointers" => {
                let heap = open()?;
                heap.enable_pointers(None)?;
                let mut all = Vec::with_capacity(count);
                for _ in 0..count {
                    all.push(heap.pointer(heap.alloc_from(&value())?)?.as_ptr());
                }
                Objects::Pointers(heap, all)
            }
            "malloc" => Objects::Malloc((0..count).map(|_| value().into_boxed_slice()).collect()),
            "mapped" => {
                let file = tempfile::tempfile_in(folder)?;
                file.set_len((count * bytes) as u64)?;
                let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
                let (len, fd) = (count * bytes, file.as_raw_fd());
                // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
                let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, shared, fd, 0) };
                if base == libc::MAP_FAILED {
                    return Err(std::io::Error::last_os_error().into());
                }
                for i in 0..count {
                    // SAFETY: the mapping has `count` objects of `bytes` bytes.
                    let to = unsafe { base.cast::<u8>().add(i * bytes) };
                    // SAFETY: as above.
                    unsafe { std::ptr::copy_nonoverlapping(value().as_ptr(), to, bytes) };
                }
                Objects::Mapped(base.cast())
            }
            other => return Err(format!("no side {other}").into()),
        };
        Ok(Store { objects, bytes })
    }

    fn slice(&self, at: *const u8) -> &[u8] {
        // SAFETY: an object of this store begins there; one thread uses the store.
        unsafe { std::slice::from_raw_parts(at, self.bytes) }
    }

    fn read<R>(&self, i: u32, with: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let i = i as usize;
        Ok(match &self.objects {
            Objects::Heap(heap, all) => with(&heap.read(all[i])?),
            Objects::Malloc(all) => with(&all[i]),
            Objects::Pointers(_, all) => with(self.slice(all[i])),
            Objects::Mapped(base) => with(self.slice(base.wrapping_add(i * self.bytes))),
        })
    }

    fn write<R>(&mut self, i: u32, with: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let (i, bytes) = (i as usize, self.bytes);
        Ok(match &mut self.objects {
            Objects::Heap(heap, all) => with(&mut heap.write(all[i])?),
            Objects::Malloc(all) => with(&mut all[i]),
            Objects::Pointers(_, all) => with(slice_mut(all[i], bytes)),
            Objects::Mapped(base) => with(slice_mut(base.wrapping_add(i * bytes), bytes)),
        })
    }

    fn key(&self, i: u32) -> Result<u64> {
        self.read(i, |bytes| {
            let mut key = [0; 8];
            key.copy_from_slice(&bytes[..8]);
            u64::from_le_bytes(key)
        })
    }

    fn heap(&self) -> Option<&ObjectHeap> {
        match &self.objects {
            Objects::Heap(heap, _) | Objects::Pointers(heap, _) => Some(heap),
            _ => None,
        }
    }

    /// Reads all of an object; one access of five also changes it.
    fn visit(&mut self, i: u32, write: bool) -> Result<u64> {
        let sum = |bytes: &[u8]| bytes.iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>();
        if !write {
            return self.read(i, sum);
        }
        self.write(i, |bytes| {
            let found = sum(bytes);
            bytes[9] = bytes[9].wrapping_add(1);
            found
        })
    }
}

/// An object's bytes, to be changed.
fn slice_mut<'a>(at: *mut u8, bytes: usize) -> &'a mut [u8] {
    // SAFETY: as in `Store::slice`; the caller has the store for itself.
    unsafe { std::slice::from_raw_parts_mut(at, bytes) }
}

/// A place among `count`: in 80 of 100 cases in the first fifth.
fn skewed(random: &mut fastrand::Rng, count: usize) -> usize {
    let hot = random.u32(..10) < 8;
    random.usize(..if hot { count / 5 } else { count })
}

fn random_access(store: &mut Store, chosen: &[u32], accesses: usize) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut sum = 0;
    for _ in 0..accesses {
        let i = chosen[skewed(&mut random, chosen.len())];
        sum += store.visit(i, random.u32(..10) < 2)?;
    }
    Ok(sum)
}

/// The tree is ordinary memory on all sides; its values are the objects.
fn btree(store: &mut Store, chosen: &[u32], accesses: usize) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(2);
    let key = |place: usize| (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let tree: BTreeMap<u64, u32> =
        chosen.iter().enumerate().map(|(place, &i)| (key(place), i)).collect();
    let mut sum = 0;
    for _ in 0..accesses {
        let wanted = key(skewed(&mut random, chosen.len()));
        let i = *tree.get(&wanted).ok_or("a key is not in the tree")?;
        sum += store.visit(i, random.u32(..10) < 2)?;
    }
    Ok(sum)
}

/// Sorts the objects by their keys: what lies in them is exchanged.
fn quicksort(store: &mut Store, chosen: &[u32]) -> Result<u64> {
    let mut parts = vec![(0, chosen.len())];
    while let Some((from, to)) = parts.pop() {
        if to - from < 2 {
            continue;
        }
        // Never the last one, or a part of two would stay as it is.
        let pivot = store.key(chosen[from + (to - 1 - from) / 2])?;
        let (mut low, mut high) = (from, to - 1);
        loop {
            while store.key(chosen[low])? < pivot {
                low += 1;
            }
            while store.key(chosen[high])? > pivot {
                high -= 1;
            }
            if low >= high {
                break;
            }
            let left = store.read(chosen[low], <[u8]>::to_vec)?;
            let right = store.read(chosen[high], <[u8]>::to_vec)?;
            store.write(chosen[low], |bytes| bytes.copy_from_slice(&right))?;
            store.write(chosen[high], |bytes| bytes.copy_from_slice(&left))?;
            low += 1;
            high -= 1;
        }
        parts.extend([(from, high + 1), (high + 1, to)]);
    }
    let mut last = 0;
    let mut sum = 0_u64;
    for (place, &i) in chosen.iter().enumerate() {
        let key = store.key(i)?;
        if key < last {
            return Err("the objects are not in order".into());
        }
        last = key;
        sum = sum.wrapping_add(key.wrapping_mul(place as u64 + 1));
    }
    Ok(sum)
}

/// Eight hashes of a key: each sets, or looks at, a bit of one object.
fn bloom(store: &mut Store, chosen: &[u32], bytes: usize, accesses: usize) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut found = 0;
    for access in 0..accesses / 8 {
        let key = random.u64(..);
        let mut all = true;
        for hash in 0..8_u64 {
            let h = (key ^ hash.wrapping_mul(0xd6e8_feb8_6659_fd93))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let i = chosen[(h >> 32) as usize % chosen.len()];
            let (at, bit) = (h as usize % (bytes - 16) + 16, 1_u8 << (h >> 29 & 7));
            if access % 2 == 0 {
                store.write(i, |bytes| bytes[at] |= bit)?;
            } else {
                all &= store.read(i, |bytes| bytes[at] & bit != 0)?;
            }
        }
        found += u64::from(access % 2 == 1 && all);
    }
    Ok(found)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| -> Result<usize> {
        Ok(arguments.get(i).ok_or("too few arguments; see the source")?.parse()?)
    };
    let (count, bytes, accesses) = (number(3)?, number(4)?, number(5)?);
    let (budget, folder) = ((number(6)? as u64) << 20, arguments.get(7).ok_or("no directory")?);
    let mut store = Store::new(&arguments[2], count, bytes, budget, Path::new(folder))?;
    let mut random = fastrand::Rng::with_seed(42);
    let chosen = random.choose_multiple(0..count as u32, count / 10);
    let before = store.heap().map(ObjectHeap::stats).transpose()?;
    let started = Instant::now();
    let sum = match arguments[1].as_str() {
        "random" => random_access(&mut store, &chosen, accesses)?,
        "btree" => btree(&mut store, &chosen, accesses)?,
        "quicksort" => quicksort(&mut store, &chosen)?,
        "bloom" => bloom(&mut store, &chosen, bytes, accesses)?,
        other => return Err(format!("no workload {other}").into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    print!("{{\"seconds\": {seconds:.3}, \"sum\": {sum}");
    if let (Some(heap), Some(before)) = (store.heap(), before) {
        let stats = heap.stats()?;
        let (hits, misses) = (stats.hits - before.hits, stats.misses - before.misses);
        print!(
            ", \"hit_rate\": {:.4}, \"read_bytes\": {}, \"written_bytes\": {}, \
             \"write_amplification\": {:.3}, \"fragmentation\": {:.3}, \"miss_us\": {:?}",
            hits as f64 / (hits + misses) as f64,
            stats.read_bytes - before.read_bytes,
            stats.written_bytes - before.written_bytes,
            stats.write_amplification(),
            stats.fragmentation(),
            stats.miss_latencies.map(|d| d.as_micros()),
        );
    }
    println!("}}");
    Ok(())
}
