"""Draws the paper's experiments from their results, docs/pictures/fig8.svg and so on; and puts
their tables into docs/experiments.md.

    python bench/experiments.py [fig8] [fig9] [fig10] [live]
"""

from __future__ import annotations

import statistics
import sys

import common
import matplotlib
from report import INK, OURS, PICTURES, THEIRS, THIRD, load, table

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

# Way: what it is called, its colour and line.
HANDING = {
    "hook": ("hook, all stored to since the last", OURS, "-"),
    "again": ("hook, nothing stored to since", OURS, ":"),
    "first": ("hook, the first of both processes", OURS, "--"),
    "fifo": ("FIFO", THEIRS, "-"),
    "pipe": ("pipe", THEIRS, ":"),
    "socket": ("Unix socket", THEIRS, "--"),
    "shm": ("shared memory: map, lock, scan", THIRD, "-"),
    "memcpy": ("memcpy in one process", THIRD, ":"),
    "fork": ("fork", INK, "--"),
}
WAYS = {
    "plain": ("plain Redis", INK),
    "hook": ("hook every 8 s", OURS),
    "hook4k": ("the same, 4 KiB pages", "#e39b92"),
    "bgsave": ("BGSAVE every 8 s", THEIRS),
    "fifo": ("FIFO every 8 s", "#8fb0cf"),
    "shared": ("shared memory, stopped every 8 s", THIRD),
}


