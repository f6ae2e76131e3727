//! The heap's thread: writes full buffers, and collects garbage.
//!
//! **Cycle.** A heap starts the thread, which works on what the heap shares with it.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use swing_tier::BufferClass;
use swing_tier::storage::{Direction, IoResult, Queue, QueueOptions, Request};

use crate::disk::{BLOCK_BYTES, BufferState};
use crate::shared::Shared;

/// Bytes of the keeper's queue and its copies.
pub(crate) const KEEPER_BYTES: u64 = 3 * BLOCK_BYTES as u64;
const RETRY: Duration = Duration::from_millis(100);
/// How often snapshots are looked for that have gone.
const LOOK: Duration = Duration::from_millis(200);
/// The most blocks that are left alone because they could not be emptied.
const MAX_SKIPPED: usize = 1024;

/// Runs until the heap is closed.
pub(crate) fn run(shared: &Arc<Shared>, ready: &SyncSender<IoResult<()>>) {
    let class = BufferClass { len: BLOCK_BYTES as u32, count: 2 };
    let options = QueueOptions { depth: 2, buffers: vec![class] };
    let mut queue = match shared.storage.queue(&options) {
        Ok(queue) => queue,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let mut looked = Instant::now();
    loop {
        let mut core = shared.lock();
        if core.closed || shared.check_whole().is_err() {
            return;
        }
        if let Some(index) = core.disk.next_full() {
            drop(core);
            write(shared, &mut *queue, index);
            continue;
        }
        if core.disk.kept_for_states() > 0 && looked.elapsed() > LOOK {
            looked = Instant::now();
            if shared.look_at_states(&mut core) {
                shared.changed.notify_all();
            }
        }
        let idle = core.disk.buffers.iter().filter(|b| b.state == BufferState::Idle).count();
        if core.compacting && core.disk.free_room() < 2 {
            core.compacting = false;
            shared.changed.notify_all();
        }
        let compacts = core.compacting;
        let wanted = (compacts || core.disk.wants_collection(shared.dead_fraction)) && idle >= 2;
        let kept = compacts || core.disk.may_empty_kept();
        let skip = core.skip.clone();
        if let Some(block) = wanted.then(|| core.disk.emptiest(&skip, kept)).flatten() {
            drop(core);
            collect(shared, &mut *queue, block);
            continue;
        }
        if compacts && idle >= 2 {
            core.compacting = false;
            shared.changed.notify_all();
        }
        core = shared.wait_for_work(core, Duration::from_secs(1));
        if wanted {
            // What was in use then may not be any more.
            core.skip.clear();
        }
        drop(core);
    }
}

/// Moves one block between the file and the queue's buffer.
fn transfer(
    shared: &Shared,
    queue: &mut dyn Queue,
    direction: Direction,
    (block, len): (u32, usize),
    bytes: &mut dyn FnMut(&mut [u8]),
) -> IoResult<()> {
    let Some(mut buffer) = queue.take_buffer(BLOCK_BYTES) else {
        unreachable!("the keeper has one request at a time")
    };
    if direction == Direction::Write {
        bytes(&mut buffer[..len]);
    }
    let offset = u64::from(block) * BLOCK_BYTES as u64;
    let file = shared.file.clone();
    let request = Request { file, direction, offset, len: len as u32, buffer, tag: 0 };
    queue.submit(request);
    let Some(mut completion) = queue.wait() else { unreachable!("a request is in flight") };
    completion.result?;
    if direction == Direction::Read {
        bytes(&mut completion.buffer[..len]);
    }
    Ok(())
}

fn write(shared: &Shared, queue: &mut dyn Queue, index: usize) {
    let (block, len) = {
        let mut core = shared.lock();
        core.disk.buffers[index].state = BufferState::Writing;
        (core.disk.buffers[index].block, core.disk.bytes_to_write(index))
    };
    let mut copy =
        |to: &mut [u8]| to.copy_from_slice(&shared.lock().disk.buffers[index].bytes[..len]);
    let result = transfer(shared, queue, Direction::Write, (block, len), &mut copy);
    let mut core = shared.lock();
    match result {
        Ok(()) => {
            core.disk.written(index);
            core.totals.written_bytes += len as u64;
            shared.changed.notify_all();
        }
        Err(error) => {
            // The bytes stay in memory, where they can be read; the write is tried again.
            core.disk.buffers[index].state = BufferState::Full;
            core.disk.failed = Some(error);
            shared.changed.notify_all();
            if !core.closed {
                drop(shared.wait_for_work(core, RETRY));
            }
        }
    }
}

fn collect(shared: &Shared, queue: &mut dyn Queue, block: u32) {
    let mut finished = true;
    let mut move_on = |bytes: &mut [u8]| {
        let mut core = shared.lock();
        finished = core.collect(&shared.table, block, bytes);
    };
    let result = transfer(shared, queue, Direction::Read, (block, BLOCK_BYTES), &mut move_on);
    let mut core = shared.lock();
    if (finished || result.is_err()) && core.disk.is_needed(block) {
        // Something in it is in use or damaged: not soon again.
        core.skip.push(block);
        if core.skip.len() > MAX_SKIPPED {
            core.skip.remove(0);
        }
    }
    shared.changed.notify_all();
}
