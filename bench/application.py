"""The application of the paper's database experiments: gets rows from a system, and analyses them.

    python bench/application.py ORDER

ORDER is JSON: `system` and `word` (bench/systems.py), `job`, `rounds`, and what the job takes. It
prints one JSON object: the runs, each with its times in seconds and its answer. The first run is
not among them: what is imported and read for the first time is no part of the experiment.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import systems
from points import Points

#: Figure 15 reads these columns: 22 bytes a row.
PLACES = ["taxi_id", "longitude", "latitude", "occupied"]


def fingerprint(*arrays: np.ndarray) -> str:
    """Says whether two arrays are the same."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:16]


def joined(got: systems.Got, name: str, of: type) -> np.ndarray:
    """A column of all pieces."""
    parts = [piece[name] for piece in got.pieces]
    return np.concatenate(parts).astype(of, copy=False) if parts else np.empty(0, of)


def points(order: dict, get: Callable[[str, list[str]], systems.Got]) -> Iterator[dict]:
    """Figures 15 and 16: where passengers get in and out, clustered, by numbers of threads."""
    got, work = None, Points()
    for threads in order["threads"]:
        for _ in range(order["rounds"]):
            if got is None or not order["once"]:
                got = None
                got = get("WHOLE gps", PLACES)
            begun = time.perf_counter()
            pieces = [tuple(piece[name] for name in PLACES) for piece in got.pieces]
            lon, lat = work.changes(pieces, threads)
            found = time.perf_counter()
            centres = work.cluster(
                lon, lat, order["clusters"], order["seed"], threads, order["kmeans_rounds"]
            )
            ended = time.perf_counter()
            yield {
                "threads": threads, "query_s": got.query_s, "transfer_s": got.transfer_s,
                "changes_s": found - begun, "kmeans_s": ended - found, "points": len(lon),
                "answer": fingerprint(lon, lat, centres),
            }


def speeds(order: dict, get: Callable[[str, list[str]], systems.Got]) -> Iterator[dict]:
    """Figure 17: the average speed in a region for every 15 seconds of so many days."""
    west, east, south, north = order["region"]
    for days in order["days"]:
        sql = (
            "SELECT seconds - seconds % 15 AS slot, "
            "CAST(sum(speed) AS DOUBLE PRECISION) / count(*) AS mean FROM gps "
            f"WHERE seconds < {days * 86_400} AND longitude BETWEEN {west} AND {east} "
            f"AND latitude BETWEEN {south} AND {north} "
            "GROUP BY seconds - seconds % 15 ORDER BY slot"
        )
        for _ in range(order["rounds"]):
            got = get(sql, ["slot", "mean"])
            slots, means = joined(got, "slot", np.int64), joined(got, "mean", np.float64)
            yield {
                "days": days, "query_s": got.query_s, "transfer_s": got.transfer_s,
                "slots": len(slots), "answer": fingerprint(slots, means),
            }


def deviation(order: dict, get: Callable[[str, list[str]], systems.Got]) -> Iterator[dict]:
    """Figures 18 and 19: the standard deviation of what a part of the bills amount to."""
    for percent in order["percents"]:
        sql = f"SELECT cents FROM bills WHERE share < {percent}"
        for _ in range(order["rounds"]):
            got = None
            got = get(sql, ["cents"])
            begun = time.perf_counter()
            count = total = squares = 0
            for piece in got.pieces:
                cents = piece["cents"].astype(np.int64)
                # Sums of whole numbers do not depend on the pieces.
                count, total = count + len(cents), total + int(cents.sum())
                squares += int(np.dot(cents, cents))
            of = math.sqrt((squares * count - total * total) / count**2) if count else 0.0
            yield {
                "percent": percent, "query_s": got.query_s, "transfer_s": got.transfer_s,
                "analysis_s": time.perf_counter() - begun, "rows": count,
                "answer": f"{count} {of!r}",
            }


JOBS = {"points": points, "speeds": speeds, "deviation": deviation}


def main(order: dict) -> dict:
    """Does a job once for nothing, at its smallest; and then as ordered."""
    system = systems.SYSTEMS[order["system"]]

    def get(sql: str, columns: list[str]) -> systems.Got:
        return system.get(order["word"], sql, columns)

    job = JOBS[order["job"]]
    if not system.slow:
        next(iter(job(order | {"rounds": 1}, get)))
    return {"runs": list(job(order, get))}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
