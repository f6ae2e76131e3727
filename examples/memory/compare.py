"""The same work with ``multiprocessing.shared_memory`` and with ``swingdb.memory``.

A parent keeps a matrix up to date. Workers each need one consistent state of it, which they then
change for themselves: here they scale its columns and report a checksum of what they saw.

With ``shared_memory`` everybody stores into the same bytes, so a worker must lock the parent out
and copy everything before it can change anything. With ``swingdb.memory`` it hooks the area: that
takes microseconds, needs no lock, and memory is copied only where somebody stores.

    python examples/memory/compare.py --megabytes 256 --workers 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from multiprocessing import shared_memory

import numpy as np

from swingdb import memory

ROWS, COLUMNS = 1 << 10, 128
PARTS = 8


def fill(matrix: np.ndarray, round_: int) -> None:
    """One update of the parent's: the state is consistent when all rows bear the same number."""
    matrix[:] = round_


def use(matrix: np.ndarray) -> tuple[bool, float]:
    """What a worker does with a view of its own; changes a part of it."""
    consistent = bool((matrix == matrix[0, 0]).all())
    matrix[: len(matrix) // PARTS] *= 2
    return consistent, float(matrix[-1, -1])


def work_on_shared(name, shape, lock, answers) -> None:
    """A worker: locks, copies, uses."""
    block = shared_memory.SharedMemory(name=name)
    started = time.perf_counter()
    with lock:
        mine = np.ndarray(shape, buffer=block.buf).copy()
    took = time.perf_counter() - started
    answers.put((took, *use(mine)))
    block.close()


def work_on_hooked(token, shape, answers) -> None:
    """A worker: hooks, uses."""
    started = time.perf_counter()
    mine = memory.hook(token, live=True).array(shape)
    took = time.perf_counter() - started
    answers.put((took, *use(mine)))


def shared(context, shape, workers: int) -> list[tuple[float, bool, float]]:
    """All of it with multiprocessing.shared_memory."""
    size = shape[0] * shape[1] * 8
    block = shared_memory.SharedMemory(create=True, size=size)
    try:
        matrix, lock, answers = np.ndarray(shape, buffer=block.buf), context.Lock(), context.Queue()
        fill(matrix, 1)
        found = run(context, workers, work_on_shared, (block.name, shape, lock, answers), answers)
        with lock:
            fill(matrix, 2)
        del matrix
        return found
    finally:
        block.close()
        block.unlink()


def hooked(context, shape, workers: int) -> list[tuple[float, bool, float]]:
    """All of it with swingdb.memory."""
    with memory.create(shape[0] * shape[1] * 8) as area:
        matrix, answers = area.array(shape), context.Queue()
        fill(matrix, 1)
        area.allow_live_hooks()
        found = run(context, workers, work_on_hooked, (area.token, shape, answers), answers)
        fill(matrix, 2)
        return found


def run(context, workers: int, target, arguments, answers) -> list[tuple[float, bool, float]]:
    """Starts the workers and takes their answers."""
    processes = [context.Process(target=target, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--workers", type=int, default=4)
    chosen = parser.parse_args()
    shape = (max(chosen.megabytes * (1 << 20) // (COLUMNS * 8), ROWS), COLUMNS)
    context = multiprocessing.get_context("spawn")
    for title, way in (("multiprocessing.shared_memory", shared), ("swingdb.memory", hooked)):
        found = way(context, shape, chosen.workers)
        slowest = max(took for took, _, _ in found)
        whole = all(consistent for _, consistent, _ in found)
        print(
            f"{title:30} {slowest * 1e3:9.3f} ms until the slowest worker has its view, "
            f"consistent: {whole}, last value: {sorted({last for _, _, last in found})}"
        )


if __name__ == "__main__":
    main()
