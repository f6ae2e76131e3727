//! What a scan reads, decided before it starts: which pieces, by which requests, in which order,
//! and which single-domain scan reads which request.
//!
//! A piece is never split between requests, so it lies in one buffer and is checked and handed out
//! from there. A request has a stretch of the sorted list of pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::layout::Layout;
use crate::log::files::LogFile;
use crate::log::format::Piece;
use crate::scan::options::{MAX_LANES, Order, ScanOptions};
use crate::scan::stats::ScanStats;
use crate::storage::MAX_QUEUE_DEPTH;
use crate::units::{UNIT_BYTES, round_down, round_up};

/// A piece of a record that was asked for; one without bytes stands for an empty record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) piece: Piece,
    /// Which of the plan's files; any for a piece without bytes.
    pub(crate) file: u32,
    /// Which of the records that were asked for.
    pub(crate) index: u32,
    /// The piece's first byte in its record.
    pub(crate) from: u64,
}

/// One request, and the items in it. One without bytes needs no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Its items are `first..first + count` of the plan's.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Gaps that are read over.
    pub(crate) gaps: u32,
}

impl Run {
    pub(crate) fn items(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

/// The end of a chain.
const NONE: usize = usize::MAX;

/// Which single-domain scan reads which request.
#[derive(Debug)]
enum Chains {
    /// Depth alone: each takes the next request of all.
    One(AtomicUsize),
    /// Each has those of its domain: where its chain begins, and from each request the next.
    Domains { heads: Vec<usize>, next: Vec<usize> },
}

/// All that a scan reads.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) files: Vec<Arc<LogFile>>,
    pub(crate) items: Vec<Item>,
    pub(crate) runs: Vec<Run>,
    /// Length of each record that was asked for.
    pub(crate) lens: Vec<u64>,
    chains: Chains,
    pub(crate) shape: Shape,
}

/// How large a scan is: fixed when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) domains: Option<u32>,
    pub(crate) lanes: usize,
    pub(crate) workers: usize,
    /// Length of a buffer.
    pub(crate) buffer_bytes: u32,
    /// Buffers of a lane's ring.
    pub(crate) buffers: u32,
    /// The most requests that a lane has in flight: one buffer is left to the consumer.
    pub(crate) lane_depth: u32,
}

/// Where a lane is in its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor(usize);

impl Plan {
    /// Plans a scan of the items, which come as they were asked for.
    pub(crate) fn new(
        files: Vec<Arc<LogFile>>,
        mut items: Vec<Item>,
        lens: Vec<u64>,
        options: &ScanOptions,
    ) -> Self {
        let options = options.limited();
        if options.order == Order::Any {
            items.sort_unstable_by_key(|i| (i.piece.len > 0, i.file, i.piece.offset, i.index));
        }
        let layout = options.layout.filter(|layout| is_placed(&items, *layout));
        let runs = make_runs(&items, layout, &options);
        let chains = match layout {
            Some(layout) => Chains::of_domains(&runs, layout),
            None => Chains::One(AtomicUsize::new(0)),
        };
        let lanes = match &chains {
            Chains::One(_) => (options.depth as usize).min(runs.len()).max(1),
            Chains::Domains { heads, .. } => heads.len(),
        };
        let shape = Shape::new(lanes, layout, &runs, &options);
        Plan { files, items, runs, lens, chains, shape }
    }

    /// Where lane `lane` begins.
    pub(crate) fn cursor(&self, lane: usize) -> Cursor {
        match &self.chains {
            Chains::One(_) => Cursor(0),
            Chains::Domains { heads, .. } => Cursor(heads[lane]),
        }
    }

    /// The next request of a lane; `None` after the last.
    pub(crate) fn next_run(&self, cursor: &mut Cursor) -> Option<usize> {
        match &self.chains {
            Chains::One(next) => {
                let run = next.fetch_add(1, Ordering::Relaxed);
                // At most each lane asks once more than there are runs.
                Some(run).filter(|&run| run < self.runs.len())
            }
            Chains::Domains { next, .. } => {
                let run = Some(cursor.0).filter(|&run| run != NONE)?;
                cursor.0 = next[run];
                Some(run)
            }
        }
    }

    /// Whether a lane has no more requests.
    pub(crate) fn is_at_end(&self, cursor: Cursor) -> bool {
        match &self.chains {
            Chains::One(next) => next.load(Ordering::Relaxed) >= self.runs.len(),
            Chains::Domains { .. } => cursor.0 == NONE,
        }
    }

    /// The part of the statistics that is known before the first request.
    pub(crate) fn stats(&self) -> ScanStats {
        let shape = &self.shape;
        ScanStats {
            domains: shape.domains,
            lanes: shape.lanes as u32,
            workers: shape.workers as u32,
            depth: shape.lanes as u32 * shape.lane_depth,
            buffers: shape.lanes as u32 * shape.buffers,
            buffer_bytes: shape.buffer_bytes,
            ..ScanStats::default()
        }
    }
}

