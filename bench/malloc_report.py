"""Makes the tables of figures 11 to 14 in docs/experiments.md, and their picture, from
bench/results/malloc.json.

    python3 bench/malloc_report.py

Replaces what stands between the two marks in the document.
"""

from __future__ import annotations

import json

import common
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

DOCUMENT = common.ROOT / "docs/experiments.md"
PICTURE = common.ROOT / "docs/pictures/malloc.svg"
BEGIN, END = "<!-- begin: bench/malloc_report.py -->\n", "<!-- end: bench/malloc_report.py -->\n"
JOBS = {
    "small": "11: below 1 KB",
    "medium": "12: 1 KB to 64 MB",
    "large": "13: 64 MB to 16 GB",
    "growing": "14: growing arrays",
    "import-parquet": "14: our Parquet import, recorded",
    "import-csv": "14: arrays of our CSV import, recorded",
}
SCALING = {
    "small": "below 1 KB",
    "pass": "below 1 KB, freed by any thread",
    "medium": "1 KB to 64 MB",
}
LABELS = [
    "Fig. 11\nbelow 1 KB",
    "Fig. 12\n1 KB-64 MB",
    "Fig. 13\n64 MB-16 GB",
    "Fig. 14\ngrowing arrays",
    "Fig. 14\nParquet import",
    "Fig. 14\nCSV arrays",
]
COLOURS = {
    "swing": "#c0463a",
    "glibc": "#b9bec6",
    "jemalloc": "#8a8f98",
    "mimalloc": "#7fa3c7",
    "tcmalloc": "#3d6b99",
}


def shown(value: float) -> str:
    """Three digits."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}".replace(",", " ")


def one_thread(figures: dict) -> str:
    """Nanoseconds an operation."""
    names = list(figures["small-1"]["ns"])
    lines = [
        "| figure | " + " | ".join(names) + " | faster than the fastest other |",
        "|---" * (len(names) + 2) + "|",
    ]
    for job, title in JOBS.items():
        figure = figures[f"{job}-1"]
        times = [shown(figure["ns"][name]["median"]) for name in names]
        ratio = f"{figure['times_faster']:.3g}x {figure['best_other']}"
        lines.append(f"| {title} | " + " | ".join(times) + f" | {ratio} |")
    return "\n".join(lines) + "\n"


def millions(rows: list[tuple[str, dict]], head: str) -> str:
    """Million operations a second."""
    names = list(rows[0][1]["per_second"])
    lines = [
        f"| {head} | " + " | ".join(names) + " | against the best other |",
        "|---" * (len(names) + 2) + "|",
    ]
    for title, figure in rows:
        rates = [f"{figure['per_second'][n]['median'] / 1e6:.3g}" for n in names]
        ratio = f"{figure['times_faster']:.3g}x {figure['best_other']}"
        lines.append(f"| {title} | " + " | ".join(rates) + f" | {ratio} |")
    return "\n".join(lines) + "\n"


def picture(figures: dict, scaling: dict) -> None:
    """Time an operation by job, and throughput by threads."""
    plot, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.2), gridspec_kw={"width_ratios": [2.2, 1]}
    )
    names = list(figures["small-1"]["ns"])
    for n, name in enumerate(names):
        times = [figures[f"{job}-1"]["ns"][name]["median"] for job in JOBS]
        at = [j + (n - (len(names) - 1) / 2) * 0.16 for j in range(len(JOBS))]
        left.bar(at, times, width=0.15, color=COLOURS[name], label=name)
    left.set_yscale("log")
    left.set_ylabel("ns an operation, one thread")
    left.set_xticks(range(len(JOBS)), LABELS, fontsize=7.5)
    left.legend(frameon=False, fontsize=8)
    threads = sorted({figure["threads"] for figure in scaling.values()})
    for name in names:
        rates = [scaling[f"small-{t}"]["per_second"][name]["median"] / 1e6 for t in threads]
        style = {"linewidth": 2.5} if name == "swing" else {"linewidth": 1.2}
        right.plot(threads, rates, marker="o", markersize=4, color=COLOURS[name], **style)
    right.set_xticks(threads)
    right.set_ylim(bottom=0)
    right.set_xlabel("threads, all together")
    right.set_ylabel("million operations a second, below 1 KB")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    plot.tight_layout()
    plot.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """Writes both."""
    results = json.loads((common.RESULTS / "malloc.json").read_text())
    figures, scaling, of = results["figures"], results["scaling"], results["machine"]
    eight = [(title, figures[f"{job}-8"]) for job, title in JOBS.items()]
    threads = [
        (f"{SCALING[name.rsplit('-', 1)[0]]}, {figure['threads']}", figure)
        for name, figure in scaling.items()
    ]
    text = (
        f"{of['processor']}, {of['cores']} cores, {of['memory_gib']} GiB, Linux {of['kernel']}, "
        f"measured {results['measured']}.\n\nNanoseconds an operation, one thread, medians:\n\n"
        f"{one_thread(figures)}\n"
        "Million operations a second of eight threads together:\n\n"
        f"{millions(eight, 'figure')}\n"
        "Million operations a second, by threads:\n\n"
        f"{millions(threads, 'sizes, threads')}\n"
        "![Allocators compared](pictures/malloc.svg)\n"
    )
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    picture(figures, scaling)
    print(f"wrote {DOCUMENT.relative_to(common.ROOT)} and {PICTURE.relative_to(common.ROOT)}")


if __name__ == "__main__":
    main()
