"""Temporary files of queries that do not fit into memory: where they lie, what is left, errors."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import swingdb

ROWS = 3_000_000
#: A table of about 200 MB.
MAKE = (
    "CREATE TABLE t AS SELECT range AS i, (range * 7919) % 1000003 AS k,"
    f" md5(range::VARCHAR) AS s FROM range({ROWS})"
)
LIMIT = "200MB"
LITTLE = "50MB"
#: Statements that need more than `LIMIT`; `{}` is a folder.
STATEMENTS = {
    "sort": "SELECT count(*), sum(n * (i % 7)), min(s), max(s) FROM"
    " (SELECT i, s, row_number() OVER (ORDER BY s, i) AS n FROM t)",
    "group": "SELECT count(*), sum(c), sum(a), min(m) FROM"
    " (SELECT s, count(*) AS c, sum(i) AS a, max(k) AS m FROM t GROUP BY s)",
    "unique": "SELECT count(*), min(s), max(m) FROM (SELECT DISTINCT s, k % 10 AS m FROM t)",
    "window": "SELECT sum(x), count(*) FROM"
    " (SELECT i - lag(i, 1, 0) OVER (PARTITION BY k % 5000 ORDER BY s) AS x FROM t)",
    "join": "SELECT count(*), sum(a.i % 7), min(b.s), max(a.k) FROM t AS a JOIN t AS b USING (s)",
    "limit": "SELECT count(*), sum(i % 7), min(s), max(s) FROM"
    " (SELECT * FROM t ORDER BY s, i LIMIT 2000000)",
    "copy": "COPY (SELECT * FROM t ORDER BY s DESC) TO '{}/out.parquet'",
    "create": "CREATE OR REPLACE TABLE u AS SELECT * FROM t ORDER BY s",
    "insert": "INSERT INTO v SELECT s, count(*) FROM t GROUP BY s",
}


def answer(con: swingdb.Connection, name: str, folder: Path) -> object:
    """What a statement answers, or what it has made."""
    if name == "insert":
        con.execute("CREATE OR REPLACE TABLE v (s VARCHAR, n BIGINT)")
    result = con.execute(STATEMENTS[name].format(folder))
    sums = "SELECT count(*), sum({0} * (i % 7)), min(s), max(s) FROM {1}"
    if name == "create":
        return con.sql(sums.format("rowid", "u")).fetchall()
    if name == "copy":
        # In order, with a limit of memory too: rows of one file are numbered as they come.
        file = f"(SELECT *, row_number() OVER () AS r FROM '{folder}/out.parquet')"
        return con.sql(sums.format("r", file)).fetchall()
    if name == "insert":
        return con.sql("SELECT count(*), sum(n), min(s) FROM v").fetchall()
    return result.fetchall()


def files_in(folder: Path, pid: int | str = "self") -> int:
    """Descriptors of a process that are files of a folder without a name."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        count += target.startswith(f"{folder}/") and target.endswith("(deleted)")
    return count


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def full(con: swingdb.Connection) -> swingdb.Connection:
    """A private database with the table."""
    con.execute(MAKE)
    return con


def test_answers_are_the_same_and_nothing_is_ever_seen(
    full: swingdb.Connection, scratch: Path, tmp_path: Path, eventually: Callable[..., bool]
) -> None:
    whole = {name: answer(full, name, tmp_path) for name in STATEMENTS}
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}'")
    for name in STATEMENTS:
        seen, ended = [], threading.Event()

        def look(seen: list[tuple[int, int]] = seen, ended: threading.Event = ended) -> None:
            while not ended.wait(0.002):
                seen.append((files_in(scratch), len(os.listdir(scratch))))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            assert answer(full, name, tmp_path) == whole[name], name
        finally:
            ended.set()
            thread.join()
        assert any(files for files, _ in seen), f"{name} needed no temporary file"
        assert not any(names for _, names in seen), name
        assert eventually(lambda: files_in(scratch) == 0), name


def test_a_join_needs_a_quarter_of_its_table(full: swingdb.Connection, tmp_path: Path) -> None:
    whole = answer(full, "join", tmp_path)
    full.execute(f"SET memory_limit = '{LITTLE}', temp_directory = '{tmp_path}'")
    assert answer(full, "join", tmp_path) == whole


SPILLING = """
import os, sys, threading, time, swingdb
con = swingdb.connect()
con.execute('''{make}''')
con.execute(f"SET memory_limit = '{limit}', temp_directory = '{{sys.argv[1]}}'")
def spill():
    while True:
        con.execute('''{statement}''').fetchall()
thread = threading.Thread(target=spill, daemon=True)
thread.start()
def files():
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + name))
        except FileNotFoundError:
            pass
    return sum(link.startswith(sys.argv[1]) for link in links)
while files() == 0:
    time.sleep(0.001)
""".format(make=MAKE, limit=LIMIT, statement=STATEMENTS["sort"])


