"""Columns and areas as tensors: DLPack both ways, and registering memory with CUDA.

CUDA itself is not needed: a library of its name that keeps to its rules is compiled for the tests.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import swingdb
from swingdb import _cuda

np = pytest.importorskip("numpy")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def numbers(con):
    con.execute(
        "CREATE TABLE t AS SELECT range AS i, range * 0.5::DOUBLE AS d, "
        "(range % 7)::SMALLINT AS s, range % 2 = 0 AS b, 'x' AS text, nullif(range, 5) AS holes, "
        "TIMESTAMP '2024-01-01' AS at FROM range(1000)"
    )
    return con


def address(array) -> int:
    return array.__array_interface__["data"][0]


def test_a_column_is_shown_by_dlpack(numbers):
    rel = numbers.table("t")
    column = rel.column("d")
    shown = np.from_dlpack(column)
    assert (shown == np.arange(1000) * 0.5).all()
    assert not shown.flags.writeable
    assert address(shown) == address(np.from_dlpack(rel.column("D"))), "nothing is copied"
    assert address(shown) == address(column.numpy()) == address(np.asarray(column))
    assert (len(column), column.name, column.type) == (1000, "d", "DOUBLE")
    assert column.__dlpack_device__() == (1, 0)
    numbers.execute("DROP TABLE t")
    numbers.execute("CREATE TABLE t AS SELECT -1 AS a FROM range(100000)")
    del rel, column
    numbers.close()
    gc.collect()
    assert shown[-1] == 499.5, "the memory stays as long as it is shown"
    with pytest.raises(BufferError):
        # A consumer that knows no read-only memory would store to it.
        swingdb.connect().sql("SELECT 1 AS a").column("a").__dlpack__()


def test_what_is_no_tensor_is_refused(numbers):
    rel = numbers.table("t")
    with pytest.raises(swingdb.DataError, match=r"'holes' has NULLs.*coalesce\(holes"):
        rel.column("holes").numpy()
    with pytest.raises(swingdb.DataError, match="'text' is VARCHAR"):
        np.from_dlpack(rel.column("text"))
    with pytest.raises(swingdb.DataError, match=r"use epoch_us\(at\)"):
        rel.column("at").numpy()
    with pytest.raises(swingdb.ProgrammingError, match="no column 'nowhere'; there are 'i'"):
        rel.column("nowhere")
    with pytest.raises(swingdb.DataError, match="'holes' has NULLs"):
        list(numbers.sql("SELECT i, holes FROM t").pieces())
    fixed = numbers.sql("SELECT coalesce(holes, 0) AS h, epoch_us(at) AS at FROM t ORDER BY i")
    assert fixed.column("h").numpy()[5] == 0 and fixed.column("at").numpy().dtype == "int64"


def test_pieces_are_not_copied(con):
    con.execute("CREATE TABLE t (a BIGINT)")
    con.append("t", {"a": np.arange(300_000)})
    arrow = con.table("t").arrow()
    starts = {chunk.buffers()[1].address + chunk.offset * 8 for chunk in arrow["a"].chunks}
    pieces = list(con.table("t").pieces())
    assert len(pieces) > 1
    assert {address(piece["a"]) for piece in pieces} == starts
    assert (np.concatenate([piece["a"] for piece in pieces]) == np.arange(300_000)).all()


def test_tensors_become_tables(con):
    con.execute("CREATE TABLE t (a BIGINT, b REAL)")

    class Tensor:
        """What knows nothing but DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **wanted):
            return self.array.__dlpack__(**wanted)

        def __dlpack_device__(self):
            return self.device if hasattr(self, "device") else (1, 0)

    a, b = Tensor(np.arange(3)), Tensor(np.array([0.5, 1.5, 2.5], "float32"))
    assert con.append("t", {"a": a, "b": b}) == 3
    assert con.table("t").fetchall() == [(0, 0.5), (1, 1.5), (2, 2.5)]
    matrix = Tensor(np.arange(6.0).reshape(3, 2))
    assert con.from_arrow(matrix).fetchall() == [(0, 1), (2, 3), (4, 5)]
    assert con.from_arrow({"c": con.table("t").column("b")}).fetchall() == [(0.5,), (1.5,), (2.5,)]
    a.device = (2, 0)
    with pytest.raises(swingdb.DataError, match="move it to the CPU"):
        con.append("t", {"a": a, "b": b})


