"""What Figure 15's application does with its rows: pick-ups and drop-offs, and K-means over them.

The loops are in C (`bench/figures/points.c`), compiled for this machine when the application
starts, as a program that needs speed would have them. Threads take pieces of rows, and chunks of
points, whose sums are added in order: so the answer does not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("figures") / "points.c"
CHUNK_POINTS = 32_768
METRES_PER_DEGREE = 110_760.0
#: The first centres are chosen from so many points.
SEEDING_POINTS = 5_000
#: The rounds end when no centre moves further than this.
TOLERANCE_M = 1.0

Piece = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def compiled() -> ctypes.CDLL:
    """The loops. Contraction of products and sums would make the rounding the compiler's choice."""
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-") as made:
        library = Path(made) / "points.so"
        flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run(["gcc", "-std=gnu11", *flags, SOURCE, "-o", library], check=True)
        return ctypes.CDLL(str(library))


class Points:
    """Works on so many threads."""

    def __init__(self) -> None:
        self.library = compiled()
        self.library.find_changes.restype = ctypes.c_int64

    def _changes(self, piece: Piece, before: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        types = (np.int32, np.float64, np.float64, np.int16)
        taxi, lon, lat, occupied = (
            np.ascontiguousarray(column, of) for column, of in zip(piece, types, strict=True)
        )
        # One place more: the loop writes before it knows whether the row counts.
        found = np.empty((2, len(taxi) + 1))
        last = np.array(before, np.int32)
        count = self.library.find_changes(
            ctypes.c_int64(len(taxi)), *map(_pointer, (taxi, lon, lat, occupied, last, *found))
        )
        return found[0, :count].copy(), found[1, :count].copy()

    def changes(self, pieces: list[Piece], threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Longitude and latitude of all pick-ups and drop-offs; rows come by taxi and time."""
        before = [(-1, 0), *((int(p[0][-1]), int(p[3][-1])) for p in pieces)]
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(self._changes, pieces, before[:-1]))
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _sums(self, chunk: np.ndarray, centres: np.ndarray) -> np.ndarray:
        sums, centres = np.empty((len(centres), 3)), np.ascontiguousarray(centres.T)
        self.library.add_to_nearest(
            ctypes.c_int64(chunk.shape[1]), *map(_pointer, chunk),
            ctypes.c_int32(len(sums)), *map(_pointer, centres), _pointer(sums),
        )
        return sums

    def cluster(
        self, lon: np.ndarray, lat: np.ndarray, k: int, seed: int, threads: int, max_rounds: int
    ) -> np.ndarray:
        """K-means (Lloyd, with the starts of k-means++) on a flat map in metres: k centres."""
        scale = METRES_PER_DEGREE * math.cos(math.radians(float(lat.mean())))
        points = np.empty((2, len(lon)), np.float32)
        points[0] = (lon - lon.mean()) * scale
        points[1] = (lat - lat.mean()) * METRES_PER_DEGREE
        chunks = [
            np.ascontiguousarray(points[:, at : at + CHUNK_POINTS])
            for at in range(0, len(lon), CHUNK_POINTS)
        ]
        centres = _starts(points, k, np.random.default_rng(seed))
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(max_rounds):
                sums = sum(pool.map(self._sums, chunks, [centres] * len(chunks)))
                # A centre that has lost all its points stays where it is.
                counts = sums[:, 2:]
                means = np.where(counts > 0, sums[:, :2] / np.maximum(counts, 1), centres)
                moved = float(np.sqrt(((means - centres) ** 2).sum(axis=1)).max())
                centres = means.astype(np.float32)
                if moved < TOLERANCE_M:
                    break
        return centres


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _starts(points: np.ndarray, k: int, random: np.random.Generator) -> np.ndarray:
    """k-means++ (Arthur and Vassilvitskii 2007) over a sample: each next centre is a point, the
    likelier the further it is from those chosen."""
    many = points.shape[1]
    sample = points[:, random.choice(many, min(many, SEEDING_POINTS), replace=False)].T
    sample = sample.astype(np.float64)
    centres = [sample[random.integers(len(sample))]]
    square = ((sample - centres[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        centres.append(sample[random.choice(len(sample), p=square / square.sum())])
        square = np.minimum(square, ((sample - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres, dtype=np.float32)
