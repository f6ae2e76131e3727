"""Settings of a connection, and sessions for SQL that is not trusted."""

from __future__ import annotations

import pathlib
import pickle

import pytest

import swingdb


def shown(con: swingdb.Connection, name: str) -> str:
    """The value of a setting."""
    return con.execute(f"SHOW {name}").fetchone()[1]


def test_settings_are_given_when_connecting() -> None:
    """Of a private database, a named one, and snapshots."""
    with swingdb.connect(config={"threads": 2, "memory_limit": "1GB"}) as con:
        assert shown(con, "threads") == "2"
        assert shown(con, "memory_limit") == "1000000000"
        assert con.duplicate().execute("SHOW memory_limit").fetchone()[1] != "1000000000"
    with swingdb.connect("settings", config={"max_result_rows": 2}) as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(3)")
        con.share()
        with pytest.raises(swingdb.LimitReachedError) as caught:
            con.execute("SELECT a FROM t").fetchall()
        assert caught.value.name == "max_result_rows"
        with swingdb.snapshot("settings", config={"statement_timeout": "30s"}) as snap:
            assert shown(snap, "statement_timeout") == "30000ms"
            assert len(snap.execute("SELECT a FROM t").fetchall()) == 3
    swingdb.drop("settings")


def test_wrong_settings_open_nothing() -> None:
    """A setting that does not exist, a name that is none, a value that does not fit."""
    for config, error in [
        ({"thread": 2}, swingdb.NotFoundError),
        ({"threads = 1; DROP TABLE t; --": 1}, swingdb.ProgrammingError),
        ({"threads": "2; SELECT 1"}, swingdb.PlanError),
        ({"datafusion.optimizer.max_passes": 0}, swingdb.NotSupportedError),
    ]:
        with pytest.raises(error):
            swingdb.connect("no_such_database", config=config)
    con = swingdb.connect(config={"threads": 2})
    with pytest.raises(swingdb.PlanError):
        con.configure({"threads": 3, "statement_timeout": "soon"})
    assert shown(con, "threads") == "2"


def test_a_confined_session_sees_no_files_and_no_variables(tmp_path: pathlib.Path) -> None:
    """What the program registers is there, what it has in variables is not."""
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    secret = {"a": [1, 2]}
    con = swingdb.connect()
    assert con.execute("SELECT sum(a) FROM secret").fetchone() == (3,)
    con.register("given", {"a": [7]})
    con.configure({"lock_configuration": True, "enable_external_access": False})
    assert con.execute("SELECT a FROM given").fetchone() == (7,)
    with pytest.raises(swingdb.NotFoundError):
        con.execute("SELECT sum(a) FROM secret")
    for sql in [f"SELECT * FROM '{file}'", f"COPY given TO '{file}'", "ATTACH 'x' AS x"]:
        with pytest.raises(swingdb.NotAllowedError):
            con.execute(sql)
    with pytest.raises(swingdb.NotAllowedError) as caught:
        con.configure({"enable_external_access": True})
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), swingdb.NotAllowedError)
    assert secret["a"] == [1, 2] and file.read_text() == "a\n1\n"


def test_a_statement_ends_at_its_timeout() -> None:
    """Also where it computes without a pause."""
    con = swingdb.connect(config={"statement_timeout": 200})
    with pytest.raises(swingdb.StatementTimeoutError) as caught:
        con.execute(
            "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.a < b.b"
        ).fetchall()
    assert isinstance(caught.value, swingdb.QueryInterruptedError)
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_a_variable_without_rows_is_no_table() -> None:
    """A result of a statement without rows does not stand in the way of a name."""
    con = swingdb.connect()
    r = con.execute("CREATE TABLE t (a INT)")
    con.execute("CREATE TABLE r (a INT)")
    con.execute("INSERT INTO r VALUES (5)")
    assert con.execute("SELECT a FROM r").fetchone() == (5,)
    con.execute("DROP TABLE r")
    with pytest.raises(swingdb.NotFoundError):
        con.execute("SELECT a FROM r")
    assert r is not None
