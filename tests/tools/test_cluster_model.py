"""The model of what a cluster costs: how it reads plans, what it makes of known figures."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLAN = """
│ [Stage 2] => NetworkCoalesceExec: input_tasks=2, \
metrics=[output_rows=6, bytes_transferred=1512.0 B]
  ┌───── Stage 2 ── tasks=2, partitions=2
  │ [Stage 1] => NetworkBroadcastExec: input_tasks=3, \
metrics=[output_rows=40.00 K, bytes_transferred=122.2 KB]
    ┌───── Stage 1 ── tasks=3, partitions=8
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    """The module of bench/."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    pytest.importorskip("numpy")
    import cluster_model

    return cluster_model


def test_plans_say_what_went_over_the_network(model) -> None:
    """Tasks, streams, rows and bytes by the kind of operator."""
    found = model.network_of(PLAN)
    assert (found.tasks, found.streams) == (5, 1 * 2 + 2 * 3)
    assert found.rows == {"gather": 6, "broadcast": 40_000, "shuffle": 0}
    assert found.bytes["gather"] == 1512
    assert found.bytes["broadcast"] == pytest.approx(122.2 * 1024)


def test_known_prices_are_found_again(model) -> None:
    """Prices that made the figures come out; one that is not there is zero."""
    rows = [
        {
            "query": f"q{nth}", "tasks": tasks, "rows_moved": 1000 * nth, "bytes": 9000 * nth**2,
            "one_cpu_seconds": 1, "cpu_seconds": 1 + 0.002 * tasks + 1e-9 * 9000 * nth**2,
            "coordinator_seconds": 0.01 + 0.001 * tasks,
        }
        for nth, tasks in enumerate([2, 7, 4, 12, 5], 1)
    ]
    price = model.prices(rows)
    assert price["task_seconds"] == pytest.approx(0.002)
    assert price["row_seconds"] == pytest.approx(0, abs=1e-9)
    assert price["byte_seconds"] == pytest.approx(1e-9, rel=1e-3)
    assert price["coordinator_query_seconds"] == pytest.approx(0.01)
    assert price["coordinator_task_seconds"] == pytest.approx(0.001)
    assert model.prices([{"tasks": 0}]) == {}


def test_broadcasts_grow_with_the_nodes_and_shuffles_do_not(model) -> None:
    """What each part waits for on more nodes with as much data each."""
    price = dict.fromkeys(
        ["task_seconds", "row_seconds", "coordinator_query_seconds", "coordinator_task_seconds"], 0
    ) | {"byte_seconds": 1e-9}
    row = {"tasks": 8, "shards": 4, "rows_moved": 0, "one_cpu_seconds": 1.0}

    def network(kind: str, nodes: int) -> float:
        moved = dict.fromkeys(["broadcast", "shuffle", "gather"], 0) | {kind: 4e9}
        of = model.Machines(nodes, growth=nodes / 4)
        return model.projected(row | {"moved_bytes": moved}, price, of)["network"]

    assert network("shuffle", 100) == pytest.approx(network("shuffle", 4))
    assert network("broadcast", 100) == pytest.approx(25 * network("broadcast", 4))
