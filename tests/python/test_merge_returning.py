"""What MERGE returns: the rows as the table has them behind it, whatever moves meanwhile."""

from __future__ import annotations

import random

import pytest

import swingdb


@pytest.mark.parametrize("seed", range(12))
def test_returned_rows_are_those_of_the_table(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.choice([5, 50, 300, 3000])
    con = swingdb.connect()
    con.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER)")
    done = 0
    while done < rows:
        end = min(rows, done + draw.randint(1, rows))
        con.execute(f"INSERT INTO t SELECT range, 0 FROM range({done}, {end})")
        done = end
    left_out = draw.randint(0, 6)
    con.execute(f"DELETE FROM t WHERE k % 7 = {left_out}")
    every, above = draw.choice([2, 3, 5]), draw.randint(0, rows)
    returned = con.execute(f"""
        MERGE INTO t USING (SELECT range AS k FROM range({rows * 2})) AS s ON t.k = s.k
        WHEN MATCHED AND t.k % {every} = 0 THEN DELETE
        WHEN MATCHED AND t.k > {above} THEN UPDATE SET v = s.k
        WHEN NOT MATCHED THEN INSERT VALUES (s.k, -1)
        RETURNING k, v
    """).fetchall()
    had = [k for k in range(rows) if k % 7 != left_out]
    deleted = [(k, 0) for k in had if k % every == 0]
    updated = [(k, k) for k in had if k % every != 0 and k > above]
    inserted = [(k, -1) for k in range(rows * 2) if k >= rows or k % 7 == left_out]
    assert sorted(returned) == sorted(deleted + updated + inserted)
    kept = [(k, 0) for k in had if k % every != 0 and k <= above]
    found = con.execute("SELECT k, v FROM t").fetchall()
    assert sorted(found) == sorted(kept + updated + inserted)
