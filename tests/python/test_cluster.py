"""Sessions on a cluster, with the programs of `make cluster`."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import swingdb

if TYPE_CHECKING:
    from collections.abc import Iterator

pa = pytest.importorskip("pyarrow")
#: The folder of the programs.
PROGRAMS = os.environ.get("SWINGDB_CLUSTER_PROGRAMS")
needs_programs = pytest.mark.skipif(PROGRAMS is None, reason="$SWINGDB_CLUSTER_PROGRAMS")


class Node:
    def __init__(self, home: Path) -> None:
        assert PROGRAMS is not None
        home.mkdir()
        command = [f"{PROGRAMS}/swingdb-node", "--listen", "127.0.0.1:0", "--write", "shard"]
        self.process = subprocess.Popen([*command, "--home", str(home)], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().split()[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    started = [Node(tmp_path / name) for name in ("a", "b")]
    yield started
    for node in started:
        node.kill()


@pytest.fixture
def session(nodes: list[Node]) -> Iterator[swingdb.Cluster]:
    with opened(nodes) as session:
        yield session


def opened(nodes: list[Node]) -> swingdb.Cluster:
    places = [f"{node.address}/shard" for node in nodes]
    return swingdb.cluster(places, program=f"{PROGRAMS}/swingdb-cluster")


ROWS = "SELECT i AS k, 'row ' || i::VARCHAR AS s FROM generate_series(1, 10000) AS g(i)"


@needs_programs
def test_results_are_arrow(session: swingdb.Cluster) -> None:
    made = session.query(f"CREATE TABLE t AS {ROWS}", cut="hash:k")
    assert made.rows_changed == 10_000
    with pytest.raises(swingdb.InterfaceError):
        made.arrow()
    table = session.query("SELECT * FROM t ORDER BY k").arrow()
    assert table.num_rows == 10_000
    assert table["s"][0].as_py() == "row 1"
    assert pa.table(session.query("SELECT count(*) AS c FROM t")).to_pydict() == {"c": [10_000]}
    assert session.query("SELECT max(k), min(s) FROM t").fetchall() == [(10_000, "row 1")]
    assert session.query("SELECT max(k) FROM t").fetchone() == (10_000,)
    assert sum(len(batch) for batch in session.query("SELECT * FROM t")) == 10_000


@needs_programs
def test_statements_have_parameters(session: swingdb.Cluster) -> None:
    session.query("CREATE TABLE t (k BIGINT, s VARCHAR, d DATE)", cut="hash:k")
    day = datetime.date(2024, 5, 6)
    assert session.query("INSERT INTO t VALUES (?, ?, ?)", (1, "it's", day)).rows_changed == 1
    assert session.query("INSERT INTO t VALUES ($1, $2, $2)", [2, None]).rows_changed == 1
    rows = session.query("SELECT s, d FROM t WHERE d = $1 AND k < $2", [day, 5]).fetchall()
    assert rows == [("it's", day)]
    rows = session.query("SELECT s FROM t WHERE d = $day AND k < $k", {"k": 5, "day": day})
    assert rows.fetchall() == [("it's",)]
    two = "UPDATE t SET s = $s WHERE k = $k; SELECT s FROM t WHERE k <= $k ORDER BY k DESC"
    assert session.query(two, {"s": "new", "k": 2}).fetchone() == ("new",)
    with pytest.raises(swingdb.InterfaceError, match="parameter 2"):
        session.query("SELECT ?, ?", [1, object()])
    with pytest.raises(swingdb.InterfaceError, match="parameter b"):
        session.query("SELECT $a, $b", {"a": 1, "b": object()})
    with pytest.raises(swingdb.ProgrammingError, match="strings"):
        session.query("SELECT $a", {1: 1})  # type: ignore[dict-item]


VALUES = """SELECT 1.50::DECIMAL(4, 2) AS a, DATE '2024-01-02' AS b, INTERVAL '1 month 2 days' AS c,
    '00000000-0000-0000-0000-0000000000a1'::UUID AS d, [1, NULL] AS e, MAP {'k': [1.5]} AS f,
    {'a': 1, 'b': TIME '10:11:12'} AS g, 'x'::ENUM ('x', 'y') AS h, '\\xAB'::BLOB AS i,
    TIMESTAMP_NS '2024-01-01 10:00:00.123456789' AS j, NULL AS k, true AS l, 1e300 AS m,
    TIMESTAMPTZ '2024-01-01 10:00:00+00' AS n, [INTERVAL '1 day'] AS o, 18446744073709551615 AS p,
    TIMESTAMP '2024-01-01 10:00:00' - TIMESTAMP '2023-01-01 00:00:00' AS q, 12::HUGEINT AS r"""


@needs_programs
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_values_are_those_of_a_session_on_one_database(
    session: swingdb.Cluster, zone: str
) -> None:
    one = swingdb.connect()
    for each in (one, session):
        each.execute(f"SET timezone = '{zone}'")
        each.execute(f"CREATE TABLE v AS {VALUES}")
    for query in (VALUES, "SELECT * FROM v", "SELECT v.a, v.a, v.c, v.c FROM v"):
        expected, got = one.execute(query).fetchall(), session.query(query).fetchall()
        assert list(map(repr, got)) == list(map(repr, expected))
        assert [list(map(type, row)) for row in got] == [list(map(type, row)) for row in expected]
    # Parameters have the same types, too.
    values = one.execute(VALUES).fetchone()
    assert values is not None
    for value in (*values, 2**63, 2**70, (1, 2), {"a": [1]}):
        query = "SELECT ? AS a, typeof(?) AS b"
        expected = one.execute(query, [value, value]).fetchall()
        assert list(map(repr, session.query(query, [value, value]).fetchall())) == list(
            map(repr, expected)
        )


@needs_programs
def test_rows_are_fetched_one_after_the_other(session: swingdb.Cluster) -> None:
    rows = session.query("SELECT i FROM generate_series(1, 10) AS g(i) ORDER BY i")
    assert (rows.fetchone(), rows.fetchone()) == ((1,), (2,))
    assert rows.fetchmany() == [(3,)]
    assert rows.fetchmany(3) == [(4,), (5,), (6,)]
    assert rows.fetchall() == [(7,), (8,), (9,), (10,)]
    assert (rows.fetchone(), rows.fetchall(), rows.fetchmany(2)) == (None, [], [])
    with pytest.raises(swingdb.InterfaceError):
        session.query("CREATE TABLE t (a INTEGER)").fetchone()


@needs_programs
def test_a_result_that_is_not_read_to_its_end_is_in_nobodys_way(session: swingdb.Cluster) -> None:
    session.query(f"CREATE TABLE t AS {ROWS}", cut="hash:k")
    half = session.query("SELECT * FROM t")
    first = next(iter(half))
    assert session.query("SELECT count(*) FROM t").fetchone() == (10_000,)
    assert len(first) + sum(len(batch) for batch in half) == 10_000


@needs_programs
def test_threads_share_a_session(session: swingdb.Cluster) -> None:
    session.query(f"CREATE TABLE t AS {ROWS}", cut="hash:k")
    counts: list[int] = []

    def read() -> None:
        for _ in range(10):
            counts.append(sum(len(batch) for batch in session.query("SELECT * FROM t")))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [10_000] * 30


@needs_programs
def test_states_stay_until_refresh(nodes: list[Node], session: swingdb.Cluster) -> None:
    session.query("CREATE TABLE t AS SELECT 1 AS a")
    with opened(nodes) as other:
        other.query("INSERT INTO t VALUES (2)")
        assert session.query("SELECT count(*) FROM t").fetchone() == (1,)
        assert len(session.epochs) == len(nodes)
        assert session.epochs != other.epochs
        session.refresh()
        assert session.epochs == other.epochs
        assert session.query("SELECT count(*) FROM t").fetchone() == (2,)
        session.recover()


@needs_programs
def test_errors_are_exceptions_of_their_kind(nodes: list[Node], session: swingdb.Cluster) -> None:
    session.query(f"CREATE TABLE t AS {ROWS}", cut="hash:k")
    with pytest.raises(swingdb.NotFoundError):
        session.query("SELECT * FROM missing")
    with pytest.raises(swingdb.ParseError):
        session.query("SELEC 1")
    with pytest.raises(swingdb.NotSupportedError):
        session.query("ATTACH 'x'")
    session.query("CREATE TABLE keyed (k INTEGER PRIMARY KEY)", cut="hash:k")
    with pytest.raises(swingdb.ConstraintError) as twice:
        session.query("INSERT INTO keyed VALUES (1), (1)")
    assert twice.value.node in [node.address for node in nodes]
    with pytest.raises(swingdb.InterfaceError, match="hash:COLUMN"):
        session.query("CREATE TABLE u (a INTEGER)", cut="modulo:a")
    nodes[1].kill()
    with pytest.raises(swingdb.NodeLostError) as lost:
        session.query("SELECT sum(k) FROM t WHERE k > 0").arrow()
    assert lost.value.node == nodes[1].address
    assert isinstance(lost.value, swingdb.ClusterError)
    with pytest.raises(swingdb.NodeLostError):
        opened(nodes)
    session.close()
    with pytest.raises(swingdb.ClosedError):
        session.query("SELECT 1")
    assert "closed" in repr(session)


@needs_programs
def test_nodes_come_and_go(nodes: list[Node], session: swingdb.Cluster, tmp_path: Path) -> None:
    session.query(f"CREATE TABLE t AS {ROWS}", cut="hash:k")
    session.query("SET timezone = 'Asia/Tokyo'")
    session.query("CREATE TEMP TABLE own AS SELECT 7 AS a")
    third = Node(tmp_path / "c")
    try:
        places = [f"{node.address}/shard" for node in [*nodes, third]]
        session.resize(places)
        assert session.query("SELECT count(*), max(s) FROM t").fetchone() == (10_000, "row 9999")
        assert session.nodes == places
        # What the session has set, and its own tables, stay.
        shown = session.query("SELECT current_setting('timezone'), a FROM own").fetchall()
        assert shown == [("Asia/Tokyo", 7)]
        with pytest.raises(swingdb.ClusterError, match="number 1 of 3"):
            opened(nodes)
    finally:
        third.kill()


@needs_programs
def test_a_program_that_is_killed_is_an_error(session: swingdb.Cluster) -> None:
    session._pipe._process.kill()
    with pytest.raises(swingdb.ClusterError, match="has ended"):
        session.query("SELECT 1").arrow()


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(swingdb.NotFoundError, match="make cluster"):
        swingdb.cluster(["127.0.0.1:1/x"], program="/no/such/program")
    with pytest.raises(swingdb.InterfaceError):
        swingdb.cluster("127.0.0.1:1/x")


def test_import_starts_nothing() -> None:
    code = "import sys, swingdb; sys.exit('swingdb._cluster' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_programs
def test_the_shell_has_a_session(nodes: list[Node], tmp_path: Path) -> None:
    program = os.environ.get("SWINGDB_BIN")
    if program is None:
        pytest.skip("SWINGDB_BIN names no built command line (make test-cluster sets it)")
    file = tmp_path / "nodes"
    file.write_text("".join(f"{node.address}/shard\n" for node in nodes))
    command = [program, "--cluster", str(file), "--mode", "csv"]
    paths = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}

    def said(*arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [*command, *arguments], input=text, capture_output=True, text=True, env=paths
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("-c", ".cut hash:k", "-c", f"CREATE TABLE t AS {ROWS}") == ""
    script = "SELECT count(*) AS n FROM t;\nSELECT max(k) AS m FROM t"
    assert said(text=script) == "n\n10000\nm\n10000\n"
    assert said("--command=-- a comment first\nSELECT 1 AS a") == "a\n1\n"
    done = subprocess.run([*command, "taxi"], capture_output=True, text=True)
    assert done.returncode == 2
    done = subprocess.run([*command, "ls"], capture_output=True, text=True)
    assert done.returncode == 2
    # Without the program, an error says how to get it.
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert done.returncode == 1 and "make cluster" in done.stderr, done.stderr


@needs_programs
def test_the_command_starts_a_node(tmp_path: Path) -> None:
    program = os.environ.get("SWINGDB_BIN")
    if program is None:
        pytest.skip("SWINGDB_BIN names no built command line (make test-cluster sets it)")
    command = [program, "node", "--listen", "127.0.0.1:0", "--home", str(tmp_path / "home")]
    paths = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    command += ["--write", "shard"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=paths) as node:
        assert node.stdout is not None
        address = node.stdout.readline().decode().split()[-1]
        coordinator = f"{PROGRAMS}/swingdb-cluster"
        with swingdb.cluster([f"{address}/shard"], program=coordinator) as session:
            session.query("CREATE TABLE t AS SELECT 1 AS x")
            assert session.query("SELECT x FROM t").fetchall() == [(1,)]
        node.terminate()
        assert node.wait() == 0
