"""The paper's database experiments, Figures 15 to 19, one command each:

    python bench/paper.py fig15 [--rows 20000000] [--threads 1,2,4] [--clusters 32]
    python bench/paper.py fig17 [--rows 20000000] [--days 1,2,3,4,5,6,7]
    python bench/paper.py fig18 [--rows 50000000] [--percents 1,5,10,25,50,100]

15 and 16 are one run, and so are 18 and 19. All systems of bench/systems.py have their turn, one
after the other, each with the same rows in memory; the application is a process of its own. Every
answer must be the same on all systems. The paper's sizes are --rows 170000000 and 500000000; their
results are kept beside those of the usual sizes. Files lie in a new folder below `--home`.
`--systems` names those that take part.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import common
import pyarrow as pa
import workloads
from systems import SYSTEMS, Postgres, System

DAYS = 7
#: Packages whose versions the results name, as far as they are installed.
PACKAGES = ("duckdb", "pyarrow", "numpy", "psycopg", "adbc-driver-postgresql")


class Figure(NamedTuple):
    """An experiment: its table, its rows by default, what the application does."""

    table: str
    rows: int
    job: str
    #: What varies.
    key: str
    about: str


FIGURES = {
    "fig15": Figure("gps", 20_000_000, "points", "threads", "K-means over pick-ups, drop-offs"),
    "fig17": Figure("gps", 20_000_000, "speeds", "days", "average speed for every 15 seconds"),
    "fig18": Figure("bills", 50_000_000, "deviation", "percent", "standard deviation"),
}


def batches(figure: Figure, arguments: argparse.Namespace) -> Iterator[pa.RecordBatch]:
    """The rows, again for each system."""
    if figure.table == "gps":
        return workloads.taxi(arguments.rows, DAYS, arguments.seed)
    return workloads.bills(arguments.rows, arguments.seed)


def order(figure: Figure, arguments: argparse.Namespace, system: type[System], word: str) -> dict:
    """What the application is told."""
    return {
        "system": system.name, "word": word, "job": figure.job,
        "rounds": 1 if system.slow else arguments.rounds,
        # Rows that come as objects are fetched once, for all numbers of threads.
        "once": system.slow,
        "threads": numbers(arguments.threads), "days": numbers(arguments.days),
        "percents": numbers(arguments.percents), "clusters": arguments.clusters,
        "kmeans_rounds": arguments.kmeans_rounds, "seed": arguments.seed,
        "region": workloads.REGION,
    }


def numbers(text: str) -> list[int]:
    """A list on the command line."""
    return [int(word) for word in text.split(",")]


def run(figure: Figure, arguments: argparse.Namespace, system: type[System], home: Path) -> dict:
    """One system: loaded, asked, closed."""
    held = system(home)
    try:
        word = held.load(figure.table, batches(figure, arguments))
        told = json.dumps(order(figure, arguments, system, word))
        words = [sys.executable, Path(__file__).with_name("application.py"), told]
        ended = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        held.close()
    return {"system": system.name, **json.loads(ended.stdout)}


def times(run: dict) -> dict[str, float]:
    """The parts of a run, in seconds."""
    return {key: value for key, value in run.items() if key.endswith("_s")}


def compare(figure: Figure, points: list[dict]) -> None:
    """Ends the program unless all systems have given the same answers."""
    first: dict[int, tuple[str, str]] = {}
    for point in points:
        for run in point["runs"]:
            of, found = first.setdefault(run[figure.key], (point["system"], run["answer"]))
            if found != run["answer"]:
                raise SystemExit(
                    f"{point['system']} answers {run['answer']} at {figure.key} "
                    f"{run[figure.key]}, and {of} {found}"
                )


def show(figure: Figure, point: dict) -> None:
    """A line for each value of what varies."""
    for at in dict.fromkeys(run[figure.key] for run in point["runs"]):
        runs = [times(run) for run in point["runs"] if run[figure.key] == at]
        parts = {part: statistics.median(run[part] for run in runs) for part in runs[0]}
        shown = ", ".join(f"{part[:-2]} {1e3 * s:.1f}" for part, s in parts.items())
        total = statistics.median(sum(run.values()) for run in runs)
        print(f"{point['system']}, {figure.key} {at}: {1e3 * total:.1f} ms ({shown})", flush=True)


def versions() -> dict[str, str]:
    """Of what takes part."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if Postgres.programs():
        words = [Postgres.programs() / "postgres", "--version"]
        said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        found["PostgreSQL"] = re.search(r"\d+(\.\d+)*", said).group()
    return found


def parse() -> argparse.Namespace:
    """The command line."""
    cores = os.cpu_count()
    threads = [n for n in (1, 2, 4, 8, 16, 32, 64) if n < cores] + [cores]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--rows", type=int, default=None, help="default: fits 8 GB of memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--systems", default=None, help="parts of their names, with commas")
    parser.add_argument("--threads", default=",".join(map(str, threads)), help="fig15")
    parser.add_argument("--clusters", type=int, default=32, help="fig15")
    parser.add_argument("--kmeans-rounds", type=int, default=10, help="fig15, at most")
    parser.add_argument("--days", default="1,2,3,4,5,6,7", help="fig17")
    parser.add_argument("--percents", default="1,5,10,25,50,100", help="fig18")
    parser.add_argument("--home", default="/dev/shm", help="where the databases lie")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or FIGURES[arguments.figure].rows
    return arguments


def chosen(figure: Figure, words: str | None) -> tuple[list[type[System]], dict[str, str]]:
    """The systems that take part, and why others do not."""
    taking, left_out = [], {}
    for name, system in SYSTEMS.items():
        if words and not any(word.lower() in name.lower() for word in words.split(",")):
            continue
        reason = system.missing()
        if not system.answers and figure.job != "points":
            reason = "it answers no queries"
        if reason:
            left_out[name] = reason
            print(f"{name}: left out, {reason}", flush=True)
        else:
            taking.append(system)
    return taking, left_out


def measure(figure: Figure, arguments: argparse.Namespace, each: Callable[[dict], None]) -> dict:
    """All systems; what each gave is shown to `each` at once."""
    taking, left_out = chosen(figure, arguments.systems)
    points = []
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir=arguments.home) as made:
        home = Path(made)
        os.environ["SWINGDB_HOME"] = str(home / "swingdb")
        for system in taking:
            points.append(run(figure, arguments, system, home))
            each(points[-1])
            compare(figure, points)
    return {
        "rows": arguments.rows, "row_bytes": workloads.row_bytes(figure.table),
        "seed": arguments.seed, "rounds": arguments.rounds, "about": figure.about,
        "points": points, "left_out": left_out, "versions": versions(),
    }


def main() -> None:
    """Measures and writes."""
    arguments = parse()
    figure = FIGURES[arguments.figure]
    results = measure(figure, arguments, lambda point: show(figure, point))
    common.write(results_name(arguments.figure, arguments.rows), results)


def results_name(figure: str, rows: int) -> str:
    """Where results are kept: those of more rows than usual have files of their own."""
    is_large = rows > FIGURES[figure].rows
    return f"{figure}-{rows // 1_000_000}m" if is_large else figure


if __name__ == "__main__":
    main()
