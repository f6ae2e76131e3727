"""Moves a file through two processes into another file, in many ways.

    python3 bench/bulk.py [--mb 1400] [--rounds 5] [--dir DIRECTORY] [--ways pipe,splice]
                          [--pipes 16,64,256,1024] [--chunks 4,16,64,256,1024]
                          [--sizes 16,128,512] [--page-cache-mib 128] [--parts files,cold,...]

The experiment of "Survey of methods for copying big data between processes" (2014), 1.4 GB, source
file, process 1, process 2, target file, five runs, with today's ways beside the survey's three. The
ways take turns, so that other load hits all alike. After each run the contents are compared. The
parts:

    survey   the survey's experiment: its three ways, source and target on a disk, the source in
             the page cache
    files    the same in all ways
    memory   source and target in /dev/shm
    cold     at most 512 MB, not in the page cache before, on the disk at the end
    limited  all of that in a memory control group with a small page cache; root
    pipes, chunks, sizes   over the capacity of the pipe or socket, what one call moves, the length

Writes bench/results/bulk.json, and keeps there what was measured on the same day of other parts.
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
import mapped

PARTS = ("survey", "files", "memory", "cold", "limited", "pipes", "chunks", "sizes")
OF_SURVEY = ("pipe", "mmap", "splice")
# What the sweeps are about: ways through a pipe or socket; all that move chunks.
OF_PIPES = ("pipe", "splice", "vmsplice", "socket", "sendfile-splice")
OF_CHUNKS = ("pipe", "mmap", "splice", "vmsplice", "sendfile-splice", "ring", "uring")
OF_SIZES = ("pipe", "mmap", "splice", "vmsplice", "uring", "swing")
MEGABYTE = 1_000_000
# Enough where each byte is read from a disk and written to it.
FROM_DISK_MB = 512
SWEEP_MB = 256


class Bench:
    """The program, and its files."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Lists the ways."""
        self.program = Path(arguments.bin) / "swing-bulk"
        self.rounds, self.seed, self.points = arguments.rounds, arguments.seed, []
        listed = subprocess.run(
            [self.program, "list"], check=True, stdout=subprocess.PIPE, text=True
        )
        self.ways = dict(line.split("\t") for line in listed.stdout.splitlines())
        if arguments.ways:
            self.ways = {way: self.ways[way] for way in arguments.ways.split(",")}

    def source(self, folder: Path, megabytes: int) -> Path:
        """A file of random bytes, in the page cache, and on the disk where there is one."""
        path = folder / f"source-{megabytes}"
        if not path.exists():
            words = [self.program, "make", path, str(megabytes * MEGABYTE), str(self.seed)]
            subprocess.run(words, check=True)
        return path

    def run(self, way: str, source: Path, options: tuple[str, ...], group: Path | None) -> dict:
        """One run of one way: what the program printed, or why there is nothing."""
        target = source.with_name("target")
        enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None
        words = [self.program, "run", way, source, target, *options]
        ran = subprocess.run(
            words, check=False, capture_output=True, text=True, preexec_fn=enter
        )
        target.unlink(missing_ok=True)
        if ran.returncode == 0:
            return json.loads(ran.stdout)
        return {"way": way, "error": ran.stderr.strip() or f"ended with {ran.returncode}"}

    def turns(
        self, part: str, source: Path, ways: list[str], options: tuple[str, ...] = (),
        group: Path | None = None, **facts: int,
    ) -> None:
        """Rounds in which each way has its turn."""
        found: dict[str, list[dict]] = {way: [] for way in ways}
        for _ in range(self.rounds):
            for way in [w for w in ways if not any("error" in run for run in found[w])]:
                found[way].append(self.run(way, source, options, group))
        for way, runs in found.items():
            self.points.append({"part": part, "way": way, **facts, "runs": runs})
            good = [run["seconds"] for run in runs if "error" not in run]
            shown = f"{common.summary(good)['median']:.3f} s" if good else runs[0]["error"]
            print(f"{part} {facts or ''} {way}: {shown}", flush=True)

    def those(self, ways: tuple[str, ...]) -> list[str]:
        """Those of the ways that are asked for."""
        return [way for way in ways if way in self.ways]


def sweeps(bench: Bench, folder: Path, arguments: argparse.Namespace, parts: list[str]) -> None:
    """Each parameter for itself."""
    source = bench.source(folder, min(arguments.mb, SWEEP_MB))
    if "pipes" in parts:
        for kib in map(int, arguments.pipes.split(",")):
            options = ("--pipe-kib", str(kib))
            bench.turns("pipes", source, bench.those(OF_PIPES), options, pipe_kib=kib)
    if "chunks" in parts:
        for kib in map(int, arguments.chunks.split(",")):
            options = ("--chunk-kib", str(kib))
            bench.turns("chunks", source, bench.those(OF_CHUNKS), options, chunk_kib=kib)
    if "sizes" in parts:
        for megabytes in map(int, arguments.sizes.split(",")):
            source = bench.source(folder, megabytes)
            bench.turns("sizes", source, bench.those(OF_SIZES), mb=megabytes)


def measure(bench: Bench, folder: Path, arguments: argparse.Namespace) -> None:
    """All parts that are asked for."""
    parts, ways = arguments.parts.split(","), list(bench.ways)
    if "survey" in parts:
        bench.turns("survey", bench.source(folder, arguments.mb), bench.those(OF_SURVEY))
    if "files" in parts:
        bench.turns("files", bench.source(folder, arguments.mb), ways)
    if "cold" in parts:
        source = bench.source(folder, min(arguments.mb, FROM_DISK_MB))
        bench.turns("cold", source, ways, ("--cold", "--sync"))
    if "limited" in parts and os.geteuid() == 0:
        source = bench.source(folder, min(arguments.mb, FROM_DISK_MB))
        with mapped.limited(arguments.page_cache_mib * common.MB) as group:
            options = ("--cold", "--sync")
            mib = arguments.page_cache_mib
            bench.turns("limited", source, ways, options, group, memory_mib=mib)
    if "memory" in parts:
        with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir="/dev/shm") as memory:
            bench.turns("memory", bench.source(Path(memory), arguments.mb), ways)
    sweeps(bench, folder, arguments, parts)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--dir", default=None, help="on the disk to measure; default: --bin")
    parser.add_argument("--mb", type=int, default=1400, help="length of the source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7, help="of the source's bytes")
    parser.add_argument("--ways", default=None, help="see swing-bulk list; default: all")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--pipes", default="16,64,256,1024", help="capacities, KiB")
    parser.add_argument("--chunks", default="4,16,64,256,1024", help="what one call moves, KiB")
    parser.add_argument("--sizes", default="16,128,512", help="lengths, MB")
    parser.add_argument("--page-cache-mib", type=int, default=128, help="of the part limited")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    place = arguments.dir or arguments.bin
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir=place) as folder:
        free = shutil.disk_usage(folder).free
        if free < 3 * arguments.mb * MEGABYTE:
            raise SystemExit(f"{folder} has {free / 1e9:.1f} GB left: give another --dir or --mb")
        measure(bench, Path(folder), arguments)
        facts = {"disk": common.disk(Path(folder)), "ways": bench.ways}
    if not arguments.dry:
        # Parts that were measured today, and not now, stay.
        new = {point["part"] for point in bench.points}
        kept = [p for p in common.earlier("bulk").get("points", []) if p["part"] not in new]
        common.write("bulk", {**facts, "points": kept + bench.points})


if __name__ == "__main__":
    main()
