"""What a query on a cluster costs, from what was measured: CPU, network, coordinator.

A query costs the CPU of one database, and a price for each task, each row and each byte that goes
from node to node. The prices are the non-negative least squares of what was measured. What goes
over the network grows in three ways: a broadcast with the number of nodes, since each gets all
rows; a shuffle and what the coordinator gathers only with the data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

KINDS = {
    "NetworkBroadcastExec": "broadcast",
    "NetworkShuffleExec": "shuffle",
    "NetworkCoalesceExec": "gather",
}
UNITS = {
    "": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40,
    "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}
COUNT = r"([\d.]+)(?: ([KMGT]?B?))?"
TB = 1e12


@dataclass
class Network:
    """What a plan sent between processes, by the kind of operator that received it."""

    tasks: int = 0
    #: Streams between tasks: each task of a stage reads from each task of the one below.
    streams: int = 0
    bytes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS.values(), 0.0))
    rows: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS.values(), 0.0))


def number(text: str, unit: str | None) -> float:
    """A count as plans write it: 17.14 K, 122.2 KB."""
    return float(text) * UNITS[unit or ""]


def network_of(plan: str) -> Network:
    """Reads a plan of EXPLAIN ANALYZE."""
    found = Network()
    readers = 1
    for line in plan.splitlines():
        if stage := re.search(r"Stage \d+ ── tasks=(\d+)", line):
            readers = int(stage[1])
            found.tasks += readers
        operator = re.search(r"=> (Network\w+):.*input_tasks=(\d+)", line)
        if not operator:
            continue
        kind = KINDS[operator[1]]
        found.streams += readers * int(operator[2])
        for counts, name in ((found.rows, "output_rows"), (found.bytes, "bytes_transferred")):
            if said := re.search(rf"{name}={COUNT}", line):
                counts[kind] += number(said[1], said[2])
    return found


def least_squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution without negative prices: what would be negative is left out."""
    columns = list(range(left.shape[1]))
    while columns:
        found, *_ = np.linalg.lstsq(left[:, columns], right, rcond=None)
        if (found >= 0).all():
            prices = np.zeros(left.shape[1])
            prices[columns] = found
            return prices
        columns.pop(int(found.argmin()))
    return np.zeros(left.shape[1])


def prices(rows: list[dict]) -> dict[str, float]:
    """What a task, a row and a byte cost; and what a query and a task cost the coordinator."""
    sent = [row for row in rows if row["tasks"]]
    if not sent:
        return {}
    left = np.array([[row["tasks"], row["rows_moved"], row["bytes"]] for row in sent], float)
    right = np.array([row["cpu_seconds"] - row["one_cpu_seconds"] for row in sent])
    task, each_row, byte = least_squares(left, right)
    left = np.array([[1, row["tasks"]] for row in sent], float)
    right = np.array([row["coordinator_seconds"] for row in sent])
    plan, plan_task = least_squares(left, right)
    return {
        "task_seconds": task,
        "row_seconds": each_row,
        "byte_seconds": byte,
        "coordinator_query_seconds": plan,
        "coordinator_task_seconds": plan_task,
    }


@dataclass
class Machines:
    """What a cluster is imagined of."""

    nodes: int
    #: How many times the measured data.
    growth: float
    cores: int = 32
    link_bytes_per_second: float = 1.25e9


def projected(row: dict, price: dict[str, float], of: Machines) -> dict[str, float]:
    """Seconds of a query by what it waits for; `row` was measured on `row['shards']` nodes."""
    moved = row["moved_bytes"]
    # Each node gets all of a broadcast.
    broadcast = moved["broadcast"] / row["shards"] * of.nodes
    share = sum(moved.values()) or 1.0
    total = (broadcast + moved["shuffle"] + moved["gather"]) * of.growth
    rows = row["rows_moved"] * total / share
    tasks = row["tasks"] / row["shards"] * of.nodes
    extra = (
        price["task_seconds"] * tasks
        + price["row_seconds"] * rows
        + price["byte_seconds"] * total
    )
    return {
        "work": row["one_cpu_seconds"] * of.growth / of.nodes / of.cores,
        "exchange": extra / of.nodes / of.cores,
        "network": total / of.nodes / of.link_bytes_per_second,
        "gather": moved["gather"] * of.growth / of.link_bytes_per_second,
        "coordinator": price["coordinator_query_seconds"]
        + price["coordinator_task_seconds"] * tasks,
    }


def report(figures: dict, data_bytes: float) -> list[str]:
    """The model in words: prices, and where they lead to."""
    price = figures["model"]
    if not price:
        return ["model: no query ran at the nodes"]
    largest = max(row["shards"] for row in figures["rows"])
    rows = [row for row in figures["rows"] if row["shards"] == largest]
    sent = [row for row in rows if row["tasks"]]
    lines = [
        f"model: CPU of one database + {price['task_seconds'] * 1e3:.2f} ms a task"
        f" + {price['row_seconds'] * 1e9:.1f} ns a row + {price['byte_seconds'] * 1e9:.2f} ns a"
        f" byte; coordinator {price['coordinator_query_seconds'] * 1e3:.1f} ms a query"
        f" + {price['coordinator_task_seconds'] * 1e3:.2f} ms a task",
        f"{len(rows) - len(sent)} of {len(rows)} queries run at the coordinator: they read all rows"
        " that they need through one process, and do not scale",
    ]
    for nodes in (8, 32, 100):
        of = Machines(nodes, growth=nodes * TB / data_bytes)
        parts = [projected(row, price, of) for row in sent]
        sums = {key: sum(part[key] for part in parts) for key in parts[0]}
        efficiency = sums["work"] / sum(sums.values())
        shown = ", ".join(f"{key} {seconds:.1f} s" for key, seconds in sums.items())
        first = max((key for key in sums if key != "work"), key=sums.__getitem__)
        streams = max(row["streams"] for row in sent) * (nodes / largest) ** 2
        lines.append(
            f"{nodes} nodes, {nodes} TB, {of.cores} cores and 10 Gbit/s each: {shown};"
            f" {efficiency:.0%} of the time is the work of one database;"
            f" {first} stops it first; at most {streams:.0f} streams a query"
        )
    return lines