def test_a_killed_process_leaves_nothing(scratch: Path, run: Callable[..., object]) -> None:
    program = run(SPILLING + "print('now')\nthread.join()", scratch)
    assert program.line() == "now"
    assert files_in(scratch, program.pid) > 0
    program.kill()
    assert os.listdir(scratch) == []


def test_children_keep_nothing_of_a_killed_process(
    scratch: Path, run: Callable[..., object], eventually: Callable[..., bool]
) -> None:
    forking = """
child = os.fork()
if child == 0:
    time.sleep(120)
    os._exit(0)
print(child)
print(files() > 0)
thread.join()
"""
    program = run(SPILLING + forking, scratch)
    child = int(program.line())
    try:
        assert program.line() in ("True", "False")
        assert files_in(scratch, child) == 0
        assert str(scratch) not in Path(f"/proc/{child}/maps").read_text()
        assert eventually(lambda: files_in(scratch, program.pid) > 0)
        os.kill(program.pid, signal.SIGKILL)
        assert eventually(lambda: files_in(scratch, program.pid) == 0)
        assert files_in(scratch, child) == 0
    finally:
        os.kill(child, signal.SIGKILL)
        # It reads what both have written, so only now.
        program.kill()


def test_a_child_spills_beside_its_parent(full: swingdb.Connection, scratch: Path) -> None:
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}'")
    expected = answer(full, "group", scratch)
    # Tasks of the statement before may hold memory for a moment.
    time.sleep(0.5)
    result = full.execute("SELECT i FROM t ORDER BY s")
    first = result.fetchmany(10)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            mine = swingdb.connect()
            mine.execute(MAKE)
            mine.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}'")
            status = int(answer(mine, "group", scratch) != expected)
            # What the parent reads on is not this process's to give back.
            del result
        finally:
            os._exit(status)
    rest = result.fetchall()
    assert os.waitpid(pid, 0)[1] == 0
    full.execute("RESET memory_limit")
    rows = full.sql("SELECT i FROM t ORDER BY s").fetchall()
    assert first + rest == rows


def test_an_interrupt_leaves_no_file(
    full: swingdb.Connection,
    scratch: Path,
    interrupting: Callable[..., object],
    eventually: Callable[..., bool],
) -> None:
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}'")
    spilled = threading.Event()

    def interrupt() -> None:
        if files_in(scratch) > 0:
            spilled.set()
            full.interrupt()

    endless = "SELECT a.k, b.s FROM t AS a, t AS b ORDER BY b.s, a.s"
    with interrupting(interrupt, 0.01), pytest.raises(swingdb.QueryInterruptedError):
        full.execute(endless).fetchall()
    assert spilled.is_set()
    assert eventually(lambda: files_in(scratch) == 0)
    assert full.sql("SELECT count(*) FROM t").fetchall() == [(ROWS,)]


def test_sessions_spill_side_by_side(scratch: Path, eventually: Callable[..., bool]) -> None:
    with swingdb.connect("shared") as owner:
        owner.execute(MAKE)
        owner.share()
        expected = {name: answer(owner, name, scratch) for name in ("sort", "group", "window")}
        failed: list[object] = []

        def work(number: int) -> None:
            try:
                with swingdb.snapshot("shared") as con:
                    con.execute(f"SET memory_limit = '{LIMIT}'")
                    if number % 2:
                        con.execute(f"SET temp_directory = '{scratch}'")
                    for name, rows in expected.items():
                        assert answer(con, name, scratch) == rows, name
            except BaseException as error:  # noqa: BLE001 - it is raised in the test's thread
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
    assert eventually(lambda: files_in(scratch) == 0)


def test_processes_share_a_folder(scratch: Path, run: Callable[..., object]) -> None:
    source = """
import sys, swingdb
con = swingdb.connect()
con.execute('''{make}''')
statement = '''{statement}'''
whole = con.execute(statement).fetchall()
con.execute(f"SET memory_limit = '{limit}', temp_directory = '{{sys.argv[1]}}'")
for _ in range(3):
    assert con.execute(statement).fetchall() == whole
""".format(make=MAKE, limit=LIMIT, statement=STATEMENTS["group"])
    for program in [run(source, scratch), run(source, scratch)]:
        program.finish(180)
    assert os.listdir(scratch) == []


# ---- errors ----------------------------------------------------------------------------------


def goes_on(con: swingdb.Connection, tmp_path: Path) -> object:
    """An answer after statements that failed, whose tasks may hold memory for a moment."""
    end = time.monotonic() + 5
    while True:
        try:
            return answer(con, "sort", tmp_path)
        except swingdb.OutOfMemoryError:
            if time.monotonic() > end:
                raise


