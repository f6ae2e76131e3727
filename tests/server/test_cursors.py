"""Cursors: psycopg's named ones, psql's FETCH_COUNT, and what PostgreSQL's users write."""

from __future__ import annotations

import shutil
import subprocess

import pytest

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")


def connect(server, **parameters):
    """A session in which BEGIN is implied, as psycopg has it."""
    parameters = {"dbname": "served", "user": "somebody", **parameters}
    return psycopg.connect(host=server.host, port=server.port, **parameters)


@pytest.mark.parametrize("binary", [False, True])
def test_a_named_cursor_gives_rows_in_parts(server, binary):
    with connect(server) as session:
        with session.cursor("some rows", binary=binary) as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT id, name FROM t WHERE id >= %s ORDER BY id", [10])
            assert [column.name for column in cursor.description] == ["id", "name"]
            assert cursor.fetchone() == (10, "n10")
            assert cursor.fetchmany(3) == [(i, f"n{i}") for i in (11, 12, 13)]
            cursor.scroll(5)
            assert cursor.fetchmany(2) == [(19, "n19"), (20, "n20")]
            assert [row[0] for row in cursor] == list(range(21, 1000))
            assert cursor.fetchone() is None
        with pytest.raises(psycopg.errors.InvalidCursorName):
            session.execute('FETCH 1 FROM "some rows"')


def test_a_cursor_keeps_its_state_and_ends_with_its_transaction(server, writer):
    with connect(server, autocommit=True) as session:
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
            session.execute("DECLARE c CURSOR FOR SELECT id FROM t")
        session.execute("DECLARE kept CURSOR WITH HOLD FOR SELECT count(*) FROM t")
        writer.execute("DELETE FROM t")
        writer.share()
        assert session.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
        assert session.execute("FETCH kept").fetchall() == [(1000,)]
        session.execute("BEGIN")
        session.execute("DECLARE a CURSOR FOR FROM range(5)")
        session.execute("DECLARE b CURSOR WITH HOLD FOR FROM range(5)")
        with pytest.raises(psycopg.errors.DuplicateCursor):
            session.execute("DECLARE b CURSOR FOR SELECT 1")
        session.execute("ROLLBACK")
        for gone in ("a", "b"):
            with pytest.raises(psycopg.errors.InvalidCursorName):
                session.execute(f"FETCH {gone}")
        session.execute("BEGIN; DECLARE a CURSOR FOR FROM range(5)")
        session.execute("DECLARE b CURSOR WITH HOLD FOR FROM range(5)")
        assert session.execute("MOVE 2 FROM a").statusmessage == "MOVE 2"
        assert session.execute("FETCH ALL FROM a").fetchall() == [(2,), (3,), (4,)]
        fetched = session.execute("FETCH 3 FROM b")
        assert (fetched.fetchall(), fetched.statusmessage) == ([(0,), (1,), (2,)], "FETCH 3")
        session.execute("COMMIT")
        assert session.execute("FETCH FORWARD 10 FROM b").fetchall() == [(3,), (4,)]
        assert session.execute("FETCH FORWARD 10 FROM b").fetchall() == []
        with pytest.raises(psycopg.errors.InvalidCursorName):
            session.execute("FETCH a")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="only move forward"):
            session.execute("FETCH PRIOR FROM b")
        assert session.execute("CLOSE ALL").statusmessage == "CLOSE CURSOR ALL"
        with pytest.raises(psycopg.errors.InvalidCursorName):
            session.execute("CLOSE b")


def test_rows_are_computed_as_they_are_fetched(server):
    """A cursor over more rows than could be computed gives the first at once."""
    with connect(server) as session:
        session.execute("DECLARE c CURSOR FOR SELECT a.i FROM range(100000000) a(i), range(1000)")
        assert len(session.execute("FETCH 100 FROM c").fetchall()) == 100
        # An error while rows are computed fails the fetch, and with it the transaction.
        number = "(CASE WHEN i = 700000 THEN 'x' ELSE '1' END)::INT"
        session.execute(f"DECLARE bad CURSOR FOR SELECT {number} FROM range(1000000) r(i)")
        assert session.execute("FETCH 10 FROM bad").fetchall() == [(1,)] * 10
        with pytest.raises(psycopg.Error):
            session.execute("FETCH ALL FROM bad")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            session.execute("FETCH 1 FROM c")


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
def test_psql_fetches_in_parts(server):
    said = subprocess.run(
        ["psql", "-X", "-At", "-h", server.host, "-p", str(server.port), "-d", "served",
         "-v", "FETCH_COUNT=30", "-c", "SELECT id FROM t ORDER BY id"],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert said.stderr == ""
    assert said.stdout.splitlines() == [str(i) for i in range(1000)]
