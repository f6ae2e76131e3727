"""Hit rates of the object heap's two policies on synthetic and recorded traces, beside LRU and the
best possible choice.

    python3 bench/heap/policies.py --program target/release/examples/policies

Needs no root and five minutes; the heap's file lies in memory, as hits do not depend on the disk.
Writes bench/results/heap-policies.json, and prints the table of docs/experiments-heap.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import common  # noqa: E402

MIB = 1 << 20


def table(rows: list[dict]) -> str:
    """The report: a line for each trace and share of memory, then the means."""
    heads = ["trace", "memory", "two lists", "S3-FIFO", "LRU", "best possible",
             "written by two lists", "by S3-FIFO"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        rates = [f"{rate:.3f}" for rate in row["two_lists_s3fifo"] + row["lru_best"]]
        rates += [""] * (4 - len(rates))
        written = [f"{count / MIB:.0f} MiB" for count in row["written_bytes"]]
        share = f"{row['share']} %" if row["share"] else "recorded"
        lines.append("| " + " | ".join([row["trace"], share, *rates, *written]) + " |")
    means = [statistics.mean(row["two_lists_s3fifo"][policy] for row in rows) for policy in (0, 1)]
    sums = [sum(row["written_bytes"][policy] for row in rows) / MIB for policy in (0, 1)]
    last = ["all", "", *(f"{mean:.3f}" for mean in means), "", "", *(f"{n:.0f} MiB" for n in sums)]
    lines.append("| " + " | ".join(last) + " |")
    return "\n".join(lines)


def main() -> int:
    """Runs the program, keeps what it found, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--accesses", default=400_000, type=int)
    parser.add_argument("--folder", default="/dev/shm", type=Path)
    options = parser.parse_args()
    traces = sorted((Path(__file__).resolve().parent.parent / "traces").glob("*.trace"))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        command = [options.program, folder, str(options.accesses), *map(str, traces)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    facts = {"machine": common.machine(), "accesses": options.accesses, "rows": rows}
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    (common.RESULTS / "heap-policies.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
