"""Object heaps: against a dictionary, larger than their budget, over crashes, from many threads."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import swingdb
from swingdb.heap import MAX_OBJECT_BYTES

#: A few megabytes are taken by buffers, and each class of lengths needs memory of its own.
BUDGET = 16 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


def refused(problem: str):
    return pytest.raises(swingdb.HeapError, check=lambda error: error.problem == problem)


def contents(rng: random.Random, lengths: tuple[int, ...] = (10, 200, 3000)) -> bytes:
    return rng.randbytes(rng.choice(lengths))


@pytest.mark.parametrize("policy", ["fifo", "s3fifo"])
@pytest.mark.parametrize("persistent", [False, True])
def test_objects_against_a_dictionary(
    folder: Path, rng: random.Random, policy, persistent: bool
) -> None:
    model: dict[int, bytes] = {}
    with swingdb.ObjectHeap(folder, budget=BUDGET, persistent=persistent, policy=policy) as heap:
        for _ in range(40_000):
            known = rng.choice(list(model)) if model and rng.random() < 0.02 else None
            if known is None:
                data = contents(rng)
                model[heap.alloc(data)] = data
                continue
            match rng.randrange(5):
                case 0:
                    assert heap.read(known) == model[known]
                case 1:
                    at = rng.randrange(len(model[known]))
                    part = model[known][at:][::-1]
                    heap.write(known, part, at)
                    model[known] = model[known][:at] + part
                case 2:
                    size = rng.choice([1, 10, 200, 3000])
                    heap.resize(known, size)
                    model[known] = model[known][:size].ljust(size, b"\0")
                case 3:
                    heap.free(known)
                    del model[known]
                    with refused("no object"):
                        heap.read(known)
                    with refused("no object"):
                        heap.free(known)
                case 4:
                    with heap.pin(known) as view:
                        assert view == model[known]
                        view[0] = 7
                    model[known] = b"\7" + model[known][1:]
        stats = heap.stats()
        assert stats.objects == len(model)
        assert stats.object_bytes == sum(map(len, model.values())) > 2 * BUDGET
        assert stats.used_bytes <= BUDGET
        assert stats.misses > 0 and 0 < stats.hit_rate < 1
        some = rng.sample(list(model), 500)
        assert heap.get_many(some) == [model[handle] for handle in some]
        assert all(heap.read(handle) == data for handle, data in model.items())


def test_a_mapping_against_a_dictionary(folder: Path, rng: random.Random) -> None:
    model: dict[bytes, bytes] = {}
    keys = [rng.randbytes(rng.randint(1, 60)) for _ in range(4000)] + [b""]
    for _ in range(3):
        with swingdb.ObjectHeap(folder, budget=BUDGET, persistent=True) as heap:
            assert len(heap.map) == len(model)
            for _ in range(8000):
                key = rng.choice(keys)
                match rng.randrange(4):
                    case 0 | 1:
                        heap.map[key] = model[key] = contents(rng, (0, 20, 2000))
                    case 2:
                        assert (key in heap.map) == (key in model)
                        assert heap.map.get(key) == model.get(key)
                    case 3 if key in model:
                        del heap.map[key], model[key]
                    case 3:
                        with pytest.raises(KeyError):
                            del heap.map[key]
            assert dict(heap.map) == model
        # Closed, and opened again.
    with swingdb.ObjectHeap(folder, budget=BUDGET, persistent=True) as heap:
        assert dict(heap.map) == model
        objects = heap.stats().objects
        heap.map.clear()
        assert len(heap.map) == 0 and list(heap.map) == []
        assert heap.stats().objects < objects / 100, "entries and buckets are freed"


def test_keys_that_stay_are_met_once_while_others_change(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        stay = {b"stay %d" % n for n in range(500)}
        for key in stay:
            heap.map[key] = b""
        met = []
        for number, key in enumerate(heap.map):
            met.append(key)
            for n in range(20):
                heap.map[b"new %d %d" % (number % 100, n)] = b"x"
        assert len(met) == len(set(met))
        assert stay <= set(met)


def test_views_keep_their_object(folder: Path) -> None:
    heap = swingdb.ObjectHeap(folder, budget=BUDGET)
    handle = heap.alloc(8 * 100)
    numbers = np.frombuffer(heap.pin(handle), dtype="int64")
    numbers[:] = range(100)
    # Everything else is evicted meanwhile.
    others = [heap.alloc(bytes([n % 256]) * 2000) for n in range(12_000)]
    assert numbers.tolist() == list(range(100))
    assert heap.read(others[5]) == bytes([5]) * 2000
    with refused("in use"):
        heap.close()
    assert np.frombuffer(heap.read(handle), dtype="int64").tolist() == list(range(100))
    del numbers
    heap.close()
    heap.close()
    assert "closed" in repr(heap)
    with refused("closed"):
        heap.alloc(b"x")


CRASH = """
import os, sys, swingdb
heap = swingdb.ObjectHeap(sys.argv[1], budget=16 << 20, persistent=True)
number = len(heap.map)
while True:
    for _ in range(50):
        heap.map[b"key %d" % number] = bytes([number % 256]) * (number % 3 * 500)
        number += 1
    heap.flush()
    print(number, flush=True)
