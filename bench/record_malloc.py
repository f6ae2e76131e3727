"""Records what two imports of `swingdb` allocate, for the traces that `bench/malloc.py` replays.

    python3 bench/record_malloc.py --bin target/release

One million generated taxi rows go through `swingdb import`, as Parquet (every allocation is kept)
and as CSV (of its million short-lived small blocks nothing, of the rest every array that grew).
Writes bench/traces/import-*.trace; the format is in
crates/swing-malloc/examples/compare/trace.rs.
"""

from __future__ import annotations

import argparse
import heapq
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import common

RECORDER = common.ROOT / "bench/figures/record_malloc.c"
TRACES = common.ROOT / "bench/traces"
ALLOCATED, FREED, MOVED = 1, 2, 3
# How it is written: kinds of events in the low two bits.
ALLOCATE, FREE, REALLOCATE = 0, 1, 2
EVENT = struct.Struct("<IIQQ")


def raw(path: Path) -> Iterator[tuple[int, int, int]]:
    """What the recorder wrote: kind, address, length."""
    with path.open("rb") as file:
        while block := file.read(EVENT.size << 16):
            for kind, _, address, length in EVENT.iter_unpack(block):
                if kind == 0:
                    return
                yield kind, address, length


def operations(path: Path) -> list[tuple[int, int, int]]:
    """Kind, number of the block and length; a block keeps its number when it moves."""
    live: dict[int, int] = {}
    found, blocks, moving = [], 0, None
    for kind, address, length in raw(path):
        if kind == ALLOCATED and moving is not None:
            live[address] = moving
            found.append((REALLOCATE, moving, length))
            moving = None
        elif kind == ALLOCATED:
            live[address] = blocks
            found.append((ALLOCATE, blocks, length))
            blocks += 1
        elif kind == MOVED:
            moving = live.pop(address, None)
        elif address in live:
            found.append((FREE, live.pop(address), 0))
    return found


def that_grew(events: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Only what happens to blocks that are reallocated."""
    grew = {block for kind, block, _ in events if kind == REALLOCATE}
    return [event for event in events if event[1] in grew]


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def compact(events: list[tuple[int, int, int]]) -> bytes:
    """As trace.rs reads it; slots are used again, so that their numbers stay small."""
    written = bytearray(b"SWTRACE1")
    slots: dict[int, int] = {}
    unused: list[int] = []
    for kind, block, length in events:
        if kind == ALLOCATE:
            slots[block] = heapq.heappop(unused) if unused else len(slots)
        slot = slots[block]
        written += number(slot << 2 | kind)
        if kind == FREE:
            heapq.heappush(unused, slots.pop(block))
        else:
            written += number(length)
    return bytes(written)


def run(command: list, home: Path, **more: str) -> None:
    """One command of swingdb in a namespace of its own."""
    environment = dict(os.environ, SWINGDB_HOME=str(home), **more)
    subprocess.run([str(word) for word in command], env=environment, check=True)


def main() -> None:
    """Records and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    swingdb = Path(arguments.bin) / "swingdb"
    TRACES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        recorder = here / "record_malloc.so"
        build = ["gcc", "-O2", "-shared", "-fPIC", "-o", recorder, RECORDER]
        subprocess.run(build, check=True)
        generate = [swingdb, "generate", "taxi", "made", "--rows", arguments.rows, "--seed", 1]
        run(generate, here / "home")
        for format, kept in [("parquet", lambda events: events), ("csv", that_grew)]:
            file, record = here / f"trips.{format}", here / f"{format}.raw"
            run([swingdb, "export", "made.trips", file], here / "home")
            settings = {"LD_PRELOAD": str(recorder), "RECORD_MALLOC": str(record)}
            run([swingdb, "import", file, "--into", f"{format}.trips"], here / "home", **settings)
            events = kept(operations(record))
            trace = TRACES / f"import-{format}.trace"
            trace.write_bytes(compact(events))
            print(f"{trace.name}: {len(events)} events, {trace.stat().st_size} bytes")


if __name__ == "__main__":
    main()
