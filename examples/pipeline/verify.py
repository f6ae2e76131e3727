"""Checks the results of the pipeline by other means than those that made them.

Polars and NumPy compute the same things from A's rows; the generator's hot spots are the truth
for the clusters. Every check is printed with what was found. Polars reads the shared memory as it
is, streams, and takes few taxis at a time where it has to sort: the checks need little memory of
their own, however many rows there are.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import swingdb

# Every hot spot must have a cluster's centre within this distance.
MAX_DISTANCE_M = 600.0
# Averages are sums of many single-precision numbers, added up in different orders.
MAX_DIFFERENCE_KMH = 1e-3
# Rows that are sorted at a time.
MAX_ROWS_SORTED = 10_000_000


class Checks:
    """Counts what failed."""

    def __init__(self) -> None:
        self.failures = 0

    def that(self, holds: bool, text: str) -> None:
        """Prints one check and remembers when it does not hold."""
        self.failures += not holds
        print(f"  {'ok    ' if holds else 'FAILED'}  {text}", flush=True)


def facts(events: list[dict], stage: str, kind: str) -> dict:
    """The last event of this kind of a stage."""
    return [e for e in events if e["stage"] == stage and e["kind"] == kind][-1]


def frame(database: swingdb.Connection, table: str) -> pl.LazyFrame:
    """A table over the shared memory, its segments as they are."""
    return pl.from_arrow(database.table(table).arrow(), rechunk=False).lazy()


def expected_positions(clean: swingdb.Connection) -> pl.LazyFrame:
    """What C should have kept of A's rows, by a range join's worth of plain comparisons."""
    zones = clean.table("zones").pl()
    west, south = zones["min_longitude"].min(), zones["min_latitude"].min()
    east, north = zones["max_longitude"].max(), zones["max_latitude"].max()
    return frame(clean, "gps").filter(
        pl.col("longitude").is_between(west, east, closed="left")
        & pl.col("latitude").is_between(south, north, closed="left")
        & pl.col("speed").is_between(0, 150)
    )


def check_combined(checks: Checks, clean: swingdb.Connection) -> None:
    """C's table has the rows it should have, with the same speeds."""
    total = [pl.len(), pl.col("speed").cast(pl.Float64).sum()]
    rows, speeds = expected_positions(clean).select(total).collect(engine="streaming").row(0)
    got = clean.execute("SELECT count(*), sum(CAST(speed AS DOUBLE)) FROM positions").fetchone()
    same = got[0] == rows and abs(got[1] - speeds) <= 1e-9 * abs(speeds)
    checks.that(same, f"C kept {got[0]:,} rows; Polars keeps {rows:,}")


def check_changes(checks: Checks, clean: swingdb.Connection, clusters: swingdb.Connection) -> None:
    """D found every change of `occupied`."""
    rows, taxis = clean.execute("SELECT count(*), max(taxi_id) + 1 FROM gps").fetchone()
    slices = -(-rows // MAX_ROWS_SORTED)
    edges = [taxis * i // slices for i in range(slices + 1)]
    before = pl.col("occupied").shift(1).over("taxi_id", order_by="time")
    changed = pl.col("occupied") != before
    expected = 0
    for first, end in zip(edges, edges[1:], strict=False):
        some = expected_positions(clean).filter(pl.col("taxi_id").is_between(first, end - 1))
        ordered = some.select("taxi_id", "time", "occupied").collect(engine="streaming")
        expected += ordered.select(changed.sum()).item()
    found = clusters.execute("SELECT count(*) FROM points").fetchone()[0]
    checks.that(found == expected, f"D found {found:,} pick-ups and drop-offs; Polars {expected:,}")


def check_clusters(checks: Checks, clean: swingdb.Connection, clusters: swingdb.Connection) -> None:
    """Every hot spot of the generator has a centre close by."""
    spots = np.array(clean.execute("SELECT longitude, latitude FROM hot_spots").fetchall())
    centres = np.array(clusters.execute("SELECT longitude, latitude FROM centres").fetchall())
    metres = np.array([np.cos(np.radians(spots[:, 1].mean())), 1.0]) * 110_760.0
    apart = np.sqrt((((spots[:, None] - centres[None]) * metres) ** 2).sum(axis=2)).min(axis=1)
    checks.that(
        bool((apart <= MAX_DISTANCE_M).all()),
        f"every one of {len(spots)} hot spots has a centre near: median {np.median(apart):.0f} m, "
        f"furthest {apart.max():.0f} m",
    )


def check_speeds(checks: Checks, clean: swingdb.Connection, speeds: swingdb.Connection) -> None:
    """E's averages are those of Polars, group by group."""
    keys = ["slot", "zone_id"]
    slot = pl.col("time").dt.truncate("15s").alias("slot")
    expected = frame(clean, "positions").group_by(slot, "zone_id").agg(
        pl.col("speed").cast(pl.Float64).mean().alias("expected"), pl.len().alias("rows")
    )
    got = frame(speeds, "average_speed")
    both = got.join(expected, on=keys, how="full").collect(engine="streaming")
    complete = both.null_count().sum_horizontal().item() == 0
    different = (both["speed"] - both["expected"]).abs().max() if complete else float("nan")
    same = complete and bool((both["reports"] == both["rows"]).all())
    checks.that(
        same and different <= MAX_DIFFERENCE_KMH,
        f"E's {both.height:,} averages equal Polars', largest difference {different:.1e} km/h",
    )


def check_isolation(checks: Checks, events: list[dict], clean: swingdb.Connection) -> None:
    """A went on writing; C's snapshot stayed as it was."""
    written = [e for e in events if e["stage"] == "A" and e["kind"] == "write on"]
    before = facts(events, "C", "clean and combine")["before"]
    now = clean.execute("SELECT count(*) FROM gps").fetchone()[0]
    live = swingdb.snapshot("taxi").execute("SELECT count(*) FROM gps").fetchone()[0]
    checks.that(
        bool(written) and now == before < live,
        f"A wrote and shared {len(written)} times meanwhile, to {live:,} rows; C sees {now:,}",
    )


def check_everything(events: list[dict], arguments: argparse.Namespace) -> int:
    """All checks; the number that failed."""
    print("\nChecks")
    checks = Checks()
    loaded = facts(events, "A", "load")["rows"]
    checks.that(loaded == arguments.rows, f"A loaded {loaded:,} rows of {arguments.rows:,}")
    clean = swingdb.snapshot("clean")
    clusters, speeds = swingdb.snapshot("clusters"), swingdb.snapshot("speeds")
    check_isolation(checks, events, clean)
    check_combined(checks, clean)
    check_changes(checks, clean, clusters)
    check_clusters(checks, clean, clusters)
    check_speeds(checks, clean, speeds)
    return checks.failures
