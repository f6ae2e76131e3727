"""The workloads of FG_MM's paper through the object heap, by guards and by plain pointers, against
malloc's memory that Linux swaps, all in one limit of memory. A mapped file is the fourth side, on
demand (`--sides heap pointers malloc mapped`); in control groups of version 1 it takes very long.

    sudo python3 bench/heap/workloads.py btree --program target/release/examples/workloads

Needs root and memory control groups of version 1. Prints a table; writes the raw data to
bench/results/heap-workloads.json and, if matplotlib is there, docs/pictures/heap-workloads.svg.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from random_access import MIB, SLACK_BYTES, measure, memory_group, swap_file

sys.path.append(str(Path(__file__).resolve().parent.parent))

import common  # noqa: E402

WORKLOADS = ("random", "btree", "quicksort", "bloom")
SIDES = ("heap", "pointers", "malloc", "mapped")
LABELS = {
    "heap": "object heap, guards",
    "pointers": "object heap, plain pointers",
    "malloc": "malloc, Linux swap",
    "mapped": "mapped file",
}


def cell(options: argparse.Namespace, workload: str, size: int) -> dict:
    """All sides of one workload and one size of objects; each side by turns."""
    objects = options.data_mib * MIB // size
    limit = options.budget_mib * MIB + 16 * objects + SLACK_BYTES
    runs: dict[str, list[dict]] = {side: [] for side in options.sides}
    shared = [str(objects), str(size), str(options.accesses), str(options.budget_mib)]
    for _ in range(options.runs):
        for side in options.sides:
            command = [options.program, workload, side, *shared, str(options.folder)]
            with memory_group(limit) as group:
                runs[side].append(measure(group, command))
    return {"workload": workload, "size": size, "limit": limit, "runs": runs}


def seconds(row: dict, side: str) -> float:
    """The median of a side."""
    return statistics.median(run["seconds"] for run in row["runs"][side])


def draw(rows: list[dict], sides: list[str]) -> None:
    """Bars of time by that of Linux swap."""
    try:
        import report
        from experiments import save
    except ImportError:
        print("no picture: matplotlib is not there")
        return
    colours = {"heap": report.OURS, "pointers": "#e39b92", "malloc": report.THEIRS,
               "mapped": report.THIRD}  # fmt: skip
    figure, axes = report.plt.subplots(figsize=(7, 3.6))
    width = 0.8 / len(sides)
    for index, side in enumerate(sides):
        places = [place + (index - len(sides) / 2 + 0.5) * width for place in range(len(rows))]
        heights = [seconds(row, side) / seconds(row, "malloc") for row in rows]
        axes.bar(places, heights, width, color=colours[side], label=LABELS[side])
    axes.set_xticks(range(len(rows)), [f"{row['workload']}\n{row['size']} B" for row in rows])
    axes.set_ylabel("time, that of Linux swap = 1")
    axes.legend(frameon=False, fontsize=8)
    save(figure, "heap-workloads")


def main() -> int:
    """Runs the cells; the exit status is 1 if the sides read different bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, metavar="workload")
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", default=tempfile.gettempdir(), type=Path)
    parser.add_argument("--budget-mib", default=32, type=int)
    parser.add_argument("--data-mib", default=1024, type=int)
    parser.add_argument("--accesses", default=50_000, type=int)
    parser.add_argument("--sizes", default=[1024], type=int, nargs="+")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--sides", default=SIDES[:3], nargs="+", choices=SIDES)
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    rows, same = [], True
    with swap_file(options.folder, 2 * options.data_mib * MIB):
        for workload in options.workloads:
            for size in options.sizes:
                row = cell(options, workload, size)
                rows.append(row)
                sums = {run["sum"] for runs in row["runs"].values() for run in runs}
                same &= len(sums) == 1
                times = [f"{side} {seconds(row, side):.2f} s" for side in options.sides]
                print(f"{workload}, {size} B: {', '.join(times)}", flush=True)
    facts = {"machine": common.machine(), "disk": common.disk(options.folder)}
    given = {name: getattr(options, name) for name in ("budget_mib", "data_mib", "accesses")}
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    result = json.dumps(facts | given | {"rows": rows}, indent=1)
    (common.RESULTS / "heap-workloads.json").write_text(result + "\n")
    if "malloc" in options.sides:
        draw(rows, options.sides)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
