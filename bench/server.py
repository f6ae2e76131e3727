"""The server: starting a session, and fetching rows, against DuckDB's own fetch in its process.

A session is started by bytes on a socket, up to the message that says it is ready, and by psycopg.
The same query is fetched in three forms. As a list of tuples: by psycopg from the server, in binary
and in text, and from DuckDB and SwingDB inside of this process. `libpq` makes no Python objects. As
an Arrow table: by the ADBC drivers of both inside of this process, and by that of Flight SQL from
`swingdb-flight`, where `make flight` has built it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import adbc_driver_duckdb.dbapi
import common
import duckdb
import psycopg

import swingdb
import swingdb.adbc

ROWS = 1_000_000
RUNS = 5
SESSIONS = 300
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i * 0.5 AS price, 'item ' || i AS name "
    f"FROM generate_series(0, {ROWS - 1}) AS g(i)"
)
QUERY = "SELECT id, price, name FROM t"


@contextlib.contextmanager
def served(program: Path) -> Iterator[tuple[int, int]]:
    """A server of the database `bench`: its process, and its port."""
    command = [program, "bench", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        yield server.pid, int(said.split(" on ")[1].split()[0].rsplit(":", 1)[1])
        server.terminate()
        assert server.wait(20) == 0


def raw_session(port: int) -> float:
    """Seconds from connecting to a session that is ready."""
    words = b"\0\3\0\0user\0bench\0database\0bench\0\0"
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall((len(words) + 4).to_bytes(4, "big") + words)
        said = b""
        # The last message: Z, its length, I for idle.
        while not said.endswith(b"Z\0\0\0\5I"):
            part = client.recv(65536)
            assert part, said
            said += part
        seconds = time.perf_counter() - begun
        client.sendall(b"X\0\0\0\4")
    return seconds


def sessions(job: Callable[[], float]) -> dict:
    """Times of many sessions, one after another."""
    times = sorted(job() for _ in range(SESSIONS))
    return {
        "median_ms": statistics.median(times) * 1e3,
        "p99_ms": times[int(len(times) * 0.99)] * 1e3,
    }


def cpu(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fetch(job: Callable[[], int], pid: int | None) -> dict:
    """Rows a second, the cores that both sides use, and what this process computes."""
    rates, cores = [], []
    job()
    own_before = time.process_time()
    for _ in range(RUNS):
        used = time.process_time() + (cpu(pid) if pid else 0)
        begun = time.perf_counter()
        rows = job()
        seconds = time.perf_counter() - begun
        used = time.process_time() + (cpu(pid) if pid else 0) - used
        assert rows == ROWS, rows
        rates.append(ROWS / seconds)
        cores.append(used / seconds)
    return {
        "rows_per_second": statistics.median(rates),
        "spread": [min(rates), max(rates)],
        "cores": statistics.median(cores),
        "own_cpu_seconds": (time.process_time() - own_before) / RUNS,
    }


def psycopg_session(where: str) -> float:
    """Seconds until psycopg has a session."""
    begun = time.perf_counter()
    session = psycopg.connect(where)
    seconds = time.perf_counter() - begun
    session.close()
    return seconds


def of_server(program: Path) -> dict:
    """Sessions of the server for PostgreSQL's clients, and what they fetch."""
    with served(program) as (pid, port):
        where = f"host=127.0.0.1 port={port} dbname=bench user=bench"
        results = {
            "session, bytes on a socket": sessions(lambda: raw_session(port)),
            "session, psycopg": sessions(lambda: psycopg_session(where)),
        }
        with psycopg.connect(where, autocommit=True) as session:
            text, binary = session.cursor(), session.cursor(binary=True)

            def libpq() -> int:
                rows = session.pgconn.exec_params(QUERY.encode(), [], result_format=1)
                return rows.ntuples

            results["libpq, binary"] = fetch(libpq, pid)
            for name, cursor in (("psycopg, binary", binary), ("psycopg, text", text)):
                results[name] = fetch(lambda: len(cursor.execute(QUERY).fetchall()), pid)
    return results


def arrow(cursor: adbc_driver_duckdb.dbapi.Cursor, pid: int | None = None) -> dict:
    """The rate at which a cursor of ADBC fetches Arrow tables."""

    def job() -> int:
        cursor.execute(QUERY)
        return cursor.fetch_arrow_table().num_rows

    return fetch(job, pid)


def by_flight(program: Path) -> dict:
    """What a client of Flight SQL fetches."""
    import adbc_driver_flightsql.dbapi

    with (
        served(program) as (pid, port),
        adbc_driver_flightsql.dbapi.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as con,
        con.cursor() as cursor,
    ):
        return arrow(cursor, pid)


def in_process() -> dict:
    """Tuples and Arrow tables from both engines inside of this process."""
    results = {}
    with swingdb.snapshot("bench") as ours, duckdb.connect() as theirs:
        theirs.execute(TABLE)
        results["swingdb, in process"] = fetch(lambda: len(ours.execute(QUERY).fetchall()), None)
        results["duckdb, in process"] = fetch(lambda: len(theirs.execute(QUERY).fetchall()), None)
    with swingdb.adbc.connect("bench", snapshot=True) as con, con.cursor() as cursor:
        results["swingdb, ADBC"] = arrow(cursor)
    with adbc_driver_duckdb.dbapi.connect() as con, con.cursor() as cursor:
        cursor.execute(TABLE)
        results["duckdb, ADBC"] = arrow(cursor)
    return results


def main() -> None:
    """Measures, and writes bench/results/server.json."""
    arguments = common.parse(__doc__.split("\n", maxsplit=1)[0])
    programs = Path(arguments.bin)
    flight = programs.parent / "cluster/release/swingdb-flight"
    with common.namespace(), swingdb.connect("bench") as writer:
        writer.execute(TABLE)
        writer.share()
        results = of_server(programs / "swingdb-server") | in_process()
        if flight.exists():
            results["Flight SQL, ADBC"] = by_flight(flight)
        else:
            print("no Flight SQL: make flight")
    for name, figures in results.items():
        print(f"{name:28}", {k: v for k, v in figures.items() if k != "spread"})
    common.write("server", {"rows": ROWS, "duckdb": duckdb.__version__, "results": results})


if __name__ == "__main__":
    main()
