"""What the benchmarks of TPC-H share: its tables and queries, and whether two engines agree.

Imports no engine: who measures by number of cores settles these before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def same(ours: object, theirs: object) -> bool:
    """Whether two values are equal; inexact numbers to nine digits."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, (float, Decimal)) or isinstance(theirs, (float, Decimal)):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9, abs_tol=1e-6)
    return ours == theirs


def compare(query: str, ours: Sequence[Sequence], theirs: Sequence[Sequence]) -> None:
    """An error with the first difference between two results."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{query}: {len(ours)} rows, DuckDB {len(theirs)}")
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not all(map(same, a, b)):
            raise AssertionError(f"{query}, row {number}: {a} but DuckDB {b}")
