"""Makes docs/comparison.md: SwingDB beside what one would use instead, from the results under
bench/results.

    python bench/comparison.py

Each result is a list of cases: what, SwingDB's time, and the time of each peer. From them come the
tables, and the list of all cases in which a peer is faster: nothing is left out because it is lost.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import common
from report import DOCS, load, table

HEAD = """# Comparison

What SwingDB does beside what one would use instead, by what one wants to do. All figures come from
commands of this repository, and `bench/comparison.py` makes this page from their raw results under
`bench/results`. Figures are medians; how many times SwingDB's figure a peer's is stands in
brackets, so that above 1 SwingDB takes less. Each section says on what it was measured, and with
which versions. [Where a peer is faster](#where-a-peer-is-faster) lists every case that is lost.

"""
LOST = """## Where a peer is faster

All cases of the sections above in which SwingDB takes longer, or more, the largest factor first.

"""
#: Why a peer is ahead: benchmark, how the case begins, the reason. The first that fits is taken.
WHY = (
    ("handover", "", "the peer copies nothing either; what is left is starting the query"),
    ("dml", "INSERT", "new segments get their statistics and go to shared memory at once"),
    ("dml", "MERGE", "planning, and new segments of the touched columns"),
    ("dml", "UPDATE, one row", "planning, in DataFusion, is most of it"),
    ("dml", "DELETE, one row", "planning, in DataFusion, is most of it"),
    ("dml", "", "nothing is changed in place, since snapshots may see it: touched columns are "
     "written anew"),
    ("short", "", "planning of each new text; rows are found by two searches in sorted segments, "
     "where DuckDB has an index"),
    ("tpch", "q11", "a small query, whose planning counts"),
    ("tpch", "", "it computes and adds much; DuckDB's aggregation is faster there"),
    ("sql-tpch", "", "planning counts in small queries; others compute and add much"),
    ("sql-tpcds", "q51", "a running aggregate of a window is computed row by row"),
    *(("sql-tpcds", query, "hundreds of thousands of groups by several columns, in DataFusion's "
       "table of groups") for query in ("q23", "q65", "q67", "q78", "q97")),
    *(("sql-tpcds", query, "groups by eight columns of customers, most of them texts")
      for query in ("q04", "q11", "q74")),
    ("sql-tpcds", "q64", "a third of the time is planning: some thirty tables are joined"),
    ("sql-tpcds", "", "planning counts in queries of some ten tables; DuckDB's joins and groupings "
     "are faster in others"),
    ("sql-db-benchmark", "", "grouping and joining in DataFusion, of texts and of many groups"),
    *(("sql-clickbench", query, "millions of groups: sums and averages are exact, so the state "
       "of a group takes more memory") for query in ("q30", "q31", "q32")),
    ("sql-clickbench", "", "grouping of texts; in small queries, planning"),
    ("cold", "", "columns are unpacked into new memory of the area before the query reads them, by "
     "fewer busy cores"),
    ("commits", "", "more than half of it is the statement and the state in memory that snapshots "
     "take; SQLite appends pages to a log"),
    ("export", "", "PyArrow's writer, too, writes each buffer from where it lies"),
    ("many-cores", "import", "columns are encoded, and get their statistics, as they come; of a "
     "few rows, the commit is most of it"),
    ("many-cores", "", "it computes and adds much; DuckDB's aggregation is faster there"),
    ("per-query", "", "planning and the start of the engine's threads"),
    ("import", "", "DuckDB's reader of the format is faster for these columns"),
    ("private-copy", "", "SwingDB plans a statement, finds the rows by their values, writes the "
     "touched column anew and commits; the peer stores into an array"),
    ("footprint", "", "text has a view of 16 bytes besides its bytes, so that others read it in "
     "place; the engine's threads and plans take some tens of MB; DuckDB compresses its file"),
    ("readers-writer", "", "a transaction here is two SQL statements that are planned, and new "
     "column segments; LMDB and SQLite change pages in a tree"),
    ("installed", "", "the query engine is one large library"),
)


class Unit(NamedTuple):
    """What the figures of a section are, and how they are shown."""

    name: str
    digits: int = 1


MS, MEGABYTES = Unit("ms"), Unit("MB", 0)


class Case(NamedTuple):
    """One thing to do: what SwingDB and others take for it."""

    what: str
    ours: float
    peers: dict[str, float]


class Job(NamedTuple):
    """What somebody wants to do, which benchmark does it, and how its results are read."""

    title: str
    name: str
    about: str
    read: Callable[[dict], Iterator[Case]]
    unit: Unit = MS
    #: What is to be said besides the table.
    more: Callable[[dict], str] | None = None


def handover(key: str) -> Callable[[dict], Iterator[Case]]:
    """A case a size: until the sum (`ms`), or until the table is there (`had_ms`)."""

    def read(results: dict) -> Iterator[Case]:
        for size in dict.fromkeys(row["size"] for row in results["rows"]):
            of = [row for row in results["rows"] if row["size"] == size and key in row]
            ms = {row["way"]: row[key]["median"] for row in of}
            ours = next((way for way in ms if way.startswith("SwingDB")), None)
            if ours:
                yield Case(size, ms.pop(ours), ms)

    return read


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


def large(results: dict) -> Iterator[Case]:
    """A case a part, by all the cores that were measured."""
    most = max(row["cores"] for row in results["rows"])
    for row in results["rows"]:
        if row["cores"] == most:
            ours, theirs = (
                1e3 * statistics.median(wall for wall, _ in row[engine])
                for engine in ("swingdb", "duckdb")
            )
            yield Case(row["part"], ours, {"DuckDB": theirs})


def large_parts(results: dict) -> str:
    """Totals by number of cores."""
    rows = [
        [str(total["cores"]), total["kind"],
         *(f"{total[f'{engine}_s']:.2f} ({total[f'{engine}_cores']:.2f})"
           for engine in ("swingdb", "duckdb")),
         f"{total['swingdb_s'] / total['duckdb_s']:.2f}", f"{total['geometric_mean_ratio']:.2f}"]
        for total in results["totals"]
    ]
    heads = ["cores", "of", "SwingDB, s (cores used)", "DuckDB", "ratio", "geometric mean"]
    return f"\nScale {results['scale']:g}. In total:\n\n" + table(heads, rows)


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


def rates(what: Callable[[dict], str]) -> Callable[[dict], Iterator[Case]]:
    """A case a row whose runs tell how often a second; milliseconds of one."""

    def read(results: dict) -> Iterator[Case]:
        for row in results["rows"]:
            ms = {
                engine: 1e3 / statistics.median(run["per_second"] for run in runs)
                for engine, runs in row["runs"].items()
            }
            ours = ms.pop("swingdb")
            yield Case(what(row), ours, {NAMES[engine]: one for engine, one in ms.items()})

    return read


def private_copy(results: dict) -> Iterator[Case]:
    """A case a size and kind of change."""
    for mb, which in dict.fromkeys((row["mb"], row["which"]) for row in results["rows"]):
        ms = {
            row["way"]: statistics.median(run["ms"] for run in row["runs"])
            for row in results["rows"] if (row["mb"], row["which"]) == (mb, which)
        }
        ours = next((way for way in ms if way.startswith("SwingDB")), None)
        if ours:
            yield Case(f"{mb:g} MB, {which}", ms.pop(ours), ms)


def copy_memory(results: dict) -> str:
    """Memory that private copies took."""
    rows = []
    for mb, which in dict.fromkeys((row["mb"], row["which"]) for row in results["rows"]):
        for row in results["rows"]:
            if (row["mb"], row["which"]) == (mb, which):
                pss, files = (
                    statistics.median(run[key] for run in row["runs"]) / 1e6
                    for key in ("pss_bytes", "files_bytes")
                )
                rows.append([f"{mb:g} MB, {which}", row["way"], f"{pss:.0f}", f"{files:.0f}"])
    return "\n" + table(["", "way", "more PSS, MB", "new files, MB"], rows)


def footprint(results: dict) -> Iterator[Case]:
    """One process, and two processes that read the same rows."""
    for what, key in (("one process", "memory_bytes"), ("two processes", "with_second_bytes")):
        mb = {row["holder"]: row[key] / 1e6 for row in results["rows"]}
        if "SwingDB" not in mb:
            return
        yield Case(what, mb.pop("SwingDB"), mb)


def footprint_parts(results: dict) -> str:
    """The parts of one process's memory."""
    rows = [
        [row["holder"], *(f"{row[key] / 1e6:.0f}"
                          for key in ("pss_bytes", "rss_bytes", "files_bytes"))]
        for row in results["rows"]
    ]
    return (
        f"\n{results['table_rows']:,} rows; the values alone are "
        f"{results['plain_bytes'] / 1e6:.0f} MB. Of one process:\n\n"
        + table(["", "PSS, MB", "RSS, MB", "files, MB"], rows)
    )


def installs(results: dict) -> Iterator[Case]:
    """Seconds, and megabytes."""
    def of(key: str, by: float) -> dict[str, float]:
        return {row["package"]: row[key] / by for row in results["rows"]}

    for what, key, by in (
        ("pip install, s", "install_s", 1), ("first answer, s", "first_s", 1),
        ("answer of a later process, s", "again_s", 1), ("wheels, MB", "wheel_bytes", 1e6),
        ("installed, MB", "installed_bytes", 1e6),
    ):
        found = of(key, by)
        if "swingdb" in found:
            yield Case(what, found.pop("swingdb"), found)


def beside(results: dict) -> Iterator[Case]:
    """Milliseconds of a transaction and of a read, by mode."""
    for mode in dict.fromkeys(row["mode"] for row in results["rows"]):
        of = {row["store"]: row for row in results["rows"] if row["mode"] == mode}
        if "SwingDB" not in of:
            continue
        for what, key in (
            ("transaction, writer alone", "alone_per_second"),
            (f"transaction beside readers, {mode}", "beside_per_second"),
        ):
            ms = {store: 1e3 / row[key] for store, row in of.items() if row[key]}
            yield Case(what, ms.pop("SwingDB"), ms)
        ms = {
            store: statistics.median(run["beside"]["read_ms"]["p50"] for run in row["runs"])
            for store, row in of.items() if all(run["beside"]["read_ms"] for run in row["runs"])
        }
        yield Case(f"a read, {mode}", ms.pop("SwingDB"), ms)


def beside_parts(results: dict) -> str:
    """What writers and readers did, and what was to be reached."""
    rows, refusals = [], {}
    for row in results["rows"]:
        runs = [run["beside"] for run in row["runs"]]

        def most(where: str, which: str, runs: list[dict] = runs) -> str:
            found = [run[where][which] for run in runs if run[where]]
            return f"{statistics.median(found):.1f}" if found else ""

        p99 = [statistics.median(run[side]["writer"]["transaction_ms"]["p99"]
                                 for run in row["runs"]) for side in ("alone", "beside")]
        rows.append([
            row["store"], row["mode"], f"{row['alone_per_second']:.0f}",
            f"{row['beside_per_second']:.0f}", f"{100 * row['lost']:.0f} %", f"{p99[0]:.1f}",
            f"{p99[1]:.1f}", f"{row['reads_per_second']:.0f}", most("read_ms", "p50"),
            most("read_ms", "p99"), most("age_ms", "p99"),
            "" if row["oldest_ms"] is None else f"{row['oldest_ms']:.0f}",
            f"{max(run['pss_bytes'] for run in runs) / 1e6:.0f}",
            f"{max(run['files_bytes'] for run in runs) / 1e6:.0f}",
            str(sum(run["refused"] for run in runs)),
        ])
        refusals |= {row["store"]: run["refusal"] for run in runs if run["refusal"]}
    heads = ["", "readers", "transactions/s alone", "beside", "lost", "p99, ms alone", "beside",
             "reads/s", "a read, ms", "p99", "state's age, ms, p99", "oldest, ms", "PSS, MB",
             "files, MB", "refused"]
    text = "\n" + table(heads, rows)
    for store, said in refusals.items():
        text += f"\n{store}, what a reader is told: `{re.sub('/[^ ]*/', '', said)}`\n"
    ours = next((row for row in results["rows"]
                 if (row["store"], row["mode"]) == ("SwingDB", "paced")), None)
    if ours and ours["oldest_ms"] is not None:
        text += (
            f"\nThe aim, with {results['readers']} readers that move every "
            f"{results['every_ms']:g} ms: the writer loses at most 10 %, and no state that a "
            f"reader has is older than 200 ms. Here it lost {100 * ours['lost']:.0f} %, and the "
            f"oldest state was {ours['oldest_ms']:.0f} ms old.\n"
        )
    return text


def suite(results: dict) -> Iterator[Case]:
    """A case a query of a suite."""
    for row in results["rows"]:
        ms = {engine: statistics.median(times) for engine, times in row["ms"].items() if times}
        if "SwingDB" in ms:
            yield Case(row["query"], ms.pop("SwingDB"), ms)


def suite_parts(results: dict) -> str:
    """Sizes, and what engines refuse or answer otherwise."""
    sizes = ", ".join(f"{name} {rows:,}" for name, rows in results["sizes"].items())
    text = f"\nRows: {sizes}.\n"
    for key, said in (("refused", "refuses"), ("different", "answers otherwise than DuckDB")):
        for row in results["rows"]:
            for engine, why in row[key].items():
                text += f"\n* {engine} {said}, {row['query']}: {why}"
    return text + "\n"


def had_aim(results: dict) -> str:
    """What was to be reached at 4 GB."""
    cases = [case for case in handover("had_ms")(results) if case.peers]
    if not cases:
        return ""
    last = cases[-1]
    peer = min(last.peers, key=lambda name: last.peers[name])
    text = (
        f"\nThe aim, at 4 GB: at least 1000 times faster than every peer. Here, at {last.what}, it "
        f"is {last.peers[peer] / last.ours:.0f} times faster than the fastest of them ({peer})."
    )
    unmeasured = dict.fromkeys(name for case in cases for name in case.peers)
    for name in [name for name in unmeasured if name not in last.peers]:
        case = next(case for case in reversed(cases) if name in case.peers)
        text += (
            f" {name} needs more memory than there is at {last.what}; at {case.what} it takes "
            f"{case.peers[name] / case.ours:.0f} times as long."
        )
    return text + "\n"


def fresh_aim(results: dict) -> str:
    """What was to be reached in total."""
    cases = list(per_query(results))
    ours = sum(case.ours for case in cases)
    factors = {}
    for peer in dict.fromkeys(itertools.chain(*(case.peers for case in cases))):
        # Of the queries that it answers.
        both = [(case.peers[peer], case.ours) for case in cases if peer in case.peers]
        factors[peer] = sum(theirs for theirs, _ in both) / sum(mine for _, mine in both)
    said = ", ".join(f"{peer} {factor:.1f}" for peer, factor in factors.items())
    return (
        "\nThe aim: at least three times faster than every peer in total. Here a peer's total is "
        f"so many times SwingDB's {ours:.0f} ms: {said}.\n"
    )


#: What the engines are called in results.
NAMES = {"duckdb": "DuckDB", "sqlite": "SQLite"}
JOBS = (
    Job("Have another process's table", "handover",
        "From the writer's call until another process, which is there already, has the table. One "
        "row was changed before. All files lie in memory. A file that is mapped, and a snapshot, "
        "are there before any of their bytes were read.", handover("had_ms"), MS, had_aim),
    Job("Hand a table to another process", "handover",
        "The same until the other process has the sum of a column.", handover("ms")),
    Job("Read while another process writes", "readers-writer",
        "One process changes 100 rows a transaction as fast as it can; others move to the newest "
        "state every 100 ms and read all rows, once (paced) or without a pause (busy). SwingDB's "
        "writer shares every 50 ms. A DuckDB file is closed for a moment every 50 ms, or kept "
        "open. All files lie in memory.", beside, MS, beside_parts),
    Job("Change 1 % of a private copy", "private-copy",
        "A process that is there already takes a copy of another one's table, adds 1 to a column "
        "of 1 % of the rows, and sums the column. A forked child cannot hand its copy on.",
        private_copy, MS, copy_memory),
    Job("Hold the same rows", "footprint",
        "Positions of taxis with two texts: what processes have more than before they loaded the "
        "rows, with the files in memory. A second process has a snapshot, the same file, or a copy "
        "of its own.", footprint, MEGABYTES, footprint_parts),
    Job("Feed another program through a pipe", "export",
        "A table as an Arrow stream; Arrow's writer has the same memory.", exports),
    Job("One fresh process a query", "per-query",
        "From the start of the process to its end, TPC-H, all data in memory.", per_query, MS,
        fresh_aim),
    Job("SQL", "tpch", "TPC-H, in a process that is there already.", against_duckdb("query")),
    *(
        Job(title, f"sql-{name}", "All engines have the same tables in memory, and take turns; "
            "answers are compared. A factor of an engine is over the queries that it answers.",
            suite, MS, suite_parts)
        for title, name in (
            ("TPC-H, more engines", "tpch"), ("TPC-DS", "tpcds"), ("db-benchmark", "db-benchmark"),
            ("ClickBench's queries on a synthetic table", "clickbench"),
        )
    ),
    Job("Import and query ten times as much", "many-cores",
        "The tables of TPC-H from Parquet files, a copy of the largest, and the queries, each "
        "engine in a process of its own.", large, MS, large_parts),
    Job("Change many rows", "dml", "One statement, one transaction.", against_duckdb("statement")),
    Job("Short statements", "short", "One after another, on a table of a million rows.",
        rates(lambda row: row["statement"])),
    Job("The first query on a database on a disk", "cold",
        "A fresh process, nothing in memory, TPC-H.", against_duckdb("query")),
    Job("Durable commits", "commits", "One row each, synced; milliseconds of one commit.",
        rates(lambda row: f"{row.get('statement', 'insert')}, {row['threads']} threads")),
    Job("Import files", "import", "Five million rows into a new table.", against_duckdb("file")),
    Job("Install it", "installed",
        "A fresh virtual environment, the wheels there already. The first answer is the sum of a "
        "column of a CSV file, in a process of its own.", installs, Unit("s, MB", 2)),
)


def section(job: Job, results: dict, cases: list[Case]) -> str:
    """One job: a row a case, and a last one with the geometric mean of the factors."""
    peers = list(dict.fromkeys(peer for case in cases for peer in case.peers))
    rows, factors = [], {peer: [] for peer in peers}
    for case in cases:
        cells = []
        for peer in peers:
            ms = case.peers.get(peer)
            if ms is not None:
                factors[peer].append(ms / case.ours)
            digits = job.unit.digits
            cells.append("" if ms is None else f"{ms:.{digits}f} ({ms / case.ours:.2f}x)")
        rows.append([case.what, f"{case.ours:.{job.unit.digits}f}", *cells])
    if len(cases) > 1:
        means = [math.exp(statistics.fmean(map(math.log, factors[peer]))) for peer in peers]
        rows.append(["geometric mean", "", *(f"{mean:.2f}x" for mean in means)])
    of = results["machine"]
    more = job.more(results) if job.more else ""
    if "left_out" in results:
        more += "".join(f"\n{name} is left out: {why}.\n"
                        for name, why in results["left_out"].items())
    versions = dict(results.get("versions", {}))
    if "duckdb" in results:
        versions["duckdb"] = results["duckdb"]
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    circumstances = (
        f"`{results['command']}`, {of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, "
        f"Linux {of['kernel']}, measured {results['measured']}."
        + (f" Versions: {said}." if said else "")
    )
    heads = ["", f"SwingDB, {job.unit.name}", *peers]
    shown = f"{table(heads, rows)}{more}"
    return f"## {job.title}\n\n{job.about}\n\n{shown}\n{circumstances}\n\n"


def why(job: Job, case: Case) -> str:
    """The reason why a peer is ahead."""
    return next(
        (reason for name, begins, reason in WHY
         if name == job.name and case.what.startswith(begins)), ""
    )


def lost(found: list[tuple[Job, list[Case]]]) -> str:
    """All cases in which a peer is faster."""
    rows = [
        (case.ours / theirs, job.title, case.what, peer, why(job, case))
        for job, cases in found for case in cases for peer, theirs in case.peers.items()
        if theirs < case.ours
    ]
    shown = [[title, what, peer, f"{factor:.2f}x", reason]
             for factor, title, what, peer, reason in sorted(rows, reverse=True)]
    return LOST + table(["job", "case", "ahead", "SwingDB takes", "why"], shown)


def main() -> None:
    """Writes the page from whatever has been measured."""
    text, found = HEAD, []
    for job in JOBS:
        results = load(job.name)
        cases = list(job.read(results)) if results is not None else []
        if cases:
            found.append((job, cases))
            text += section(job, results, cases)
    if not found:
        raise SystemExit("no results yet: run make bench-database")
    path = Path(os.environ.get("BENCH_PAGE", DOCS / "comparison.md"))
    path.write_text(text + lost(found))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
