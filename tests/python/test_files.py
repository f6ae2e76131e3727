"""Import and export of files, from Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import swingdb

TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "x": pa.array([i / 8 for i in range(1000)]),
        "s": pa.array([f"text, {i}" if i % 3 else None for i in range(1000)]),
    }
)


@pytest.fixture
def t(con):
    con.register("source", TABLE)
    con.execute("CREATE TABLE t AS SELECT * FROM source")
    return con


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "arrow"])
def test_there_and_back(t, tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    report = t.export("t", path)
    assert report.rows == 1000
    assert report.bytes == path.stat().st_size
    back = t.import_file(path, "back")
    assert back.rows == 1000
    assert back.seconds > 0
    sql = "SELECT id, x, s FROM {} ORDER BY id"
    assert t.sql(sql.format("back")).fetchall() == t.sql(sql.format("t")).fetchall()
    t.import_file(str(path), "back")
    assert len(t.table("back")) == 2000


def test_files_of_others(t, tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "a.parquet")
    pa.csv.write_csv(TABLE, tmp_path / "a.csv")
    pa.feather.write_feather(TABLE, tmp_path / "a.arrow", compression="uncompressed")
    for name in ("a.parquet", "a.csv", "a.arrow"):
        table = name.replace(".", "_")
        assert t.import_file(tmp_path / name, table).rows == 1000
        assert t.sql(f"SELECT sum(id), count(s) FROM {table}").fetchone() == (499_500, 666)
        assert t.sql(f"SELECT count(*) FROM '{tmp_path / name}'").fetchone() == (1000,)


def test_what_others_read(t, tmp_path):
    t.export("SELECT id, s FROM t WHERE id < 10 ORDER BY id", tmp_path / "q.parquet")
    assert pa.parquet.read_table(tmp_path / "q.parquet")["id"].to_pylist() == list(range(10))
    t.export("t", tmp_path / "q.csv", header=False, delimiter=";")
    assert (tmp_path / "q.csv").read_text().splitlines()[1] == "1;0.125;text, 1"
    t.export("t", tmp_path / "z.parquet", compression="zstd")
    assert pa.parquet.read_table(tmp_path / "z.parquet").num_rows == 1000


def test_options(con, tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("1|a\n2|NA\n")
    con.import_file(path, "t", format="csv", header=False, delimiter="|", null="NA")
    assert con.sql("SELECT * FROM t").fetchall() == [(1, "a"), (2, None)]


def test_all_options_of_sql(con, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("# made by hand\na||b\n1||äö\n-||NA\nx||y\n".encode("latin-1"))
    options = {
        "format": "csv",
        "header": True,
        "delimiter": "||",
        "null": ["-", "NA"],
        "comment": "#",
        "encoding": "latin-1",
        "columns": {"a": "INTEGER", "b": "VARCHAR"},
        "ignore_errors": True,
    }
    assert con.import_file(path, "t", **options).rows == 2
    assert con.execute("SELECT * FROM t").fetchall() == [(1, "äö"), (None, None)]
    del options["format"]
    assert con.read_csv(str(path), **options).fetchall() == [(1, "äö"), (None, None)]
    with pytest.raises(swingdb.ProgrammingError, match="there are format, header"):
        con.import_file(path, "t", nope=1)
    with pytest.raises(swingdb.ProgrammingError, match="takes a text, a number"):
        con.import_file(path, "t", delimiter=object())


def test_folders(con, tmp_path):
    con.execute("CREATE TABLE t AS SELECT range AS a, range % 3 AS b FROM range(100000)")
    report = con.export("t", tmp_path / "out", format="parquet", partition_by="b")
    assert report.rows == 100000
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert names == [f"out/b={value}/data_0.parquet" for value in range(3)]
    rows = pa.parquet.read_table(tmp_path / "out/b=1/data_0.parquet", partitioning=None)
    assert rows["a"][:3].to_pylist() == [1, 4, 7] and rows.column_names == ["a"]
    with pytest.raises(swingdb.Error, match="not empty"):
        con.export("t", tmp_path / "out", format="parquet", partition_by=["b"])
    options = {"format": "csv", "partition_by": ["b"], "overwrite": True}
    con.export("SELECT * FROM t WHERE b = 0", tmp_path / "out", **options)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["data_0.csv"]
    assert os.listdir(tmp_path) == ["out"]


def test_progress(t, tmp_path):
    heard = []
    path = tmp_path / "big.csv"
    path.write_text("a,b\n" + "".join(f"{i},text {i}\n" for i in range(1_500_000)))
    t.import_file(path, "big", progress=lambda *report: heard.append(report))
    assert heard
    done, total, unit = heard[-1]
    assert 0 < done
    assert unit in ("bytes", "rows")
    assert total is None or done <= total


def test_a_failing_progress_callback_does_not_stop_the_import(con, tmp_path, monkeypatch):
    import sys

    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    path = tmp_path / "big.csv"
    path.write_text("a\n" + "1\n" * 1_000_000)

    def fail(*report):
        raise ValueError("no")

    assert con.import_file(path, "t", progress=fail).rows == 1_000_000


def test_a_failed_import_leaves_the_table_as_it_was(con, tmp_path):
    con.execute("CREATE TABLE t (a INT)")
    con.execute("INSERT INTO t VALUES (7)")
    path = tmp_path / "bad.csv"
    path.write_text("a\n" + "1\n" * 200_000 + "oops\n")
    with pytest.raises(swingdb.DataError) as caught:
        con.import_file(path, "t")
    assert caught.value.line == 200_002
    cut = tmp_path / "cut.parquet"
    pa.parquet.write_table(TABLE, cut)
    cut.write_bytes(cut.read_bytes()[:-100])
    with pytest.raises(swingdb.Error):
        con.import_file(cut, "t")
    assert con.sql("SELECT * FROM t").fetchall() == [(7,)]


NO_MORE_THREADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
static volatile int refuse;
void refuse_threads(int yes) { refuse = yes; }
int pthread_create(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *of)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        dlsym(RTLD_NEXT, "pthread_create");
    return refuse ? EAGAIN : real(thread, with, run, of);
}
"""

