"""Handing 1 to 8 GB from one process to another: SWING's figure 8.

By `hook` (right after the owner has stored to all of it, and again when it has not stored since),
against FIFO, pipe, Unix socket, shared memory (mapped, locked, scanned), memcpy and fork. Each run
has two processes of its own. `--max-bytes` keeps it small; the full size takes 16 GB of memory.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import common

MODES = ("hook", "again", "fifo", "pipe", "socket", "shm", "memcpy", "fork")
REPEATS = 3


def build(release: Path, out: Path) -> Path:
    """The program, linked with the library that was built."""
    program = out / "fig8"
    source, include = common.ROOT / "bench/figures/fig8.c", common.ROOT / "include"
    command = ["gcc", "-O2", "-std=gnu11", f"-I{include}", source, "-o", program]
    libraries = [release / "libswing_c.a", "-lpthread", "-ldl", "-lm"]
    subprocess.run([*command, *libraries], check=True)
    return program


def main() -> None:
    """Measures and writes bench/results/fig8.json."""
    arguments = common.parse(__doc__.splitlines()[0])
    sizes = [n * common.GB for n in (1, 2, 4, 8)]
    sizes = [size for size in sizes if size <= arguments.max_bytes] or [arguments.max_bytes]
    figures: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as out:
        program = build(Path(arguments.bin), Path(out))
        for size in sizes:
            mib = str(size // common.MB)
            for mode in MODES:
                times = []
                for _ in range(REPEATS):
                    with common.namespace():
                        ran = subprocess.run(
                            [program, mode, mib], check=True, capture_output=True, text=True
                        )
                    times.append(int(ran.stdout) / 1e9)
                figures.setdefault(f"{mib} MiB", {})[mode] = common.summary(times)
                print(f"{mib} MiB {mode}: {sorted(times)[1] * 1e6:.0f} us", flush=True)
    common.write("fig8", {"seconds": figures})


if __name__ == "__main__":
    main()
