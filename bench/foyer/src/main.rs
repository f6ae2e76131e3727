//! A key-value store on `foyer`, a hybrid cache of memory and disk, under YCSB: the same requests
//! and values as `crates/swing-heap/examples/workloads.rs`. Prints a line of JSON.
//!
//!     swing-bench-foyer ycsb-a|...|ycsb-f foyer OBJECTS BYTES ACCESSES BUDGET_MIB DIRECTORY
//!
//! A cache may lose values. What it has lost is made anew, at no cost, and counted (`lost`): in use
//! this would be a read from the store behind the cache.

#[path = "../../../crates/swing-heap/examples/workloads/ycsb.rs"]
#[allow(dead_code, reason = "the object heap's program uses more of it")]
mod ycsb;

use std::collections::BTreeMap;
use std::time::Instant;

use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, PsyncIoEngineConfig,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use ycsb::{Latencies, Length, Request};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MIB: usize = 1 << 20;
/// Reads in flight of a scan, as the object heap has.
const DEPTH: usize = 16;
/// Bytes between waits while the data is loaded: a queue that is full loses values.
const LOADED: usize = 4 * MIB;

struct Store {
    cache: HybridCache<u64, Vec<u8>>,
    runtime: tokio::runtime::Runtime,
    /// Keys and their versions.
    index: BTreeMap<u64, u64>,
    length: Length,
    lost: u64,
}

impl Store {
    fn version(&self, key: u64) -> Result<u64> {
        Ok(self.index.get(&key).copied().ok_or("no such key")?)
    }

    fn put(&mut self, key: u64, version: u64) {
        self.index.insert(key, version);
        self.cache.insert(key, ycsb::value_of(key, version, self.length));
    }

    /// Sums over values, several at a time.
    fn read(&mut self, keys: &[u64]) -> Result<u64> {
        let cache = &self.cache;
        let all = stream::iter(keys).map(|key| async move {
            let found = cache.get(key).await?;
            Ok::<_, foyer::Error>((*key, found.map(|entry| ycsb::sum_of(entry.value()))))
        });
        let found: Vec<(u64, Option<u64>)> =
            self.runtime.block_on(all.buffered(DEPTH).try_collect())?;
        let mut sum = 0_u64;
        for (key, found) in found {
            sum = sum.wrapping_add(match found {
                Some(found) => found,
                None => {
                    self.lost += 1;
                    let version = self.version(key)?;
                    self.put(key, version);
                    ycsb::sum_of(&ycsb::value_of(key, version, self.length))
                }
            });
        }
        Ok(sum)
    }

    fn serve(&mut self, request: Request) -> Result<u64> {
        Ok(match request {
            Request::Read(key) => self.read(&[key])?,
            Request::Update(key, version) => {
                self.put(key, version);
                0
            }
            Request::Modify(key, version) => {
                let sum = self.read(&[key])?;
                self.put(key, version);
                sum
            }
            Request::Insert(key) => {
                self.put(key, 0);
                0
            }
            Request::Scan(key, most) => {
                let keys: Vec<u64> = self.index.range(key..).take(most).map(|(&k, _)| k).collect();
                self.read(&keys)?
            }
        })
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| -> Result<usize> {
        Ok(arguments.get(i).ok_or("too few arguments; see the source")?.parse()?)
    };
    let length = Length::parse(arguments.get(4).ok_or("too few arguments; see the source")?)?;
    let (count, accesses, budget) = (number(3)?, number(5)?, number(6)? * MIB);
    let bytes = length.most();
    let folder = arguments.get(7).ok_or("no directory")?;
    let name = arguments[1].strip_prefix("ycsb-").and_then(|name| name.chars().next());
    let workload = name.ok_or("foyer runs YCSB only")?;
    let directory = std::path::Path::new(folder).join(format!("foyer-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Of the budget a quarter is for buffers, and the rest for values.
    let buffers = (budget / 4).clamp(2 * MIB, 16 * MIB);
    let cache = runtime.block_on(async {
        let device = FsDeviceBuilder::new(&directory).with_capacity(3 * count * bytes).build()?;
        let engine = BlockEngineConfig::new(device)
            .with_block_size(16 * MIB)
            .with_buffer_pool_size(buffers)
            .with_submit_queue_size_threshold(buffers);
        HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnEviction)
            .memory(budget - buffers)
            .with_weighter(|_, value: &Vec<u8>| 8 + value.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            .build()
            .await
    })?;
    let mut store = Store { cache, runtime, index: BTreeMap::new(), length, lost: 0 };
    for record in 0..count {
        store.put(ycsb::key_of(record as u64), 0);
        if record % (LOADED / bytes) == 0 {
            store.runtime.block_on(store.cache.storage().wait());
        }
    }
    store.runtime.block_on(store.cache.storage().wait());
    let (read, written) = ycsb::disk_bytes();
    let started = Instant::now();
    let mut latencies = Latencies::new();
    let serve = |request| store.serve(request);
    let sum = ycsb::run(workload, count as u64, accesses, &mut latencies, serve)?;
    let seconds = started.elapsed().as_secs_f64();
    let after = ycsb::disk_bytes();
    let [p50, p99, p999] = latencies.microseconds();
    println!(
        "{{\"seconds\": {seconds:.3}, \"sum\": {sum}, \"lost\": {}, \
         \"access_us\": [{p50:.2}, {p99:.1}, {p999:.1}], \
         \"io_read_bytes\": {}, \"io_written_bytes\": {}}}",
        store.lost,
        after.0 - read,
        after.1 - written,
    );
    store.runtime.block_on(store.cache.close())?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
