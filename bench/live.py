"""Live hooks of a storing owner, and what the size of extents trades; with and without huge pages.

    python3 bench/live.py [--mib 8192] [--small]

Builds and runs the examples `live-bench` and `extent-bench` of crates/swing, and writes
bench/results/live.json. Huge pages need a tmpfs mounted with huge=advise: as root one is mounted
for the time of the run; otherwise only /dev/shm as it is is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile

import common


def run(example: str, arguments: list[str], directory: str) -> list[dict]:
    """The lines of JSON of an example, its namespaces in `directory`."""
    command = ["cargo", "run", "--release", "--locked", "-q", "-p", "swing", "--example", example]
    environment = os.environ | {"SWING_BENCH_DIR": directory}
    done = subprocess.run(
        [*command, "--", *arguments],
        check=True, capture_output=True, text=True, env=environment, cwd=common.ROOT,
    )
    print(done.stdout, end="", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(directory: str, arguments: argparse.Namespace) -> dict:
    """Everything on one file system."""
    live = []
    for interval_ms in ("1000", "100", "10"):
        hooks = {"1000": "10", "100": "50", "10": "200"}[interval_ms]
        live += run("live-bench", [str(arguments.mib), hooks, interval_ms], directory)
    return {"live": live, "extents": run("extent-bench", ["512", "64"], directory)}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=8192, help="size of the storing owner's area")
    parser.add_argument("--small", action="store_true", help="without huge pages only")
    arguments = parser.parse_args()
    results = {"small_pages": measure("/dev/shm", arguments)}
    if os.geteuid() == 0 and not arguments.small:
        with tempfile.TemporaryDirectory() as directory:
            mount = ["mount", "-t", "tmpfs", "-o", "size=90%,huge=advise", "tmpfs", directory]
            subprocess.run(mount, check=True)
            try:
                results["huge_pages"] = measure(directory, arguments)
            finally:
                subprocess.run(["umount", "-l", directory], check=False)
    common.write("live", results)


if __name__ == "__main__":
    main()
