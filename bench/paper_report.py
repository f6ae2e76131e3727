"""Draws the paper's database experiments, Figures 15 to 19, from their results, and puts their
tables into docs/experiments.md.

    python bench/paper_report.py [fig15] [fig17] [fig18]

Of results with more rows than usual, `fig15-170m` for example, only tables are made.
"""

from __future__ import annotations

import statistics
import sys

import common
import matplotlib
from experiments import insert, save, seconds
from report import INK, OURS, THEIRS, THIRD, load, table

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

#: System: its colour and line.
STYLES = {
    "SwingDB": (OURS, "-"),
    "DuckDB file": (THEIRS, "-"),
    "DuckDB, Arrow over a socket": (THEIRS, "--"),
    "DuckDB, Arrow over a socket, streamed": (THEIRS, ":"),
    "DuckDB, Arrow Flight": ("#8fb0cf", "-"),
    "Redis, Arrow as values": ("#e39b92", "--"),
    "PostgreSQL, COPY BINARY": (THIRD, "-"),
    "PostgreSQL, cursor": (THIRD, ":"),
}
#: Parts of a run: what they are called, and their colour.
PARTS = {
    "query_s": ("query", INK), "transfer_s": ("transfer", THEIRS),
    "changes_s": ("pick-ups, drop-offs", "#e39b92"), "kmeans_s": ("K-means", OURS),
    "analysis_s": ("analysis", OURS),
}
KEYS = {"fig15": "threads", "fig17": "days", "fig18": "percent"}
SPLIT = {"fig15": "fig16", "fig18": "fig19"}


def parts(run: dict) -> dict[str, float]:
    """The parts of a run, in seconds."""
    return {part: run[part] for part in PARTS if part in run}


def total(run: dict) -> float:
    """All parts of a run."""
    return sum(parts(run).values())


def medians(point: dict, key: str) -> dict[int, dict[str, float]]:
    """The parts and the total of one system: medians, by what varies."""
    found = {}
    for at in dict.fromkeys(run[key] for run in point["runs"]):
        runs = [run for run in point["runs"] if run[key] == at]
        of = {p: statistics.median(run[p] for run in runs) for p in parts(runs[0])}
        found[at] = of | {"total": statistics.median(map(total, runs))}
    return found


def draw_lines(name: str, results: dict, label: str) -> None:
    """Total time of each system over what varies."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for point in results["points"]:
        found = medians(point, KEYS[name])
        colour, line = STYLES[point["system"]]
        values = [of["total"] for of in found.values()]
        axes.plot(list(found), values, line, color=colour, marker="o", ms=3, label=point["system"])
    ticks = sorted({run[KEYS[name]] for point in results["points"] for run in point["runs"]})
    axes.set(xlabel=label, ylabel="seconds, from asking to the answer", yscale="log")
    if name != "fig17":
        axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, name)


def draw_split(name: str, results: dict, at: list[int]) -> None:
    """The parts of each system's time, one plot for each of some values of what varies."""
    figure, many = plt.subplots(
        1, len(at), figsize=(4.2 * len(at) + 1.5, 3.4), sharey=True, squeeze=False
    )
    names = [point["system"] for point in results["points"]][::-1]
    for axes, value in zip(many[0], at, strict=True):
        begin = [0.0] * len(names)
        found = {p["system"]: medians(p, KEYS[name]).get(value, {}) for p in results["points"]}
        for part in [p for p in PARTS if any(p in of for of in found.values())]:
            label, colour = PARTS[part]
            widths = [found[system].get(part, 0.0) for system in names]
            axes.barh(names, widths, 0.7, left=begin, color=colour, label=label)
            begin = [a + b for a, b in zip(begin, widths, strict=True)]
        axes.set(title=f"{KEYS[name]} {value}", xlabel="seconds")
    many[0][-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    save(figure, SPLIT[name])


#: What was to be reached: figure, the peer, the part, the factor.
AIMS = {
    "fig15": ("DuckDB, Arrow over a socket", "total", 5, "end to end, with most threads"),
    "fig18": ("DuckDB, Arrow over a socket", "transfer_s", 20, "on the transfer, at 100 %"),
}
PICTURES_OF = {
    "fig15": [("fig15", "Time by threads"), ("fig16", "Parts of the time")],
    "fig17": [("fig17", "Time by days")],
    "fig18": [("fig18", "Time by selectivity"), ("fig19", "Parts of the time")],
}


def aim(name: str, by_system: dict[str, dict[int, dict[str, float]]]) -> str:
    """What was to be reached, and what was."""
    if name not in AIMS:
        return ""
    peer, part, factor, where = AIMS[name]
    ours, theirs = by_system.get("SwingDB"), by_system.get(peer)
    if not ours or not theirs:
        return ""
    at = max(set(ours) & set(theirs))
    found = theirs[at][part] / ours[at][part]
    return (
        f"\nThe aim: at least {factor} times faster than {peer}, {where}. "
        f"Here ({KEYS[name]} {at}): {found:.3g} times.\n"
    )


def show(name: str, results: dict, drawn: bool = True) -> str:
    """A row for each system and value: parts, total, and how much longer than SwingDB's."""
    key = KEYS[name]
    by_system = {point["system"]: medians(point, key) for point in results["points"]}
    ours = by_system.get("SwingDB", {})
    kinds = [p for p in PARTS if any(p in of for m in by_system.values() for of in m.values())]
    rows = []
    for at in dict.fromkeys(v for found in by_system.values() for v in found):
        for system, found in by_system.items():
            of, base = found.get(at), ours.get(at)
            if of is None:
                continue
            factors = [of[p] / base[p] if base and base[p] else None
                       for p in ("total", "transfer_s")]
            rows.append([
                str(at), system, *(seconds(1e9 * of[p]) if p in of else "" for p in kinds),
                seconds(1e9 * of["total"]),
                *("" if f is None or system == "SwingDB" else f"{f:.3g}x" for f in factors),
            ])
    heads = [key, "system", *(PARTS[p][0] for p in kinds), "in all", "to SwingDB's",
             "transfer to SwingDB's"]
    said = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    shown = PICTURES_OF[name] if drawn else []
    pictures = "".join(f"![{about}](pictures/{of}.svg)\n\n" for of, about in shown)
    text = (
        f"{pictures}{results['rows']:,} rows of {results['row_bytes']} bytes, "
        f"seed {results['seed']}; medians of {results['rounds']} rounds. Versions: {said}.\n\n"
    )
    for system, reason in results["left_out"].items():
        text += f"{system} is left out: {reason}.\n\n"
    return text + table(heads, rows) + aim(name, by_system)


def main() -> None:
    """Draws and writes down what was asked for and was measured."""
    asked = sys.argv[1:] or [name for name in KEYS if load(name)]
    labels = {"fig15": "threads of K-means", "fig17": "days", "fig18": "selectivity, %"}
    for name in asked:
        results = load(name)
        if results is None:
            raise SystemExit(f"no results yet: run make bench-{name}")
        draw_lines(name, results, labels[name])
        values = sorted({r[KEYS[name]] for point in results["points"] for r in point["runs"]})
        if name in SPLIT:
            draw_split(name, results, list(dict.fromkeys([values[0], values[-1]])))
        insert(name, results, show(name, results), by="paper_report")
        for path in sorted(common.RESULTS.glob(f"{name}-*.json")):
            if (more := load(path.stem)) is not None:
                insert(path.stem, more, show(name, more, False), by="paper_report")


if __name__ == "__main__":
    main()