def save(figure: plt.Figure, name: str) -> None:
    """Writes a picture of the documentation."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    print(f"wrote {path}")


def fig8(results: dict) -> None:
    """Time against size, both logarithmic, for both sizes of pages."""
    pages = {"huge": "pages of 2 MiB", "small": "pages of 4 KiB"}
    pages = {name: title for name, title in pages.items() if name in results["ns"]}
    figure, many = plt.subplots(1, len(pages), figsize=(5.2 * len(pages), 4.2), sharey=True)
    for axes, (name, title) in zip(many if len(pages) > 1 else [many], pages.items(), strict=True):
        found = results["ns"][name]
        for mode, (label, colour, line) in HANDING.items():
            medians = {int(s): statistics.median(of[mode]) for s, of in found.items() if mode in of}
            points = sorted(medians.items())
            taken = [ns / 1e9 for _, ns in points]
            axes.plot([s for s, _ in points], taken, line, color=colour, marker="o", ms=3,
                      label=label)
        axes.set(title=title, xlabel="GB", xscale="log", yscale="log")
        axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("seconds until the other process has it")
    figure.axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, "fig8")


def seconds(ns: float) -> str:
    """A time with three digits and its unit."""
    for unit, least in (("s", 1e9), ("ms", 1e6), ("us", 0)):
        if ns >= least:
            return f"{ns / (least or 1e3):.3g} {unit}"
    return "0"


def fig8_table(results: dict) -> str:
    """Medians."""
    rows = []
    sizes = sorted({size for of in results["ns"].values() for size in of}, key=int)
    for pages, of in results["ns"].items():
        for mode, (label, *_) in HANDING.items():
            found = [of.get(size, {}).get(mode) for size in sizes]
            shown = [seconds(statistics.median(times)) if times else "" for times in found]
            if any(found):
                rows.append(["2 MiB" if pages == "huge" else "4 KiB", label, *shown])
    return table(["pages", "way", *(f"{size} GB" for size in sizes)], rows)


def fig10_table(results: dict) -> str:
    """Throughput and p99, and how they are to plain Redis."""
    rows = []
    for workload, ways in results["compared"].items():
        for way in [w for w in ("plain", "heap", *list(WAYS)[1:]) if w in ways]:
            of = ways[way]
            points = [
                p for p in results["points"] if (p["workload"], p["way"]) == (workload, way)
            ]
            taken = [t.get("had_ns", t["all_ns"]) for p in points for t in p["taken"]]
            rows.append([
                workload, way, f"{of['throughput']:.0f}", f"{of['throughput_to_plain']:.2f}",
                f"{of['p99_us']:.0f}", f"{of['p99_us_to_plain']:.2f}", f"{of['p99.9_us']:.0f}",
                f"{of['most_us'] / 1e3:.0f}",
                seconds(statistics.median(taken)) if taken else "",
                f"{statistics.median(p['foreign_cores'] for p in points):.2f}",
            ])
    heads = ["", "way", "operations/s", "to plain", "p99, us", "to plain", "p99.9, us", "most, ms",
             "handed over in", "others, cores"]
    return table(heads, rows)


def fig10(results: dict) -> None:
    """Above: throughput and p99 of each workload; below: throughput over one period of A."""
    compared = results["compared"]
    figure = plt.figure(figsize=(11, 7.5))
    grid = figure.add_gridspec(2, 2)
    bars = [
        (figure.add_subplot(grid[0, 0]), "throughput", "operations a second", 1),
        (figure.add_subplot(grid[0, 1]), "p99_us", "p99 of an operation, ms", 1e-3),
    ]
    width = 0.8 / len(WAYS)
    for axes, key, title, scale in bars:
        for i, (way, (label, colour)) in enumerate(WAYS.items()):
            heights = [ways.get(way, {}).get(key, 0) * scale for ways in compared.values()]
            places = [n + (i - len(WAYS) / 2 + 0.5) * width for n in range(len(compared))]
            axes.bar(places, heights, width=width, color=colour, label=label)
        axes.set_xticks(range(len(compared)), list(compared))
        axes.set(title=title, yscale="log" if key == "p99_us" else "linear")
    below = figure.add_subplot(grid[1, :])
    for way, (label, colour) in WAYS.items():
        points = [p for p in results["points"] if p["workload"] == "A" and p["way"] == way]
        if points:
            tenths = [n * 10 for n in points[0]["tenths"]]
            times = [i / 10 for i in range(len(tenths))]
            below.plot(times, tenths, color=colour, label=label, lw=1.3)
    below.set(title="workload A over time", xlabel="seconds", ylabel="operations a second")
    below.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    save(figure, "fig10")


def fig9_rates(results: dict, pages: str, way: str) -> tuple[dict, dict]:
    """Parts of the unshared rate: by seconds between snapshots (9a), and by skew (9b)."""
    lines = [i for i in results["lines"] if (i["pages"], i["way"]) == (pages, way)]
    alone = {i["pattern"]: i["updates_per_s"] for i in lines if i["interval_ms"] == 0}
    shared = [i for i in lines if i["interval_ms"] != 0 and i["pattern"] in alone]
    part = [(i, i.get("part", i["updates_per_s"] / alone[i["pattern"]])) for i in shared]
    sweep = {i["interval_ms"] / 1000: p for i, p in part if i["pattern"] == "sweep"}
    skews = {int(i["pattern"][7:]): p for i, p in part if i["pattern"] != "sweep"}
    return dict(sorted(sweep.items())), dict(sorted(skews.items()))


FIG9 = {
    ("huge", "swing"): ("live hook, 2 MiB pages", OURS, "-"),
    ("huge", "ahead"): ("live hook, copying ahead, 2 MiB pages", OURS, "--"),
    ("small", "swing"): ("live hook, 4 KiB pages", OURS, ":"),
    ("huge", "copying"): ("copying alone, 2 MiB pages", THIRD, "--"),
    ("huge", "fork"): ("fork, 2 MiB pages", THEIRS, "-"),
    ("small", "fork"): ("fork, 4 KiB pages", THEIRS, ":"),
}


def fig9(results: dict) -> None:
    """Throughput as a part of the unshared one: against the interval, and against the skew."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), sharey=True)
    for (pages, way), (label, colour, line) in FIG9.items():
        both = fig9_rates(results, pages, way)
        for axes, rates in zip((left, right), both if any(both) else (), strict=False):
            values = [100 * p for p in rates.values()]
            axes.plot(list(rates), values, line, color=colour, marker="o", ms=3, label=label)
    ticks = [0.25, 0.5, 1, 2, 4, 8, 20]
    left.set(title="9a: all updated in order", xlabel="seconds between snapshots", xscale="log")
    left.set(ylabel="throughput, % of unshared", ylim=(0, None))
    left.set_xticks(ticks, [f"{t:g}" for t in ticks])
    left.minorticks_off()
    right.set(title="9b: random, a snapshot every 8 s", xlabel="updates / data, %")
    right.set_xticks([50, 60, 70, 80, 90], ["50/50", "60/40", "70/30", "80/20", "90/10"])
    right.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, "fig9")


