"""The workloads of FG_MM's paper, a walk through a graph and a key-value store under YCSB: through
the object heap, by guards and by plain pointers, against malloc's memory that Linux swaps, a mapped
file and, for YCSB, the hybrid cache foyer; all in one limit of memory.

    sudo python3 bench/heap/workloads.py btree ycsb-a --program target/release/examples/workloads

Needs root and memory control groups of version 1. Says before how long it may take and how much of
the disk it needs. Prints a table; writes the raw data to bench/results/NAME.json and, if matplotlib
is there, docs/pictures/NAME.svg. 1 GB of objects in 64 MB; `--size 64M:10G` is the paper's 10 GB. A
run that takes longer than `--most` seconds has no figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from random_access import MIB, SLACK_BYTES, measure, memory_group, swap_file

sys.path.append(str(Path(__file__).resolve().parent.parent))

import common  # noqa: E402

PAPER = ("random", "btree", "quicksort", "bloom")
# Workloads whose share of writes can be chosen.
MIXED = ("random", "btree", "bloom", "graph")
YCSB = tuple(f"ycsb-{name}" for name in "abcdef")
WORKLOADS = (*PAPER, "graph", *YCSB)
SIDES = ("heap", "lists", "pointers", "malloc", "mapped", "foyer")
LABELS = {
    "heap": "object heap, guards",
    "lists": "object heap, guards, two lists",
    "pointers": "object heap, plain pointers",
    "malloc": "malloc, Linux swap",
    "mapped": "mapped file",
    "foyer": "foyer",
}
# What the heap has in memory for each object, evicted or not; all sides' limit has it.
TABLE_BYTES = 16
# Sides that are heaps.
HEAPS = ("heap", "lists", "pointers")
# The index of a key-value store, in ordinary memory on all sides, for each object.
INDEX_BYTES = 24
# What foyer itself keeps for each object on the disk, given to it on top.
FOYER_BYTES = 64
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What is left free of the disk.
SPARE_BYTES = 2 << 30


def size_of(text: str) -> tuple[int, int]:
    """Budget and objects in MiB, from a text like `64M:10G`."""
    found = re.fullmatch(r"(\d+)([KMG]):(\d+)([KMG])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size like 64M:10G (budget:objects)")
    budget, data = (int(found[i]) * UNITS[found[i + 1]] // MIB for i in (1, 3))
    if not 6 <= budget < data:
        raise argparse.ArgumentTypeError(f"{text}: a budget is 6M at least, and less than objects")
    return budget, data


def seconds_of_disk(folder: Path) -> tuple[float, float]:
    """Seconds that the disk takes to write a MiB of many, and to read one page at random."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        begun = time.monotonic()
        for _ in range(64):
            file.write(os.urandom(MIB))
        file.flush()
        os.fdatasync(file.fileno())
        written = (time.monotonic() - begun) / 64
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        begun = time.monotonic()
        for place in range(100):
            os.pread(file.fileno(), 4096, place * 7919 % (64 * 256) * 4096)
        return written, (time.monotonic() - begun) / 100


def length_of(text: str) -> str:
    """The length of objects: a number, or ~ and one for random lengths of that average."""
    if not re.fullmatch(r"~?\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no length like 1024, nor ~1024 (random)")
    return text


def bytes_of(size: str) -> int:
    """The average length of objects."""
    return int(size.removeprefix("~"))


