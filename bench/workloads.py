"""The data of the paper's database experiments: positions of taxis, and phone bills; seeded.

Both have the paper's cardinalities and rows of its size. Each block of rows comes from a seed of
its own, so that the same rows come in whatever order blocks are made. There are no NULLs, and what
is added up are whole numbers, so that each system must give the same answer to the last bit.

    for block in taxi(rows=1_000_000, taxis=100, days=7, seed=1): ...
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

BLOCK_ROWS = 1 << 20
DAY_S = 86_400
#: Seconds between two reports of a taxi: 170 million rows in 7 days are some 12 500 taxis.
REPORT_S = 44
#: Reports in a trip and in the search for the next passenger, on average.
TRIP_REPORTS = 14
#: Where most trips begin and end: longitude, latitude (Shenzhen), part of all trips.
SPOTS = ((114.055, 22.543, 4), (114.110, 22.533, 3), (113.944, 22.529, 3), (114.029, 22.609, 2),
         (113.883, 22.554, 2), (114.247, 22.720, 1), (113.811, 22.639, 1), (114.300, 22.590, 1))
SPOT_DEGREES = 0.018
#: The region of Figure 17: longitude and latitude, from and to.
REGION = (114.02, 114.09, 22.51, 22.58)
TAXI = {"taxi_id": "INTEGER", "seconds": "INTEGER", "longitude": "DOUBLE PRECISION",
        "latitude": "DOUBLE PRECISION", "speed": "SMALLINT", "occupied": "SMALLINT"}
BILLS = {"subscriber": "BIGINT", "month": "SMALLINT", "share": "SMALLINT", "seconds": "INTEGER",
         "cents": "INTEGER"}
TABLES = {"gps": TAXI, "bills": BILLS}
_NUMPY = {"BIGINT": np.int64, "INTEGER": np.int32, "SMALLINT": np.int16,
          "DOUBLE PRECISION": np.float64}


def numpy_types(table: str) -> dict[str, type]:
    """The columns of a table as NumPy's types."""
    return {name: _NUMPY[of] for name, of in TABLES[table].items()}


def row_bytes(table: str) -> int:
    """What a row takes without any overhead."""
    return sum(np.dtype(of).itemsize for of in numpy_types(table).values())


def _batch(table: str, columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    types = numpy_types(table)
    arrays = [pa.array(columns[name].astype(of, copy=False)) for name, of in types.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def taxi(rows: int, days: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Positions, by taxi and time: each taxi reports every 44 seconds for so many days."""
    each = days * DAY_S // REPORT_S
    weights = np.array([spot[2] for spot in SPOTS], dtype=float)
    for begin in range(0, rows, BLOCK_ROWS):
        at = np.arange(begin, min(begin + BLOCK_ROWS, rows), dtype=np.int64)
        random = np.random.default_rng([seed, begin])
        taxi_id = at // each
        # A state lasts for TRIP_REPORTS rows on average; both ends of a trip lie near spots.
        turns = np.cumsum(random.random(len(at)) < 1 / TRIP_REPORTS)
        spots = random.choice(len(SPOTS), turns[-1] + 2, p=weights / weights.sum())
        places = np.array([spot[:2] for spot in SPOTS])[spots]
        places = places + random.normal(0, SPOT_DEGREES, places.shape)
        part = np.zeros(len(at))
        starts = np.flatnonzero(np.diff(turns, prepend=-1))
        lengths = np.diff(np.append(starts, len(at)))
        part = (np.arange(len(at)) - np.repeat(starts, lengths)) / np.repeat(lengths, lengths)
        way = places[turns] + (places[turns + 1] - places[turns]) * part[:, None]
        yield _batch("gps", {
            "taxi_id": taxi_id,
            "seconds": at % each * REPORT_S + taxi_id * 7 % REPORT_S,
            "longitude": way[:, 0],
            "latitude": way[:, 1],
            "speed": np.clip(random.gamma(3, 11, len(at)), 0, 120),
            "occupied": turns % 2,
        })


def bills(rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Phone bills: a row a subscriber and month. `share` is spread evenly over 0 to 99, so that
    `share < 5` chooses 5 % of the rows, from everywhere."""
    for begin in range(0, rows, BLOCK_ROWS):
        at = np.arange(begin, min(begin + BLOCK_ROWS, rows), dtype=np.int64)
        random = np.random.default_rng([seed, begin])
        seconds = random.exponential(9_000, len(at)).astype(np.int64)
        cents = 900 + seconds // 60 * 4 + random.lognormal(6, 1, len(at)).astype(np.int64)
        yield _batch("bills", {
            "subscriber": 13_000_000_000 + at // 12,
            "month": at % 12 + 1,
            "share": random.integers(0, 100, len(at)),
            "seconds": seconds,
            "cents": np.minimum(cents, 60_000),
        })
