"""How long taking a snapshot takes, from Rust and from Python, and the first query on a fresh one.

At several sizes of the database. The queries are a count of all rows, and one row found by a
condition on a column; their times have the snapshot in them.
"""

from __future__ import annotations

import common

PYTHON = """
import json, sys, time
import swingdb
takes, looks = [], []
for _ in range(1000):
    begun = time.perf_counter_ns()
    snapshot = swingdb.snapshot(sys.argv[1])
    takes.append((time.perf_counter_ns() - begun) / 1e3)
    snapshot.table("numbers")
    looks.append((time.perf_counter_ns() - begun) / 1e3)
    snapshot.close()
print(json.dumps({"first_us": takes[0], "take_us": takes, "to_table_us": looks}))
"""


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows, queries = [], []
    with common.namespace():
        for label, size in common.sizes(arguments).items():
            name = f"numbers-{size}"
            common.job(arguments, "fill", name, str(size))
            for language, measured in (
                ("Rust", common.job(arguments, "snapshot", name)),
                ("Python", common.python_job(PYTHON, name)),
            ):
                row = {"language": language, "size": label, "first_us": measured["first_us"]}
                for key, values in measured.items():
                    if isinstance(values, list):
                        row[key] = common.summary(values)
                rows.append(row)
                took = row["take_us"]
                print(
                    f"{language:7} {label}: snapshot {took['median']:.0f} us "
                    f"(quartiles {took['quarter']:.0f}-{took['three_quarters']:.0f}), "
                    f"first in a process {row['first_us']:.0f} us",
                    flush=True,
                )
            first = common.job(arguments, "first-query", name)
            row = {"language": "Rust", "size": label, "first_us": first["count_us"][0]}
            row |= {key: common.summary(values) for key, values in first.items()}
            queries.append(row)
            print(
                f"first query {label}: count {row['count_us']['median']:.0f} us, "
                f"one row {row['point_us']['median']:.0f} us, with its snapshot",
                flush=True,
            )
    for language in ("Rust", "Python"):
        medians = [r["take_us"]["median"] for r in rows if r["language"] == language]
        print(f"{language:7} largest against smallest: {medians[-1] / medians[0]:.2f}x")
    common.write("snapshot", {"rows": rows, "first_queries": queries})


if __name__ == "__main__":
    main()
