"""psql, as people use it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("psql") is None, reason="needs psql: apt-get install postgresql-client"
)


def psql(server, *commands: str, flags: str = "-At") -> subprocess.CompletedProcess[str]:
    """Runs commands in one session."""
    given = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        ["psql", "-X", flags, "-h", server.host, "-p", str(server.port), "-d", "served", *given],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_queries_and_settings(server):
    said = psql(
        server,
        "SELECT count(*), max(name) FROM t",
        "SELECT 1; SELECT 2",
        "SHOW server_version_num",
        "SET timezone = 'Europe/Oslo'",
        "SHOW timezone",
        "SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00'",
    )
    assert said.stderr == ""
    expected = ["1000|n999", "1", "2", "140000", "SET", "Europe/Oslo", "2024-07-01 14:00:00+02"]
    assert said.stdout.splitlines() == expected


def test_what_there_is(server, writer):
    columns = "a DECIMAL(10, 2) NOT NULL, b INTEGER[] DEFAULT [1], c VARCHAR"
    writer.execute(f"CREATE TABLE other ({columns})")
    writer.execute("CREATE VIEW v AS SELECT name FROM t")
    writer.share()
    tables = psql(server, r"\dt").stdout.splitlines()
    assert tables == ["main|other|table|swingdb", "main|t|table|swingdb"]
    assert psql(server, r"\dv").stdout.splitlines() == ["main|v|view|swingdb"]
    assert psql(server, r"\dn").stdout.splitlines() == ["main|swingdb"]
    columns = psql(server, r"\d other")
    assert columns.stderr == ""
    lines = columns.stdout.splitlines()
    assert lines[0] == "a|numeric(10,2)||not null|"
    assert lines[1].startswith("b|integer[]|||") and "1" in lines[1]
    assert lines[2] == "c|text|||"
    commands = (
        r"\d \d+ \d_v \d+_other \d+_v \l \l+ \du \df \df+ \dT \di \di+ \dv+ \dt+ \dn+ \db \dp \z"
        r" \dx \dD \des \det \dew \deu \dC \ddp \dA \dm \sv_v"
    )
    for command in commands.split():
        said = psql(server, command.replace("_", " "))
        assert said.stderr in ("", "Did not find any relations.\n"), (command, said.stderr)
    assert "did not find" in psql(server, r"\d nothing").stderr.lower()


def test_keys_sequences_and_macros(server, writer):
    writer.execute("CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR UNIQUE, CHECK (id > 0))")
    writer.execute("CREATE INDEX by_code ON parent (code, id)")
    writer.execute("CREATE SEQUENCE numbers START 5")
    writer.execute("CREATE MACRO plus(a, b) AS a + b")
    writer.execute("COMMENT ON TABLE parent IS 'the parents'")
    writer.share()
    said = psql(server, r"\d parent", flags="-A").stdout
    for line in ('"parent_id_pkey" PRIMARY KEY', '"by_code"', "CHECK(id > 0)"):
        assert line in said, said
    indexes = psql(server, r"\di").stdout.splitlines()
    names = ["by_code", "parent_code_key", "parent_id_pkey"]
    assert indexes == [f"main|{name}|index|swingdb|parent" for name in names]
    columns = psql(server, r"\d by_code").stdout.splitlines()
    assert columns[:2] == ["code|text|yes|code", 'id|integer|yes|"id"']
    assert psql(server, r"\ds").stdout.splitlines() == ["main|numbers|sequence|swingdb"]
    assert psql(server, r"\d numbers").stdout.startswith("bigint|5|1|")
    assert psql(server, r"\df").stdout.splitlines() == ["main|plus||a, b|func"]
    assert "the parents" in psql(server, r"\dt+ parent").stdout
    names = "SELECT current_user, oid::regclass::text FROM pg_class WHERE oid = 'parent'::regclass"
    assert psql(server, names).stdout == "swingdb|parent\n"
    assert psql(server, "SELECT version()").stdout.startswith("PostgreSQL 14.0 (SwingDB ")


def test_errors_and_transactions(server):
    said = psql(
        server,
        "BEGIN",
        "SELECT * FROM nothing",
        "SELECT 1",
        "COMMIT",
        "SELECT 'after'",
        "INSERT INTO t VALUES (1, 'x')",
        "CREATE TEMP TABLE mine AS SELECT 7 AS x",
        "SELECT x FROM mine",
    )
    assert said.stdout.splitlines() == ["BEGIN", "ROLLBACK", "after", "SELECT 1", "7"]
    assert 'table "nothing" does not exist' in said.stderr
    assert "the transaction has failed" in said.stderr
    assert "this server serves snapshots" in said.stderr
