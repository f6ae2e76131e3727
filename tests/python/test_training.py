"""The example of PyTorch's loader: its data set, with and without PyTorch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import swingdb

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/training/dataloader.py"
HAS_TORCH = importlib.util.find_spec("torch") is not None


def run(*arguments: str) -> list[str]:
    command = [sys.executable, str(EXAMPLE), "--rows", "50000", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("workers", ["0", "2"] if HAS_TORCH else ["0"])
def test_each_epoch_reads_every_row_once_while_the_owner_writes(workers):
    lines = run("--workers", workers)
    counts = [int(line.split(" ")[0]) for line in lines]
    assert len(lines) == 3 and all(line.endswith("rows, each once") for line in lines)
    assert counts == sorted(counts) and all(count % 50000 == 0 for count in counts)


def test_workers_share_the_rows_of_one_state(monkeypatch):
    spec = importlib.util.spec_from_file_location("dataloader", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with swingdb.connect("shared_by_workers") as con:
        con.execute("CREATE TABLE events AS SELECT range AS id FROM range(100000)")
        con.execute("INSERT INTO events SELECT range FROM range(100000, 250007)")
        con.share()
        rows = example.Rows("shared_by_workers", "events", ["id"], 4096)
        assert rows.settle() == 250007
        # What the owner writes from here on belongs to the next epoch.
        con.execute("INSERT INTO events VALUES (-1)")
        con.share()
        found = []
        for worker in range(3):
            told = SimpleNamespace(id=worker, num_workers=3)
            monkeypatch.setattr(example, "get_worker_info", lambda told=told: told)
            found.append(np.concatenate([batch["id"] for batch in rows]))
        assert min(map(len, found)) > 70_000
        assert np.array_equal(np.sort(np.concatenate(found)), np.arange(250007))
        assert rows.settle() == 250008
