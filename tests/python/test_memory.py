"""Areas as buffers and arrays, here and in worker processes."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import doctest
import gc
import multiprocessing
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import swingdb
from swingdb import memory

np = pytest.importorskip("numpy")
SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture(scope="module")
def namespace():
    # A process keeps to the namespace of its first call, so all tests here share one.
    with tempfile.TemporaryDirectory(prefix="swingdb-test-", dir=SHM) as path:
        yield Path(path)


@pytest.fixture(autouse=True)
def home(namespace, monkeypatch):
    monkeypatch.setenv("SWINGDB_HOME", str(namespace))


def test_the_examples():
    assert doctest.testmod(memory).failed == 0


def test_each_side_sees_its_own_stores():
    with memory.create(100 << 20) as area:
        ours = area.array((1000, 1000), "float32", offset=4096)
        ours[:] = 1
        area.publish()
        ours += 1
        theirs = memory.hook(area.token).array((1000, 1000), "float32", offset=4096)
        assert theirs.sum() == 1_000_000 and ours.sum() == 2_000_000
        np.multiply(theirs, 5, out=theirs)
        assert theirs.min() == 5 and ours.max() == 2


def test_live_hooks_give_the_moment():
    area = memory.create(1 << 20)
    with pytest.raises(memory.MemoryError) as refused:
        memory.hook(area.token)
    assert refused.value.code == -3 and isinstance(refused.value, swingdb.BusyError)
    for neither in ("yes", 2, None):
        with pytest.raises(TypeError, match="True or False"):
            area.allow_live_hooks(neither)
        with pytest.raises(TypeError, match="True or False"):
            memory.hook(area.token, live=neither)
    area.allow_live_hooks()
    area.buffer[5] = 7
    assert memory.hook(area.token, live=True).buffer[5] == 7
    assert memory.hook(area.token).buffer[5] in (0, 7)
    area.allow_live_hooks(False)
    with pytest.raises(memory.MemoryError):
        memory.hook(area.token, live=True)


def test_a_live_hook_of_what_was_only_published_is_refused_at_once():
    area = memory.create(1 << 20, name="only published")
    assert area.published_ns is None
    area.publish()
    for which in (area.token, "only published"):
        begin = time.monotonic()
        with pytest.raises(memory.MemoryError, match="live=False") as refused:
            memory.hook(which, live=True)
        assert refused.value.code == -3 and time.monotonic() - begin < 2
        assert memory.hook(which).published_ns <= time.time_ns()


def test_a_database_is_hooked_in_its_shared_state_and_not_live(namespace):
    writer = swingdb.connect("numbers")
    writer.execute("CREATE TABLE t AS SELECT 7 AS x")
    writer.share()
    with pytest.raises(memory.MemoryError, match="has not allowed that") as refused:
        memory.hook("numbers", live=True)
    assert refused.value.code == -3
    with memory.hook("numbers") as hooked:
        assert len(hooked) > 0
    writer.close()


STOPPED = """
import sys
from swingdb import memory
area = memory.create(1 << 20, name="stopped")
area.buffer[0] = 1
area.allow_live_hooks()
area.buffer[0] = 2
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def owner_to_stop():
    """A process with an area that can be hooked live; it ends with the block, also when stopped."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        try:
            assert owner.stdout.readline() == b"ready\n"
            yield owner
        finally:
            owner.kill()


def stop(process):
    """Stops a process, and waits until it has stopped."""
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    while stat.read_text().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.001)


def test_what_a_stopped_owner_shared_last_is_no_answer_and_says_what_it_is():
    with owner_to_stop() as owner:
        begin = time.time_ns()
        with memory.hook("stopped", live=True) as now:
            assert now.buffer[0] == 2 and now.is_fresh and now.published_ns >= begin
        with memory.hook("stopped") as shared:
            assert shared.buffer[0] == 2 and not shared.is_fresh
        stop(owner)
        stopped = time.time_ns()
        with pytest.raises(memory.MemoryError, match="stale=True") as late:
            memory.hook("stopped", live=True)
        assert late.value.code == -14
        with memory.hook("stopped", live=True, stale=True) as stale:
            assert stale.buffer[0] == 2 and not stale.is_fresh
            assert begin <= stale.published_ns < stopped
        with pytest.raises(ValueError, match="live"):
            memory.hook("stopped", stale=True)
        owner.send_signal(signal.SIGCONT)
        owner.stdin.close()
        assert owner.wait() == 0


def test_what_is_pinned_is_neither_published_nor_hooked():
    area = memory.create(1 << 20)
    area.allow_live_hooks()
    buffer = area.buffer
    with memory.pinned(buffer) as same:
        assert same is buffer
        buffer[0] = 7
        with pytest.raises(memory.MemoryError, match="pinned") as refused:
            area.publish()
        assert refused.value.code == -11 and isinstance(refused.value, memory.BusyError)
        with pytest.raises(memory.MemoryError, match="pinned") as refused:
            memory.hook(area.token, live=True)
        assert refused.value.code == -14
    with memory.hook(area.token, live=True) as hooked:
        assert hooked.buffer[0] == 7
    with memory.pinned(bytearray(10)), memory.pinned(bytearray()):
        area.publish()


def test_threads_that_pickle_an_area_at_once_agree_on_its_name():
    for _ in range(20):
        area = memory.create(1 << 20)
        area.buffer[0] = 5
        area.publish()
        both = threading.Barrier(2)
        pickles = []

        def pickled(area=area, both=both, pickles=pickles):
            both.wait()
            pickles.append(pickle.dumps(area))

        threads = [threading.Thread(target=pickled) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [pickle.loads(text).buffer[0] for text in pickles] == [5, 5]


@pytest.mark.parametrize("kind", ["complex128", [("a", "i4"), ("b", "f8")], ">i4", "f2"])
def test_arrays_of_all_kinds_are_made_writable(kind):
    area = memory.create(1 << 20)
    array = area.array(16, kind)
    area.publish()
    here, there = socket.socketpair()
    here.sendall(b"x" * array.nbytes)
    assert there.recv_into(memory.writable(array).view("u1")) == array.nbytes
    assert bytes(area.buffer[: array.nbytes]) == b"x" * array.nbytes
    empty = area.array((0, 3), kind)
    assert memory.writable(empty) is empty


def test_at_the_owners_addresses_or_not_at_all():
    area = memory.create(1 << 20)
    area.publish()
    with pytest.raises(memory.MemoryError) as taken:
        memory.hook(area.token, at_origin=True)
    assert taken.value.code == -6
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(area.buffer))
    area.array((1,), "uint64")[0] = address
    area.publish()
    elsewhere = f"""
