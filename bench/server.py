"""The server: starting a session, and fetching rows, against DuckDB's own fetch in its process.

A session is started by bytes on a socket, up to the message that says it is ready, and by psycopg.
The same query is fetched as a list of tuples: by psycopg from the server, in binary and in text,
and from DuckDB and SwingDB inside of this process. `libpq` makes no Python objects.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import common
import duckdb
import psycopg

import swingdb

ROWS = 1_000_000
RUNS = 5
SESSIONS = 300
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i * 0.5 AS price, 'item ' || i AS name "
    f"FROM generate_series(0, {ROWS - 1}) AS g(i)"
)
QUERY = "SELECT id, price, name FROM t"


def start(binary: Path) -> tuple[subprocess.Popen, int]:
    """A server at a free port."""
    server = subprocess.Popen(
        [binary / "swingdb-server", "bench", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    return server, int(server.stdout.readline().split(" on ")[1].split()[0].rsplit(":", 1)[1])


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
    """Rows a second, and the cores that both sides use."""
    rates, cores = [], []
    job()
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
    }


def main() -> None:
    """Measures, and writes bench/results/server.json."""
    arguments = common.parse(__doc__.split("\n", maxsplit=1)[0])
    with common.namespace(), swingdb.connect("bench") as writer, duckdb.connect() as duck:
        writer.execute(TABLE)
        writer.share()
        duck.execute(TABLE)
        server, port = start(Path(arguments.bin))
        where = f"host=127.0.0.1 port={port} dbname=bench user=bench"

        def psycopg_session() -> float:
            begun = time.perf_counter()
            session = psycopg.connect(where)
            seconds = time.perf_counter() - begun
            session.close()
            return seconds

        results: dict = {
            "session, bytes on a socket": sessions(lambda: raw_session(port)),
            "session, psycopg": sessions(psycopg_session),
        }
        with psycopg.connect(where, autocommit=True) as session:
            text, binary = session.cursor(), session.cursor(binary=True)

            def libpq() -> int:
                rows = session.pgconn.exec_params(QUERY.encode(), [], result_format=1)
                return rows.ntuples

            jobs: dict[str, tuple[Callable[[], int], int | None]] = {
                "libpq, binary": (libpq, server.pid),
                "psycopg, binary": (lambda: len(binary.execute(QUERY).fetchall()), server.pid),
                "psycopg, text": (lambda: len(text.execute(QUERY).fetchall()), server.pid),
                "swingdb, in process": (lambda: len(writer.execute(QUERY).fetchall()), None),
                "duckdb, in process": (lambda: len(duck.execute(QUERY).fetchall()), None),
            }
            for name, (job, pid) in jobs.items():
                results[name] = fetch(job, pid)
        server.terminate()
        assert server.wait(20) == 0
    for name, figures in results.items():
        print(f"{name:28}", {k: v for k, v in figures.items() if k != "spread"})
    common.write("server", {"rows": ROWS, "results": results})


if __name__ == "__main__":
    main()
