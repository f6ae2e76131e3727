"""Draws what the pipeline found and when its programs did what: a map and a timeline."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import ListedColormap, LogNorm  # noqa: E402

import swingdb  # noqa: E402

INK, PAPER = "#1b2430", "#f7f5f0"
STAGES = {
    "A": "A  taxis (Rust)",
    "B": "B  reference (Rust)",
    "C": "C  clean, combine (Python)",
    "D": "D  clusters (Python)",
    "E": "E  speeds (Rust)",
}
COLOURS = {
    "load": "#3d6b99",
    "write on": "#9dbbd6",
    "clean and combine": "#c0763a",
    "clone reference": "#e0b080",
    "map columns": "#8fb98a",
    "pick-ups, drop-offs": "#5f9a5c",
    "K-means": "#37753c",
    "store": "#b9cfae",
    "average speed": "#7d5a9b",
}
HAND_OVER = "#d4322c"


def columns(database: swingdb.Connection, query: str) -> list[np.ndarray]:
    """The columns of a query's result."""
    return list(database.execute(query).fetchnumpy().values())


def draw_map(out: Path) -> Path:
    """Where passengers get in and out, the clusters, and the generator's hot spots."""
    clusters = swingdb.snapshot("clusters")
    lon, lat = columns(clusters, "SELECT longitude, latitude FROM points")
    centre_lon, centre_lat, sizes = columns(
        clusters, "SELECT longitude, latitude, points FROM centres"
    )
    spots = clusters.execute("SELECT name, longitude, latitude FROM hot_spots").fetchall()
    figure, axes = plt.subplots(figsize=(13, 8), facecolor=PAPER)
    axes.set_facecolor("#10151d")
    # The colour map's black end is the background's; begin above it, so that single points show.
    glow = matplotlib.colormaps["magma"](np.linspace(0.35, 1.0, 256))
    colours = ListedColormap(glow)
    axes.hist2d(lon, lat, bins=(560, 330), cmap=colours, norm=LogNorm(), cmin=1, zorder=1)
    axes.scatter(
        centre_lon,
        centre_lat,
        s=30 + 900 * sizes / sizes.max(),
        facecolors="none",
        edgecolors="#59d3e0",
        linewidths=1.6,
        zorder=3,
        label="cluster centres, area by points",
    )
    axes.scatter(
        [s[1] for s in spots],
        [s[2] for s in spots],
        marker="+",
        s=70,
        color="white",
        zorder=4,
        label="hot spots of the generator",
    )
    for name, x, y in spots:
        axes.annotate(
            name,
            (x, y),
            (6, 5),
            textcoords="offset points",
            color="#f2efe6",
            fontsize=7.5,
            zorder=5,
        )
    axes.set_aspect(1 / np.cos(np.radians(lat.mean())))
    axes.set_xlabel("longitude"), axes.set_ylabel("latitude")
    axes.set_title(
        f"{len(lon):,} pick-ups and drop-offs, {len(sizes)} clusters", loc="left", color=INK
    )
    axes.legend(loc="lower right", facecolor="#222a36", labelcolor="white", framealpha=0.9)
    return save(figure, out / "clusters.png")


def draw_timeline(events: list[dict], measured: list[dict], out: Path) -> Path:
    """What each program did when; hand-overs as arrows, and how long they would have taken."""
    origin = min(e["start_ns"] for e in events)
    rows = {letter: len(STAGES) - 1 - i for i, letter in enumerate(STAGES)}
    figure, axes = plt.subplots(figsize=(13, 5.2), facecolor=PAPER)
    axes.set_facecolor(PAPER)
    used = {}
    for event in events:
        colour = COLOURS.get(event["kind"])
        start, end = ((event[k] - origin) / 1e9 for k in ("start_ns", "end_ns"))
        y = rows[event["stage"]]
        if event["kind"].startswith("wait"):
            axes.plot([start, end], [y, y], color="#b9b4a8", lw=1, ls=":", zorder=1)
        elif colour:
            bar = axes.barh(y, max(end - start, 0.01), left=start, height=0.55, color=colour)
            used.setdefault(event["kind"], bar)
    draw_hand_overs(axes, events, origin, rows)
    axes.set_yticks(list(rows.values()), [STAGES[letter] for letter in rows])
    axes.set_xlabel("seconds since the start")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(
        used.values(),
        used.keys(),
        ncols=5,
        loc="upper center",
        frameon=False,
        fontsize=8,
        bbox_to_anchor=(0.5, -0.14),
    )
    title = "Five programs; red arrows are hand-overs of the whole database"
    if measured:
        pipe_s = {m["database"]: m["pipe_s"] for m in measured}
        slow = sum(pipe_s[e["of"]] for e in events if e["kind"] == "snapshot")
        title += f" (the same data through pickled pipes: {slow:.1f} s)"
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    return save(figure, out / "timeline.png")


def draw_hand_overs(axes, events: list[dict], origin: int, rows: dict[str, int]) -> None:
    """An arrow from the giver's share to the taker's snapshot, with the time both took."""
    givers = {"taxi": "A", "reference": "B", "clean": "C"}
    for event in (e for e in events if e["kind"] == "snapshot"):
        giver = givers[event["of"]]
        share = next(e for e in events if e["stage"] == giver and e["kind"] == "share")
        took_us = sum(e["end_ns"] - e["start_ns"] for e in (share, event)) / 1e3
        x = (event["end_ns"] - origin) / 1e9
        axes.annotate(
            "",
            (x, rows[event["stage"]]),
            ((share["end_ns"] - origin) / 1e9, rows[giver]),
            arrowprops={"arrowstyle": "-|>", "color": HAND_OVER, "lw": 1.4},
            zorder=5,
        )
        axes.annotate(
            f"{took_us:,.0f} us",
            (x, rows[event["stage"]]),
            (6, 22),
            textcoords="offset points",
            color=HAND_OVER,
            fontsize=8,
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 1},
            zorder=6,
        )


def save(figure, path: Path) -> Path:
    """Writes the figure and forgets it."""
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return path


def draw(events: list[dict], measured: list[dict], out: Path) -> list[Path]:
    """All pictures; their paths."""
    return [draw_map(out), draw_timeline(events, measured, out)]