AREAS = """
import numpy as np
from swingdb import memory

area = memory.create(1 << 16)
bytes_ = np.from_dlpack(area)
bytes_[:8] = 255
assert area.array(1, "int64")[0] == -1, "the same memory"
area.publish()
hooked = memory.hook(area.token)
taken = np.from_dlpack(hooked)
area.array(1, "int64")[0] = 7
assert taken.view("int64")[0] == -1
hooked.release()
assert taken.view("int64")[0] == -1, "the memory stays as long as it is shown"
source = np.asfortranarray(np.arange(12.0).reshape(3, 4))
made = memory.from_dlpack(source, name="tensor")
assert (made.array((3, 4)) == source).all()
made.publish()
assert (memory.hook("tensor").array((3, 4)) == source).all()
print("fine")
"""


def python(source: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_areas_by_dlpack():
    assert python(AREAS) == "fine\n"


RUNTIME = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
static struct { uintptr_t start, end; } held[64];
static int last;
int cudaHostRegister(void *at, size_t bytes, unsigned flags) {
    uintptr_t start = (uintptr_t)at, end = start + bytes;
    if (start % 4096 || bytes % 4096 || flags != 9) return last = 1;
    for (int i = 0; i < 64; i++)
        if (held[i].end && held[i].start < end && start < held[i].end) return last = 712;
    for (int i = 0; i < 64; i++)
        if (!held[i].end) {
            /* Every page must be there to be read. */
            volatile char sum = 0;
            for (uintptr_t page = start; page < end; page += 4096) sum += *(volatile char *)page;
            held[i].start = start, held[i].end = end;
            printf("register\\n"), fflush(stdout);
            return 0;
        }
    return last = 2;
}
int cudaHostUnregister(void *at) {
    for (int i = 0; i < 64; i++)
        if (held[i].end && held[i].start == (uintptr_t)at) {
            volatile char sum = 0;
            for (uintptr_t page = held[i].start; page < held[i].end; page += 4096)
                sum += *(volatile char *)page;
            held[i].end = 0;
            printf("unregister\\n"), fflush(stdout);
            return 0;
        }
    return last = 713;
}
const char *cudaGetErrorString(int error) { return error == 712 ? "already" : "wrong"; }
int cudaGetLastError(void) { int error = last; last = 0; return error; }
"""

PINNED = """
import gc, os, sys, threading
import numpy as np, swingdb
from swingdb import _cuda, _tensors, memory

con = swingdb.connect("pinned")
con.execute("CREATE TABLE t AS SELECT range AS a, range * 2 AS b FROM range(100000)")
con.share()
snap = swingdb.snapshot("pinned")
rel = snap.table("t")
arrays = {"a": rel.column("a").numpy(), "b": rel.column("b").numpy()}
pinned = _tensors.pinned(arrays)
again = _tensors.pinned({"a": arrays["a"][10:20]})
print("pinned twice")
held = pinned["b"]
snap.close(); con.execute("DROP TABLE t"); con.share(); con.close()
del rel, arrays, pinned
assert held[-1] == 199998
del held
print("one is left")
assert again["a"].tolist() == list(range(10, 20))
pid = os.fork()
if pid == 0:
    del again
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("the child has ended nothing")
del again
gc.collect()
assert not _cuda._active
print("none is left")

# Memory beside, around and across what is registered.
block = np.zeros(64 * 4096, "uint8")
def part(first, last):
    return _tensors.pinned({"x": block[first * 4096 : last * 4096 - 1]})["x"]
parts = [part(10, 20), part(30, 40), part(5, 50), part(12, 14)]
del parts[0]; del parts[0]; del parts[0]
assert parts[0].nbytes == 2 * 4096 - 1
parts.clear()
assert not _cuda._active
print("parts")
def work():
    for _ in range(200):
        part(1, 9)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not _cuda._active
print("threads")

area = memory.create(1 << 20)
try:
    area.torch((4,), pin=True)
except ValueError as error:
    assert "hook this one first" in str(error)
else:
    raise AssertionError("an owner's area")
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "runtime.c").write_text(RUNTIME)
    command = ["cc", "-shared", "-fPIC", "-o", "libcudart.so", "runtime.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def test_memory_is_registered_as_long_as_it_is_used(runtime):
    lines = python(PINNED, LD_LIBRARY_PATH=str(runtime)).splitlines()
    said = [line for line in lines if line not in ("register", "unregister")]
    assert said == [
        "pinned twice",
        "one is left",
        "the child has ended nothing",
        "none is left",
        "parts",
        "threads",
    ]
    assert lines.count("register") == lines.count("unregister") > 6
    before = lines[: lines.index("pinned twice")]
    assert 1 <= before.count("register") <= 2, "what two arrays share is registered once"
    child = lines.index("the child has ended nothing")
    assert "unregister" not in lines[lines.index("one is left") : child]
    assert "unregister" in lines[child : lines.index("none is left")]


def test_without_cuda():
    source = """
import numpy as np, swingdb
from swingdb import _cuda, _tensors
_cuda._NAMES, _cuda._packaged, _cuda._loaded = (), lambda: [], lambda: []
try:
    _tensors.pinned({"a": np.zeros(4)})
except swingdb.OperationalError as error:
    print(error)
"""
    assert re.match("pin=True needs CUDA's runtime library", python(source))


def test_torch(numbers):
    torch = pytest.importorskip("torch")
    tensors = numbers.table("t").select("i, d, s, b").torch()
    assert tensors["d"].dtype == torch.float64 and tensors["i"][-1] == 999
    assert torch.equal(tensors["b"], torch.arange(1000) % 2 == 0)
    column = numbers.table("t").column("d")
    assert column.torch().data_ptr() == address(column.numpy())
    assert numbers.from_arrow({"a": torch.arange(3)}).fetchall() == [(0,), (1,), (2,)]


def test_the_loader_sees_whole_states_while_the_owner_writes():
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/training/loader.py"), "--rows", "50000"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    seen, line = done.stdout.splitlines()
    rows = [int(number) for number in seen.partition(": ")[2].split(", ")]
    assert rows == sorted(rows) and all(number % 50000 == 0 for number in rows)
    slope, offset = map(float, re.fullmatch(r"y = (\S+) x \+ (\S+)", line).groups())
    assert abs(slope - 2) < 0.1 and abs(offset - 3) < 0.1


def test_torch_of_a_device(numbers):
    torch = pytest.importorskip("torch")
    numbers.execute("CREATE TABLE many (a BIGINT, b BOOLEAN, a2 REAL)")
    for rows in (1, 300_000, 7):
        numbers.execute(
            "INSERT INTO many SELECT range, range % 3 = 0, range::REAL FROM range(?)", [rows]
        )
    rel = numbers.sql("SELECT a, b, a2 AS a FROM many")
    expected = list(rel.torch().values())
    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    for device in devices:
        # The second time the memory is registered already.
        for pin in (False,) if device == "cpu" else (False, True, True):
            found = rel.torch(device=device, pin=pin)
            assert list(found) == list(rel.torch())
            for one, other in zip(found.values(), expected, strict=True):
                assert one.device.type == device and torch.equal(one.cpu(), other)
    assert bool(_cuda._active) == torch.cuda.is_available()
    del rel, found, one, other
    gc.collect()
    assert not _cuda._active, "what the relation registered ends with it"
    rel = numbers.table("many")
    empty = numbers.sql("SELECT a, b FROM many WHERE a < 0").torch(device="cpu")
    assert [(len(t), t.dtype) for t in empty.values()] == [(0, torch.int64), (0, torch.bool)]
    with pytest.raises(swingdb.ProgrammingError, match="pin=True is for a device of CUDA"):
        rel.torch(device="cpu", pin=True)
    wrongs = [("holes", "has NULLs"), ("at", r"epoch_us\(at\)"), ("text", "no such layout")]
    for wrong, said in wrongs:
        with pytest.raises(swingdb.DataError, match=said):
            numbers.table("t").select(wrong).torch(device="cpu")
