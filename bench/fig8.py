"""Handing 1 to 8 GB from one process to another: SWING's figure 8.

By `hook` (right after the owner has stored to all of it; `again` when it has not stored since;
`first`, the first hook of both processes), against FIFO, pipe, Unix socket, shared memory (mapped,
locked, scanned), memcpy and fork; with huge pages, for which root mounts a file system, and with
pages of 4 KiB. What is measured anew replaces what is in the file; what was measured here and today
besides stays.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import common

MODES = ("hook", "again", "first", "fifo", "pipe", "socket", "shm", "memcpy", "fork")
# A hook after all was stored to happens once in a process.
ONCE = ("hook", "first")
REPEATS = 3
# What 8 GB in two processes and the rest of the machine need.
MOST_OF_MEMORY = 0.75


def build(release: Path, out: Path) -> Path:
    """The program, linked with libswing."""
    cargo = "cargo build --release --locked -p libswing".split()
    subprocess.run(cargo, check=True, cwd=common.ROOT)
    program = out / "fig8"
    source, include = common.ROOT / "bench/figures/fig8.c", common.ROOT / "include"
    command = ["gcc", "-O2", "-std=gnu11", f"-I{include}", source, "-o", program]
    libraries = [release / "libswing_c.a", "-lpthread", "-ldl", "-lm"]
    subprocess.run([*command, *libraries], check=True)
    return program


def times_ns(program: Path, mode: str, mib: int, pages: str, repeats: int) -> list[int]:
    """Nanoseconds of each time."""
    runs = repeats if mode in ONCE else 1
    found: list[int] = []
    for _ in range(runs):
        times = "1" if mode in ONCE else str(repeats)
        command = [program, mode, str(mib), pages, times]
        with common.namespace(huge_pages=pages == "huge") as home:
            if home is None:
                return []
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
        found += map(int, ran.stdout.split())
    return found


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--sizes", default="1,2,4,8", help="GB")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--pages", default="huge,small")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--dry", action="store_true", help="write no results")
    return parser.parse_args()


def main() -> None:
    """Measures and writes bench/results/fig8.json."""
    arguments = options()
    raw = common.earlier("fig8").get("ns", {})
    with tempfile.TemporaryDirectory() as out:
        program = build(Path(arguments.bin), Path(out))
        for pages in arguments.pages.split(","):
            for size in map(int, arguments.sizes.split(",")):
                if 2 * size > common.machine()["memory_gib"] * MOST_OF_MEMORY:
                    print(f"{size} GB: not enough memory here")
                    continue
                for mode in arguments.modes.split(","):
                    found = times_ns(program, mode, size << 10, pages, arguments.repeats)
                    if not found:
                        print("no file system with huge pages can be mounted: left out")
                        break
                    raw.setdefault(pages, {}).setdefault(str(size), {})[mode] = found
                    shown = ", ".join(f"{t / 1e3:.0f}" for t in found)
                    print(f"{pages} {size} GB {mode}: {shown} us", flush=True)
                    # At once: a run that is cut off has measured something.
                    common.write("fig8", {"ns": raw})


if __name__ == "__main__":
    main()
