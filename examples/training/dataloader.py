"""PyTorch's `DataLoader` over a live table: its workers read snapshots, the owner goes on writing.

Each worker process takes a snapshot of its own, over the owner's memory: nothing is copied and sent
before the batches are. All workers of an epoch read the same state, each of them its share of the
table's pieces. Without PyTorch the same data set is read in this process, as arrays of NumPy.

    python examples/training/dataloader.py --rows 1000000 --epochs 3 --workers 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import swingdb

try:
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError:
    # The data set needs of PyTorch only to be known as one.
    DataLoader, IterableDataset = None, object

    def get_worker_info() -> None:
        """This process reads everything."""


NAME = "events"


def own(rows: int, shared: Any, stop: Any) -> None:
    """The owner: appends rows until it is told to stop, and shares a state after each."""
    with swingdb.connect(NAME) as con:
        con.execute("CREATE TABLE events (id BIGINT, value REAL)")
        first = 0
        while not stop.is_set():
            ids = np.arange(first, first + rows)
            con.append("events", {"id": ids, "value": (ids % 1000).astype(np.float32)})
            con.share()
            shared.set()
            first += rows
            stop.wait(0.02)


class Rows(IterableDataset):
    """Batches of one state of a table; a dict of arrays each."""

    def __init__(self, name: str, table: str, columns: list[str], batch: int) -> None:
        super().__init__()
        self.name, self.table, self.columns, self.batch = name, table, columns, batch
        self.rows = 0

    def settle(self) -> int:
        """Chooses the newest state for the next epoch; its number of rows.

        The state is told to the workers as a number of rows: a table that is only appended to has
        the same first rows in every later state.
        """
        with swingdb.snapshot(self.name) as snap:
            self.rows = len(snap.table(self.table))
        return self.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        mine, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        # Opened by the process that reads: a snapshot does not travel through a fork.
        with swingdb.snapshot(self.name) as snap:
            for number, start in enumerate(range(0, self.rows, self.batch)):
                if number % workers == mine:
                    yield self._batch(snap, start, min(start + self.batch, self.rows))

    def _batch(self, snap: swingdb.Connection, start: int, end: int) -> dict[str, Any]:
        chosen = {}
        for piece in self._pieces(snap, start, end):
            for name, values in piece.items():
                chosen.setdefault(name, []).append(values)
        return {name: np.concatenate(parts) for name, parts in chosen.items()}

    def _pieces(self, snap: swingdb.Connection, start: int, end: int) -> Iterator[dict[str, Any]]:
        """What stands at the places from ``start`` to ``end``, over the owner's memory."""
        before = 0
        for piece in snap.table(self.table).pieces():
            rows = len(piece[self.columns[0]])
            low, high = max(start - before, 0), min(end - before, rows)
            if low < high:
                yield {name: piece[name][low:high] for name in self.columns}
            before += rows


def batches(rows: Rows, workers: int) -> Any:
    """PyTorch's loader, or the data set itself where it is not installed."""
    if DataLoader is None:
        return rows
    context = "spawn" if workers else None
    return DataLoader(rows, batch_size=None, num_workers=workers, multiprocessing_context=context)


def train(epochs: int, batch: int, workers: int) -> list[tuple[int, float]]:
    """How many rows each epoch saw, and the sum of their ids."""
    rows = Rows(NAME, "events", ["id", "value"], batch)
    seen = []
    for _ in range(epochs):
        rows.settle()
        count, total = 0, 0
        for sample in batches(rows, workers):
            count += len(sample["id"])
            total += int(sample["id"].sum())
        seen.append((count, total))
    return seen


def main() -> None:
    """Runs both, and says what was read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="rows appended at a time")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="swingdb-training-", dir="/dev/shm") as home:
        os.environ["SWINGDB_HOME"] = home
        processes = multiprocessing.get_context("spawn")
        shared, stop = processes.Event(), processes.Event()
        owner = processes.Process(target=own, args=(options.rows, shared, stop))
        owner.start()
        try:
            if not shared.wait(60):
                raise SystemExit("the owner did not share a state")
            seen = train(options.epochs, options.batch, options.workers)
        finally:
            stop.set()
            owner.join()
    for count, total in seen:
        whole = "each once" if total == count * (count - 1) // 2 else "NOT each once"
        print(f"{count} rows, {whole}")


if __name__ == "__main__":
    main()
