"""A training process reads batches of a live table; the owner goes on writing it.

The owner appends rows and shares a state now and then. The loader takes a snapshot for each epoch:
the rows of one state, over the owner's memory, nothing copied, and nobody waits for anybody. Each
batch is made of tensors over that memory, by PyTorch where it is installed and by NumPy otherwise.

    python examples/training/loader.py --rows 1000000 --epochs 3
    python examples/training/loader.py --device cuda            # registers the memory with CUDA

The model is a line that is fitted by gradient descent; it finds the 2 and the 3 of y = 2 x + 3.
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

NAME = "samples"


def own(rows: int, asked: Any, stop: Any) -> None:
    """The owner: appends samples until it is told to stop, and shares a state after each."""
    random = np.random.default_rng(7)
    with swingdb.connect(NAME) as con:
        con.execute("CREATE TABLE samples (x REAL, y REAL)")
        while not stop.is_set():
            x = random.random(rows, dtype=np.float32)
            noise = random.standard_normal(rows, dtype=np.float32) / 10
            con.append("samples", {"x": x, "y": 2 * x + 3 + noise})
            con.share()
            asked.set()
            stop.wait(0.05)


class Loader:
    """Batches of the newest state of a table, in random order within each piece of memory."""

    def __init__(self, name: str, table: str, batch: int, *, device: str = "cpu") -> None:
        self.snap = swingdb.snapshot(name)
        self.table, self.batch, self.device = table, batch, device
        self.random = np.random.default_rng(1)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # One epoch, one state: what the owner writes meanwhile is seen in the next.
        self.snap.refresh()
        rows = self.snap.table(self.table)
        self.rows = len(rows)
        if self.device != "cpu":
            yield from self._on_device(rows.torch(pin=True, device=self.device))
            return
        for piece in rows.pieces():
            order = self.random.permutation(len(piece["x"]))
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                yield {name: column[chosen] for name, column in piece.items()}

    def _on_device(self, there: dict[str, Any]) -> Iterator[dict[str, Any]]:
        # The GPU itself has copied it, from the owner's memory.
        import torch

        order = torch.randperm(self.rows, device=self.device)
        for chosen in order.split(self.batch):
            yield {name: column[chosen] for name, column in there.items()}


def train(epochs: int, batch: int, device: str) -> tuple[float, float, list[int]]:
    """Fits the line; its slope and offset, and how many rows each epoch saw."""
    loader = Loader(NAME, "samples", batch, device=device)
    slope, offset, seen = 0.0, 0.0, []
    for _ in range(epochs):
        for sample in loader:
            error = slope * sample["x"] + offset - sample["y"]
            slope -= 0.5 * float((error * sample["x"]).mean())
            offset -= 0.5 * float(error.mean())
        seen.append(loader.rows)
    return slope, offset, seen


def main() -> None:
    """Runs both, and says what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="rows appended at a time")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="swingdb-training-", dir="/dev/shm") as home:
        os.environ["SWINGDB_HOME"] = home
        processes = multiprocessing.get_context("spawn")
        asked, stop = processes.Event(), processes.Event()
        owner = processes.Process(target=own, args=(options.rows, asked, stop))
        owner.start()
        try:
            if not asked.wait(60):
                raise SystemExit("the owner did not share a state")
            slope, offset, seen = train(options.epochs, options.batch, options.device)
        finally:
            stop.set()
            owner.join()
    print(f"rows in each epoch: {', '.join(map(str, seen))}")
    print(f"y = {slope:.2f} x + {offset:.2f}")


if __name__ == "__main__":
    main()
