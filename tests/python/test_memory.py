"""Areas as buffers and arrays, here and in worker processes."""

from __future__ import annotations

import doctest
import gc
import multiprocessing
import pickle
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

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
    assert refused.value.code == -3
    area.allow_live_hooks()
    area.buffer[5] = 7
    assert memory.hook(area.token, live=True).buffer[5] == 7
    assert memory.hook(area.token).buffer[5] in (0, 7)
    area.allow_live_hooks(False)
    with pytest.raises(memory.MemoryError):
        memory.hook(area.token, live=True)


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
    assert len(pickle.dumps(area)) < 200
    array[0] = 1000
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(change, [area] * 4) == [(1 << 20, 9)] * 4
    assert array[0] == 1000 and array[1:].max() == 1


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
    with pytest.raises(TypeError):
        area.array((11,), "uint8")
    area.release()
    area.release()
    for use in (lambda: area.token, lambda: area.buffer, area.publish):
        with pytest.raises(ValueError, match="released"):
            use()
    with pytest.raises(memory.MemoryError):
        memory.hook(5000)


def test_numpy_is_not_imported():
    code = "import sys, swingdb.memory as m; m.create(10).buffer[0] = 1\n"
    code += "print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "False"


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
