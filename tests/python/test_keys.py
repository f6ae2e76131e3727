"""Keys that are looked up in tables, ON CONFLICT and FOREIGN KEY, beside a model of sets."""

from __future__ import annotations

import datetime
import decimal
import random

import pyarrow as pa
import pytest

import swingdb

#: For each kind of key: the columns' types, and a key made of a number.
KINDS = {
    "number": (["BIGINT"], lambda n: (n * 7919 % 100_003 - 50_000,)),
    "small": (["SMALLINT"], lambda n: (n % 60_000 - 30_000,)),
    "day": (["DATE"], lambda n: (datetime.date(1970, 1, 1) + datetime.timedelta(n),)),
    "decimal": (["DECIMAL(20, 2)"], lambda n: (decimal.Decimal(n * 37 % 100_003) / 100,)),
    "text": (["VARCHAR"], lambda n: (f"key {n * 31 % 100_003}",)),
    "double": (["DOUBLE"], lambda n: (n / 8 - 1000,)),
    "two": (["INTEGER", "VARCHAR"], lambda n: (n % 300, str(n // 300))),
}


def columns(types: list[str]) -> tuple[str, str]:
    """The names of key columns, and their definitions."""
    names = [f"k{at}" for at in range(len(types))]
    defined = (f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    return ", ".join(names), ", ".join(defined)


def given_rows(types: list[str], rows: list[tuple]) -> tuple[pa.Table, str]:
    """Rows as a table, and what to SELECT from it so that the columns have these types."""
    arrays = [pa.array([row[at] for row in rows]) for at in range(len(types))]
    table = pa.table(arrays, names=[f"c{at}" for at in range(len(types))])
    return table, ", ".join(f"c{at}::{kind}" for at, kind in enumerate(types))


def fill(con: swingdb.Connection, table: str, types: list[str], rows: list[tuple]) -> None:
    """Inserts keys, and behind them a number."""
    given, casts = given_rows([*types, "BIGINT"], rows)
    con.execute(f"INSERT INTO {table} SELECT {casts} FROM given")


def all_rows(con: swingdb.Connection, table: str) -> set[tuple]:
    return set(con.execute(f"SELECT * FROM {table}").fetchall())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("parents", "children"), [(40, 4_000), (60_000, 30), (50_000, 70_000)])
def test_references(rng: random.Random, kind: str, parents: int, children: int) -> None:
    types, make = KINDS[kind]
    names, defined = columns(types)
    con = swingdb.connect()
    con.execute(f"CREATE TABLE p ({defined}, v BIGINT, PRIMARY KEY ({names}))")
    con.execute(f"CREATE TABLE c ({defined}, v BIGINT, FOREIGN KEY ({names}) REFERENCES p)")
    numbers = rng.sample(range(60_000), min(parents, 60_000))
    keys = [make(number) for number in numbers]
    fill(con, "p", types, [(*key, at) for at, key in enumerate(keys)])
    held = {make(number) for number in range(60_000)} - set(keys)
    rows = [(*rng.choice(keys), at) for at in range(children)]
    fill(con, "c", types, rows)
    if held:
        missing = rng.choice(sorted(held))
        broken = [*rows, (*missing, -1)]
        rng.shuffle(broken)
        with pytest.raises(swingdb.ConstraintError, match="is not in table"):
            fill(con, "c", types, broken)
    assert con.execute("SELECT count(*) FROM c").fetchone() == (children,)
    # Parents that nobody refers to may go, others not.
    used = {row[:-1] for row in rows}
    free = {at for at, key in enumerate(keys) if key not in used}
    gone = pa.table({"v": pa.array(sorted(free), pa.int64())})
    con.execute("DELETE FROM p WHERE v IN (SELECT v FROM gone)")
    assert con.execute("SELECT count(*) FROM p").fetchone() == (len(used),)
    some = rng.choice([at for at, key in enumerate(keys) if key in used])
    with pytest.raises(swingdb.ConstraintError, match="still refer"):
        con.execute("DELETE FROM p WHERE v = ?", (some,))
    with pytest.raises(swingdb.ConstraintError, match="still refer"):
        con.execute("DELETE FROM p")
    con.execute("DELETE FROM c")
    con.execute("DELETE FROM p")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "given"), [(40, 4_000), (50_000, 30), (40_000, 50_000)])
def test_on_conflict(rng: random.Random, kind: str, before: int, given: int) -> None:
    types, make = KINDS[kind]
    names, defined = columns(types)
    con = swingdb.connect()
    con.execute(f"CREATE TABLE t ({defined}, v BIGINT, PRIMARY KEY ({names}))")
    state = {make(number): 0 for number in rng.sample(range(60_000), before)}
    fill(con, "t", types, [(*key, value) for key, value in state.items()])
    for value in (1, 2):
        new = [make(number) for number in rng.sample(range(60_000), given)]
        rows, casts = given_rows(types, new)
        con.execute(
            f"INSERT INTO t SELECT {casts}, {value} FROM rows "
            f"ON CONFLICT ({names}) DO UPDATE SET v = excluded.v + t.v * 10",
        )
        for key in new:
            state[key] = value + state[key] * 10 if key in state else value
        assert all_rows(con, "t") == {(*key, value) for key, value in state.items()}
        con.execute("DELETE FROM t WHERE v = 0")
        state = {key: value for key, value in state.items() if value != 0}