impl Chains {
    fn of_domains(runs: &[Run], layout: Layout) -> Self {
        let lanes = layout.domains.min(MAX_LANES) as usize;
        let mut heads = vec![NONE; lanes];
        let mut tails = vec![NONE; lanes];
        let mut next = vec![NONE; runs.len()];
        for (number, run) in runs.iter().enumerate() {
            let lane = layout.domain_of(run.offset) as usize % lanes;
            match tails[lane] {
                NONE => heads[lane] = number,
                before => next[before] = number,
            }
            tails[lane] = number;
        }
        // Domains without a request need no lane; of a scan of nothing, one ends it.
        heads.retain(|&head| head != NONE);
        if heads.is_empty() {
            heads.push(NONE);
        }
        Chains::Domains { heads, next }
    }
}

impl Shape {
    fn new(lanes: usize, layout: Option<Layout>, runs: &[Run], options: &ScanOptions) -> Self {
        let longest = runs.iter().map(|run| run.len).max().unwrap_or(0);
        let buffer_bytes = longest.max(UNIT_BYTES as u32);
        let workers = options.workers.min(lanes);
        // A worker's queue has all requests of its lanes in flight, and one more may be of use.
        let most = MAX_QUEUE_DEPTH / (lanes.div_ceil(workers) as u32) + 1;
        let needed = (runs.len() / lanes + 2) as u32;
        let buffers = (options.ring_bytes / buffer_bytes).min(most).min(needed).max(1);
        let lane_depth = (buffers - 1).max(1);
        let domains = layout.map(|layout| layout.domains);
        Shape { domains, lanes, workers, buffer_bytes, buffers, lane_depth }
    }

    /// The lanes of a worker.
    pub(crate) fn lanes_of(&self, worker: usize) -> impl Iterator<Item = usize> + use<> {
        (worker..self.lanes).step_by(self.workers)
    }
}

/// Whether the items were placed for these domains: nearly each lies in one. Some may be in
/// commits, which lie where they come.
fn is_placed(items: &[Item], layout: Layout) -> bool {
    let crosses = |item: &&Item| !layout.is_inside(item.piece.offset, u64::from(item.piece.len));
    items.iter().filter(crosses).count() * 10 <= items.len()
}

