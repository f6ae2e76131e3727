"""Draws the scan's experiment from its results, docs/pictures/scan.svg, and puts its tables into
docs/experiments-disk.md.

    python3 bench/scan_report.py
"""

from __future__ import annotations

import statistics

import common
import matplotlib
from experiments import save
from report import INK, OURS, THEIRS, THIRD, load, table

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

COLOURS = (INK, THIRD, THEIRS, OURS)
BEGIN = "<!-- begin: bench/scan_report.py -->"
END = "<!-- end: bench/scan_report.py -->"
# Times as fast as one block at a time, with 20 single-domain scans: figures 7 and 8 of the paper.
PAPER = {"scan": "3", "aggregate": "4"}
NAMES = {"scan": "scan", "aggregate": "five aggregates at once"}


def draw(results: dict) -> None:
    """Time over depth, and over the size of buffers: figures 7, 8 and 9."""
    figure, axes = plt.subplots(1, 4, figsize=(17, 4), sharey=True)
    for (over, other), pair in ((("depth", "buffer_kib"), axes[:2]),
                                (("buffer_kib", "depth"), axes[2:])):
        for way, panel in zip(NAMES, pair, strict=True):
            points = [p for p in results["points"] if p["way"] == way and p["threads"] == 1]
            lines = sorted({p[other] for p in points})
            for value, colour in zip(lines, COLOURS, strict=False):
                line = sorted((p[over], p["seconds"]["median"]) for p in points
                              if p[other] == value)
                label = f"{value} KiB" if other == "buffer_kib" else f"depth {value}"
                panel.plot(*zip(*line, strict=True), color=colour, marker="o", ms=3, label=label)
            panel.set(title=NAMES[way], yscale="log", xscale="log",
                      xlabel="single-domain scans" if over == "depth" else "sub-buffer, KiB")
            shown = sorted({p[over] for p in points})
            panel.set_xticks(shown, [str(x) for x in shown])
            panel.minorticks_off()
            panel.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("seconds")
    figure.tight_layout()
    save(figure, "scan")


def grid_table(results: dict) -> str:
    """Medians of all shapes."""
    rows = []
    for point in results["points"]:
        seconds = point["seconds"]
        speed = statistics.median(run["mb_per_s"] for run in point["runs"])
        rows.append([
            NAMES[point["way"]], str(point["depth"]), str(point["threads"]),
            f"{point['buffer_kib']} KiB", f"{seconds['median']:.3f}",
            f"{seconds['least']:.3f}-{seconds['most']:.3f}", f"{speed:.0f}",
            f"{point['cores']:.2f}",
        ])
    heads = ["", "single-domain scans", "threads", "sub-buffer", "seconds", "least-most", "MB/s",
             "cores"]
    return table(heads, rows)


def turns_table(results: dict) -> str:
    """What the targets compare: ratios within each turn, of which medians are told."""
    turns = results["turns"]
    fio = turns["fio"]
    rows = []
    if fio:
        block, depth = results["fio_best"]
        name = f"fio at its best ({block} KiB, depth {depth})"
        rows.append([name, f"{statistics.median(fio):.0f}", "1.00", "", "", "", ""])
    for name, runs in turns.items():
        if name == "fio":
            continue
        way = name.split(",")[0]
        alone = turns[f"{way}, one block of 16 KiB at a time"]
        speed = [run["mb_per_s"] for run in runs]
        to_fio = [mine / its for mine, its in zip(speed, fio, strict=False)]
        ratio = [a["seconds"] / r["seconds"] for a, r in zip(alone, runs, strict=True)]
        lane_kib = max(r["buffers"] * r["buffer_bytes"] // r["lanes"] for r in runs) >> 10
        rows.append([
            name.replace(way, NAMES[way]), f"{statistics.median(speed):.0f}",
            f"{statistics.median(to_fio):.2f}" if fio else "",
            f"{statistics.median(ratio):.1f}", PAPER.get(name, ""),
            f"{statistics.median(run['cores'] for run in runs):.2f}", f"{lane_kib} KiB",
        ])
    heads = ["", "MB/s", "to fio", "to one block of 16 KiB at a time", "the paper",
             "cores"]
    return table([*heads, "buffers of a domain"], rows)


def main() -> None:
    """Draws and writes down what was measured."""
    results = load("scan")
    if results is None:
        raise SystemExit("no results yet: run make bench-scan")
    draw(results)
    of, made = results["machine"], results["table"]
    text = (
        f"{of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}, "
        f"measured {results['measured']}. {made['rows']} rows, {made['bytes'] / 1e9:.2f} GB.\n\n"
        f"{turns_table(results)}\n{grid_table(results)}"
    )
    path = common.ROOT / "docs/experiments-disk.md"
    if not path.exists() or BEGIN not in path.read_text():
        print(text)
        return
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
