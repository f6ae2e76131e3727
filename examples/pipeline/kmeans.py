"""K-means over points on the ground, vectorised, on several threads.

Lloyd's algorithm with k-means++ starts (Arthur and Vassilvitskii 2007): one chunk of points a
thread, each giving sums and counts for every centre, added up after each round. NumPy releases
the interpreter's lock inside its loops, so the threads really run side by side.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

MAX_ROUNDS = 60
STARTS = 3
# The rounds end when no centre moves further than this.
TOLERANCE_M = 1.0
CHUNK_POINTS = 65_536
# k-means++ needs a distance to every centre for every point; a sample chooses starts as well.
SEEDING_POINTS = 20_000

METRES_PER_DEGREE_LAT = 110_760.0


@dataclass(frozen=True)
class Clusters:
    """Centres (k x 2, metres), points nearest to each, and the mean squared distance to them."""

    centres: np.ndarray
    sizes: np.ndarray
    mean_square_m2: float
    rounds: int


def to_metres(lon: np.ndarray, lat: np.ndarray, origin: tuple[float, float]) -> np.ndarray:
    """Points as metres east and north of `origin` (longitude, latitude), by a local flat map."""
    scale = METRES_PER_DEGREE_LAT * np.cos(np.radians(origin[1]))
    east, north = (lon - origin[0]) * scale, (lat - origin[1]) * METRES_PER_DEGREE_LAT
    return np.column_stack([east, north]).astype(np.float32)


def to_degrees(points: np.ndarray, origin: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `to_metres`."""
    scale = METRES_PER_DEGREE_LAT * np.cos(np.radians(origin[1]))
    points = points.astype(np.float64)
    return points[:, 0] / scale + origin[0], points[:, 1] / METRES_PER_DEGREE_LAT + origin[1]


def _nearest(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each point the nearest centre and the squared distance to it."""
    # |p - c|^2 = |p|^2 - 2 p.c + |c|^2: the product is one matrix multiplication.
    partial = np.einsum("ij,ij->i", centres, centres)[None, :] - 2.0 * (points @ centres.T)
    nearest = partial.argmin(axis=1)
    square = partial[np.arange(len(points)), nearest] + np.einsum("ij,ij->i", points, points)
    return nearest, np.maximum(square, 0.0)


def _sums(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """What one chunk adds to the next round: sums and counts for each centre, squared distances."""
    k = len(centres)
    nearest, square = _nearest(points, centres)
    sums = np.column_stack([np.bincount(nearest, points[:, i], minlength=k) for i in range(2)])
    return sums, np.bincount(nearest, minlength=k), float(square.sum(dtype=np.float64))


def _start(points: np.ndarray, k: int, random: np.random.Generator) -> np.ndarray:
    """k-means++: each next centre is a point, likelier the further it is from those chosen."""
    sample = points[random.choice(len(points), min(len(points), SEEDING_POINTS), replace=False)]
    centres = [sample[random.integers(len(sample))]]
    square = ((sample - centres[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        chosen = sample[random.choice(len(sample), p=square / square.sum())]
        centres.append(chosen)
        square = np.minimum(square, ((sample - chosen) ** 2).sum(axis=1))
    return np.array(centres, dtype=np.float32)


def _run(chunks: list[np.ndarray], centres: np.ndarray, pool: ThreadPoolExecutor) -> Clusters:
    points = sum(len(chunk) for chunk in chunks)
    for rounds in range(1, MAX_ROUNDS + 1):
        parts = list(pool.map(_sums, chunks, [centres] * len(chunks)))
        sums, counts = sum(p[0] for p in parts), sum(p[1] for p in parts)
        # A centre that has lost all its points stays where it is.
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        moved = np.sqrt(((means - centres) ** 2).sum(axis=1)).max()
        centres = means.astype(np.float32)
        if moved < TOLERANCE_M:
            break
    return Clusters(centres, counts, sum(p[2] for p in parts) / points, rounds)


def kmeans(points: np.ndarray, k: int, seed: int, threads: int | None = None) -> Clusters:
    """The best of several runs from different starts; the same seed gives the same clusters."""
    random = np.random.default_rng(seed)
    chunks = [points[i : i + CHUNK_POINTS] for i in range(0, len(points), CHUNK_POINTS)]
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        runs = [_run(chunks, _start(points, k, random), pool) for _ in range(STARTS)]
    return min(runs, key=lambda run: run.mean_square_m2)
