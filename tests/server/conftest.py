"""What the tests of the server share: a database with a writer, and a server of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import swingdb

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SERVER = Path(os.environ.get("SWINGDB_SERVER_BIN", TARGET / "release" / "swingdb-server"))
SHM = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh namespace directory, in the environment of this process and its children."""
    path = Path(tempfile.mkdtemp(prefix="swingdb-test-", dir=SHM))
    monkeypatch.setenv("SWINGDB_HOME", str(path))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def writer(home: Path) -> Iterator[swingdb.Connection]:
    """The one writer of the database `served`, shared once, with a table of 1000 rows."""
    with swingdb.connect("served") as connection:
        rows = "SELECT i AS id, 'n' || i AS name FROM range(1000) r(i)"
        connection.execute(f"CREATE TABLE t AS {rows}")
        connection.share()
        yield connection


class Server:
    """A server in a process of its own, at a free port."""

    def __init__(self, *arguments: object, name: str = "served", **env: str) -> None:
        command = [str(SERVER), name, "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        line = self.process.stdout.readline()
        if " on " not in line:
            self.process.wait(10)
            raise RuntimeError(self.process.stderr.read())
        self.host, port = line.split(" on ")[1].split()[0].rsplit(":", 1)
        self.port = int(port)

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ends it and returns its status."""
        self.process.send_signal(how)
        status = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@pytest.fixture
def start(writer: swingdb.Connection) -> Iterator[Callable[..., Server]]:
    """Starts servers of the database, and ends them."""
    started: list[Server] = []

    def one(*arguments: object, **env: str) -> Server:
        started.append(Server(*arguments, **env))
        return started[-1]

    yield one
    for server in started:
        if server.process.poll() is None:
            assert server.stop() == 0


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    """A server with its usual limits."""
    return start()


def pytest_configure(config: pytest.Config) -> None:
    """One seed a run; SWINGDB_SEED repeats it."""
    if not hasattr(config, "seed"):
        config.seed = int(os.environ.get("SWINGDB_SEED", time.time_ns() % 1_000_000))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers from the run's seed and the test's name."""
    print("seed", request.config.seed)
    return random.Random(f"{request.config.seed}:{request.node.nodeid}")
