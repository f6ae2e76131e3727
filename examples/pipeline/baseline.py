"""The same hand-overs by the usual means: a pickled pipe between processes, and a Parquet file.

For each hand-over of the pipeline a sender holds the table as a data frame, as a program would that
has just made it, and a receiver in another process ends with the same data frame. Timed is from the
moment the sender begins to hand over until the receiver has it all. Both are really run, with the
pipeline's own rows.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import swingdb

# Rows pickled and sent at a time, as a careful program would: otherwise the sender needs the whole
# table twice.
ROWS_PER_MESSAGE = 1_000_000
# More rows than this are not sent by the slow ways; the time is scaled up and marked so.
MAX_ROWS = 20_000_000


def receive_frames(connection) -> None:
    """The receiver behind the pipe: collects the frames and tells that it has them all."""
    connection.send("ready")
    frames = []
    while (frame := connection.recv()) is not None:
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    connection.send(len(whole))


def receive_file(connection) -> None:
    """The receiver of a file: reads it when told that it is there."""
    connection.send("ready")
    whole = pq.read_table(connection.recv()).to_pandas()
    connection.send(len(whole))


def _timed(receiver, send, rows: int) -> float:
    """Starts a fresh process that receives, lets `send` send, and returns the seconds it took."""
    context = mp.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=receiver, args=(theirs,))
    process.start()
    assert mine.recv() == "ready"
    start = time.perf_counter()
    send(mine)
    received = mine.recv()
    took = time.perf_counter() - start
    process.join()
    if received != rows:
        raise RuntimeError(f"{rows} rows were sent and {received} received")
    return took


def through_pipe(frame: pd.DataFrame) -> float:
    """Seconds for the frame through a pipe, pickled."""

    def send(connection) -> None:
        for start in range(0, len(frame), ROWS_PER_MESSAGE):
            connection.send(frame.iloc[start : start + ROWS_PER_MESSAGE])
        connection.send(None)

    return _timed(receive_frames, send, len(frame))


def through_file(frame: pd.DataFrame, directory: str) -> float:
    """Seconds for the frame through a Parquet file in memory, so that no disk is measured."""
    path = Path(directory) / f"hand-over-{os.getpid()}.parquet"

    def send(connection) -> None:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
        connection.send(str(path))

    try:
        return _timed(receive_file, send, len(frame))
    finally:
        path.unlink(missing_ok=True)


def measure(hand_overs: list[tuple], directory: str) -> list[dict]:
    """Sends each table that crossed between two stages by both ways; each table once."""
    print("\nThe same data by other ways (each really run)")
    measured: dict[tuple, dict] = {}
    for _, _, database, table in hand_overs:
        if (database, table) in measured:
            continue
        # A has written on meanwhile; C's snapshot of it still has the table as it was handed over.
        kept_in = "clean" if database == "taxi" else database
        arrow = pa.table(swingdb.snapshot(kept_in).table(table))
        sent = arrow.slice(0, MAX_ROWS)
        frame = sent.to_pandas()
        scale = arrow.num_rows / max(1, sent.num_rows)
        result = {
            "database": database,
            "table": table,
            "rows": arrow.num_rows,
            "bytes": arrow.nbytes,
            "scaled": scale,
            "pipe_s": through_pipe(frame) * scale,
            "file_s": through_file(frame, directory) * scale,
        }
        del frame, sent, arrow
        measured[database, table] = result
        print(
            f"  {database}.{table}: pipe {result['pipe_s']:.2f} s, Parquet {result['file_s']:.2f} s"
        )
    return list(measured.values())


def hand_over_s(events: list[dict], giver: str, taker: str, database: str) -> float:
    """What the pipeline's own hand-over took: the giver's first share and the taker's snapshot."""
    shares = [e for e in events if e["stage"] == giver and e["kind"] == "share"]
    snapshots = [
        e for e in events if e["stage"] == taker and e["kind"] == "snapshot" and e["of"] == database
    ]
    return sum(e["end_ns"] - e["start_ns"] for e in (shares[0], snapshots[0])) / 1e9


def ratio(times: float) -> str:
    """How many times, with a digit behind the point where it matters."""
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def print_table(hand_overs: list[tuple], measured: list[dict], events: list[dict]) -> None:
    """The figures beside each other."""
    by_table = {(m["database"], m["table"]): m for m in measured}
    print("\nHand-over      rows        bytes    share + snapshot    pickled pipe    Parquet file")
    for giver, taker, database, table in hand_overs:
        took = hand_over_s(events, giver, taker, database)
        line = f"  {giver} -> {taker}   "
        if other := by_table.get((database, table)):
            times = [
                f"{other[k]:9.3f} s {ratio(other[k] / took):>5}x" for k in ("pipe_s", "file_s")
            ]
            line += (
                f"{other['rows']:>11,} {other['bytes'] / 1e6:>8,.1f} MB   {took * 1e6:>9,.0f} us"
            )
            line += f"     {times[0]} {times[1]}" + (" (scaled)" if other["scaled"] > 1 else "")
        else:
            line += f"{took * 1e6:>9,.0f} us"
        print(line)
