"""TPC-H on clusters of 1, 2, 4 and 8 shards on this machine: CPU, network, snapshots.

Nodes are processes in a network namespace of the benchmark's own, so that all bytes of its
loopback device are theirs; that takes root. All answers are compared with those of one database.
CPU is that of all nodes and of the coordinator, against that of one database with the same data,
which runs each query in turn with the cluster: what else the machine does changes both. Where
memory does not hold both, `--apart` runs the one database before, and drops it. The files that
tables are loaded from are on a disk (`$TMPDIR`), or in the folder of `--files`.

The model ([cluster_model]) says from the measured costs of tasks, rows and bytes how far a cluster
scales, and what stops it first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cluster_model
import common
from tpch_queries import QUERIES, TABLES, compare

import swingdb

ROUNDS = 3
SNAPSHOTS = 50
CUTS = {
    "lineitem": "hash:l_orderkey",
    "orders": "hash:o_orderkey",
    "partsupp": "hash:ps_partkey",
    "part": "hash:p_partkey",
    "customer": "hash:c_custkey",
    "supplier": "replicated",
    "nation": "replicated",
    "region": "replicated",
}
TICKS = os.sysconf("SC_CLK_TCK")


def in_namespace() -> None:
    """Goes on in a network namespace that has only a loopback device."""
    if os.environ.get("SWINGDB_BENCH_NETWORK") == "own":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    os.environ["SWINGDB_BENCH_NETWORK"] = "own"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def loopback_bytes() -> int:
    """Bytes that went over the loopback device so far."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    raise SystemExit("there is no loopback device")


class Shards:
    """Nodes of a cluster, and a session on it."""

    def __init__(self, programs: Path, home: Path, count: int) -> None:
        self.nodes = []
        places = []
        for nth in range(count):
            folder = home / f"{count}-{nth}"
            folder.mkdir()
            command = [programs / "swingdb-node", "--listen", "127.0.0.1:0", "--write", "tpch"]
            node = subprocess.Popen(
                [*command, "--home", folder], stdout=subprocess.PIPE, text=True
            )
            places.append(node.stdout.readline().split()[-1] + "/tpch")
            self.nodes.append(node)
        self.session = swingdb.cluster(places, program=programs / "swingdb-cluster")
        self.coordinator = self.session._pipe._process.pid
        self.pids = [node.pid for node in self.nodes] + [self.coordinator]

    def load(self, files: Path) -> None:
        """Makes the tables of Parquet files."""
        for table, cut in CUTS.items():
            sql = f"CREATE TABLE {table} AS SELECT * FROM '{files / table}.parquet'"
            self.session.query(sql, cut=cut)

    def cpu(self) -> float:
        """CPU time of all processes so far."""
        return sum(map(cpu_seconds, self.pids))

    def close(self) -> None:
        """Ends all processes."""
        self.session.close()
        for node in self.nodes:
            node.kill()
            node.wait()


class One:
    """One database with all rows; it runs a query whenever it is asked what that costs."""

    def __init__(self, database: swingdb.Connection) -> None:
        self._database = database

    def answer(self, sql: str) -> list:
        """The rows of a query."""
        return self._database.execute(sql).fetchall()

    def cpu(self, sql: str) -> float:
        """CPU seconds of a query."""
        before = cpu_seconds(os.getpid())
        self._database.sql(sql).arrow()
        return cpu_seconds(os.getpid()) - before


class OneBefore:
    """What one database did before it was dropped."""

    def __init__(self, one: One) -> None:
        texts = [path.read_text() for path in QUERIES]
        self._answers = {sql: one.answer(sql) for sql in texts}
        self._cpu = {sql: statistics.mean(one.cpu(sql) for _ in range(ROUNDS)) for sql in texts}

    def answer(self, sql: str) -> list:
        """The rows of a query."""
        return self._answers[sql]

    def cpu(self, sql: str) -> float:
        """CPU seconds of a query."""
        return self._cpu[sql]


