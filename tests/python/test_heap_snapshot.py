"""Heaps with names: other processes read states of them, whatever the owner does meanwhile."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import swingdb

BUDGET = 16 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


@pytest.fixture
def name() -> str:
    return f"heap-{os.getpid()}-{random.randrange(1 << 30)}"


def refused(problem: str):
    return pytest.raises(swingdb.HeapError, check=lambda error: error.problem == problem)


def objects_of(snapshot: swingdb.HeapSnapshot) -> dict[int, bytes]:
    return {handle: snapshot.read(handle) for handle in snapshot}


def test_snapshots_against_dictionaries(folder: Path, name: str, rng: random.Random) -> None:
    model: dict[int, bytes] = {}
    kept: list[tuple[swingdb.HeapSnapshot, dict[int, bytes]]] = []
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name, policy="s3fifo") as heap:
        assert [info.label for info in swingdb.list() if info.name == name] == ["object heap"]
        for step in range(30_000):
            known = rng.choice(list(model)) if model and rng.random() < 0.03 else None
            if known is None:
                data = rng.randbytes(rng.choice((30, 500, 4000)))
                model[heap.alloc(data)] = data
            elif rng.random() < 0.5:
                model[known] = rng.randbytes(len(model[known]))
                heap.write(known, model[known])
            else:
                heap.free(known)
                del model[known]
            if step % 7_000 == 6_999:
                epoch = heap.share()
                snapshot = swingdb.HeapSnapshot(name)
                assert snapshot.epoch == epoch
                kept.append((snapshot, dict(model)))
        stats = heap.stats()
        assert stats.evicted_objects > 1000 and stats.objects == len(model)
        for snapshot, then in kept:
            assert objects_of(snapshot) == then
    # Also when the heap has been closed.
    in_place = copied = 0
    for snapshot, then in kept:
        assert objects_of(snapshot) == then
        for handle, data in then.items():
            view = snapshot.view(handle)
            assert view.readonly and view == data and snapshot.size(handle) == len(data)
            in_place += not isinstance(view.obj, bytes)
            copied += isinstance(view.obj, bytes)
        del view
        snapshot.close()
    assert in_place > 1000 and copied > 1000


READER = """
import sys, swingdb
snapshot = swingdb.HeapSnapshot(sys.argv[1])
def look():
    found = dict(snapshot.map.items())
    assert len(found) == len(snapshot.map) == 20_000, len(found)
    assert all(found[b"key %d" % i] == b"value %d" % i * 50 for i in range(20_000))
    assert b"later" not in snapshot.map and snapshot.map.get(b"nothing") is None
look()
print("ready", flush=True)
sys.stdin.readline()
look()
print("same", flush=True)
"""

OWNER = """
import sys, swingdb
heap = swingdb.ObjectHeap(sys.argv[1], budget=16 << 20, name=sys.argv[2])
for i in range(20_000):
    heap.map[b"key %d" % i] = b"value %d" % i * 50
heap.share()
print("ready", flush=True)
sys.stdin.readline()
for i in range(20_000):
    heap.map[b"key %d" % i] = b"changed"
heap.map[b"later"] = b""
print("changed", flush=True)
sys.stdin.readline()
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def say(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_a_reader_keeps_its_view_of_a_changing_and_killed_owner(folder: Path, name: str) -> None:
    with started(OWNER, str(folder), name) as owner, started(READER, name) as reader:
        assert say(owner) == "changed\n"
        mine = swingdb.HeapSnapshot(name)
        owner.send_signal(signal.SIGKILL)
        assert owner.wait() == -signal.SIGKILL
        assert say(reader) == "same\n"
        assert reader.wait() == 0
    assert mine.map[b"key 7"] == b"value 7" * 50
    with refused("not found"):
        swingdb.HeapSnapshot(name)
    # The name is free for the next owner; the old state stays.
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name) as heap:
        heap.map[b"key 7"] = b"new"
        heap.share()
        with swingdb.HeapSnapshot(name) as snapshot:
            assert snapshot.map[b"key 7"] == b"new" and len(snapshot.map) == 1
        assert mine.map[b"key 7"] == b"value 7" * 50
    mine.close()


