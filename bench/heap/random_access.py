"""Random access through the object heap, and to malloc's memory that Linux swaps, in one limit.

    sudo python3 bench/heap/random_access.py --program target/release/examples/random_access

Needs root and memory control groups of version 1. Both programs run in the same group with the same
limit. The swap file and the heap's file lie on the same disk. A swap file is turned on for the
time of the run. Prints a table; `--output` keeps the raw data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20
# What a process takes besides the objects: program, stacks, the list of handles' growth.
SLACK_BYTES = 12 * MIB


@contextmanager
def memory_group(limit: int):
    """A control group with a limit of memory; gone afterwards."""
    group = GROUPS / f"swing-heap-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        (group / "memory.swappiness").write_text("60")
        yield group
    finally:
        group.rmdir()


@contextmanager
def swap_file(folder: Path, length: int):
    """A swap file that is on meanwhile; gone afterwards."""
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, length)
    path.chmod(0o600)
    try:
        subprocess.run(["mkswap", path], check=True, capture_output=True)
        subprocess.run(["swapon", path], check=True)
        try:
            yield path
        finally:
            subprocess.run(["swapoff", path], check=True)
    finally:
        path.unlink()


def swapped_pages() -> tuple[int, int]:
    """Pages of 4096 bytes that the machine has swapped in and out."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts["pswpin"]), int(counts["pswpout"])


def measure(group: Path, command: list[str], most: float | None = None) -> dict:
    """Runs a program in the group; returns what it printed, and the swap's traffic. One that takes
    longer than `most` seconds is ended: `subprocess.TimeoutExpired`."""
    before = swapped_pages()
    enter = f"echo $$ > {group}/cgroup.procs && exec \"$@\""
    output = subprocess.run(
        ["sh", "-c", enter, "sh", *command], check=True, capture_output=True, text=True,
        timeout=most,
    ).stdout  # fmt: skip
    after = swapped_pages()
    found = json.loads(output)
    found["swap_in_bytes"] = (after[0] - before[0]) * 4096
    found["swap_out_bytes"] = (after[1] - before[1]) * 4096
    return found


def main() -> int:
    """Runs all cells; the exit status is 1 if the two sides read different bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", default=tempfile.gettempdir(), type=Path)
    parser.add_argument("--budget-mib", default=64, type=int)
    parser.add_argument("--data-mib", default=256, type=int)
    parser.add_argument("--accesses", default=50_000, type=int)
    parser.add_argument("--sizes", default=[512, 1024, 2048], type=int, nargs="+")
    parser.add_argument("--writes", default=[0, 20, 50], type=int, nargs="+")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows, same = [], True
    with swap_file(options.folder, 2 * options.data_mib * MIB):
        for size in options.sizes:
            objects = options.data_mib * MIB // size
            # The list of handles is the program's on both sides.
            limit = options.budget_mib * MIB + 16 * objects + SLACK_BYTES
            for writes in options.writes:
                shared = [str(objects), str(size), str(options.accesses), str(writes)]
                heap = [options.program, "heap", *shared, str(options.budget_mib)]
                with memory_group(limit) as group:
                    ours = measure(group, [*heap, str(options.folder)])
                with memory_group(limit) as group:
                    swap = measure(group, [options.program, "malloc", *shared])
                same &= ours["sum"] == swap["sum"]
                ratio = ours["seconds"] / swap["seconds"]
                row = {"size": size, "writes_percent": writes, "limit": limit}
                rows.append(row | {"heap": ours, "swap": swap, "ratio": ratio})
                print(
                    f"{size:5} B, {writes:3} % writes: heap {ours['seconds']:7.2f} s, "
                    f"swap {swap['seconds']:7.2f} s, ratio {ratio:.2f}",
                    flush=True,
                )
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