import ctypes
from swingdb import memory
area = memory.hook({area.token}, at_origin=True)
assert ctypes.addressof(ctypes.c_ubyte.from_buffer(area.buffer)) == {address}
assert ctypes.c_uint64.from_address({address}).value == {address}
"""
    subprocess.run([sys.executable, "-c", elsewhere], check=True)


def test_what_is_stored_to_again_is_copied_ahead():
    area = memory.create(64 << 20)
    numbers = area.array(8 << 20, "int64")
    with pytest.raises(TypeError, match="True or False"):
        area.copy_ahead("yes")
    area.allow_live_hooks()
    area.copy_ahead()
    for moment in range(6):
        numbers += 1
        theirs = memory.hook(area.token, live=True).array(8 << 20, "int64")
        numbers += 1
        assert theirs.min() == theirs.max() == 2 * moment + 1
    area.copy_ahead(False)
    numbers += 1
    assert numbers.min() == numbers.max() == 13


def test_arrays_keep_the_memory():
    area = memory.create(1 << 20)
    array, token = area.array((10,), "int64"), area.token
    array[:] = 3
    area.publish()
    area.release()
    del area
    gc.collect()
    array += 1
    assert array.tolist() == [4] * 10
    with pytest.raises(memory.MemoryError):
        memory.hook(token)
    part = array[2:4]
    del array
    gc.collect()
    assert part.tolist() == [4, 4]


def change(area):
    array = area.array((1 << 20,), "int64")
    before = int(array.sum())
    array[:] = 9
    return before, int(array[-1])


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_get_the_name_and_a_copy_of_their_own(method):
    area = memory.create(8 << 20)
    array = area.array((1 << 20,), "int64")
    array[:] = 1
    area.publish()
    named = memory.create(8 << 20, name=f"for {method}")
    named.array((1 << 20,), "int64")[:] = 1
    named.publish()
    assert len(pickle.dumps(area)) < 200 and named.name.encode() in pickle.dumps(named)
    array[0] = 1000
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(change, [area, named] * 2) == [(1 << 20, 9)] * 4
    assert array[0] == 1000 and array[1:].max() == 1


def reused(token, length, **options):
    """A new area that got the token of one that is gone."""
    for _ in range(5000):
        area = memory.create(length, **options)
        area.publish()
        if area.token == token:
            return area
        del area
    raise AssertionError(f"nobody gets token {token} again")


def test_a_pickle_never_leads_to_another_area():
    area = memory.create(64 << 20)
    area.publish()
    token, pickled = area.token, pickle.dumps(area)
    assert pickle.dumps(area) == pickled and area.name is None
    assert len(pickle.loads(pickled)) == 64 << 20
    area.release()
    gc.collect()
    for length in (4096, 64 << 20):
        other = reused(token, length)
        missing = pickle.loads(pickled)
        assert len(missing) == 64 << 20 and "gone" in repr(missing)
        for use in (lambda: missing.buffer, lambda: missing.token, lambda: pickle.dumps(missing)):
            with pytest.raises(memory.MemoryError, match="no living area.*must keep it") as gone:
                use()
            assert gone.value.code == -2
        missing.release()
        del other
    # A name is what it says: the area that has it now, if that is long enough.
    named = memory.create(64 << 20, name="given again")
    pickled = pickle.dumps(named)
    named.release()
    shorter = memory.create(4096, name="given again")
    shorter.publish()
    with pytest.raises(memory.MemoryError, match="a shorter area now") as gone:
        pickle.loads(pickled).array(5)
    assert gone.value.code == -2 and len(pickle.loads(pickle.dumps(shorter))) == 4096


def make():
    area = memory.create(8000)
    area.array(1000)[:] = 1
    area.publish()
    return area


class Lost:
    """Arrives as an area that its worker has not kept."""

    def __reduce__(self):
        return make().__reduce__()


def make_and_lose(_):
    return Lost()


kept = []


def make_and_keep(_):
    kept.append(make())
    return kept[-1]


def total(area):
    return float(area.array(1000).sum())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_areas_that_workers_return(method):
    unpublished = memory.create(8000)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert [total(area) for area in pool.map(make_and_keep, range(3))] == [1000] * 3
        # What is gone, or cannot be hooked, does not stop the pool.
        for area in pool.map(make_and_lose, range(3)):
            with pytest.raises(memory.MemoryError, match="owner must keep it"):
                total(area)
        with pytest.raises(memory.MemoryError, match="neither published"):
            pool.map(total, [unpublished])
        # What was hooked is an area like any other: it is passed on once it is published.
        passed = pool.map(make_and_keep, range(2))
        for area in passed:
            area.array(1000)[0] = 5
            area.publish()
        assert pool.map(total, passed) == [1004] * 2


def test_a_released_area_is_not_pickled():
    for area in (memory.create(10), memory.create(10, name="to be released")):
        area.release()
        with pytest.raises(ValueError, match="released"):
            pickle.dumps(area)


def test_a_forked_child_pickles_what_is_its_parents():
    area = memory.create(4096)
    area.array(1, "u1")[0] = 9
    area.publish()
    receiving, sending = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(sending, pickle.dumps(area))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        assert pickle.loads(pipe.read()).buffer[0] == 9


def test_a_forked_child_lets_go_of_handles_and_not_of_areas(monkeypatch):
    released = []
    monkeypatch.setattr(memory._library(), "swing_release", released.append)
    area = memory.create(4096)
    token = area.token
    receiving, sending = os.pipe()
    if (pid := os.fork()) == 0:
        # The token may be another area's by now, which the child has made.
        area.release()
        os.write(sending, b"x" * len(released))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        assert pipe.read() == b""
    area.release()
    assert released == [token]
    monkeypatch.undo()
    memory._library().swing_release(token)


def test_a_worker_with_another_environment_finds_the_area(monkeypatch, tmp_path):
    area = memory.create(4096)
    area.array((1,), "int64")[0] = 5
    area.publish()
    # What forkserver's workers have: the environment of whoever came first.
    monkeypatch.setenv("SWINGDB_HOME", str(tmp_path))
    program = (
        "import os, pickle, sys; from swingdb import memory; "
        "area = pickle.loads(sys.stdin.buffer.read()); "
        "print(area.array((1,), 'int64')[0], os.environ['SWINGDB_HOME'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=pickle.dumps(area), capture_output=True, check=True)
    assert done.stdout.decode().split() == ["5", str(tmp_path)]


def test_system_calls_need_a_writable_buffer():
    area = memory.create(8 << 20)
    array = area.array((4096,), "uint8")
    array[:] = 1
    area.publish()
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"x" * 4096)
        with pytest.raises(OSError, match="Bad address"):
            right.recv_into(array)
        assert right.recv_into(memory.writable(array)) == 4096
    assert array.tobytes() == b"x" * 4096


def test_misuse_is_an_error():
    for length in (0, -1):
        with pytest.raises(ValueError):
            memory.create(length)
    area = memory.create(10)
    assert len(area) == len(area.buffer) == 10
    area.release()
    area.release()
    for use in (lambda: area.token, lambda: area.buffer, area.publish):
        with pytest.raises(ValueError, match="released"):
            use()
    with pytest.raises(memory.MemoryError) as gone:
        memory.hook(4095)
    assert gone.value.code == -2
    assert pickle.loads(pickle.dumps(gone.value)).code == -2


@pytest.mark.parametrize("length", [1.5, "10", None, True, [10]])
def test_lengths_are_whole_numbers(length):
    with pytest.raises(TypeError):
        memory.create(length)


def test_tokens_and_lengths_have_bounds():
    for token in (0, -1, 4096, 1 << 70):
        with pytest.raises(ValueError):
            memory.hook(token)
    with pytest.raises(ValueError):
        memory.create((1 << 44) + 1)
    for token in (1.0, None, True, b"bytes"):
        with pytest.raises(TypeError):
            memory.hook(token)
    assert len(memory.create(np.int64(100))) == 100


def test_arrays_that_do_not_fit_are_refused():
    area = memory.create(100)
    assert area.array(100, "uint8").shape == (100,)
    assert area.array((5, 5), "f4").nbytes == 100 and area.array([2, 0], "f8").size == 0
    assert area.array((), "i4", offset=96).shape == ()
    columns = area.array((5, 5), "f4", order="F")
    columns[:, 1] = 1
    assert columns.flags.f_contiguous and area.array(25, "f4")[5:10].tolist() == [1] * 5
    with pytest.raises(ValueError, match="order"):
        area.array((5, 5), "f4", order="rows")
    for shape, dtype, offset in (
        ((101,), "uint8", 0), ((13,), "int64", 0), ((1,), "uint8", 100), ((-1,), "uint8", 0),
        ((10,), "uint8", -1), ((10,), "uint8", 101), ((1 << 40, 1 << 40), "uint8", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            area.array(shape, dtype, offset)
    for shape, dtype in (((1,), object), ((1,), [("a", "i4"), ("b", "O")]), ((1.5,), "i4")):
        with pytest.raises(TypeError):
            area.array(shape, dtype)


def test_a_name_leads_to_the_area_as_long_as_it_lives(run):
    area = memory.create(4096, name="prices of today")
    area.buffer[0] = 5
    area.publish()
    assert area.name == "prices of today" and "prices of today" in repr(area)
    hooked = memory.hook("prices of today")
    assert hooked.buffer[0] == 5 and hooked.name is None
    with pytest.raises(memory.MemoryError, match="another area") as taken:
        memory.create(10, name="prices of today")
    assert taken.value.code == -13
    program = run(
        "from swingdb import memory\n"
        "area = memory.hook('prices of today')\n"
        "named = memory.create(10, name='from elsewhere'); named.publish()\n"
        "print(area.buffer[0]); input()"
    )
    assert program.line() == "5"
    memory.hook("from elsewhere")
    program.kill()
    with pytest.raises(memory.MemoryError):
        memory.hook("from elsewhere")
    memory.create(10, name="from elsewhere")
    area.release()
    with pytest.raises(memory.MemoryError) as gone:
        memory.hook("prices of today")
    assert gone.value.code == -2
    memory.create(10, name="prices of today").release()


def test_listings_have_the_name_that_was_given(namespace):
    with memory.create(1 << 20, name="grid") as area, memory.create(1 << 20) as other:
        listed = {info.name: info.label for info in swingdb.list(home=namespace)}
        assert listed[f"swing-token-{area.token}"] == "grid"
        assert listed[f"swing-token-{other.token}"] is None


def test_names_are_checked():
    for name in ("", "x" * 256, "a\0b", "\u00e9" * 128):
        with pytest.raises(ValueError):
            memory.create(10, name=name)
        with pytest.raises(ValueError):
            memory.hook(name)
    with pytest.raises(TypeError):
        memory.create(10, name=b"bytes")
    assert memory.create(10, name="\u00e9" * 127).name == "\u00e9" * 127


def test_a_copy_is_of_this_moment_and_nobody_elses():
    area = memory.create(8 << 20)
    array = area.array((1 << 20,), "int64")
    array[:] = 1
    copy = area.copy()
    array[0] = 2
    theirs = copy.array((1 << 20,), "int64")
    assert theirs.sum() == 1 << 20 and len(copy) == len(area)
    theirs[-1] = 3
    assert array[-1] == 1 and array[0] == 2
    before = copy.stats()
    assert before.mapped == before.own + before.foreign and before.own <= 64 << 10
    assert area.stats().copied <= 64 << 10
    for token in (area.token, copy.token):
        with pytest.raises(memory.MemoryError) as refused:
            memory.hook(token)
        assert refused.value.code == -3
    area.release()
    assert copy.copy().array((1 << 20,), "int64")[-1] == 3


@pytest.mark.parametrize("extent", [64 << 10, 1 << 20, 32 << 20])
def test_the_unit_of_copying(extent):
    area = memory.create(128 << 20, extent=extent)
    array = area.array(96 << 20, "u1", offset=32 << 20)
    array[:] = 1
    area.publish()
    theirs = memory.hook(area.token)
    array[0] = 2
    assert area.stats().copied == extent
    theirs.array(96 << 20, "u1", offset=32 << 20)[-1] = 3
    assert theirs.stats().copied == extent and array[-1] == 1


def test_extents_are_checked():
    for extent in (0, 4096, 64 << 20, -1, (64 << 10) + 1, 3 << 20):
        with pytest.raises(ValueError, match="extent"):
            memory.create(10, extent=extent)
    with pytest.raises(TypeError):
        memory.create(10, extent=65536.0)


def test_the_limit_of_what_is_kept_for_others():
    area = memory.create(1 << 20)
    area.buffer[:] = b"o" * (1 << 20)
    area.allow_live_hooks()
    area.limit(100_000)
    theirs = memory.hook(area.token, live=True)
    area.buffer[: 1 << 18] = b"n" * (1 << 18)
    assert area.stats().retired == 1 << 18
    with pytest.raises(memory.MemoryError) as refused:
        memory.hook(area.token, live=True)
    assert refused.value.code == -3 and theirs.buffer[0] == ord("o")
    area.limit(None)
    assert memory.hook(area.token, live=True).buffer[0] == ord("n")
    for limit in (0, -1):
        with pytest.raises(ValueError):
            area.limit(limit)


def test_what_killed_processes_left_is_collected(run):
    program = "from swingdb import memory\narea = memory.create(10); print(area.token); input()"
    running = [run(program) for _ in range(3)]
    for one in running:
        one.line()
    memory.collect()
    for one in running:
        one.kill()
    assert memory.collect() == 3
    assert memory.collect() == 0


def test_the_stub_says_what_the_module_has():
    stub = ast.parse(Path(memory.__file__).with_suffix(".pyi").read_text())
    module = ast.parse(Path(memory.__file__).read_text())

    def functions(tree):
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield from ((f"{node.name}.{name}", at) for name, at in functions(node))
            elif isinstance(node, ast.FunctionDef):
                defaults = [ast.unparse(d) for d in node.args.defaults]
                names = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
                yield node.name, (names, defaults)

    of_stub, of_module = dict(functions(stub)), dict(functions(module))
    private = re.compile(r"(^|\.)_[a-z]|_Mapping|__init|__rep")
    public = {name for name in of_module if not private.search(name)}
    assert public == set(of_stub)
    for name, arguments in of_stub.items():
        assert of_module[name] == arguments, name
    assert memory.Stats._fields == ("mapped", "own", "foreign", "retired", "copied")


def test_the_comparison_with_shared_memory():
    script = Path(__file__).parents[2] / "examples/memory/compare.py"
    command = [sys.executable, str(script), "--megabytes", "8", "--workers", "2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    ways = ["multiprocessing.shared_memory", "swingdb.memory"]
    assert [line.split()[0] for line in lines] == ways
    assert all("consistent: True, last value: [1.0]" in line for line in lines)


def test_numpy_is_not_imported():
    code = "import sys, swingdb.memory as m; m.create(10).buffer[0] = 1\n"
    code += "print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "False"


def test_threads_store_by_numpy_while_others_hook():
    area = memory.create(8 << 20)
    rows = area.array((4, 1 << 18), "int64")
    rows[:] = 0
    area.allow_live_hooks()
    failed, done = [], threading.Event()

    def count(row):
        for _ in range(60):
            np.add(row, 1, out=row)

    def look():
        hooks = 0
        while hooks < 3 or not done.is_set():
            theirs = memory.hook(area.token, live=True).array((4, 1 << 18), "int64")
            # One instant: a row that is being counted up has two values, in this order.
            for row in theirs.tolist():
                if max(row) - min(row) > 1 or row != sorted(row, reverse=True):
                    failed.append((min(row), max(row)))
            theirs += 1
            hooks += 1

    looking = threading.Thread(target=look)
    counting = [threading.Thread(target=count, args=(row,)) for row in rows]
    for thread in (looking, *counting):
        thread.start()
    for thread in counting:
        thread.join()
    done.set()
    looking.join()
    assert not failed and (rows == 60).all()


AT_EXIT = """
import atexit, sys
from swingdb import memory
class Late:
    def __del__(self):
        kept[0] = 7
        print("deleted", kept[0], flush=True)
