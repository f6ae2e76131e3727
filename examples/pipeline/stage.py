"""What the Python stages of the pipeline share: events for the timeline, and waiting for a
database.

A stage tells the orchestrator what it did by printing one JSON object a line on its standard
output; see `Stage.event`. Times are nanoseconds of the system clock, so that those of different
processes can be drawn on one axis.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import swingdb

# A stage gives up when what it waits for has not been shared after this time.
MAX_WAIT_S = 600.0
POLL_S = 0.005
WAIT_WORTH_TELLING_NS = 1_000_000


class Stage:
    """One program of the pipeline, as the orchestrator sees it."""

    def __init__(self, letter: str):
        self.letter = letter
        self.event("start", time.time_ns(), time.time_ns())

    def event(self, kind: str, start_ns: int, end_ns: int, **facts: object) -> None:
        """Reports that `kind` took from `start_ns` to `end_ns`, and any facts about it."""
        record = {"stage": self.letter, "kind": kind, "start_ns": start_ns, "end_ns": end_ns}
        sys.stdout.write(json.dumps(record | facts) + "\n")
        sys.stdout.flush()

    @contextmanager
    def step(self, kind: str) -> Iterator[dict]:
        """Reports how long the body took, with the facts it puts into the dictionary it gets."""
        facts: dict = {}
        start = time.time_ns()
        yield facts
        self.event(kind, start, time.time_ns(), **facts)

    def take_snapshot(self, proposed: str, target: str | None = None):
        """Waits until the database `proposed` is shared and takes a snapshot of it, under a name of
        its own when `target` is given. Reports the waiting and the taking separately."""
        waited, deadline = time.time_ns(), time.monotonic() + MAX_WAIT_S
        while True:
            before, start = without_core_ns(), time.time_ns()
            try:
                taken = take(proposed, target)
                end = time.time_ns()
                break
            except (swingdb.NotFoundError, swingdb.NotSharedError):
                # Not made yet, or not shared yet.
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)
        self.event(f"wait for {proposed}", waited, start)
        self.event("snapshot", start, end, of=proposed, **waiting_since(before))
        return taken

    def share(self, database) -> None:
        """Shares `database` and reports how long that took."""
        before = without_core_ns()
        with self.step("share") as facts:
            database.share()
            facts |= waiting_since(before)


def without_core_ns() -> int:
    """How long this thread has been ready to run without a core to run on, as far as the kernel
    counts."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def waiting_since(before_ns: int) -> dict[str, str]:
    """How long other programs had the cores, for an event, when that is what took."""
    waited = without_core_ns() - before_ns
    return {"without a core": f"{waited / 1e6:.1f} ms"} if waited >= WAIT_WORTH_TELLING_NS else {}


def take(proposed: str, target: str | None) -> swingdb.Connection:
    """One attempt at a snapshot, under a name of its own when `target` is given."""
    return swingdb.snapshot(proposed) if target is None else swingdb.get_snapshot(proposed, target)


def numpy_columns(database, table: str, columns: list[str]):
    """The columns of a table as NumPy arrays, a tuple for each segment, without copying what NumPy
    can represent (everything but Booleans, which Arrow packs into bits)."""
    import pyarrow

    arrow = pyarrow.table(database.table(table)).select(columns)
    return [
        tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)
        for batch in arrow.to_batches()
    ]
