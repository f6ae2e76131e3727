"""Memory of eight processes that each read all of one database, by proportional set size (PSS).

The kernel divides a page that several processes map by their number; so the sum over the readers is
what they take together. Nothing is copied when that is the data once.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import common

READERS = 8


def pss_bytes(pid: int) -> int:
    """The proportional set size of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE).group(1)) * 1024


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    label, size = list(common.sizes(arguments).items())[-1]
    program = Path(arguments.bin) / "swingdb-bench"
    with common.namespace():
        data = common.job(arguments, "fill", "numbers", str(size))["bytes"]
        readers = []
        for _ in range(READERS):
            reader = subprocess.Popen(
                [program, "read-all-and-hold", "numbers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            readers.append(reader)
            # One after the other: two that read at once would only be slower.
            assert "read" in reader.stdout.readline()
        together = sum(pss_bytes(reader.pid) for reader in readers)
        for reader in readers:
            reader.communicate()
    ratio = together / data
    print(
        f"{READERS} readers of {label}: {together / 1e9:.3f} GB together, {ratio:.3f} of the data"
    )
    figures = {"readers": READERS, "size": label, "pss_bytes": together, "data_bytes": data}
    common.write("readers", figures | {"ratio": ratio})


if __name__ == "__main__":
    main()