"""


def test_what_was_flushed_is_there_after_a_kill(folder: Path, rng: random.Random) -> None:
    promised = 0
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", CRASH, str(folder)], stdout=subprocess.PIPE, text=True
        ) as program:
            for _ in range(rng.randint(2, 30)):
                promised = int(program.stdout.readline())
            program.send_signal(signal.SIGKILL)
            rest = program.stdout.read().split("\n")
        promised = max([promised, *(int(line) for line in rest[:-1] if line)])
        with swingdb.ObjectHeap(folder, budget=BUDGET, persistent=True) as heap:
            found = len(heap.map)
            # A flush may have ended whose number was not printed.
            assert promised <= found <= promised + 50 and found % 50 == 0
            for number in rng.sample(range(found), min(found, 200)):
                assert heap.map[b"key %d" % number] == bytes([number % 256]) * (number % 3 * 500)


FIXTURE = Path(__file__).parent / "fixtures/heap-version-1.tar.xz"


def kept(number: int) -> bytes:
    """What object `number` of the fixture holds; some are there twice, some were freed."""
    return b"%d " % number * (1 + number * number % 97)


def make_fixture() -> None:
    """Makes the fixture. None is made again: heaps of old versions open."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        with swingdb.ObjectHeap(Path(place) / "heap", budget=8 << 20, persistent=True) as heap:
            heap.map[b"handles"] = b""
            handles = [heap.alloc(kept(number)) for number in range(3000)]
            long = heap.alloc(bytes(range(256)) * 256)
            heap.flush()
            for number in range(0, 3000, 3):
                heap.free(handles[number])
            for number in range(1, 3000, 3):
                heap.write(handles[number], b"*")
            for number in range(500):
                heap.map[b"key %d" % number] = b"value %d" % number
            heap.map[b"handles"] = np.array([*handles, long], "<u8").tobytes()
        with tarfile.open(FIXTURE, "w:xz") as archive:
            unneeded = ("lock", "spare")
            archive.add(Path(place) / "heap", "heap",
                        filter=lambda e: None if e.name.endswith(unneeded) else e)


def test_a_heap_of_the_first_version_opens(folder: Path) -> None:
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(folder, filter="data")
    for _ in range(2):
        with swingdb.ObjectHeap(folder / "heap", budget=8 << 20, persistent=True) as heap:
            assert len(heap.map) == 501
            assert all(heap.map[b"key %d" % n] == b"value %d" % n for n in range(500))
            *handles, long = np.frombuffer(heap.map[b"handles"], "<u8").tolist()
            assert heap.read(long) == bytes(range(256)) * 256
            for number, handle in enumerate(handles):
                if number % 3 == 0:
                    with refused("no object"):
                        heap.read(handle)
                else:
                    expected = kept(number) if number % 3 == 2 else b"*" + kept(number)[1:]
                    assert heap.read(handle) == expected
            # It goes on: what is written now is of the newest version.
            heap.map[b"key 0"] = b"value 0"
            heap.free(heap.alloc(b"new"))


