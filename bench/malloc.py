"""Allocator operations, without touching memory: SWING's figures 11 to 14, and threads.

Below 1 KB, 1 KB to 64 MB, 64 MB to 16 GB, growing arrays as the paper describes them, and what two
imports of ours were recorded to allocate (bench/record_malloc.py), against glibc, jemalloc,
mimalloc and tcmalloc as far as they are installed, with one thread and with eight; then how many
operations a second 1, 2, 4 and 8 threads do together. Each run is a process of its own; allocators
take turns; medians.
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
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
TRACES = common.ROOT / "bench/traces"
# What a job is called in the results: the paper's figure, the words of its command.
JOBS: dict[str, tuple[str, list[str]]] = {
    "small": ("11", ["small"]),
    "medium": ("12", ["medium"]),
    "large": ("13", ["large"]),
    "growing": ("14", ["growing"]),
    "import-parquet": ("14", ["trace", str(TRACES / "import-parquet.trace")]),
    "import-csv": ("14", ["trace", str(TRACES / "import-csv.trace")]),
}
# `pass`: blocks are freed by whatever thread comes by; not in the paper.
SCALING = {job: [job] for job in ("small", "pass", "medium")}
THREADS = (1, 2, 4, 8)
Peers = dict[str, tuple[str, Path | None]]


def libraries() -> dict[str, Path]:
    """The peers that are installed."""
    found = {}
    for name, file in LIBRARIES.items():
        paths = [Path(folder) / file for folder in FOLDERS]
        found.update({name: path for path in paths[::-1] if path.exists()})
    return found


def run(program: Path, kind: str, words: list[str], threads: int, preload: Path | None) -> dict:
    """One run in a process of its own."""
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    command = [program, kind, words[0], str(threads), *words[1:]]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout)


def turns(program: Path, peers: Peers, words: list[str], threads: int, repeats: int) -> dict:
    """All runs of one job, by allocator. Turn by turn, so that a noisy moment meets everybody."""
    raw: dict[str, list[dict]] = {name: [] for name in peers}
    for _ in range(repeats):
        for name, (kind, preload) in peers.items():
            raw[name].append(run(program, kind, words, threads, preload))
    return raw


def compared(raw: dict[str, list[dict]], key: str) -> dict:
    """Medians and quartiles by allocator, and ours against the best of the others."""
    times = {name: common.summary([r[key] for r in runs]) for name, runs in raw.items()}
    others = {name: time["median"] for name, time in times.items() if name != "swing"}
    ours = times["swing"]["median"]
    if key == "ns":
        best = min(others, key=others.__getitem__)
        ratio = others[best] / ours
    else:
        best = max(others, key=others.__getitem__)
        ratio = ours / others[best]
    return {key: times, "best_other": best, "times_faster": round(ratio, 2)}


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
    peers: Peers = {"swing": ("swing", None), "glibc": ("process", None)}
    peers.update({name: ("process", path) for name, path in libraries().items()})
    figures, scaling = {}, {}
    for job, (figure, words) in JOBS.items():
        for threads in (1, 8):
            raw = turns(program, peers, words, threads, arguments.repeats)
            key = "ns" if threads == 1 else "per_second"
            result = {"figure": figure, "threads": threads, **compared(raw, key)}
            figures[f"{job}-{threads}"] = result
            shown = ", ".join(f"{n} {t['median']:.4g}" for n, t in result[key].items())
            best = f"{result['times_faster']:.2f} x {result['best_other']}"
            print(f"Fig. {figure}, {job}, {threads} threads, {key}: {shown}; {best}", flush=True)
    for job, words in SCALING.items():
        for threads in THREADS:
            raw = turns(program, peers, words, threads, arguments.repeats)
            scaling[f"{job}-{threads}"] = {"threads": threads, **compared(raw, "per_second")}
    common.write("malloc", {"figures": figures, "scaling": scaling})


if __name__ == "__main__":
    main()