def measured(shards: Shards, one: One | OneBefore, sql: str) -> dict:
    """One query: seconds, CPU seconds, bytes, tasks; and the CPU seconds of one database."""
    plan = shards.session.query(f"EXPLAIN ANALYZE {sql}").fetchall()
    plan = cluster_model.network_of("\n".join(row[-1] for row in plan))
    seconds, cpu, coordinator, moved, alone = [], [], [], [], []
    for _ in range(ROUNDS):
        alone.append(one.cpu(sql))
        cpu_before, bytes_before, begun = shards.cpu(), loopback_bytes(), time.perf_counter()
        own_before = cpu_seconds(shards.coordinator)
        shards.session.query(sql).arrow()
        seconds.append(time.perf_counter() - begun)
        moved.append(loopback_bytes() - bytes_before)
        # Nodes end their tasks a moment later.
        time.sleep(0.02)
        cpu.append(shards.cpu() - cpu_before)
        coordinator.append(cpu_seconds(shards.coordinator) - own_before)
    return {
        "seconds": statistics.median(seconds),
        "cpu_seconds": statistics.mean(cpu),
        "coordinator_seconds": statistics.mean(coordinator),
        "one_cpu_seconds": statistics.mean(alone),
        "bytes": statistics.median(moved),
        "tasks": plan.tasks,
        "streams": plan.streams,
        "moved_bytes": plan.bytes,
        "rows_moved": sum(plan.rows.values()),
    }


def one_database(files: Path) -> swingdb.Connection:
    """One database with all rows."""
    one = swingdb.connect()
    for table in TABLES:
        one.execute(f"CREATE TABLE {table} AS SELECT * FROM '{files / table}.parquet'")
    return one


@contextlib.contextmanager
def files_of(arguments: argparse.Namespace) -> Iterator[Path]:
    """The folder of the tables' Parquet files: one that is there, or one for this run."""
    if arguments.files is not None:
        yield arguments.files
        return
    with tempfile.TemporaryDirectory() as folder:
        common.generate_tpch(arguments, "source")
        with swingdb.snapshot("source") as source:
            for table in TABLES:
                source.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
        swingdb.drop("source")
        yield Path(folder)


def snapshot_seconds(shards: Shards) -> float:
    """How long a session takes to move to the newest state of all nodes."""
    times = []
    for _ in range(SNAPSHOTS):
        begun = time.perf_counter()
        shards.session.refresh()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def on_shards(
    programs: Path, files: Path, count: int, one: One | OneBefore
) -> tuple[list[dict], float]:
    """All queries on a cluster of so many shards, and how long its snapshot takes."""
    home = Path(os.environ["SWINGDB_HOME"])
    shards = Shards(programs, home, count)
    rows = []
    try:
        shards.load(files)
        for path in QUERIES:
            sql = path.read_text()
            compare(path.stem, shards.session.query(sql).fetchall(), one.answer(sql))
            rows.append({"query": path.stem, "shards": count, **measured(shards, one, sql)})
        return rows, snapshot_seconds(shards)
    finally:
        shards.close()
        # The memory of databases outlives their processes.
        for nth in range(count):
            for name in (f"{count}-{nth}", f"{count}-{nth}-cluster"):
                shutil.rmtree(home / name, ignore_errors=True)


def say(rows: list[dict], snapshot: float) -> None:
    """One line about a number of shards."""
    keys = ("cpu_seconds", "one_cpu_seconds", "bytes")
    total, alone, moved = (sum(row[key] for row in rows) for key in keys)
    print(
        f"{rows[0]['shards']} shards: {total:.2f} CPU s, {total / alone:.2f}x of one"
        f" database (aim 1.15x); {moved / 1e6:.1f} MB over the network;"
        f" snapshot {snapshot * 1e3:.2f} ms (aim 1 ms)",
        flush=True,
    )


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, lambda parser: (
        parser.add_argument("--programs", default=None, help="folder of the cluster's programs"),
        parser.add_argument("--shards", default="1,2,4,8"),
        parser.add_argument("--apart", action="store_true", help="drop the one database before"),
        parser.add_argument("--files", type=Path, help="Parquet files of an earlier run"),
        parser.add_argument("--dry", action="store_true", help="write no results"),
    ))
    in_namespace()
    programs = Path(arguments.programs or common.ROOT / "target/cluster/release")
    rows, snapshots = [], {}
    with (
        common.namespace(),
        files_of(arguments) as files,
        one_database(files) as database,
    ):
        one: One | OneBefore = One(database)
        if arguments.apart:
            one = OneBefore(one)
            database.close()
        for count in map(int, arguments.shards.split(",")):
            here, snapshots[count] = on_shards(programs, files, count, one)
            rows += here
            say(here, snapshots[count])
    figures = {"scale": arguments.scale, "rows": rows, "snapshot_seconds": snapshots}
    figures["model"] = cluster_model.prices(rows)
    for line in cluster_model.report(figures, arguments.scale * 1e9):
        print(line)
    if not arguments.dry:
        common.write("cluster", figures)


if __name__ == "__main__":
    main()
