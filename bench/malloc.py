"""Allocator operations, without touching memory: SWING's figures 11 to 14.

Below 1 KB, 1 KB to 64 MB, 64 MB to 16 GB, and growing arrays, at one and at eight threads, against
glibc, jemalloc, mimalloc and tcmalloc as far as they are installed. Medians of five processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import common

LIBRARIES = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}
FIGURES = {"small": "11", "medium": "12", "large": "13", "growing": "14"}
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def libraries() -> dict[str, Path]:
    """The peers that are installed."""
    found = {}
    for name, file in LIBRARIES.items():
        paths = [Path(folder) / file for folder in FOLDERS]
        found.update({name: path for path in paths[::-1] if path.exists()})
    return found


def run(program: Path, kind: str, job: str, threads: int, preload: Path | None) -> float:
    """Nanoseconds an operation in a process of its own."""
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    command = [program, kind, job, str(threads)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout)["ns"]


def main() -> None:
    """Measures and writes bench/results/malloc.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    release = str(common.ROOT / "target/release")
    parser.add_argument("--bin", default=release, help="where it was built")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    build = "cargo build --release --locked -p swing-malloc --example compare".split()
    subprocess.run(build, check=True, cwd=common.ROOT)
    program = Path(arguments.bin) / "examples/compare"
    peers: dict[str, tuple[str, Path | None]] = {"swing": ("swing", None)}
    peers["glibc"] = ("process", None)
    peers.update({name: ("process", path) for name, path in libraries().items()})
    figures = {}
    for job, figure in FIGURES.items():
        for threads in (1, 8):
            raw: dict[str, list[float]] = {name: [] for name in peers}
            # Turn by turn, so that a noisy moment meets everybody.
            for _ in range(arguments.repeats):
                for name, (kind, preload) in peers.items():
                    raw[name].append(run(program, kind, job, threads, preload))
            times = {name: common.summary(values) for name, values in raw.items()}
            fastest = min((n for n in times if n != "swing"), key=lambda n: times[n]["median"])
            ratio = times[fastest]["median"] / times["swing"]["median"]
            figures[f"{job}-{threads}"] = {
                "figure": figure,
                "threads": threads,
                "nanoseconds": times,
                "fastest_other": fastest,
                "times_faster": round(ratio, 2),
            }
            shown = ", ".join(f"{n} {t['median']:.1f}" for n, t in times.items())
            print(f"Fig. {figure}, {job}, {threads} threads, ns: {shown}; {ratio:.2f} x {fastest}")
    common.write("malloc", {"figures": figures})


if __name__ == "__main__":
    main()
