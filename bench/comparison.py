"""Makes docs/comparison.md: SwingDB beside what one would use instead, from the results under
bench/results.

    python bench/comparison.py

Each result is a list of cases: what, SwingDB's time, and the time of each peer. From them come the
tables, and the list of all cases in which a peer is faster: nothing is left out because it is lost.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import common
from report import DOCS, load, table

HEAD = """# Comparison

What SwingDB does beside what one would use instead, by what one wants to do. All figures come from
commands of this repository, and `bench/comparison.py` makes this page from their raw results under
`bench/results`. Times are medians in milliseconds; how many times SwingDB's time a peer takes
stands in brackets. Each section says on what it was measured, and with which versions.

"""
LOST = """## Where a peer is faster

All cases of the sections above in which SwingDB takes longer, the largest factor first.

"""


class Case(NamedTuple):
    """One thing to do: what SwingDB and others take for it."""

    what: str
    ours_ms: float
    peers_ms: dict[str, float]


class Job(NamedTuple):
    """What somebody wants to do, which benchmark does it, and how its results are read."""

    title: str
    name: str
    about: str
    read: Callable[[dict], Iterator[Case]]


def handover(results: dict) -> Iterator[Case]:
    """A case a size."""
    for size in dict.fromkeys(row["size"] for row in results["rows"]):
        ms = {r["way"]: r["ms"]["median"] for r in results["rows"] if r["size"] == size}
        ours = next(way for way in ms if way.startswith("SwingDB"))
        yield Case(size, ms.pop(ours), ms)


def against_duckdb(key: str) -> Callable[[dict], Iterator[Case]]:
    """A case a row, each measured with DuckDB beside it."""

    def read(results: dict) -> Iterator[Case]:
        for row in results["rows"]:
            both = (row["swingdb_ms"], row["duckdb_ms"])
            ours, theirs = (statistics.median(m) if isinstance(m, list) else m for m in both)
            yield Case(row[key], ours, {"DuckDB": theirs})

    return read


def per_query(results: dict) -> Iterator[Case]:
    """A case a query."""
    for row in results["rows"]:
        ms = {engine: statistics.median(times) for engine, times in row["ms"].items()}
        yield Case(row["query"], ms.pop("swingdb sql"), ms)


def exports(results: dict) -> Iterator[Case]:
    """A case a table and a way to export; the peer is Arrow's writer with the same memory."""
    for name in dict.fromkeys(point["table"] for point in results["points"]):
        ms = {
            p["way"]: 1000 * statistics.median(run["seconds"] for run in p["runs"])
            for p in results["points"] if p["table"] == name
        }
        theirs = ms.pop("Arrow's writer")
        for way, ours in ms.items():
            yield Case(f"{name}, {way}", ours, {"Arrow's writer": theirs})


JOBS = (
    Job("Hand a table to another process", "handover",
        "From the writer's call until another process, which is there already, has the sum of a "
        "column. One row was changed before. All files lie in memory.", handover),
    Job("Feed another program through a pipe", "export",
        "A table as an Arrow stream; Arrow's writer has the same memory.", exports),
    Job("One fresh process a query", "per-query",
        "From the start of the process to its end, TPC-H, all data in memory.", per_query),
    Job("SQL", "tpch", "TPC-H, in a process that is there already.", against_duckdb("query")),
    Job("Change many rows", "dml", "One statement, one transaction.", against_duckdb("statement")),
    Job("Import files", "import", "Five million rows into a new table.", against_duckdb("file")),
)


def section(job: Job, results: dict, cases: list[Case]) -> str:
    """One job: a row a case, and a last one with the geometric mean of the factors."""
    peers = list(dict.fromkeys(peer for case in cases for peer in case.peers_ms))
    rows, factors = [], {peer: [] for peer in peers}
    for case in cases:
        cells = []
        for peer in peers:
            ms = case.peers_ms.get(peer)
            if ms is not None:
                factors[peer].append(ms / case.ours_ms)
            cells.append("" if ms is None else f"{ms:.1f} ({ms / case.ours_ms:.2f}x)")
        rows.append([case.what, f"{case.ours_ms:.1f}", *cells])
    if len(cases) > 1:
        means = [math.exp(statistics.fmean(map(math.log, factors[peer]))) for peer in peers]
        rows.append(["geometric mean", "", *(f"{mean:.2f}x" for mean in means)])
    of = results["machine"]
    versions = dict(results.get("versions", {}))
    if "duckdb" in results:
        versions["duckdb"] = results["duckdb"]
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    circumstances = (
        f"`{results['command']}`, {of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, "
        f"Linux {of['kernel']}, measured {results['measured']}."
        + (f" Versions: {said}." if said else "")
    )
    heads = ["", "SwingDB, ms", *peers]
    return f"## {job.title}\n\n{job.about}\n\n{table(heads, rows)}\n{circumstances}\n\n"


def lost(found: list[tuple[Job, list[Case]]]) -> str:
    """All cases in which a peer is faster."""
    rows = [
        (case.ours_ms / ms, job.title, case.what, peer)
        for job, cases in found for case in cases for peer, ms in case.peers_ms.items()
        if ms < case.ours_ms
    ]
    shown = [[title, what, peer, f"{factor:.2f}x"] for factor, title, what, peer in
             sorted(rows, reverse=True)]
    return LOST + table(["job", "case", "faster", "SwingDB takes"], shown)


def main() -> None:
    """Writes the page from whatever has been measured."""
    text, found = HEAD, []
    for job in JOBS:
        results = load(job.name)
        if results is not None:
            cases = list(job.read(results))
            found.append((job, cases))
            text += section(job, results, cases)
    if not found:
        raise SystemExit("no results yet: run make bench-database")
    path = DOCS / "comparison.md"
    path.write_text(text + lost(found))
    print(f"wrote {Path(path).relative_to(common.ROOT)}")


if __name__ == "__main__":
    main()