READ_WITH_FEW_THREADS = """
import ctypes, sys, swingdb
con = swingdb.connect()
con.execute("CREATE TABLE warm AS SELECT range AS id FROM range(1000)")
con.sql("SELECT sum(id) FROM warm").fetchall()
if sys.argv[2] == "none":
    ctypes.CDLL(None).refuse_threads(1)
for name in ("f.csv", "f.json", "f.arrow", "f.parquet"):
    path = f"{sys.argv[1]}/{name}"
    con.execute("CREATE OR REPLACE TABLE t AS SELECT 1::BIGINT AS id LIMIT 0")
    for sql in (f"CREATE OR REPLACE TABLE t AS SELECT * FROM '{path}'", f"COPY t FROM '{path}'"):
        try:
            con.execute("DELETE FROM t")
            con.execute(sql)
            print(name, "rows", con.sql("SELECT count(*) FROM t").fetchone()[0])
        except swingdb.Error as error:
            print(name, "error", type(error).__name__)
"""


@pytest.mark.parametrize("threads", ["any", "none"])
def test_threads_that_cannot_be_started(con, tmp_path, threads):
    """All rows, or an error; never some of them."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "shim.c").write_text(NO_MORE_THREADS)
    shim = tmp_path / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True
    )
    con.execute("CREATE TABLE t AS SELECT range AS id FROM range(300000)")
    for name in ("f.csv", "f.json", "f.arrow", "f.parquet"):
        con.export("t", tmp_path / name)
    run = subprocess.run(
        [sys.executable, "-c", READ_WITH_FEW_THREADS, str(tmp_path), threads],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        check=True,
    )
    lines = [line.split() for line in run.stdout.splitlines()]
    assert len(lines) == 8, run.stdout + run.stderr
    for name, what, value in lines:
        assert what == "error" or value == "300000", (name, run.stdout)
    if threads == "any":
        assert all(what == "rows" for _, what, _ in lines), run.stdout
    else:
        # An import has the thread of its caller, a scan of these files one of its own.
        assert sum(what == "rows" for _, what, _ in lines) >= 4, run.stdout
        assert any(what == "error" for _, what, _ in lines), run.stdout
    assert "panicked" not in run.stderr, run.stderr


def test_parquet_through_several_fifos(con, tmp_path):
    con.execute(f"COPY (SELECT i AS id FROM range(300000) r(i)) TO '{tmp_path}/a.parquet'")
    body = (tmp_path / "a.parquet").read_bytes()
    pipes = [tmp_path / f"{number}.parquet" for number in range(3)]
    for pipe in pipes:
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=(body,), daemon=True).start()
    names = ", ".join(f"'{pipe}'" for pipe in pipes)
    sql = f"SELECT filename, count(*), sum(id) FROM read_parquet([{names}], filename=true)"
    rows = con.execute(f"{sql} GROUP BY filename ORDER BY filename").fetchall()
    assert rows == [(str(pipe), 300000, 299999 * 150000) for pipe in pipes]
