"""Stage D: finds where passengers get in and out, and clusters those places.

Takes C's database as its own snapshot, reads the columns as NumPy arrays over the shared memory,
finds the rows where a taxi's `occupied` flag changes, and runs K-means over their places on all
cores. The paper's first SwingDB experiment (section 6.3.1, Figures 15 and 16). Shares its result
as `clusters`.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import kmeans
import numpy as np
import pyarrow as pa
from stage import Stage, numpy_columns

COLUMNS = ["taxi_id", "longitude", "latitude", "occupied"]


def changes(segment: tuple, before: tuple | None) -> tuple[np.ndarray, ...]:
    """Places in one segment where `occupied` differs from the same taxi's row before: longitude,
    latitude, and whether it is a pick-up. `before` is the last row of the segment before."""
    taxi, lon, lat, occupied = segment
    differs = np.empty(len(taxi), dtype=bool)
    differs[1:] = (occupied[1:] != occupied[:-1]) & (taxi[1:] == taxi[:-1])
    differs[0] = before is not None and before[0] == taxi[0] and before[1] != occupied[0]
    return lon[differs], lat[differs], occupied[differs]


def find_changes(segments: list[tuple]) -> tuple[np.ndarray, ...]:
    """All pick-ups and drop-offs of the table, which C has ordered by taxi and time."""
    last = [(s[0][-1], s[3][-1]) for s in segments]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(changes, segments, [None, *last[:-1]]))
    return tuple(np.concatenate([part[i] for part in parts]) for i in range(3))


def main(arguments: argparse.Namespace) -> None:
    """The whole stage."""
    stage = Stage("D")
    mine = stage.take_snapshot("clean", "clusters")
    with stage.step("map columns") as facts:
        segments = numpy_columns(mine, "positions", COLUMNS)
        facts["rows"] = sum(len(segment[0]) for segment in segments)
    with stage.step("pick-ups, drop-offs") as facts:
        lon, lat, pick_up = find_changes(segments)
        facts["points"] = len(lon)
    with stage.step("K-means") as facts:
        origin = (float(lon.mean()), float(lat.mean()))
        found = kmeans.kmeans(
            kmeans.to_metres(lon, lat, origin), arguments.clusters, arguments.seed
        )
        facts["clusters"], facts["rounds"] = arguments.clusters, found.rounds
    with stage.step("store") as facts:
        centre_lon, centre_lat = kmeans.to_degrees(found.centres, origin)
        mine.execute("CREATE TABLE centres (longitude DOUBLE, latitude DOUBLE, points BIGINT)")
        centres = {
            "longitude": centre_lon,
            "latitude": centre_lat,
            "points": found.sizes.astype(np.int64),
        }
        mine.append("centres", pa.table(centres))
        mine.execute("CREATE TABLE points (longitude DOUBLE, latitude DOUBLE, pick_up BOOLEAN)")
        mine.append("points", pa.table({"longitude": lon, "latitude": lat, "pick_up": pick_up}))
    stage.share(mine)
    mine.close()


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clusters", type=int, default=32)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
