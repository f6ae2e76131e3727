"""Makes docs/benchmarks.md and its plots from the results under bench/results."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import common
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

# The same results give the same file.
matplotlib.rcParams["svg.hashsalt"] = "swingdb"

DOCS = common.ROOT / "docs"
PICTURES = Path(os.environ.get("BENCH_PICTURES", DOCS / "pictures"))
INK, OURS, THEIRS, THIRD = "#1b2430", "#c0463a", "#3d6b99", "#8a8f98"
HEAD = """# Benchmarks

Every figure here comes from a command of this repository, and every table is made from the raw
results under `bench/results` by `bench/report.py`. Figures are medians unless something else is
said. The machine: {machine}. It is shared and noisy; ratios are of runs that took turns on it.

"""


def load(name: str) -> dict | None:
    """The results of one benchmark; None when it has not been run."""
    path = common.RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def spread(values: dict, digits: int = 0) -> str:
    """Median and quartiles."""
    return (
        f"{values['median']:.{digits}f} "
        f"({values['quarter']:.{digits}f}-{values['three_quarters']:.{digits}f})"
    )


def snapshot_section(results: dict) -> str:
    """Taking a snapshot."""
    rows = [
        [r["language"], r["size"], spread(r["take_us"], 1), f"{r['first_us']:.0f}"]
        for r in results["rows"]
    ]
    heads = ["language", "database", "snapshot, us (quartiles)", "first in a fresh process, us"]
    return (
        "The full path from the call to a handle that can be queried; nothing is copied. "
        "\n\n"
        + table(heads, rows)
        + "\n\nThe first query on a fresh snapshot, the snapshot included:\n\n"
        + table(
            ["database", "count of all rows, us", "one row by a condition, us"],
            [
                [r["size"], spread(r["count_us"]), spread(r["point_us"])]
                for r in results["first_queries"]
            ],
        )
    )


def handover_section(results: dict) -> str:
    """Handing a table over, against what programs do today."""
    draw_handover(results)
    by_way: dict[str, dict[str, float]] = {}
    for row in results["rows"]:
        by_way.setdefault(row["way"], {})[row["size"]] = row["ms"]["median"]
    sizes = list(next(iter(by_way.values())))
    ours = next(iter(by_way.values()))

    def shown(ms: dict[str, float], size: str) -> str:
        # Where memory does not hold what a way needs, it has not been measured.
        return f"{ms[size]:.1f} ({ms[size] / ours[size]:.1f}x)" if size in ms else ""

    rows = [[way, *(shown(ms, size) for size in sizes)] for way, ms in by_way.items()]
    versions = ", ".join(f"{k} {v}" for k, v in results["versions"].items())
    return (
        "Milliseconds from the writer's call until another process, which is there already, has "
        "summed one of three columns of the table; one row was changed before. All files lie in "
        f"memory. Versions: {versions}.\n\n![Handing a table over](pictures/handover.svg)\n\n"
        + table(["way", *sizes], rows)
    )


def draw_handover(results: dict) -> None:
    """Time over size, one line a way."""
    figure, axes = plt.subplots(figsize=(7.5, 3.8))
    by_way: dict[str, list[tuple[int, float]]] = {}
    for row in results["rows"]:
        by_way.setdefault(row["way"], []).append((row["bytes"], row["ms"]["median"]))
    label_ms = 0.0
    for way, points in sorted(by_way.items(), key=lambda item: item[1][-1][1]):
        ours = way.startswith("SwingDB")
        style = {"color": OURS, "linewidth": 2.5} if ours else {"color": THIRD, "linewidth": 1.2}
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, **style)
        # A label stays clear of the one below it.
        label_ms = max(points[-1][1], label_ms * 1.5)
        axes.annotate(
            way,
            (points[-1][0], label_ms),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=OURS if ours else INK,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = {row["bytes"]: row["size"] for row in results["rows"]}
    axes.set_xticks(list(sizes), list(sizes.values()))
    axes.minorticks_off()
    axes.set_ylabel("ms until the other has a sum")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURES / "handover.svg", bbox_inches="tight", metadata={"Date": None})


def share_section(results: dict) -> str:
    """Sharing after a small change, and after large ones."""
    rows = [[r["size"], spread(r["share_us"]), spread(r["change_us"])] for r in results["rows"]]
    text = table(["database", "share, us (quartiles)", "UPDATE of one row before it, us"], rows)
    large = results.get("large")
    if large is None:
        return text
    rows = [
        [r["change"], spread(r["writer_us"]), spread(r["snapshot_us"])] for r in large["rows"]
    ]
    heads = ["change", "share by the writer, us", "first share of a named snapshot, us"]
    gigabytes = large["bytes"] / common.GB
    text += f"\nAfter an import of {gigabytes:g} GB, and what was done with it next:\n\n"
    return text + table(heads, rows)


def first_scan_section(results: dict) -> str:
    """A fresh reader against the writer."""
    rows = [
        [
            r["pages"],
            r["size"],
            spread(r["reader_cold_ms"]),
            spread(r["reader_first_ms"]),
            spread(r["reader_again_ms"]),
            spread(r["writer_ms"]),
            f"{r['ratio']:.2f}",
        ]
        for r in results["rows"]
    ]
    heads = [
        "pages",
        "database",
        "first query of a process, ms",
        "reader's first sum, ms",
        "reader again, ms",
        "writer, ms",
        "ratio",
    ]
    return (
        "The reader is a fresh process; its first sum counts from the call that takes the "
        "snapshot. In the first column this is also the first query of the process, so the start "
        "of the query engine (some milliseconds, whatever the data) is in it; in the others a "
        "query on a table of one row came before. The ratio is that of the reader's first sum to "
        "the writer's.\n\n"
        + table(heads, rows)
    )


def readers_section(results: dict) -> str:
    """Memory of many readers."""
    return (
        f"{results['readers']} processes that have each read all of a database of "
        f"{results['size']} take together {results['pss_bytes'] / 1e9:.3f} GB "
        "(proportional set size) for "
        f"{results['data_bytes'] / 1e9:.3f} GB of data: {results['ratio']:.3f} times the data.\n"
    )


def dml_section(results: dict) -> str:
    """Statements that change a table."""
    medians = [
        (r["statement"], *(statistics.median(r[k]) for k in ("swingdb_ms", "duckdb_ms")))
        for r in results["rows"]
    ]
    rows = [[name, f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}"] for name, a, b in medians]
    return (
        "Each statement in a transaction of its own on a fresh table of "
        f"{results['table_rows']:,} rows (three numbers and a text), against DuckDB "
        f"{results['duckdb']} in memory; the tables compared afterwards. SwingDB's commits "
        "survive the death of the process, those of a database in memory do not.\n\n"
        + table(["statement", "SwingDB, ms", "DuckDB, ms", "ratio"], rows)
    )


def short_section(results: dict) -> str:
    """Short statements, in statements a second."""
    rows = []
    for r in results["rows"]:
        cells = []
        for engine in ("swingdb", "duckdb"):
            rate, cores = (
                statistics.median(run[what] for run in r["runs"][engine])
                for what in ("per_second", "cores")
            )
            cells.append(f"{rate:.0f} ({cores:.1f})")
        rows.append([r["statement"], *cells, f"{r['ratio']:.2f}"])
    return (
        f"One statement after another on a table of {results['table_rows']:,} rows with a primary "
        f"key, against DuckDB {results['duckdb']} in memory. A ratio above 1 says that SwingDB "
        f"is faster; their geometric mean is {results['geometric_mean']:.2f}.\n\n"
        + table(
            ["statement", "SwingDB, a second (cores used)", "DuckDB, a second (cores used)",
             "ratio"],
            rows,
        )
    )


ROWS_MEASURED = 1_000_000
#: How many times DuckDB's rate each way to fetch rows reaches: its name, and that of DuckDB's own.
FETCHES = {
    "libpq, binary": "duckdb, in process",
    "psycopg, binary": "duckdb, in process",
    "psycopg, text": "duckdb, in process",
    "swingdb, in process": "duckdb, in process",
    "swingdb, ADBC": "duckdb, ADBC",
    "Flight SQL, ADBC": "duckdb, ADBC",
}


def server_section(results: dict) -> str:
    """Sessions of the server, and rows by all drivers."""
    of = results["results"]
    starts = [
        [name.removeprefix("session, "), f"{one['median_ms']:.2f}", f"{one['p99_ms']:.2f}"]
        for name, one in of.items()
        if name.startswith("session, ")
    ]
    rows = []
    for name, peer in FETCHES.items():
        if name in of:
            ours, theirs = (of[one]["rows_per_second"] for one in (name, peer))
            cores = f"{of[name]['cores']:.1f}, {of[peer]['cores']:.1f}"
            rows.append([name, f"{ours / 1e6:.2f}", peer, f"{theirs / 1e6:.2f}", cores,
                         f"{ours / theirs:.2f}"])
    return (
        "A session on the server, from connecting until it is ready:\n\n"
        + table(["client", "median, ms", "p99, ms"], starts)
        + f"\n\n{results['rows']:,} rows of a number, a DOUBLE and a text, as tuples and, by ADBC, "
        f"as an Arrow table, against DuckDB {results['duckdb']}. Clients are in a process of their "
        "own where the server is one, and cores are those of both.\n\n"
        + table(["fetched by", "million rows a second", "DuckDB", "million rows a second",
                 "cores used", "ratio"], rows)
        + flight_note(of)
    )


def flight_note(of: dict) -> str:
    """Why rows over a connection do not come as fast as pointers within a process."""
    own = of.get("Flight SQL, ADBC", {}).get("own_cpu_seconds")
    if own is None:
        return ""
    whole = ROWS_MEASURED / of["duckdb, ADBC"]["rows_per_second"]
    return (
        f"\n\nA client of Flight SQL copies rows off a connection: its driver alone computes "
        f"{own * 1e3:.0f} ms for a million rows, where DuckDB, which has no such server, hands "
        f"over pointers within its process in {whole * 1e3:.0f} ms."
    )


def tpch_section(results: dict) -> str:
    """The 22 queries."""
    draw_tpch(results)
    medians = [
        (r["query"], *(statistics.median(r[k]) for k in ("swingdb_ms", "duckdb_ms")))
        for r in results["rows"]
    ]
    rows = [[q, f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}"] for q, a, b in medians]
    ours, theirs = results["total_ms"]
    rows.append(
        ["**total**", f"**{ours:.0f}**", f"**{theirs:.0f}**", f"**{results['ratio']:.2f}**"]
    )
    return (
        f"Scale factor {results['scale']:g}, DuckDB {results['duckdb']} with native in-memory "
        "tables, all values compared.\n\n![TPC-H](pictures/tpch.svg)\n\n"
        + table(["query", "SwingDB, ms", "DuckDB, ms", "ratio"], rows)
    )


def draw_tpch(results: dict) -> None:
    """Bars of both engines side by side."""
    figure, axes = plt.subplots(figsize=(11, 3.6))
    for offset, key, colour, label in (
        (-0.2, "swingdb_ms", OURS, "SwingDB"),
        (0.2, "duckdb_ms", THEIRS, f"DuckDB {results['duckdb']}"),
    ):
        heights = [statistics.median(r[key]) for r in results["rows"]]
        places = [i + offset for i in range(len(heights))]
        axes.bar(places, heights, width=0.4, color=colour, label=label)
    axes.set_xticks(range(len(results["rows"])), [r["query"] for r in results["rows"]], fontsize=8)
    axes.set_ylabel("ms, median")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / "tpch.svg", bbox_inches="tight", metadata={"Date": None})


def per_query_section(results: dict) -> str:
    """A process for each query."""
    engines = list(results["rows"][0]["ms"])
    rows = [
        [r["query"], *(f"{statistics.median(r['ms'][e]):.0f}" if e in r["ms"] else "refused"
                       for e in engines)]
        for r in results["rows"]
    ]
    versions = ", ".join(f"{k} {v}" for k, v in results["versions"].items())
    return (
        "Milliseconds from the start of the process to its end; TPC-H at scale "
        f"{results['scale']:g}, all data in memory. Versions: {versions}.\n\n"
        + table(["query", *engines], rows)
    )


def import_section(results: dict) -> str:
    """Import of files."""
    rows = [
        [
            r["file"],
            f"{r['bytes'] / 1e6:.0f}",
            f"{r['swingdb_ms']:.0f}",
            f"{r['duckdb_ms']:.0f}",
            f"{r['ratio']:.2f}",
        ]
        for r in results["rows"]
    ]
    return (
        "Five million taxi reports from one file into a new in-memory table, types found by the "
        "engine itself.\n\n" + table(["file", "MB", "SwingDB, ms", "DuckDB, ms", "ratio"], rows)
    )


def sessions_section(results: dict) -> str:
    """Many sessions at once."""
    engines = results["engines"]
    fair = "; ".join(
        f"{engine} {', '.join(map(str, found['fairness']['answers']))}, the least "
        f"{found['fairness']['least_of_mean']:.2f} of the mean"
        for engine, found in engines.items()
    )
    rows = [
        [what, *(f"{found[what]['p50']:.2f} / {found[what]['p99']:.2f}"
                 for found in engines.values())]
        for what in ("select alone", "select beside", "update alone", "update beside")
    ]
    return (
        f"On a table of {results['rows']:,} rows. Answers that {results['sessions']} sessions of "
        f"one process got which asked the same long query again and again: {fair}. Then a row "
        "selected, or updated and committed, by its key, milliseconds at 50 and 99 %: alone, and "
        f"beside {results['beside']} sessions with long queries; SwingDB's updates beside as many "
        "processes that take a new snapshot for each query.\n\n"
        + table(["", *engines], rows)
    )


def many_cores_section(results: dict) -> str:
    """Import, CREATE TABLE AS and TPC-H by number of cores."""
    rows = [
        [
            str(r["cores"]),
            r["kind"],
            f"{r['swingdb_s']:.2f} ({r['swingdb_cores']:.1f})",
            f"{r['duckdb_s']:.2f} ({r['duckdb_cores']:.1f})",
            f"{r['swingdb_s'] / r['duckdb_s']:.2f}",
            f"{r['geometric_mean_ratio']:.2f}",
        ]
        for r in results["totals"]
    ]
    machine = results["machine"]
    heads = ["cores", "what", "SwingDB, s (cores used)", "DuckDB, s (cores used)", "ratio", "mean"]
    return (
        f"TPC-H at scale {results['scale']:g} on {machine['processor']} with {machine['cores']} "
        "cores: the import of all tables, a copy of lineitem by CREATE TABLE AS, and the 22 "
        "queries. Cores used are processor time over wall time; the last column is the geometric "
        "mean of the ratios.\n\n" + table(heads, rows)
    )


def cold_section(results: dict) -> str:
    """The first query of a process on a database on a disk."""
    ours, theirs = "swingdb", "duckdb"
    rows = [
        [
            r["query"],
            f"{statistics.median(r[f'{ours}_ms']):.0f} ({r[f'{ours}_cores']:.1f})",
            f"{statistics.median(r[f'{theirs}_ms']):.0f} ({r[f'{theirs}_cores']:.1f})",
            f"{r['ratio']:.2f}",
        ]
        for r in results["rows"]
    ]
    parts = [results[name] / common.MB for name in ("memory_bytes", "store_bytes", "duckdb_bytes")]
    return (
        "A fresh process opens a database of TPC-H that lies on a disk, and nowhere in memory, and "
        f"asks one query. Of {parts[0]:.0f} MiB in memory the store takes {parts[1]:.0f} MiB, "
        f"{parts[1] / parts[0]:.2f} of them; DuckDB's file takes {parts[2]:.0f} MiB. The geometric "
        f"mean of the ratios is {results['geometric_mean']:.2f}.\n\n"
        + table(["query", "SwingDB, ms (cores used)", "DuckDB, ms (cores used)", "ratio"], rows)
    )


def commits_section(results: dict) -> str:
    """Durable commits of one row, by statement and number of threads."""
    rows = []
    for r in results["rows"]:
        runs = r["runs"]
        ours, theirs = (
            statistics.median(run["per_second"] for run in runs[engine])
            for engine in ("swingdb", "sqlite")
        )
        # Results of before the processor's time was recorded have none.
        our_cores, their_cores = (
            f"{statistics.median(run['cores'] for run in runs[engine]):.2f}"
            if all("cores" in run for run in runs[engine])
            else "not recorded"
            for engine in ("swingdb", "sqlite")
        )
        syncs = statistics.median(run["syncs_per_commit"] for run in runs["swingdb"])
        row = [r.get("statement", "insert").upper(), str(r["threads"])]
        row += [f"{ours:.0f}", f"{syncs:.2f}", our_cores, f"{theirs:.0f}", their_cores]
        rows.append([*row, f"{ours / theirs:.2f}"])
    waits = results["stalls"]
    heads = ["statement", "threads", "SwingDB, commits/s", "syncs a commit", "cores",
             "SQLite, commits/s", "cores", "ratio"]
    return (
        f"Each thread inserts or updates rows one by one with durability `commit`; SQLite "
        f"{results['sqlite']} with WAL and `synchronous=FULL`. Cores: the process's user and "
        "system time over the time that passed.\n\n" + table(heads, rows) + "\n"
        "While a checkpoint writes TPC-H to the disk, the longest of "
        f"{waits['during_ms']['count']} inserts took {waits['during_ms']['most']:.1f} ms, the "
        f"median {waits['during_ms']['median']:.1f} ms; without a checkpoint the median is "
        f"{waits['alone_ms']['median']:.1f} ms. On a machine whose cores are all busy a thread "
        "waits for one; without that wait, as the kernel counts it, the longest insert took "
        f"{waits['during_stalled_ms']['most']:.1f} ms.\n"
    )


def checkpoint_section(results: dict) -> str:
    """Checkpoints, whole and of changes."""
    ours, device, ratio = (
        statistics.median(run[key] for run in results["runs"])
        for key in ("per_second", "device_per_second", "ratio")
    )
    tables = results["tpch"]
    rows = [
        [f"{r['share']:g}", str(r["rows"]), f"{r['bytes'] / 1e6:.2f}", f"{r['seconds'] * 1e3:.1f}"]
        for r in results["changes"]
    ]
    return (
        f"The first checkpoint of {results['bytes'] / 1e6:.0f} MB of numbers, which are not "
        f"written in fewer bytes, runs at {ours / 1e6:.0f} MB/s, {ratio:.2f} of the disk's "
        f"sequential direct writes ({device / 1e6:.0f} MB/s). TPC-H, "
        f"{tables['memory_bytes'] / 1e6:.0f} MB in "
        f"memory, is on the disk after {tables['seconds']:.2f} s, in {tables['bytes'] / 1e6:.0f} "
        "MB.\n\nA checkpoint after neighbouring rows of the numbers have changed in one column:\n\n"
        + table(["share of the rows", "rows", "written, MB", "ms"], rows)
    )


def open_store_section(results: dict) -> str:
    """Opening a store."""
    rows = [
        [r["question"], f"{r['open_s'] * 1e3:.0f}", f"{r['answer_s'] * 1e3:.0f}",
         f"{r['in_memory']:.0%}"]
        for r in results["rows"]
    ]
    return (
        f"A fresh process opens a database of {results['memory_bytes'] / 1e9:.1f} GB, "
        f"{results['store_bytes'] / 1e9:.1f} GB on the disk, of which nothing is in memory.\n\n"
        + table(["first", "opened, ms", "answered, ms", "in memory then"], rows)
    )


def gpu_section(results: dict) -> str:
    """Another process's memory, copied to a GPU."""
    size, own = results["bytes"], results["copies"]["PyTorch's own pinned memory"]["s"]
    rows = [
        [name, f"{1e3 * copy['first_s']:.0f}", f"{1e3 * copy['s']:.0f}",
         f"{size / copy['s'] / 1e9:.1f}", f"{100 * own / copy['s']:.0f} %"]
        for name, copy in results["copies"].items()
    ]
    of = results["machine"]
    return (
        f"{size / common.GB:.0f} GiB of another process, to a {results['gpu']} with PyTorch "
        f"{results['torch']}, on a machine of its own ({of['processor']}, {of['cores']} cores, "
        f"{of['memory_gib']} GiB). The last column is the share of the rate of memory that PyTorch "
        "allocates for such copies.\n\n"
        + table(["what", "first, ms", "then, ms", "GB/s", "of pinned memory's rate"], rows)
    )


