"""The sum of one column in a fresh process that takes a snapshot, against the writer's own process.

With 2 MiB pages (on a file system mounted for them, which takes root) and with 4 KiB pages. For the
reader the first sum counts, from the call that takes the snapshot; for the writer the repeated one.
Readers of one kind have run a query on another, tiny database before: what a process pays once to
start the query engine, whatever the data, is not in their time. Readers of the other kind have not.
"""

from __future__ import annotations

import statistics

import common

ROUNDS = 5


def measure(arguments, size: int) -> dict:
    """Writer and fresh readers by turns, so that both see the same machine."""
    common.job(arguments, "fill", "numbers", str(size))
    first, cold, again, writer = [], [], [], []
    for _ in range(ROUNDS):
        writer += common.job(arguments, "sum-as-writer", "numbers")["sum_ms"][1:]
        cold.append(common.job(arguments, "sum-as-reader", "numbers", "cold")["sum_ms"][0])
        reader = common.job(arguments, "sum-as-reader", "numbers", "started")["sum_ms"]
        first.append(reader[0])
        again += reader[1:]
    ratio = statistics.median(first) / statistics.median(writer)
    return {
        "reader_first_ms": common.summary(first),
        "reader_cold_ms": common.summary(cold),
        "reader_again_ms": common.summary(again),
        "writer_ms": common.summary(writer),
        "ratio": ratio,
    }


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    label, size = list(common.sizes(arguments).items())[-1]
    rows = []
    for huge in (True, False):
        with common.namespace(huge_pages=huge) as home:
            pages = "2 MiB" if huge else "4 KiB"
            if home is None:
                print(f"{pages} pages: skipped, mounting takes root")
                continue
            row = {"pages": pages, "size": label} | measure(arguments, size)
            rows.append(row)
            print(
                f"{pages} pages, {label}: first sum of a fresh reader "
                f"{row['reader_first_ms']['median']:.0f} ms, writer "
                f"{row['writer_ms']['median']:.0f} ms, ratio {row['ratio']:.2f}",
                flush=True,
            )
    common.write("first-scan", {"rows": rows})


if __name__ == "__main__":
    main()
