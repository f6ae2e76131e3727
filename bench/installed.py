"""From `pip install` to the first answer, and what is installed: SwingDB, DuckDB, Polars, pandas.

Each package gets a fresh virtual environment. Its wheels, with those it needs, are there already,
so that no network is measured; `--wheel` is SwingDB's own (`make wheel`). Told are the seconds of
`pip install` and of the first process that imports the package and sums a column of a CSV file,
and the sizes of the wheels and of the installed files.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

#: Rows of the CSV file.
ROWS = 100_000
FIRST = {
    "swingdb": "import swingdb\n"
               "print(int(swingdb.sql(\"SELECT sum(a) FROM '{}'\").fetchall()[0][0]))",
    "duckdb": "import duckdb\n"
              "print(int(duckdb.sql(\"SELECT sum(a) FROM '{}'\").fetchall()[0][0]))",
    "polars": "import polars as pl\nprint(pl.read_csv('{}')['a'].sum())",
    "pandas": "import pandas as pd\nprint(int(pd.read_csv('{}')['a'].sum()))",
    "datafusion": "import datafusion\nc = datafusion.SessionContext()\n"
                  "print(c.read_csv('{}').aggregate([], [datafusion.functions.sum("
                  "datafusion.col('a'))]).to_pydict().popitem()[1][0])",
}


def quiet(*words: str | Path) -> float:
    """Runs a command; the seconds that it took."""
    begun = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def size(folder: Path, without: set[str] = frozenset()) -> int:
    """The bytes of all files below a folder."""
    return sum(
        path.stat().st_size for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and not without & set(path.parts)
    )


def pinned(package: str) -> str:
    """The version that the other benchmarks compare with, where it is installed."""
    try:
        return f"{package}=={importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return package


def measure(package: str, wheel: Path | None, place: Path, rounds: int) -> dict:
    """One package."""
    wheels = place / "wheels"
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels]
    quiet(*words, wheel if package == "swingdb" else pinned(package))
    csv = place / "numbers.csv"
    csv.write_text("a\n" + "\n".join(map(str, range(ROWS))) + "\n")
    runs = []
    for number in range(rounds):
        made = place / f"venv-{number}"
        quiet(sys.executable, "-m", "venv", made)
        python = made / "bin/python"
        site = next((made / "lib").glob("python*/site-packages"))
        before = size(site)
        install = quiet(
            python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels,
            "--disable-pip-version-check", package,
        )
        begun = time.perf_counter()
        words = [python, "-c", FIRST[package].format(csv)]
        said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        first = time.perf_counter() - begun
        if int(said) != ROWS * (ROWS - 1) // 2:
            raise SystemExit(f"{package} says {said}")
        quiet(python, "-c", FIRST[package].format(csv))
        again = quiet(python, "-c", FIRST[package].format(csv))
        runs.append({"install_s": install, "first_s": first, "again_s": again,
                     "installed_bytes": size(site) - before})
    return {"package": package, "wheel_bytes": size(wheels), "runs": runs}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, default=None, help="default: the newest in dist/")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--packages", default=",".join(FIRST))
    parser.add_argument("--dir", default=None, help="on the disk to install to")
    arguments = parser.parse_args()
    found = sorted((common.ROOT / "dist").glob("swingdb-*.whl"), key=lambda p: p.stat().st_mtime)
    wheel = arguments.wheel or (found[-1] if found else None)
    rows = []
    for package in arguments.packages.split(","):
        if package == "swingdb" and wheel is None:
            raise SystemExit("there is no wheel in dist/: run make wheel")
        with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir=arguments.dir) as made:
            row = measure(package, wheel, Path(made), arguments.rounds)
        middle = {key: statistics.median(run[key] for run in row["runs"]) for key in row["runs"][0]}
        rows.append(row | middle)
        print(json.dumps({key: value for key, value in rows[-1].items() if key != "runs"}),
              flush=True)
    common.write("installed", {"rows": rows, "rounds": arguments.rounds})


if __name__ == "__main__":
    main()