def test_many_threads(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        failures: list[BaseException] = []

        def work(own: int) -> None:
            try:
                rng = random.Random(own)
                mine: dict[int, bytes] = {}
                for turn in range(3000):
                    data = bytes([own]) * rng.choice([1, 100, 3000])
                    mine[heap.alloc(data)] = data
                    heap.map[b"%d %d" % (own, turn % 100)] = data
                    known = rng.choice(list(mine))
                    assert heap.read(known) == mine[known]
                    if turn % 3 == 0:
                        heap.free(known)
                        del mine[known]
                for turn in range(100):
                    assert set(heap.map[b"%d %d" % (own, turn)]) == {own}
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(heap.map) == 400


def test_a_budget_can_change(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=32 << 20) as heap:
        handles = [heap.alloc(bytes([n % 256]) * 1000) for n in range(20_000)]
        assert heap.stats().used_bytes > 16 << 20
        heap.set_budget(BUDGET)
        assert heap.stats().used_bytes <= BUDGET
        assert all(heap.read(h)[0] == n % 256 for n, h in enumerate(handles))


def test_each_policy_is_the_one_that_was_asked_for(folder: Path) -> None:
    """In a loop over more than fits two lists evict what comes next, S3-FIFO keeps a part."""
    hits = {}
    for policy in ("fifo", "s3fifo", None):
        chosen = {} if policy is None else {"policy": policy}
        with swingdb.ObjectHeap(folder, budget=6 << 20, **chosen) as heap:
            handles = [heap.alloc(1000) for _ in range(5000)]
            for _ in range(3):
                for handle in handles:
                    heap.read(handle, size=1)
            hits[policy] = heap.stats().hits
    assert hits["fifo"] < hits["s3fifo"] / 2
    assert abs(hits[None] - hits["s3fifo"]) < hits["s3fifo"] / 4


def test_integers_of_numpy_are_lengths_and_generators_are_handles(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        assert heap.read(heap.alloc(np.int64(16))) == bytes(16)
        assert heap.read(heap.alloc(np.uint8(3))) == bytes(3)
        assert heap.read(heap.alloc(np.array([5], "u1"))) == b"\5"
        handles = [heap.alloc(str(number).encode()) for number in range(100)]
        assert heap.get_many(handle for handle in handles) == [
            str(number).encode() for number in range(100)
        ]
        assert heap.get_many(iter(())) == []
        heap.map[b"k"] = b"v"
        assert repr(heap.map).startswith("<HeapMap of 1 entries in <ObjectHeap ")


def test_zeros_do_not_end_names_and_paths(folder: Path) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        swingdb.ObjectHeap(f"{folder}/a\0b", budget=BUDGET)
    with pytest.raises(ValueError, match="zero byte"):
        swingdb.ObjectHeap(folder, budget=BUDGET, name="a\0b")
    with pytest.raises(ValueError, match="zero byte"):
        swingdb.HeapSnapshot("a\0b")
    assert not list(folder.iterdir())


def test_mistakes_are_told(folder: Path) -> None:
    with pytest.raises(ValueError, match="policy"):
        swingdb.ObjectHeap(folder, policy="lru")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_wait"):
        swingdb.ObjectHeap(folder, max_wait=0)
    with refused("argument"):
        swingdb.ObjectHeap(folder, budget=1000)
    with swingdb.ObjectHeap(folder / "made", budget=BUDGET, persistent=True) as heap:
        with refused("in use"):
            swingdb.ObjectHeap(folder / "made", budget=BUDGET, persistent=True)
        for size in (0, MAX_OBJECT_BYTES + 1):
            with refused("argument"):
                heap.alloc(size)
        with pytest.raises(swingdb.HeapError, match="1 to 4096 bytes, not 4097; use its handle"):
            heap.pointer(heap.alloc(4097))
        handle = heap.alloc(b"abc")
        with refused("no object"):
            heap.read(handle + (1 << 40))
        with refused("argument"):
            heap.write(handle, b"abcd")
        with pytest.raises(ValueError, match="no bytes from 4 on"):
            heap.read(handle, 4)
        with pytest.raises(TypeError, match="encode"):
            heap.alloc("text")
        with pytest.raises(TypeError, match="bytes, not str"):
            heap.map["text"] = b""  # type: ignore[index]
        with pytest.raises(KeyError):
            heap.map[b"nowhere"]
        assert "text" not in heap.map
        assert heap.root is None
        heap.root = handle
    with swingdb.ObjectHeap(folder / "made", budget=BUDGET, persistent=True) as heap:
        assert heap.root == handle and heap.read(handle) == b"abc"
        with pytest.raises(ValueError, match="another kind"):
            heap.map  # noqa: B018


def test_a_forked_child_has_no_use_of_it(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        handle = heap.alloc(b"parent's")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                heap.read(handle)
            except swingdb.HeapError as error:
                code = 0 if error.problem == "forked" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert heap.read(handle) == b"parent's"


def test_opening_tells_how_far_it_is(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET, persistent=True) as heap:
        for _ in range(20_000):
            heap.alloc(b"x")
    told: list[tuple[int, int]] = []
    options = {"budget": BUDGET, "persistent": True}
    with swingdb.ObjectHeap(folder, progress=lambda *n: told.append(n), **options) as heap:
        assert heap.stats().objects == 20_000
    assert told and told[-1][0] == told[-1][1]

    def stop(done: int, everything: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swingdb.ObjectHeap(folder, progress=stop, **options)
    swingdb.ObjectHeap(folder, **options).close()


def test_arrays_at_plain_addresses(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=12 << 20, max_wait=30) as heap:
        heap.enable_pointers(1 << 20)
        handles = [heap.alloc(np.full(250, i, np.int32)) for i in range(20_000)]
        arrays = [np.frombuffer(heap.pointer(handle), np.int32) for handle in handles]

        def change(first: int) -> None:
            for i in range(first, len(arrays), 4):
                assert arrays[i][0] == i and arrays[i].sum() == 250 * i
                arrays[i][1:] += 1

        threads = [threading.Thread(target=change, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Handles and addresses see the same bytes.
        for i in range(0, len(handles), 37):
            expected = np.full(250, i + 1, np.int32)
            expected[0] = i
            assert heap.read(handles[i]) == expected.tobytes()
        heap.write(handles[5], b"\xff" * 4)
        assert arrays[5][0] == -1 and arrays[5][1] == 6
        assert heap.stats().misses > 10_000
        fifth = handles[5]
        for call in (lambda: heap.free(fifth), lambda: heap.resize(fifth, 10), heap.close):
            with refused("in use"):
                call()
        arrays[5] = arrays[6]
        heap.free(handles[5])
        with refused("argument"):
            heap.pointer(heap.alloc(5000))
        with refused("no object"):
            heap.pointer(handles[5])
        del arrays, change


def test_new_bytes_for_whole_objects_read_nothing(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        handles = [heap.alloc(bytes([i % 251]) * 1000) for i in range(30_000)]
        before = heap.stats()
        assert before.evicted_objects > 10_000
        for i, handle in enumerate(handles):
            if i % 2:
                heap.write(handle, bytes([i % 241]) * 1000)
            else:
                heap.replace(handle, bytes([i % 241]) * (1 + i % 2000))
        after = heap.stats()
        assert (after.read_bytes, after.misses) == (before.read_bytes, before.misses)
        for i, handle in enumerate(handles[:5000]):
            assert heap.read(handle) == bytes([i % 241]) * (1000 if i % 2 else 1 + i % 2000)
        with pytest.raises(swingdb.HeapError):
            heap.replace(handles[0], b"")
        view = heap.pointer(handles[1])
        with refused("in use"):
            heap.replace(handles[1], b"other")
        del view
        heap.free(handles[0])
        with refused("no object"):
            heap.replace(handles[0], b"x")


def test_system_calls_with_pinned_pointers(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET, max_wait=0.2) as heap:
        heap.enable_pointers(1 << 20)
        handles = [heap.alloc(4000) for _ in range(3000)]
        with open("/dev/zero", "rb", buffering=0) as zero, Path(sys.executable).open("rb") as file:
            plain = heap.pointer(handles[0])
            with pytest.raises(OSError, match="Bad address"):
                zero.readinto(plain)
            view = heap.pointer(handles[1], pinned=True)
            for handle in handles[2:]:
                heap.pointer(handle)[0] = 7
            assert os.readv(file.fileno(), [view]) == 4000
            assert bytes(view) == Path(sys.executable).read_bytes()[:4000]
            with refused("in use"):
                heap.read(handles[1])
            expected = bytes(view)
            del view
            assert heap.read(handles[1]) == expected
            del plain


def test_numbers_that_are_no_handles_lengths_or_places(folder: Path) -> None:
    with swingdb.ObjectHeap(folder, budget=BUDGET) as heap:
        handle = heap.alloc(b"bytes")
        for wrong in (handle + (1 << 64), handle - (1 << 64), -1, 1 << 200):
            for call in (heap.free, heap.read, heap.size, heap.pin, heap.pointer):
                with pytest.raises(ValueError, match="64 bits"):
                    call(wrong)
            with pytest.raises(ValueError, match="64 bits"):
                heap.write(handle, b"x", offset=wrong)
            with pytest.raises(ValueError, match="64 bits"):
                heap.replace(wrong, b"x")
            with pytest.raises(ValueError, match="64 bits"):
                heap.root = wrong
        for wrong in (-5, 1 << 64 | 10):
            with pytest.raises(ValueError, match="64 bits"):
                heap.alloc(wrong)
            with pytest.raises(ValueError, match="64 bits"):
                heap.resize(handle, wrong)
            with pytest.raises(ValueError, match="64 bits"):
                heap.set_budget(wrong)
        for call in (heap.free, heap.read, heap.pin):
            with pytest.raises(TypeError):
                call("7")
        with refused("no object"):
            heap.read(handle + 1)
        assert heap.read(handle) == b"bytes"
