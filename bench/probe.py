"""The curves of a probe: of the disk here, and of models of the paper's three disks.

    python bench/probe.py [--dir DIRECTORY] [--seconds 40] [--mib 1024] [--dry]

"Database Table Scan and Aggregation by Exploiting Internal Parallelism of SSDs" (Chinese Journal of
Computers, 2012), figure 3. A model takes no real time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import common

MODELS = ("SSD-1", "SSD-2", "SSD-3", "none")
# Seconds of the model's own clock.
MODEL_SECONDS = 60


def report(program: Path, where: str, seconds: int, mib: int) -> dict:
    """What the probe found, with all curves."""
    words = [where, str(seconds), str(mib)]
    ran = subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout)


def main() -> None:
    """Measures and writes bench/results/probe.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--dir", default=None, help="on the disk to probe; default: --bin")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--mib", type=int, default=1024, help="length of the probe's file")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    program = Path(arguments.bin) / "examples/probe_curves"
    where = Path(arguments.dir or arguments.bin)
    models = {name: report(program, name, MODEL_SECONDS, 0) for name in MODELS}
    device = report(program, str(where), arguments.seconds, arguments.mib)
    for name, found in {**models, "this disk": device}.items():
        profile = found["profile"]
        print(f"{name}: chunk {profile['chunk-bytes']}, domains {profile['domains']}, "
              f"scan {profile['request-bytes']} x {profile['depth']}")
    if not arguments.dry:
        figures = {"disk": common.disk(where), "device": device, "models": models}
        common.write("probe", figures, indent=None)


if __name__ == "__main__":
    main()