area = memory.create(1 << 20, name="until the end")
area.publish()
kept = area.array((10,), "int64")
atexit.register(lambda: print("exit", kept.sum(), memory.hook(area.token).buffer[0], flush=True))
cycle = Late()
cycle.itself, cycle.area, cycle.view, cycle.kept = cycle, area, area.buffer, kept
sys.modules["kept until the end"] = cycle
"""


@pytest.mark.parametrize("end", ["", "del area", "area.release()", "raise SystemExit(0)"])
def test_arrays_may_be_used_until_the_end_of_the_process(end):
    command = [sys.executable, "-X", "faulthandler", "-c", AT_EXIT + end]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "Segmentation" not in ran.stderr, ran.stderr
    if end in ("", "raise SystemExit(0)"):
        assert ran.stdout.startswith("exit 0 0\n"), ran.stdout
    with pytest.raises(memory.MemoryError):
        memory.hook("until the end")


CRASHING = """
import ctypes, faulthandler, os, resource, sys
from swingdb import memory
when, where = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if when == "before":
    faulthandler.enable()
area = memory.create(8 << 20)
array = area.array((8 << 20,), "uint8")
array[:] = 1
if when == "after":
    faulthandler.enable()
for _ in range(3):
    area.publish()
    array[::4096] += 1
