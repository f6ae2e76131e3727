"""The workloads of FG_MM's paper, a walk through a graph and a key-value store under YCSB: through
the object heap, by guards and by plain pointers, against malloc's memory that Linux swaps, a mapped
file and, for YCSB, the hybrid cache foyer; all in one limit of memory.

    sudo python3 bench/heap/workloads.py btree ycsb-a --program target/release/examples/workloads

Needs root and memory control groups of version 1. Prints a table; writes the raw data to
bench/results/NAME.json and, if matplotlib is there, docs/pictures/NAME.svg. 1 GB of objects in
64 MB; `--data-mib 10240` is the paper's 10 GB. A side that takes longer than `--most` seconds has
no figure: mapped files in control groups of version 1 do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from random_access import MIB, SLACK_BYTES, measure, memory_group, swap_file

sys.path.append(str(Path(__file__).resolve().parent.parent))

import common  # noqa: E402

PAPER = ("random", "btree", "quicksort", "bloom")
YCSB = tuple(f"ycsb-{name}" for name in "abcdef")
WORKLOADS = (*PAPER, "graph", *YCSB)
SIDES = ("heap", "s3fifo", "pointers", "malloc", "mapped", "foyer")
LABELS = {
    "heap": "object heap, guards",
    "s3fifo": "object heap, guards, S3-FIFO",
    "pointers": "object heap, plain pointers",
    "malloc": "malloc, Linux swap",
    "mapped": "mapped file",
    "foyer": "foyer",
}
# The index of a key-value store, in ordinary memory on all sides, for each object.
INDEX_BYTES = 24
# What foyer itself keeps for each object on the disk, given to it on top.
FOYER_BYTES = 64


def limit_of(options: argparse.Namespace, workload: str, side: str, objects: int) -> int:
    """The limit of memory of a side."""
    each = 16 + INDEX_BYTES * workload.startswith("ycsb") + FOYER_BYTES * (side == "foyer")
    return options.budget_mib * MIB + each * objects + SLACK_BYTES


def run(options: argparse.Namespace, workload: str, side: str, size: int) -> dict:
    """One run of one side; what it measured, or that it took too long."""
    objects = options.data_mib * MIB // size
    program = options.foyer if side == "foyer" else options.program
    given = [str(n) for n in (objects, size, options.accesses, options.budget_mib)]
    limit = limit_of(options, workload, side, objects)
    with memory_group(limit) as group:
        try:
            return measure(group, [program, workload, side, *given, str(options.folder)],
                           options.most) | {"limit": limit}  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"seconds": None, "sum": None, "limit": limit}


def cell(options: argparse.Namespace, workload: str, size: int) -> dict:
    """All sides of one workload and one size of objects; each side by turns."""
    sides = [side for side in options.sides if side != "foyer" or workload in YCSB]
    runs: dict[str, list[dict]] = {side: [] for side in sides}
    for _ in range(options.runs):
        for side in sides:
            late = [found for found in runs[side] if found["seconds"] is None]
            if not late:
                runs[side].append(run(options, workload, side, size))
    return {"workload": workload, "size": size, "runs": runs}


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
    colours = {"heap": report.OURS, "s3fifo": "#b5453a", "pointers": "#e39b92",
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
    axes.set_xticks(range(len(rows)), [f"{row['workload']}\n{row['size']} B" for row in rows])
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
    parser.add_argument("--accesses", default=50_000, type=int)
    parser.add_argument("--sizes", default=[1024], type=int, nargs="+")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--sides", default=["heap", "pointers", "malloc"], nargs="+",
                        choices=SIDES)  # fmt: skip
    parser.add_argument("--foyer", help="the program of bench/foyer")
    parser.add_argument("--most", default=900, type=float, help="seconds of a run")
    parser.add_argument("--name", default="heap-workloads", help="of the results and the picture")
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    if "foyer" in options.sides and not options.foyer:
        parser.error("--foyer is missing: the program of bench/foyer, built by cargo")
    rows, same = [], True
    with swap_file(options.folder, 2 * options.data_mib * MIB):
        for workload in options.workloads:
            for size in options.sizes:
                row = cell(options, workload, size)
                rows.append(row)
                sums = {found["sum"] for runs in row["runs"].values() for found in runs}
                same &= len(sums - {None}) == 1
                texts = ", ".join(told(row, side) for side in row["runs"])
                print(f"{workload}, {size} B: {texts}", flush=True)
                keep(options, rows)
    if "malloc" in options.sides:
        draw(rows, options.sides, options.name)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
