"""How many threads a process uses: the environment, the affinity, control groups, the setting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import swingdb

SHOW = """
import swingdb
with swingdb.connect() as con:
    print(con.execute("SHOW threads").fetchone()[1])
"""


def shown(prepare: Callable[[], None] | None = None, **variables: str) -> str:
    """What a fresh process says, after `prepare` in it."""
    environment = {k: v for k, v in os.environ.items() if k != "SWINGDB_THREADS"} | variables
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environment,
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_the_environment_and_the_affinity() -> None:
    """The variable goes first; else the processors that the process may run on."""
    cores = os.sched_getaffinity(0)
    one = {min(cores)}
    assert int(shown()) <= len(cores)
    assert shown(lambda: os.sched_setaffinity(0, one)) == "1"
    assert shown(SWINGDB_THREADS="3") == "3"
    assert shown(lambda: os.sched_setaffinity(0, one), SWINGDB_THREADS="5") == "5"
    for wrong in ("0", "two", "", "5000"):
        assert "SWINGDB_THREADS" in shown(SWINGDB_THREADS=wrong)


@pytest.fixture
def group() -> Iterator[tuple[Path, str]]:
    """A control group of the processors, and the file of its quota; skipped where none can be."""
    name = f"swingdb-test-{uuid.uuid4().hex}"
    places = [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")]
    for place, file in places:
        folder = Path(place) / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / file).exists():
                yield folder, file
                return
        finally:
            folder.rmdir()
    pytest.skip("no control group can be made here")


def test_the_quota_of_a_control_group(group: tuple[Path, str]) -> None:
    """A group that may use half, one, or one and a half processors gets one thread."""
    folder, file = group

    def enter() -> None:
        (folder / "cgroup.procs").write_text(str(os.getpid()))

    free = int(shown(enter))
    for quota in (50_000, 100_000, 150_000):
        text = f"{quota} 100000" if file == "cpu.max" else str(quota)
        (folder / file).write_text(text)
        assert shown(enter) == "1"
    text = "200000 100000" if file == "cpu.max" else "200000"
    (folder / file).write_text(text)
    assert int(shown(enter)) == min(free, 2)


def test_many_rows_from_a_program_keep_their_order(con: swingdb.Connection) -> None:
    """A generator of batches is read by several threads, one at a time, and in its order."""
    con.execute("SET threads = 4")
    con.execute("CREATE TABLE t (n BIGINT, s VARCHAR)")
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    inside = threading.Lock()

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 700_000, 35_000):
            assert inside.acquire(blocking=False)
            numbers = range(start, start + 35_000)
            time.sleep(0.001)
            inside.release()
            yield pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema=schema)

    assert con.append("t", pa.RecordBatchReader.from_batches(schema, batches())) == 700_000
    table = pa.table(con.table("t"))
    assert table["n"].to_pylist() == list(range(700_000))
    assert con.execute("SELECT count(*) FROM t WHERE s <> n::VARCHAR").fetchone() == (0,)


def test_an_error_of_the_program_in_the_middle_leaves_nothing(con: swingdb.Connection) -> None:
    """What the generator raises ends the append."""
    con.execute("SET threads = 4")
    con.execute("CREATE TABLE t (n BIGINT)")
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(10):
            yield pa.record_batch([pa.array(range(50_000))], schema=schema)
        raise ValueError("no more of this")

    with pytest.raises(Exception, match="no more of this"):
        con.append("t", pa.RecordBatchReader.from_batches(schema, batches()))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