print(array[0], array[1], flush=True)
if where == "child" and (pid := os.fork()) != 0:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    area.publish()
    array[:] = 9
    print(code, array.min())
    sys.exit()
array[5] = 7
ctypes.string_at(0)
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["here", "child"])
def test_faulthandler_reports_crashes_and_not_stores(when, where):
    command = [sys.executable, "-c", CRASHING, when, where]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stderr.count("Fatal Python error: Segmentation fault") == 1, ran.stderr
    assert "in string_at" in ran.stderr
    expected = ("4 1\n", -11) if where == "here" else ("4 1\n-11 9\n", 0)
    assert (ran.stdout, ran.returncode) == expected, ran.stderr


#: Another thread, as libraries for numbers keep them, sleeps until the end; what is stored then is
#: still stored.
WITH_THREADS = """
import ctypes
from swingdb import memory
area = memory.create(64 << 20)
numbers = area.array((8 << 20,), "int64")
numbers[:] = 7
area.publish()
library = ctypes.CDLL(None)
library.pthread_create.restype = ctypes.c_int
started = ctypes.c_ulong()
pause = ctypes.cast(library.pause, ctypes.c_void_p)
assert library.pthread_create(ctypes.byref(started), None, pause, None) == 0
numbers[0] = 8
"""


def test_areas_go_at_the_end_of_a_process_with_other_threads():
    with tempfile.TemporaryDirectory(prefix="swingdb-test-", dir=SHM) as home:
        command, own = [sys.executable, "-c", WITH_THREADS], {**os.environ, "SWINGDB_HOME": home}
        subprocess.run(command, env=own, capture_output=True, check=True)
        files = [path for path in Path(home).rglob("*") if path.is_file()]
        assert sum(path.stat().st_blocks * 512 for path in files) < 1 << 20, files
