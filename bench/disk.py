"""Draws the experiments about disks from their results, and puts their tables into
docs/experiments-disk.md.

    python bench/disk.py [probe] [mapped-random] [mapped-scan]
"""

from __future__ import annotations

import sys

import matplotlib
from experiments import insert, save
from report import INK, OURS, THEIRS, THIRD, load, table

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams["svg.hashsalt"] = "swingdb"

COLOURS = (THEIRS, OURS, THIRD, INK)
WAYS = {
    "mmap-normal": ("mmap, no advice", THEIRS, "-"),
    "mmap-random": ("mmap, MADV_RANDOM", THEIRS, "--"),
    "mmap-sequential": ("mmap, MADV_SEQUENTIAL", THEIRS, ":"),
    "pread": ("pread, page cache", THIRD, "-"),
    "uring": ("SwingDB: io_uring, direct", OURS, "-"),
    "fio": ("fio: io_uring, direct", INK, "--"),
}
# Throughput by that of fio, as the paper on mmap has it: figure 2 (random reads), figures 3 and 4
# (scans of one disk, and of ten, beside which our several files on one disk stand).
MMAP_PAPER = {
    (True, False): {"mmap-random": "1, then 0, then 0.5", "mmap-normal": "below 0.5",
                    "mmap-sequential": "below 0.5", "fio": "1 (900 000 reads/s)"},
    (False, False): {"mmap-normal": "1, then at most 0.5", "mmap-random": "less than other advice",
                     "mmap-sequential": "1, then at most 0.5", "fio": "1"},
    (False, True): {"mmap-normal": "0.05", "mmap-random": "0.05", "mmap-sequential": "0.05",
                    "fio": "1"},
}  # fmt: skip
PUBLISHED = {
    "SSD-1": (4096, 20),
    "SSD-2": (16384, 20),
    "SSD-3": (8192, 20),
}


def kib(count: float) -> str:
    """A number of bytes in KiB."""
    return f"{count / 1024:g} KiB"


def probe(results: dict) -> None:
    """Above: latency over the offset; below: bandwidth over the distance; a column a device."""
    columns = {**results["models"], "this disk": results["device"]}
    figure, axes = plt.subplots(2, len(columns), figsize=(4.1 * len(columns), 7))
    for (name, found), (above, below) in zip(columns.items(), axes.T, strict=True):
        sweep = found["offsets"][-1 if found["profile"]["chunk-bytes"] else 0]
        for curve, colour in zip(sweep["curves"], COLOURS, strict=False):
            offsets = [n * sweep["step_bytes"] / 1024 for n in range(len(curve["ns"]))]
            shown = [(x, ns / 1e3) for x, ns in zip(offsets, curve["ns"], strict=True) if x <= 64]
            label = kib(curve["request_bytes"])
            above.plot(*zip(*shown, strict=True), color=colour, lw=1, label=label)
        chunk = found["profile"]["chunk-bytes"]
        shown = f"chunk {kib(chunk)}" if chunk else "no chunk found"
        above.set(title=f"{name}: {shown}", xlabel="offset, KiB", ylim=(0, None))
        above.legend(frameon=False, fontsize=7, loc="lower right")
        for sweep, colour in zip(found["strides"], COLOURS, strict=False):
            bandwidth = [2 * sweep["unit_bytes"] / ns * 1e3 for ns in sweep["ns"]][:80]
            below.plot(range(1, len(bandwidth) + 1), bandwidth, color=colour, lw=1,
                       label=kib(sweep["unit_bytes"]))
        domains = found["profile"]["domains"]
        shown = f"{domains} domains" if domains else "no domains found"
        below.set(title=shown, xlabel="distance, reads", ylim=(0, None))
        below.legend(frameon=False, fontsize=7, loc="lower right")
    axes[0][0].set_ylabel("latency, us")
    axes[1][0].set_ylabel("two reads at once, MB/s")
    figure.tight_layout()
    save(figure, "probe")


def probe_table(results: dict) -> str:
    """What was found, beside what was published, and what the model is."""
    rows = []
    for name, found in {**results["models"], "this disk": results["device"]}.items():
        profile = found["profile"]
        chunk, domains = PUBLISHED.get(name, (None, None))
        inner = profile["domains-inner"]
        rows.append([
            name if name in (*PUBLISHED, "this disk") else "model without structure",
            kib(chunk) if chunk else "", str(domains or ""),
            kib(profile["chunk-bytes"]) if profile["chunk-bytes"] else "none found",
            str(profile["domains"] or "none found") + (f" ({inner} inside)" if inner else ""),
            f"{kib(profile['request-bytes'])} x {profile['depth']}",
            f"{profile['bytes-per-second'] / 1e6:.0f}",
            f"{profile['request-ns'] / 1e3:.1f} us + {profile['kib-ns'] / 1e3:.2f} us/KiB",
            f"{profile['alone-request-ns'] / 1e3:.1f} us + "
            f"{profile['alone-kib-ns'] / 1e3:.2f} us/KiB",
        ])
    heads = ["device", "paper: chunk", "domains", "found: chunk", "domains", "best scan", "MB/s",
             "a request among many", "alone"]
    return table(heads, rows)