def fig9_table(results: dict) -> str:
    """The same in numbers."""
    shown = ""
    for number, unit in ((0, " s"), (1, " %")):
        found = {key: fig9_rates(results, *key)[number] for key in FIG9}
        heads = sorted({at for rates in found.values() for at in rates})
        rows = [
            [FIG9[key][0], *(f"{100 * rates[at]:.0f} %" if at in rates else "" for at in heads)]
            for key, rates in found.items() if rates
        ]
        shown += table(["", *(f"{at:g}{unit}" for at in heads)], rows) + "\n"
    return shown


PERCENTILES = {"p50": "half", "p90": "90 %", "p99": "99 %", "p999": "99.9 %", "max": "all"}


def live_name(line: dict) -> str:
    """What a line of the results of live hooks is about."""
    pages = "2 MiB" if line["pages"] == "huge" else "4 KiB"
    stores = {"sequential": "ascending", "local": "random in a sixteenth"}
    stores = stores.get(line["pattern"], line["pattern"])
    return f"{pages}, {stores}, every {line['interval_ms'] / 1000:g} s"


def live(results: dict) -> None:
    """Percentiles of hooks, and of what a trapped store waits besides copying."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), sharey=True)
    colours = {"sequential": OURS, "random": THEIRS, "local": THIRD}
    for line in results["lines"]:
        colour = colours[line["pattern"]]
        often = "-" if line["interval_ms"] >= 1000 else "--"
        style = often if line["pages"] == "huge" else ":"
        for axes, key in ((left, "hook_us"), (right, "stall_us")):
            values = [line[key][p] for p in PERCENTILES]
            axes.plot(list(PERCENTILES.values()), values, style, color=colour, marker="o", ms=3,
                      label=live_name(line))
    left.set(title="a live hook", ylabel="at most so many microseconds", yscale="log")
    right.set(title="a trapped store, apart from copying")
    right.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, "live")


def live_table(results: dict) -> str:
    """The same in numbers."""
    rows = [
        [
            live_name(line),
            f"{line['mib'] / 1024:g} GB",
            *(seconds(1000 * line["hook_us"][p]) for p in ("p50", "p90", "max")),
            *(seconds(1000 * line["stall_us"][p]) for p in ("p50", "p99", "p999", "max")),
            f"{line['copy_gb_per_s']:.1f}",
        ]
        for line in results["lines"]
    ]
    heads = ["pages, stores, hooks", "area", "hook: median", "90 %", "most", "stall: median"]
    return table([*heads, "99 %", "99.9 %", "most", "copied, GB/s"], rows)


def insert(
    name: str, results: dict, text: str, page: str = "experiments", by: str = "experiments"
) -> None:
    """Puts a table between its marks in a page of docs; shows it when there are none."""
    path = common.ROOT / f"docs/{page}.md"
    begin, end = (f"<!-- {word}: bench/{by}.py {name} -->" for word in ("begin", "end"))
    if begin not in path.read_text():
        print(text)
        return
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    of = results["machine"]
    machine = (
        f"{of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}, "
        f"measured {results['measured']}."
    )
    if "disk" in results:
        machine += " Disk: " + ", ".join(f"{k} {v}" for k, v in results["disk"].items()) + "."
    path.write_text(f"{before}{begin}\n\n{machine}\n\n{text}\n{end}{after}")


def main() -> None:
    """Draws and writes down what was asked for and was measured."""
    drawers = {
        "fig8": (fig8, fig8_table), "fig9": (fig9, fig9_table),
        "fig10": (fig10, fig10_table), "live": (live, live_table),
    }
    for name in sys.argv[1:] or drawers:
        results = load(name)
        if results is None:
            raise SystemExit(f"no results yet: run make bench-{name}")
        draw, show = drawers[name]
        draw(results)
        insert(name, results, show(results))


if __name__ == "__main__":
    main()