def check_errors(
    con: swingdb.Connection, tmp_path: Path, kind: type[Exception], words: list[str]
) -> list[swingdb.Error]:
    """Each statement fails as it should, and changes nothing; the session goes on."""
    errors = []
    con.execute("CREATE OR REPLACE TABLE u AS SELECT 1 AS one")
    for name in STATEMENTS:
        # Tasks of the statement before may hold memory for a moment.
        end = time.monotonic() + 5
        while True:
            with pytest.raises(swingdb.Error) as caught:
                answer(con, name, tmp_path)
            lacks_memory = "SET memory_limit)" in str(caught.value)
            if not lacks_memory or time.monotonic() > end:
                break
        # With so little memory some statements fail for that before they write anything.
        if not lacks_memory:
            assert isinstance(caught.value, kind), caught.value
            assert all(word in str(caught.value) for word in words), caught.value
            errors.append(caught.value)
        untouched = [(ROWS, ROWS * (ROWS - 1) // 2)]
        assert con.sql("SELECT count(*), sum(i) FROM t").fetchall() == untouched
        assert con.sql("SELECT * FROM u").fetchall() == [(1,)]
    assert con.sql("SELECT count(*) FROM v").fetchall() == [(0,)]
    assert not (tmp_path / "out.parquet").exists()
    assert errors
    return errors


def test_more_than_the_limit_is_an_error(
    full: swingdb.Connection, scratch: Path, tmp_path: Path, eventually: Callable[..., bool]
) -> None:
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}'")
    full.execute("SET max_temp_directory_size = '1MB'")
    words = [str(scratch), "1000000 bytes", "max_temp_directory_size"]
    for error in check_errors(full, tmp_path, swingdb.OutOfMemoryError, words):
        assert error.path == str(scratch)
    assert eventually(lambda: files_in(scratch) == 0)
    full.execute("SET max_temp_directory_size = '10GB'")
    goes_on(full, tmp_path)


@pytest.mark.parametrize("variable", ["TMPDIR", "SWINGDB_TEMP_DIRECTORY"])
@pytest.mark.parametrize("what", ["missing", "file", "proc"])
def test_a_folder_that_is_none(
    full: swingdb.Connection,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    what: str,
) -> None:
    folder = {"missing": tmp_path / "a" / "b", "file": tmp_path / "file", "proc": Path("/proc")}
    (tmp_path / "file").write_text("of somebody")
    full.execute(f"SET memory_limit = '{LIMIT}'")
    monkeypatch.setenv(variable, str(folder[what]))
    words = [f"{folder[what]}: could not make a temporary file", "temp_directory", "TMPDIR"]
    for error in check_errors(full, tmp_path, swingdb.FileError, words):
        assert error.path == str(folder[what])
        assert error.errno is not None
    assert (tmp_path / "file").read_text() == "of somebody"
    # A setting goes before the variable.
    full.execute(f"SET temp_directory = '{tmp_path}/made'")
    goes_on(full, tmp_path)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_vanishes(
    full: swingdb.Connection, scratch: Path, tmp_path: Path
) -> None:
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = '{scratch}/inner'")
    goes_on(full, tmp_path)
    shutil.rmtree(scratch)
    words = [f"{scratch}/inner", "make it, or name another folder"]
    check_errors(full, tmp_path, swingdb.FileError, words)
    scratch.mkdir()
    goes_on(full, tmp_path)


#: Runs the statements of this module in a process of its own, and says how they end.
IN_PROCESS = f"""
import os, pathlib, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import swingdb
import test_temporary_files as tests
con = swingdb.connect()
con.execute(tests.MAKE)
target, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
whole = tests.goes_on(con, target)
con.execute(f"SET memory_limit = '{{tests.LIMIT}}'")
"""


def said_by(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What a program says, which has to end well."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_namespace(options: str, source: str, tmp_path: Path, folder: Path) -> None:
    """Runs a program to which a folder is a tmpfs mounted with certain options."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    probe = ["unshare", "-rm", *mount]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in namespaces here")
    script = f'{" ".join(mount)} && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-c", source]
    command += [str(tmp_path), str(folder)]
    environment = {**os.environ, "SWINGDB_TEMP_DIRECTORY": str(folder)}
    said_by(command, environment)


def test_a_full_disk(tmp_path: Path, scratch: Path) -> None:
    source = (
        IN_PROCESS
        + """
def free():
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
before = free()
words = [str(folder), "could not write a temporary file", "free space", "memory_limit"]
con.execute("SET max_temp_directory_size = '10GB'")
for error in tests.check_errors(con, target, swingdb.OutOfMemoryError, words):
    assert (error.path, error.errno) == (str(folder), 28), error
end = time.monotonic() + 60
while free() != before and time.monotonic() < end:
    time.sleep(0.01)
assert free() == before
# By default a part is left to others, as far as these leave it.
con.execute("RESET max_temp_directory_size")
tests.check_errors(con, target, swingdb.OutOfMemoryError, [str(folder)])
con.execute(f"SET temp_directory = '{target}'")
assert tests.goes_on(con, target) == whole
"""
    )
    in_namespace("size=8m,mode=700", source, tmp_path, scratch)


def test_a_read_only_disk(tmp_path: Path, scratch: Path) -> None:
    source = (
        IN_PROCESS
        + """
words = [f"{folder}: could not make a temporary file", "Read-only", "temp_directory"]
for error in tests.check_errors(con, target, swingdb.FileError, words):
    assert error.errno == 30
"""
    )
    in_namespace("ro", source, tmp_path, scratch)


def test_a_folder_of_others(tmp_path: Path, scratch: Path) -> None:
    """Root may write everywhere, unless it gives that up."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere")
    scratch.chmod(0o500)
    source = (
        IN_PROCESS
        + """
words = [f"{folder}: could not make a temporary file", "Permission denied", "temp_directory"]
for error in tests.check_errors(con, target, swingdb.FileError, words):
    assert error.errno == 13
"""
    )
    command = [*(drop if os.geteuid() == 0 else []), sys.executable, "-c", source]
    environment = {**os.environ, "SWINGDB_TEMP_DIRECTORY": str(scratch)}
    try:
        said_by([*command, str(tmp_path), str(scratch)], environment)
    finally:
        scratch.chmod(0o700)


def test_few_descriptors_are_enough(scratch: Path) -> None:
    """Thousands of batches in temporary files, in a process that may open forty files."""
    source = """
import resource, sys, swingdb
con = swingdb.connect()
con.execute("CREATE TABLE t AS SELECT range AS i, md5(range::VARCHAR) AS s FROM range(3000000)")
con.execute(f"SET memory_limit = '200MB', temp_directory = '{sys.argv[1]}'")
con.sql("SELECT count(*) FROM t").fetchall()
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
rows = con.execute("EXPLAIN ANALYZE SELECT s, count(*) FROM t GROUP BY s ORDER BY s").fetchall()
print(rows)
"""
    assert "spill_count=" in said_by([sys.executable, "-c", source, str(scratch)])


def test_a_limit_on_lengths_of_files(scratch: Path) -> None:
    source = """
import resource, sys, swingdb
con = swingdb.connect()
con.execute('''{make}''')
statement = '''{statement}'''
whole = con.execute(statement).fetchall()
con.execute(f"SET memory_limit = '{limit}', temp_directory = '{{sys.argv[1]}}'")
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
assert con.execute(statement).fetchall() == whole
""".format(make=MAKE, limit=LIMIT, statement=STATEMENTS["sort"])
    said_by([sys.executable, "-c", source, str(scratch)])


# ---- streams ---------------------------------------------------------------------------------


def test_a_stream_that_is_read_twice_lies_there_too(
    con: swingdb.Connection, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write_text("a,b\n" + "1,2\n" * 100_000)

    def read() -> object:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            return con.sql(f"SELECT count(*), sum(b) FROM read_csv('{pipe}')").fetchall()
        finally:
            # A writer waits for somebody who opens the pipe.
            while writer.is_alive():
                os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
                writer.join(0.01)

    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(swingdb.FileError, match="missing: could not make a temporary file"):
        read()
    con.execute(f"SET temp_directory = '{scratch}'")
    assert read() == [(100_000, 200_000)]


# ---- memory ----------------------------------------------------------------------------------


def test_an_error_of_memory_says_what_to_do(full: swingdb.Connection) -> None:
    full.execute("SET memory_limit = '5MB'")
    for statement in [
        "SELECT count(*) FROM t WHERE s NOT IN (SELECT s FROM t)",
        "SELECT len(list(s)) FROM t",
        "SELECT length(string_agg(s, ',')) FROM t",
    ]:
        with pytest.raises(swingdb.OutOfMemoryError, match=r"raise it \(SET memory_limit\)") as it:
            full.execute(statement).fetchall()
        assert it.value.needed > 0, it.value
    full.execute("SET memory_limit = '1GB'")
    assert len(full.sql("SELECT list(s) FROM t WHERE i < 5").fetchall()) == 1


def test_time_of_an_error(full: swingdb.Connection, tmp_path: Path) -> None:
    """An error ends the query, it does not wait for the rest of it."""
    full.execute(f"SET memory_limit = '{LIMIT}', temp_directory = ''")
    begin = time.monotonic()
    check_errors(full, tmp_path, swingdb.OutOfMemoryError, ["temp_directory is empty"])
    assert time.monotonic() - begin < 60
