"""Named types, ENUMs, generated columns and foreign keys go where a database goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import swingdb


def make(con: swingdb.Connection) -> None:
    con.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok');"
        "CREATE TABLE p (id INT PRIMARY KEY, m mood, twice INT AS (id * 2));"
        "CREATE TABLE c (p INT REFERENCES p(id));"
        "INSERT INTO p VALUES (1, 'ok'), (2, 'sad');"
        "INSERT INTO c VALUES (1)"
    )


def check(con: swingdb.Connection) -> None:
    assert con.execute("SELECT id, m, twice FROM p ORDER BY m").fetchall() == [
        (2, "sad", 4),
        (1, "ok", 2),
    ]
    assert con.execute("SELECT typeof('ok'::mood)").fetchone() == ("ENUM('sad', 'ok')",)
    for wrong, match in [
        ("INSERT INTO p VALUES (3, 'angry')", "ENUM"),
        ("INSERT INTO c VALUES (3)", "FOREIGN KEY"),
        ("DELETE FROM p WHERE id = 1", "FOREIGN KEY"),
        ("TRUNCATE p", "FOREIGN KEY"),
        ("UPDATE p SET twice = 1", "generated"),
    ]:
        with pytest.raises(swingdb.Error, match=match):
            con.execute(wrong)
    con.execute("BEGIN; INSERT INTO p VALUES (3, 'ok'); INSERT INTO c VALUES (3)")
    assert con.execute("SELECT sum(twice) FROM p").fetchone() == (12,)
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM c").fetchone() == (1,)


def test_snapshots() -> None:
    con = swingdb.connect("typed")
    make(con)
    con.share()
    check(con)
    check(swingdb.snapshot("typed"))
    copied = swingdb.connect()
    copied.attach("typed", "other")
    copied.execute("CREATE TABLE p CLONE other.p")
    copied.execute("INSERT INTO p VALUES (5, 'ok')")
    assert copied.execute("SELECT max(twice) FROM p").fetchone() == (10,)


def test_stores(tmp_path: Path, reboot) -> None:
    with swingdb.connect("typed", store=tmp_path / "s") as con:
        make(con)
    reboot()
    with swingdb.connect("typed", store=tmp_path / "s") as con:
        check(con)


def test_appends_are_checked() -> None:
    con = swingdb.connect()
    make(con)
    con.append("p", pa.table({"id": [7], "m": ["sad"]}))
    assert con.execute("SELECT twice FROM p WHERE id = 7").fetchone() == (14,)
    with pytest.raises(swingdb.Error, match="ENUM"):
        con.append("p", pa.table({"id": [8], "m": ["angry"]}))
    with pytest.raises(swingdb.Error, match="FOREIGN KEY"):
        con.append("c", pa.table({"p": [8]}))
    # Rows that say of themselves that they are of the type are looked at all the same.
    rows = con.execute("SELECT id + 10 AS id, m FROM p").arrow()
    bad = pa.Table.from_arrays([rows["id"], pa.array(["x"] * len(rows))], schema=rows.schema)
    with pytest.raises(swingdb.Error, match="ENUM"):
        con.append("p", bad)
