"""Scans and aggregates TPC-C's customer table on a disk, in parallel and one block at a time.

    python3 bench/scan.py [--dir DIRECTORY] [--mib 1024] [--rounds 3] [--depths 1,4,10,20]
                          [--buffers 4,16,64,256] [--dry]

"Database Table Scan and Aggregation by Exploiting Internal Parallelism of SSDs" (Chinese Journal of
Computers, 2012), figures 7, 8 and 9. `depth` single-domain scans of one thread, or as many threads,
have one buffer each. Then, in turns so that other load hits all alike: `fio` at its best on the
same file, the scan as shipped, and one block at a time. Everything is direct I/O, so nothing is
cached here. Writes bench/results/scan.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import common

WAYS = ("scan", "aggregate")
# The block that is read at a time by the operators that the paper compares with.
BLOCK_KIB = 16
LONG_BLOCK_KIB = 256
FIO_BLOCKS_KIB = (128, 256, 512, 1024)
FIO_DEPTHS = (4, 16, 32)


class Bench:
    """The program, and the table it made."""

    def __init__(self, program: Path, folder: Path, mib: int) -> None:
        """Makes the table in pages of 4 KiB."""
        self.program, self.folder = program, folder
        (self.table,) = self.lines("fill", str(folder), str(mib), "4")
        files = sorted(folder.glob("data-*"), key=lambda path: path.stat().st_size)
        self.file, self.mib = files[-1], mib

    def lines(self, *words: str) -> list[dict]:
        """What one process printed."""
        ran = subprocess.run([self.program, *words], check=True, stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def run(self, way: str, depth: str, buffer_kib: int, workers: int, rounds: int) -> list[dict]:
        """Rounds of one way."""
        words = (depth, str(buffer_kib), str(workers), str(rounds))
        lines = self.lines("run", str(self.folder), way, *words)
        return [
            line | {"mb_per_s": line["read_bytes"] / 1e6 / line["seconds"],
                    "cores": line["cpu_s"] / line["seconds"]}
            for line in lines
        ]

    def fio(self, block_kib: int, depth: int) -> float:
        """MB/s of fio on the table's file."""
        words = [
            "fio", "--name=scan", f"--filename={self.file}", "--readonly", "--rw=read",
            "--direct=1", "--ioengine=io_uring", f"--bs={block_kib}k", f"--iodepth={depth}",
            f"--size={self.mib}m", "--output-format=json",
        ]
        ran = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(ran.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e6


def grid(bench: Bench, arguments: argparse.Namespace) -> list[dict]:
    """Figures 7 to 9: depth, buffers, and threads in the place of depth."""
    points = []
    for way in WAYS:
        for depth in map(int, arguments.depths.split(",")):
            shapes = [(int(size), 1) for size in arguments.buffers.split(",")]
            shapes += [(BLOCK_KIB, depth)] if depth > 1 else []
            for buffer_kib, workers in shapes:
                found = bench.run(way, str(depth), buffer_kib, workers, arguments.rounds)
                seconds = [line["seconds"] for line in found]
                points.append({
                    "way": way, "depth": depth, "buffer_kib": buffer_kib, "threads": workers,
                    "seconds": common.summary(seconds),
                    "cores": common.summary([line["cores"] for line in found])["median"],
                    "runs": found,
                })
                print(f"{way}, depth {depth}, {buffer_kib} KiB, {workers} threads: "
                      f"{min(seconds):.3f} s", flush=True)
    return points


def in_turns(bench: Bench, rounds: int) -> dict:
    """What the targets compare, in turns."""
    best = None
    if shutil.which("fio"):
        tried = {(b, d): bench.fio(b, d) for b in FIO_BLOCKS_KIB for d in FIO_DEPTHS}
        best = max(tried, key=tried.get)
        print(f"fio is best with {best[0]} KiB at depth {best[1]}: {tried[best]:.0f} MB/s")
    else:
        print("fio is not installed: left out")
    turns: dict[str, list] = {"fio": []}
    for _ in range(rounds):
        if best:
            turns["fio"].append(bench.fio(*best))
        for way in WAYS:
            turns.setdefault(way, []).extend(bench.run(way, "shipped", BLOCK_KIB, 1, 1))
            for size in (BLOCK_KIB, LONG_BLOCK_KIB):
                name = f"{way}, one block of {size} KiB at a time"
                turns.setdefault(name, []).extend(bench.run(way, "1", size, 1, 1))
    return {"fio_best": best, "turns": turns}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--dir", default=None, help="on the disk to measure; default: --bin")
    parser.add_argument("--mib", type=int, default=1024, help="size of the table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depths", default="1,4,10,20")
    parser.add_argument("--buffers", default="4,16,64,256", help="in KiB")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    program = Path(arguments.bin) / "examples/scan-bench"
    with tempfile.TemporaryDirectory(dir=arguments.dir or arguments.bin) as folder:
        bench = Bench(program, Path(folder) / "table", arguments.mib)
        os.sync()
        figures = {
            "disk": common.disk(Path(folder)),
            "table": bench.table,
            **in_turns(bench, 2 * arguments.rounds + 1),
            "points": grid(bench, arguments),
        }
    if not arguments.dry:
        common.write("scan", figures)


if __name__ == "__main__":
    main()