def test_a_snapshot_is_read_only_and_has_no_changes(folder: Path, name: str) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name) as heap:
        heap.map[b"a"] = b"1"
        heap.share()
        with swingdb.HeapSnapshot(name) as snapshot:
            heap.map[b"a"] = b"2"
            heap.map[b"b"] = b"3"
            assert dict(snapshot.map) == {b"a": b"1"} and b"b" not in snapshot.map
            with pytest.raises(TypeError):
                snapshot.map[b"a"] = b"4"  # type: ignore[index]
            with pytest.raises(TypeError):
                snapshot.view(next(iter(snapshot)))[0] = 1
        heap.share()
        with swingdb.HeapSnapshot(name) as snapshot:
            assert dict(snapshot.map) == {b"a": b"2", b"b": b"3"}


def test_views_keep_the_snapshot(folder: Path, name: str) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name) as heap:
        handle = heap.alloc(np.arange(500))
        heap.share()
        snapshot = swingdb.HeapSnapshot(name)
        array = np.frombuffer(snapshot.view(handle), np.int64)
        assert not array.flags.writeable
        with refused("in use"):
            snapshot.close()
        heap.free(handle)
        # Neither the collector nor the heap's end take it away.
        del snapshot
        gc.collect()
    assert array.sum() == 499 * 250
    del array
    gc.collect()


def test_mistakes_are_errors(folder: Path, name: str) -> None:
    with refused("not found"):
        swingdb.HeapSnapshot(name)
    with refused("argument"):
        swingdb.HeapSnapshot("")
    with pytest.raises(ValueError, match="not persistent"):
        swingdb.ObjectHeap(folder, name=name, persistent=True)
    with swingdb.ObjectHeap(folder, budget=BUDGET) as nameless, refused("argument"):
        nameless.share()
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name, max_wait=0.2) as heap:
        with refused("name taken"):
            swingdb.ObjectHeap(folder, budget=BUDGET, name=name)
        with refused("not shared"):
            swingdb.HeapSnapshot(name)
        handle = heap.alloc(b"abc")
        heap.root = handle
        heap.share()
        snapshot = swingdb.HeapSnapshot(name)
        assert snapshot.root == handle and list(snapshot) == [handle]
        with refused("no object"):
            snapshot.read(handle + 1)
        with pytest.raises(ValueError, match="no bytes"):
            snapshot.read(handle, 4)
        with pytest.raises(ValueError, match="another kind"):
            snapshot.map  # noqa: B018
        assert snapshot.read(handle, 1, 1) == b"b" and snapshot.read(handle, 3) == b""
    child = os.fork()
    if child == 0:
        os._exit(0 if snapshot.read(handle) == b"abc" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    snapshot.close()
    snapshot.close()
    with refused("closed"):
        snapshot.read(handle)
    # A database is no heap.
    with swingdb.connect(name) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.share()
        with refused("damaged"):
            swingdb.HeapSnapshot(name)
        with refused("name taken"):
            swingdb.ObjectHeap(folder, budget=BUDGET, name=name)


def test_counters_say_what_was_done(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=8 << 20, persistent=True) as heap:
        stats = heap.stats()
        assert (stats.hit_rate, stats.write_amplification) == (1.0, 1.0)
        handles = [heap.alloc(b"x" * 1000) for _ in range(20_000)]
        heap.flush()
        for handle in handles:
            assert heap.read(handle) == heap.read(handle) == b"x" * 1000
        stats = heap.stats()
        assert stats.flushed_bytes > 0 and stats.evicted_objects > stats.dropped_objects > 0
        assert 1.0 <= stats.write_amplification < 1.5 and 0 < stats.hit_rate < 1
        assert 0 < stats.fragmentation < 0.3 and stats.damaged == 0
        assert 0 < stats.miss_p50_ns <= stats.miss_p99_ns <= stats.miss_p999_ns


def test_snapshots_show_what_was_stored_through_pointers(folder: Path, name: str) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET, name=name) as heap:
        handles = [heap.alloc(4000) for _ in range(6000)]
        snapshots = []
        for round in range(1, 4):
            for number, handle in enumerate(handles):
                array = np.frombuffer(heap.pointer(handle), np.int32)
                assert (array == (round - 1) * number).all()
                array += number
            heap.share()
            snapshots.append((round, swingdb.HeapSnapshot(name)))
            assert bytes(heap.pointer(handles[7])[:4]) == (round * 7).to_bytes(4, "little")
        for round, snapshot in snapshots:
            with snapshot:
                for number in range(0, len(handles), 17):
                    found = np.frombuffer(snapshot.read(handles[number]), np.int32)
                    assert (found == round * number).all()
        del array