SECTIONS = [
    ("handover", "Handing a table to another process", handover_section),
    ("snapshot", "Taking a snapshot", snapshot_section),
    ("share", "Sharing after a change", share_section),
    ("first-scan", "The first scan of a fresh process", first_scan_section),
    ("readers", "Memory of eight readers", readers_section),
    ("import", "Import", import_section),
    ("dml", "Changing many rows", dml_section),
    ("short", "Short statements", short_section),
    ("tpch", "TPC-H", tpch_section),
    ("per-query", "A process for each query", per_query_section),
    ("sessions", "Many sessions at once", sessions_section),
    ("server", "Sessions and rows of the server and the drivers", server_section),
    ("many-cores", "By number of cores", many_cores_section),
    ("gpu", "To a GPU", gpu_section),
    ("cold", "The first query on a database on a disk", cold_section),
    ("commits", "Durable commits", commits_section),
    ("checkpoint", "Checkpoints", checkpoint_section),
    ("open-store", "Opening a database on a disk", open_store_section),
]


def main() -> None:
    """Writes the document from whatever has been measured."""
    found = [(title, section, r) for n, title, section in SECTIONS if (r := load(n))]
    if not found:
        raise SystemExit("no results yet: run make bench")
    of = found[0][2]["machine"]
    machine = (
        f"{of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}"
    )
    text = HEAD.format(machine=machine)
    for title, section, results in found:
        text += f"## {title}\n\n{section(results)}\n"
        text += f"`{results['command']}`, measured {results['measured']}\n\n"
    path = DOCS / "benchmarks.md"
    path.write_text(text.rstrip() + "\n")
    print(f"wrote {Path(path).relative_to(common.ROOT)}")


if __name__ == "__main__":
    main()