def over_time(run: dict, bins: int = 3) -> tuple[list[float], list[float]]:
    """Seconds, and MB/s, of a few bins each."""
    counts, width = run["bin_bytes"], run["bin_ms"] / 1000
    starts = range(0, len(counts) - bins + 1, bins)
    rates = [sum(counts[n : n + bins]) / (bins * width) / 1e6 for n in starts]
    return [(n + bins / 2) * width for n in starts], rates


def mapped(results: dict) -> None:
    """Above: throughput over time; below: TLB shootdowns; on one file and on several."""
    counts = sorted({run["files"] for run in results["runs"]})
    figure, axes = plt.subplots(2, len(counts), figsize=(5.2 * len(counts), 6.4), sharey="row")
    for count, (above, below) in zip(counts, axes.T, strict=True):
        for run in (r for r in results["runs"] if r["files"] == count):
            label, colour, line = WAYS[run["way"]]
            times, rates = over_time(run)
            above.plot(times, rates, line, color=colour, lw=1.2, label=label)
            shot = run["tlb_shootdowns"]
            below.plot(range(1, len(shot) + 1), shot, line, color=colour, lw=1.2)
        files = "one file" if count == 1 else f"{count} files"
        above.set(title=f"{files}, {results['mib']} MiB, memory {results['memory_mib']} MiB")
        below.set(xlabel="seconds")
    # After all is drawn: both plots of a row share the axis.
    for axes_of_row in axes:
        axes_of_row[0].set_ylim(bottom=0)
    axes[0][0].set_ylabel("MB/s")
    axes[1][0].set_ylabel("TLB shootdowns a second")
    axes[0][-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    save(figure, "mapped-random" if results["runs"][0]["random"] else "mapped-scan")


def mapped_table(results: dict) -> str:
    """The same in numbers, with ratios to the best mapping and to fio of the same files, and the
    paper's."""
    rows = []
    rate = {id(run): run["bytes"] / run["seconds"] / 1e6 for run in results["runs"]}
    for run in results["runs"]:
        maps = [
            rate[id(r)] for r in results["runs"]
            if r["files"] == run["files"] and r["way"].startswith("mmap")
        ]
        fio = [rate[id(r)] for r in results["runs"]
               if r["files"] == run["files"] and r["way"] == "fio"]  # fmt: skip
        paper = MMAP_PAPER.get((run["random"], run["files"] > 1), {}).get(run["way"], "")
        last = run["bin_bytes"][-10:]
        rows.append([
            str(run["files"]), WAYS[run["way"]][0], f"{rate[id(run)]:.0f}",
            f"{sum(last) / len(last) * 1000 / run['bin_ms'] / 1e6:.0f}",
            f"{rate[id(run)] / max(maps):.2f}",
            f"{rate[id(run)] / fio[0]:.2f}" if fio else "", paper,
            f"{(run['user_s'] + run['system_s']) / run['seconds']:.2f}",
            f"{run['p50_us']:.0f}", f"{run['p99_us'] / 1e3:.1f}", f"{run['most_us'] / 1e3:.0f}",
            f"{run['stall_ms']:.0f}",
            f"{sum(run['tlb_shootdowns']) / max(1, len(run['tlb_shootdowns'])):.0f}",
        ])
    heads = ["files", "way", "MB/s", "last second", "to the best mmap", "to fio",
             "the paper: to fio", "cores", "p50, us",
             "p99, ms", "most, ms", "nothing read for, ms", "TLB shootdowns/s"]
    return table(heads, rows)


def main() -> None:
    """Draws and writes down what was asked for and was measured."""
    drawers = {
        "probe": (probe, probe_table),
        "mapped-random": (mapped, mapped_table),
        "mapped-scan": (mapped, mapped_table),
    }
    for name in sys.argv[1:] or drawers:
        results = load(name)
        if results is None:
            raise SystemExit(f"no results yet: run make bench-{name}")
        draw, show = drawers[name]
        draw(results)
        insert(name, results, show(results), page="experiments-disk", by="disk")


if __name__ == "__main__":
    main()
