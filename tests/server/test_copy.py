"""COPY ... TO STDOUT: psql's \\copy, psycopg's copy, CSV and binary."""

from __future__ import annotations

import csv
import io
import shutil
import struct
import subprocess

import pytest

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")

#: Texts that have to be told from each other, from NULL and from what separates them.
TEXTS = ["", "a", None, "a,b", 'say "so"', "two\nlines", "\r\t\b\v\f", "\\N", "\\.", "NULL", "é\\"]


@pytest.fixture
def session(server, writer):
    """A session on a table of such texts."""
    writer.execute("CREATE TABLE texts (id INTEGER, text VARCHAR)")
    for number, text in enumerate(TEXTS):
        writer.execute("INSERT INTO texts VALUES (?, ?)", [number, text])
    writer.share()
    with psycopg.connect(
        host=server.host, port=server.port, dbname="served", user="x", autocommit=True
    ) as session:
        yield session


def copied(session, statement: str, *values: object) -> bytes:
    """All that a copy gives."""
    with session.cursor().copy(statement, *([list(values)] if values else [])) as copy:
        return b"".join(copy)


@pytest.mark.parametrize("options", ["", "(FORMAT binary)"])
def test_rows_come_back_as_values(session, options):
    with session.cursor().copy(f"COPY texts TO STDOUT {options}") as copy:
        copy.set_types(["int4", "text"])
        rows = list(copy.rows())
    assert rows == list(enumerate(TEXTS))


def test_csv_is_read_by_others(session):
    text = copied(session, "COPY texts (text, id) TO STDOUT (FORMAT csv, HEADER, NULL 'NULL')")
    rows = list(csv.reader(io.StringIO(text.decode(), newline="")))
    assert rows[0] == ["text", "id"]
    assert rows[1:] == [["NULL" if text is None else text, str(i)] for i, text in enumerate(TEXTS)]
    lines = text.splitlines()
    assert b"NULL,2" in lines and b'"NULL",9' in lines
    forced = copied(session, "COPY (SELECT 1 AS a, 'x' AS b, NULL AS c) TO STDOUT "
                             "WITH CSV DELIMITER '|' FORCE QUOTE a")
    assert forced == b'"1"|x|\n'


def test_queries_have_parameters_and_tags(session):
    text = copied(session, "COPY (SELECT id FROM t WHERE id < %s ORDER BY id) TO STDOUT", 3)
    assert text == b"0\n1\n2\n"
    cursor = session.cursor()
    with cursor.copy("COPY t TO STDOUT") as copy:
        assert sum(1 for _ in copy.rows()) == 1000
    assert cursor.rowcount == 1000
    header = copied(session, "COPY (SELECT 7::BIGINT WHERE false) TO STDOUT BINARY")
    assert header == b"PGCOPY\n\xff\r\n\0" + struct.pack(">iih", 0, 0, -1)


def test_errors_leave_the_session_usable(session):
    for statement, error in [
        ("COPY missing TO STDOUT", psycopg.errors.UndefinedTable),
        ("COPY t TO STDOUT (FORMAT parquet)", psycopg.errors.InvalidParameterValue),
        ("COPY (SELECT (CASE i WHEN 90000 THEN 'x' ELSE '1' END)::INT FROM range(99999) r(i)) "
         "TO STDOUT", psycopg.Error),
    ]:
        with pytest.raises(error):
            copied(session, statement)
        assert session.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.Error):
        with session.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write_row((1, "a"))
    assert session.execute("SELECT count(*) FROM t").fetchone() == (1000,)


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
def test_psql_copies_into_files(server, session, tmp_path):
    path = tmp_path / "out.csv"
    said = subprocess.run(
        ["psql", "-X", "-At", "-h", server.host, "-p", str(server.port), "-d", "served",
         "-c", rf"\copy (SELECT id, text FROM texts WHERE id < 4) TO '{path}' CSV HEADER"],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert (said.stderr, said.stdout) == ("", "COPY 4\n")
    assert path.read_text() == 'id,text\n0,""\n1,a\n2,\n3,"a,b"\n'
