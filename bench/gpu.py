"""A snapshot feeds a GPU: another process's table and area, copied to the GPU's memory.

An owner holds a table of REAL columns and an area of the same size. This process takes snapshots
and copies both to the GPU, with their memory registered with CUDA (`pin=True`) and without. Where
memory is registered before, the first copy does it, which is not counted. The yardstick is the copy
of a tensor of the same size that PyTorch allocated in pinned memory. What arrives is compared on
the GPU with what the owner wrote.

`python bench/gpu.py --gigabytes 4`; needs PyTorch, a GPU and four times the size in memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import swingdb
from swingdb import memory

COLUMNS = ("a", "b", "c", "d")


def own(rows: int, ready: Any, stop: Any) -> None:
    """The owner of a database and of an area, until it is told to end."""
    values = np.arange(rows, dtype=np.float32) % 1000
    with swingdb.connect("gpu") as con:
        columns = ", ".join(f"{name} REAL" for name in COLUMNS)
        con.execute(f"CREATE TABLE samples ({columns})")
        con.append("samples", dict.fromkeys(COLUMNS, values))
        con.share()
        area = memory.create(rows * len(COLUMNS) * 4)
        area.array((len(COLUMNS), rows), "float32")[:] = values
        area.publish()
        ready.put(area.token)
        stop.wait()


def copied(torch: Any, rows: int, run: Callable[[], dict[str, Any]], runs: int) -> dict:
    """Seconds of a copy: the first one, and the median of those behind it."""
    values = torch.arange(rows, dtype=torch.float32, device="cuda") % 1000
    seconds = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        tensors = run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
        for name, tensor in tensors.items():
            if not torch.equal(tensor.reshape(-1)[-rows:], values):
                raise SystemExit(f"{name} is not what the owner wrote")
        del tensors
    return {"first_s": seconds[0], "s": statistics.median(seconds[1:]), "raw": seconds}


def sources(torch: Any, token: str, rows: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is copied, by name."""
    snap = swingdb.snapshot("gpu")
    samples = snap.table("samples")
    shape = (len(COLUMNS), rows)
    # Of hooks of their own: what is registered is the memory, not the tensor.
    pinned = memory.hook(token).torch(shape, "float32", pin=True)
    loose = memory.hook(token).torch(shape, "float32")
    own_pinned = torch.empty(shape, dtype=torch.float32, pin_memory=True)
    own_pinned.copy_(loose)
    own_loose = own_pinned.clone()
    there = lambda tensor: {"all": tensor.to("cuda", non_blocking=True)}  # noqa: E731

    def registered_anew() -> dict[str, Any]:
        again = memory.hook(token)
        return there(again.torch(shape, "float32", pin=True))

    return {
        "PyTorch's own pinned memory": lambda: there(own_pinned),
        "PyTorch's own memory": lambda: there(own_loose),
        "area, registered before": lambda: there(pinned),
        "area, hooked and registered each time": registered_anew,
        "area, not registered": lambda: there(loose),
        "table, registered before": lambda: samples.torch(device="cuda", pin=True),
        "table, registered each time": lambda: snap.table("samples").torch(device="cuda", pin=True),
        "table, not registered": lambda: samples.torch(device="cuda"),
        "table, by a copy of all pieces": lambda: {
            name: tensor.to("cuda") for name, tensor in samples.torch().items()
        },
    }


def more(parser: argparse.ArgumentParser) -> None:
    """What only this benchmark is told."""
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the table")
    parser.add_argument("--runs", type=int, default=5, help="copies of each kind")


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, more)
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU here")
    rows = int(arguments.gigabytes * common.GB) // (4 * len(COLUMNS))
    size = rows * 4 * len(COLUMNS)
    context = multiprocessing.get_context("spawn")
    with common.namespace():
        ready, stop = context.Queue(), context.Event()
        owner = context.Process(target=own, args=(rows, ready, stop))
        owner.start()
        try:
            figures = {}
            for name, run in sources(torch, ready.get(timeout=300), rows).items():
                figures[name] = copied(torch, rows, run, arguments.runs)
                rate = size / figures[name]["s"] / 1e9
                print(f"{name:40} {rate:6.1f} GB/s, first {figures[name]['first_s']:.3f} s")
        finally:
            stop.set()
            owner.join()
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "bytes": size}
    common.write("gpu", facts | {"copies": figures})


if __name__ == "__main__":
    main()
