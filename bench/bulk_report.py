"""Draws the experiment about copying big data from its results, and puts its tables into
docs/experiments-bulk.md.

    python bench/bulk_report.py
"""

from __future__ import annotations

import statistics

import matplotlib
from experiments import insert, save
from report import INK, OURS, THEIRS, THIRD, load, table

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

SURVEY = ("pipe", "mmap", "splice")
TITLES = {
    "survey": "the survey's experiment",
    "files": "files on a disk, in the page cache",
    "memory": "files in memory",
    "cold": "source not in the page cache, target synced",
    "limited": "the same, little page cache",
}
SWEEPS = {
    "pipes": ("pipe_kib", "capacity of pipe or socket, KiB"),
    "chunks": ("chunk_kib", "moved by one call, KiB"),
    "sizes": ("mb", "source, MB"),
}
STYLES = {
    "pipe": (THEIRS, "-"), "socket": (THEIRS, "--"), "mmap": (THIRD, "-"), "ring": (THIRD, "--"),
    "splice": (INK, "-"), "vmsplice": (INK, "--"), "sendfile-splice": (INK, ":"),
    "uring": (THIRD, ":"), "swing": (OURS, "-"),
}


def runs(results: dict, part: str, way: str) -> list[dict]:
    """The runs of one way in one part that came to their end."""
    of = [p for p in results["points"] if (p["part"], p["way"]) == (part, way)]
    return [run for point in of for run in point["runs"] if "error" not in run]


def processor(run: dict) -> float:
    """Seconds of processor time of both processes."""
    sides = (run["sender"], run["receiver"])
    return sum(side["user_s"] + side["system_s"] for side in sides)


def median(values: list[float]) -> float:
    """The median; of nothing, nothing."""
    return statistics.median(values) if values else float("nan")


def ways(results: dict) -> None:
    """A row of plots a part: seconds of sender and receiver, and processor time."""
    parts = [part for part in list(TITLES)[1:] if any(p["part"] == part for p in results["points"])]
    names = list(results["ways"])[::-1]
    figure, axes = plt.subplots(
        len(parts), 2, figsize=(10, 3.6 * len(parts)), sharey=True, squeeze=False
    )
    for part, (left, right) in zip(parts, axes, strict=True):
        found = [runs(results, part, name) for name in names]
        for shift, side, colour in ((0.2, "sender", THEIRS), (-0.2, "receiver", OURS)):
            places = [at + shift for at in range(len(names))]
            middle = [median([run[side]["seconds"] for run in of]) for of in found]
            left.barh(places, middle, 0.38, color=colour, label=side)
            for place, of in zip(places, found, strict=True):
                points = [run[side]["seconds"] for run in of]
                left.plot(points, [place] * len(points), "|", color=INK, ms=4)
        begin = [0.0] * len(names)
        for kind, colour in (("user_s", THIRD), ("system_s", INK)):
            middle = [
                median([run["sender"][kind] + run["receiver"][kind] for run in of]) for of in found
            ]
            middle = [0.0 if value != value else value for value in middle]
            right.barh(range(len(names)), middle, 0.7, left=begin, color=colour, label=kind[:-2])
            begin = [a + b for a, b in zip(begin, middle, strict=True)]
        left.set(title=TITLES[part], xlabel="seconds", yticks=range(len(names)))
        left.set_yticklabels(names)
        right.set(title="processor time of both", xlabel="seconds")
    axes[0][0].legend(frameon=False, fontsize=8)
    axes[0][1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    save(figure, "bulk")


def sweeps(results: dict) -> None:
    """Throughput by processor time over each parameter."""
    parts = [part for part in SWEEPS if any(p["part"] == part for p in results["points"])]
    if not parts:
        return
    figure, many = plt.subplots(
        1, len(parts), figsize=(4.4 * len(parts), 3.6), sharey=True, squeeze=False
    )
    for part, axes in zip(parts, many[0], strict=True):
        key, label = SWEEPS[part]
        of = [p for p in results["points"] if p["part"] == part]
        for way in dict.fromkeys(p["way"] for p in of):
            points = sorted(
                (p[key], median([run["bytes"] / processor(run) / 1e9 for run in p["runs"]]))
                for p in of if p["way"] == way and "error" not in p["runs"][0]
            )
            colour, line = STYLES[way]
            shown = zip(*points, strict=True)
            axes.plot(*shown, line, color=colour, marker="o", ms=3, label=way)
        ticks = sorted({p[key] for p in of})
        axes.set(xlabel=label, xscale="log", ylim=(0, None))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=7)
    many[0][0].set_ylabel("GB a second of processor time")
    figure.tight_layout()
    save(figure, "bulk-parameters")


def spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def ways_table(results: dict, part: str) -> str:
    """One part in numbers; ratios to pipes are of the same round."""
    rows = []
    pipe = runs(results, part, "pipe")
    for way, about in results["ways"].items():
        of = runs(results, part, way)
        if not any((p["part"], p["way"]) == (part, way) for p in results["points"]):
            continue
        shown = f"**{way}**" if way in SURVEY else way
        if not of:
            rows.append([shown, about, "no memory left" if part == "limited" else "failed"])
            rows[-1] += [""] * 6
            continue
        taken = [a["seconds"] / b["seconds"] for a, b in zip(of, pipe, strict=False)]
        used = [processor(a) / processor(b) for a, b in zip(of, pipe, strict=False)]
        rows.append([
            shown, about,
            *(spread([run[side]["seconds"] for run in of]) for side in ("sender", "receiver")),
            f"{median(taken):.2f}" if taken else "",
            f"{median([processor(run) for run in of]):.2f}",
            f"{median(used):.2f}" if used else "",
            f"{median([run['cores'] for run in of]):.2f}",
            f"{median([run['bytes'] / run['seconds'] / 1e9 for run in of]):.2f}",
        ])
    heads = ["way", "", "sender, s", "receiver, s", "to pipe", "processor, s", "to pipe", "cores",
             "GB/s"]
    length = median([run["bytes"] for run in pipe]) / 1e6
    text = f"{length:.0f} MB, {len(pipe)} rounds.\n\n" + table(heads, rows)
    hooks = [run["handover_s"] for run in runs(results, part, "swing") if "handover_s" in run]
    if hooks:
        text += (
            f"\nOf the receiver's time, all hooks of an area together took "
            f"{1000 * median(hooks):.2f} ms.\n"
        )
    return text


def survey_table(results: dict) -> str:
    """What the survey says of splice, beside what splice saves here."""
    rows = []
    for part, title in TITLES.items():
        splice = runs(results, part, "splice")
        for other in ("pipe", "mmap"):
            of = runs(results, part, other)
            if splice and of:
                turns = list(zip(splice, of, strict=False))
                wall = median([1 - a["seconds"] / b["seconds"] for a, b in turns])
                used = median([1 - processor(a) / processor(b) for a, b in turns])
                rows.append([title, other, f"{wall:.0%}", f"{used:.0%}"])
    saved = table(["", "splice against", "time saved", "processor time saved"], rows)
    return ways_table(results, "survey") + "\nWhat splice saves, there and below:\n\n" + saved


def exports_table(results: dict) -> str:
    """Exports against Arrow's own writer; ratios are of the same round."""
    rows = []
    for table_name in dict.fromkeys(p["table"] for p in results["points"]):
        of = {p["way"]: p["runs"] for p in results["points"] if p["table"] == table_name}
        base = of["Arrow's writer"]
        for way, found in of.items():
            turns = list(zip(base, found, strict=True))
            rows.append([
                table_name, way, f"{found[0]['bytes'] / 1e6:.0f}",
                spread([run["seconds"] for run in found]),
                f"{median([run['bytes'] / run['seconds'] / 1e9 for run in found]):.2f}",
                f"{median([a['seconds'] / b['seconds'] for a, b in turns]):.2f}",
                f"{median([run['writer_s'] for run in found]):.3f}",
                f"{median([run['reader_s'] for run in found]):.3f}",
                f"{median([a['writer_s'] / b['writer_s'] for a, b in turns]):.2f}",
            ])
    heads = ["table", "way", "MB", "seconds", "GB/s", "times Arrow's speed",
             "writer's processor, s", "reader's, s", "Arrow's writer to it"]
    return table(heads, rows)


def main() -> None:
    """Draws and writes down."""
    to = {"page": "experiments-bulk", "by": "bulk_report"}
    exports = load("export")
    if exports:
        insert("exports", exports, exports_table(exports), **to)
    results = load("bulk")
    if results is None:
        if exports is None:
            raise SystemExit("no results yet: run make bench-bulk or make bench-export")
        return
    ways(results)
    sweeps(results)
    insert("survey", results, survey_table(results), **to)
    for part in list(TITLES)[1:]:
        if any(p["part"] == part for p in results["points"]):
            insert(part, results, ways_table(results, part), **to)


if __name__ == "__main__":
    main()