def accesses_of(options: argparse.Namespace, workload: str, size: str) -> int:
    """About how many objects a run of a workload touches."""
    if workload == "quicksort":
        some = max(2, options.data_mib * MIB // bytes_of(size) // 10)
        return round(1.5 * some * math.log2(some))
    return options.accesses * (50 if workload == "ycsb-e" else 1)


def check_disk(options: argparse.Namespace) -> str | None:
    """What is wrong with the disk, if it has no room for the runs."""
    swap = 2 * options.data_mib * MIB if "malloc" in options.sides else 0
    # The heap's file with its garbage, a mapped file, or that of foyer: one at a time.
    needed = swap + 2 * options.data_mib * MIB + SPARE_BYTES
    free = shutil.disk_usage(options.folder).free
    if needed > free:
        return (f"{options.folder} has {free >> 30} GiB free; swap file and objects need "
                f"{needed >> 30}: choose a smaller --size, or another --folder")  # fmt: skip
    return None


def tell_time(options: argparse.Namespace) -> None:
    """Prints how long the runs take, by what the disk does now: loading, and a page each for half
    of the accesses."""
    write, read = seconds_of_disk(options.folder)
    about, runs = 0.0, 0
    for workload in options.workloads:
        for size in options.sizes:
            sides = len(sides_of(options, workload))
            each = options.data_mib * write + accesses_of(options, workload, size) * read / 2
            count = sides * options.runs * len(mixes_of(options, workload))
            about += count * min(each, options.most)
            runs += count
    print(
        f"{options.data_mib} MiB of objects in {options.budget_mib} MiB, {runs} runs: about "
        f"{about / 60:.1f} minutes, at most {runs * options.most / 60:.0f}; "
        f"the disk writes {1 / write:.0f} MiB/s and reads a page in {read * 1e6:.0f} us",
        flush=True,
    )


def sides_of(options: argparse.Namespace, workload: str) -> list[str]:
    """The sides that have a workload."""
    return [side for side in options.sides if side != "foyer" or workload in YCSB]


def limit_of(options: argparse.Namespace, workload: str, side: str, objects: int) -> int:
    """The limit of memory of a side."""
    each = TABLE_BYTES + INDEX_BYTES * workload.startswith("ycsb") + FOYER_BYTES * (side == "foyer")
    return options.budget_mib * MIB + each * objects + SLACK_BYTES


def run(
    options: argparse.Namespace, workload: str, side: str, size: str, writes: int | None
) -> dict:
    """One run of one side; what it measured, or that it took too long."""
    objects = options.data_mib * MIB // bytes_of(size)
    program = options.foyer if side == "foyer" else options.program
    # The heap's budget has its table of objects in it, as the limit of all sides has.
    table = -(-TABLE_BYTES * objects // MIB) if side in HEAPS else 0
    budget = options.budget_mib + table
    given = [str(n) for n in (objects, size, options.accesses, budget, options.folder)]
    given += [] if writes is None else [str(writes)]
    limit = limit_of(options, workload, side, objects)
    with memory_group(limit) as group:
        try:
            found = measure(group, [program, workload, side, *given], options.most)
            return found | {"limit": limit}
        except subprocess.TimeoutExpired:
            return {"seconds": None, "sum": None, "limit": limit}


def mixes_of(options: argparse.Namespace, workload: str) -> list[int | None]:
    """The shares of writes that a workload is run with; none: its own."""
    return options.writes if workload in MIXED and options.writes else [None]


def cell(options: argparse.Namespace, workload: str, size: str, writes: int | None) -> dict:
    """All sides of one workload, size of objects and share of writes; each side by turns."""
    sides = sides_of(options, workload)
    runs: dict[str, list[dict]] = {side: [] for side in sides}
    for _ in range(options.runs):
        for side in sides:
            late = [found for found in runs[side] if found["seconds"] is None]
            if not late:
                runs[side].append(run(options, workload, side, size, writes))
    named = {"workload": workload, "size": size, "writes": writes}
    return named | {"most": options.most, "runs": runs}


def seconds(row: dict, side: str) -> float | None:
    """The median of a side; none if it took too long."""
    times = [found["seconds"] for found in row["runs"].get(side, [])]
    return statistics.median(times) if times and None not in times else None


def told(row: dict, side: str) -> str:
    """What is printed of a side."""
    time = seconds(row, side)
    if time is None:
        return f"{side} too long"
    p50, p99, p999 = row["runs"][side][-1]["access_us"]
    return f"{side} {time:.2f} s ({p50:.1f}/{p99:.0f}/{p999:.0f} us)"


def table(rows: list[dict], sides: list[str]) -> str:
    """The report: seconds of each side, and those of the heap by those of the others."""
    others = [side for side in sides if side not in ("heap", "lists", "pointers")]
    pairs = [(mine, other) for mine in ("heap", "pointers") if mine in sides for other in others]
    heads = ["workload", "object", "writes", *sides]
    heads += [f"{mine} by {other}" for mine, other in pairs]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        times = {side: seconds(row, side) for side in sides}
        limit = f"more than {row['most']:.0f} s"
        late = {side: limit if row["runs"].get(side) else "" for side in sides}
        cells = [late[side] if times[side] is None else f"{times[side]:.2f} s" for side in sides]
        for mine, other in pairs:
            both = times[mine] is not None and times[other] is not None
            cells.append(f"{times[mine] / times[other]:.2f}" if both else "")
        writes = "" if row["writes"] is None else f"{row['writes']} %"
        line = [row["workload"], f"{row['size']} B", writes, *cells]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def keep(options: argparse.Namespace, rows: list[dict]) -> None:
    """Writes the raw data, as far as they are there."""
    facts = {"machine": common.machine(), "disk": common.disk(options.folder)}
    facts["cores"] = len(os.sched_getaffinity(0))
    given = {name: getattr(options, name) for name in ("budget_mib", "data_mib", "accesses")}
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    result = json.dumps(facts | given | {"rows": rows}, indent=1)
    (common.RESULTS / f"{options.name}.json").write_text(result + "\n")


def draw(rows: list[dict], sides: list[str], name: str) -> None:
    """Bars of time by that of Linux swap."""
    try:
        import report
        from experiments import save
    except ImportError:
        print("no picture: matplotlib is not there")
        return
    colours = {"heap": report.OURS, "lists": "#b5453a", "pointers": "#e39b92",
               "malloc": report.THEIRS, "mapped": report.THIRD, "foyer": "#7a9e7e"}  # fmt: skip
    figure, axes = report.plt.subplots(figsize=(max(7, 1.1 * len(rows)), 3.6))
    width = 0.8 / len(sides)
    for index, side in enumerate(sides):
        heights = {}
        for place, row in enumerate(rows):
            ours, swap = seconds(row, side), seconds(row, "malloc")
            if ours is not None and swap is not None:
                heights[place + (index - len(sides) / 2 + 0.5) * width] = ours / swap
        axes.bar(list(heights), list(heights.values()), width, color=colours[side],
                 label=LABELS[side])  # fmt: skip
    names = [f"{row['workload']}\n{row['size']} B" for row in rows]
    names = [name if row["writes"] is None else f"{name}, {row['writes']} % w"
             for name, row in zip(names, rows, strict=True)]  # fmt: skip
    axes.set_xticks(range(len(rows)), names)
    axes.set_ylabel("time, that of Linux swap = 1")
    axes.legend(frameon=False, fontsize=8)
    save(figure, name)


def main() -> int:
    """Runs the cells; the exit status is 1 if the sides read different bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=PAPER, metavar="workload")
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", default=tempfile.gettempdir(), type=Path)
    parser.add_argument("--budget-mib", default=64, type=int)
    parser.add_argument("--data-mib", default=1024, type=int)
    parser.add_argument("--size", type=size_of, metavar="BUDGET:OBJECTS",
                        help="both at once, such as 64M:10G")  # fmt: skip
    parser.add_argument("--accesses", default=50_000, type=int)
    parser.add_argument("--sizes", default=["1024"], type=length_of, nargs="+",
                        help="of objects, in bytes; ~1024: random, so on average")  # fmt: skip
    parser.add_argument("--writes", type=int, nargs="+", metavar="PERCENT",
                        help="shares of accesses that write, for " + ", ".join(MIXED))  # fmt: skip
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--sides", default=["heap", "pointers", "malloc", "mapped"], nargs="+",
                        choices=SIDES)  # fmt: skip
    parser.add_argument("--foyer", help="the program of bench/foyer")
    parser.add_argument("--most", default=900, type=float, help="seconds of a run")
    parser.add_argument("--name", default="heap-workloads", help="of the results and the picture")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    if "foyer" in options.sides and not options.foyer:
        parser.error("--foyer is missing: the program of bench/foyer, built by cargo")
    if options.size:
        options.budget_mib, options.data_mib = options.size
    if problem := check_disk(options):
        parser.error(problem)
    tell_time(options)
    rows, same = [], True
    swap = swap_file(options.folder, 2 * options.data_mib * MIB)
    with swap if "malloc" in options.sides else nullcontext():
        for workload in options.workloads:
            cells = itertools.product(options.sizes, mixes_of(options, workload))
            for size, writes in cells:
                row = cell(options, workload, size, writes)
                rows.append(row)
                sums = {found["sum"] for runs in row["runs"].values() for found in runs}
                same &= len(sums - {None}) == 1
                texts = ", ".join(told(row, side) for side in row["runs"])
                mix = "" if writes is None else f", {writes} % writes"
                print(f"{workload}, {size} B{mix}: {texts}", flush=True)
                keep(options, rows)
    print(table(rows, options.sides))
    if "malloc" in options.sides:
        draw(rows, options.sides, options.name)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