/// Makes the requests for items in their order. Neighbours share one where the gap between them
/// costs less than another request, up to the length that suits the device, within one domain.
fn make_runs(items: &[Item], layout: Option<Layout>, options: &ScanOptions) -> Vec<Run> {
    let longest = u64::from(options.request_bytes);
    let longest_gap = options.cost.longest_gap();
    let mut runs: Vec<Run> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let len = u64::from(item.piece.len);
        let (start, end) = (round_down(item.piece.offset), round_up(item.piece.end()));
        let gap = runs.last().and_then(|run| {
            if len == 0 || run.len == 0 {
                // Items without bytes go with any others.
                return (len == 0).then_some(0);
            }
            let behind = run.offset + u64::from(run.len);
            let near = run.file == item.file && run.offset <= start;
            let gap = start.saturating_sub(behind);
            let total = end.max(behind) - run.offset;
            let whole = layout.is_none_or(|layout| layout.is_inside(run.offset, total));
            let fits = total <= longest && gap <= longest_gap && whole;
            (near && fits).then_some(gap)
        });
        match (gap, runs.last_mut()) {
            (Some(gap), Some(run)) => {
                run.count += 1;
                run.gaps += u32::from(gap > 0);
                if len > 0 {
                    run.len = run.len.max((end - run.offset) as u32);
                }
            }
            _ => {
                let (offset, len) = if len == 0 { (0, 0) } else { (start, (end - start) as u32) };
                runs.push(Run { file: item.file, offset, len, first: number, count: 1, gaps: 0 });
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ReadCost;
    use crate::units::{FileId, MAX_BLOCK_BYTES};

    fn item(file: u32, offset: u64, len: u32) -> Item {
        let piece = Piece { file: FileId(file), offset, len, checksum: 0 };
        Item { piece, file, index: 0, from: 0 }
    }

    fn options(request_bytes: u32, longest_gap: u64) -> ScanOptions {
        let cost = ReadCost { request_ns: longest_gap, kib_ns: 1024 };
        assert_eq!(cost.longest_gap(), longest_gap);
        ScanOptions { request_bytes, cost, ..Default::default() }
    }

    fn plan(items: Vec<Item>, options: &ScanOptions) -> Plan {
        Plan::new(Vec::new(), items, Vec::new(), options)
    }

    fn ranges(plan: &Plan) -> Vec<(u64, u32, u32)> {
        plan.runs.iter().map(|run| (run.offset, run.len, run.gaps)).collect()
    }

    #[test]
    fn neighbours_share_a_request_up_to_the_gap_and_length_that_pay() {
        let items = vec![item(1, 40_000, 10), item(1, 64, 100), item(1, 5000, 10)];
        let apart = plan(items.clone(), &options(65_536, 0));
        assert_eq!(ranges(&apart), [(0, 8192, 0), (36_864, 4096, 0)]);
        let merged = plan(items.clone(), &options(65_536, 30_000));
        assert_eq!(ranges(&merged), [(0, 40_960, 1)]);
        let short = plan(items, &options(16_384, 30_000));
        assert_eq!(ranges(&short), [(0, 8192, 0), (36_864, 4096, 0)]);
        let files = plan(vec![item(1, 64, 100), item(2, 64, 100)], &options(65_536, 30_000));
        assert_eq!(files.runs.len(), 2);
    }

    #[test]
    fn in_the_order_asked_nothing_is_sorted() {
        let items = vec![item(1, 40_000, 10), item(1, 64, 100), item(1, 5000, 10)];
        let asked = ScanOptions { order: Order::AsAsked, ..options(65_536, 30_000) };
        assert_eq!(ranges(&plan(items, &asked)), [(36_864, 4096, 0), (0, 8192, 0)]);
    }

    #[test]
    fn domains_have_chains_of_their_own() {
        let layout = Layout { unit_bytes: 8192, domains: 3 };
        let items: Vec<_> = (0..10).map(|unit| item(0, unit * 8192, 8192)).collect();
        let options = ScanOptions { layout: Some(layout), ..options(65_536, 30_000) };
        let striped = plan(items.clone(), &options);
        assert_eq!((striped.shape.domains, striped.shape.lanes), (Some(3), 3));
        for lane in 0..3 {
            let mut cursor = striped.cursor(lane);
            let found: Vec<_> =
                std::iter::from_fn(|| striped.next_run(&mut cursor)).map(|run| run % 3).collect();
            assert_eq!(found, vec![lane; if lane == 0 { 4 } else { 3 }]);
        }
        // One piece of many that lies in two domains counts for the first.
        let mut crossing = items;
        crossing.push(item(0, 100_000, 8192));
        let few = plan(crossing.clone(), &options);
        assert_eq!((few.shape.domains, few.runs.len()), (Some(3), 11));
        // Many that do were not placed for these domains.
        crossing.push(item(0, 200_000, 8192));
        let many = plan(crossing, &options);
        assert_eq!((many.shape.domains, many.runs.len() < 10), (None, true));
    }

    #[test]
    fn rings_are_within_their_limit_whatever_the_pieces() {
        let long = MAX_BLOCK_BYTES as u32 - 64;
        let items: Vec<_> = (0..40).map(|n| item(0, n * MAX_BLOCK_BYTES + 64, long)).collect();
        for ring_bytes in [4096, 100_000, 1 << 20, u32::MAX] {
            let options = ScanOptions { ring_bytes, workers: 3, ..options(4096, 0) };
            let shape = plan(items.clone(), &options).shape;
            assert_eq!(u64::from(shape.buffer_bytes), MAX_BLOCK_BYTES);
            assert_eq!(shape.buffers, if ring_bytes < 1 << 20 { 1 } else { 2 });
            assert_eq!(shape.lane_depth, 1);
        }
        let nothing = plan(Vec::new(), &options(4096, 0));
        assert_eq!((nothing.shape.lanes, nothing.shape.workers), (1, 1));
    }

    #[test]
    fn random_plans_have_each_item_once_and_whole() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..500 {
            let items: Vec<_> = (0..random.usize(0..40))
                .map(|_| item(random.u32(0..2), random.u64(0..300_000), random.u32(0..50_000)))
                .collect();
            let layout = Layout { unit_bytes: 4096 << random.u32(0..8), domains: random.u32(2..9) };
            let options = ScanOptions {
                order: if random.bool() { Order::Any } else { Order::AsAsked },
                layout: Some(layout).filter(|_| random.bool()),
                ..options(4096 << random.u32(0..7), random.u64(0..50_000))
            };
            let plan = plan(items.clone(), &options);
            let mut next = 0;
            for run in &plan.runs {
                assert_eq!(run.first, next, "round {round}");
                next += run.count;
                for item in &plan.items[run.items()] {
                    let piece = item.piece;
                    let inside = run.offset <= piece.offset
                        && piece.end() <= run.offset + u64::from(run.len)
                        && run.file == item.file;
                    assert!(piece.len == 0 || inside, "round {round}");
                }
            }
            assert_eq!(next, items.len(), "round {round}");
            let mut seen = vec![0; plan.runs.len()];
            for lane in 0..plan.shape.lanes {
                let mut cursor = plan.cursor(lane);
                while let Some(run) = plan.next_run(&mut cursor) {
                    seen[run] += 1;
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "round {round}: {seen:?}");
        }
    }
}
