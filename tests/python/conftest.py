"""What the tests share: a namespace of their own for each test, and a seed that is printed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import swingdb

#: Memory-backed, as the usual namespace is.
SHM = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh namespace directory, in the environment of this process and its children."""
    path = Path(tempfile.mkdtemp(prefix="swingdb-test-", dir=SHM))
    monkeypatch.setenv("SWINGDB_HOME", str(path))
    # No test asks the network, where swingdb-remote is installed.
    monkeypatch.setenv("SWINGDB_REMOTE", "/nonexistent/swingdb-remote")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def reboot(home: Path) -> Callable[[], None]:
    """Takes the memory of all databases away, as a restart of the machine does.

    A database that was just closed may still give memory back, so folders vanish meanwhile.
    """

    def lose() -> None:
        while any(home.iterdir()):
            for entry in home.iterdir():
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()

    return lose


@pytest.fixture
def con() -> Iterator[swingdb.Connection]:
    """A private database."""
    with swingdb.connect() as connection:
        yield connection


def pytest_configure(config: pytest.Config) -> None:
    """One seed a run, printed in the header; SWINGDB_SEED repeats a run."""
    config.seed = int(os.environ.get("SWINGDB_SEED", time.time_ns() % 1_000_000))


def pytest_report_header(config: pytest.Config) -> str:
    """Shows the seed."""
    return f"SWINGDB_SEED={config.seed}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers from the run's seed and the test's name."""
    seed = f"{request.config.seed}:{request.node.nodeid}"
    print("seed", request.config.seed)
    return random.Random(seed)


class Program:
    """A Python program in a process of its own; what it prints is read line by line."""

    def __init__(self, source: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", source, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    def line(self) -> str:
        """The next line it prints; fails the test if it ends instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended with status {self.process.wait()}"
        return line.rstrip("\n")

    def tell(self, line: str) -> None:
        """Sends it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """Ends it by SIGKILL; the lines that were not read, without one that is not whole."""
        assert self.process.stdout is not None
        self.process.kill()
        # Not `communicate`, which does not see what was read ahead of the last line.
        rest = self.process.stdout.read()
        self.process.wait()
        return rest.split("\n")[:-1]

    def finish(self, timeout_s: float = 60) -> None:
        """Waits for its end, which must be a good one."""
        assert self.process.wait(timeout_s) == 0


@pytest.fixture
def run() -> Iterator[Callable[..., Program]]:
    """Starts programs, and kills what is left of them at the end."""
    programs: list[Program] = []

    def start(source: str, *arguments: object) -> Program:
        programs.append(Program(source, *arguments))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            program.kill()
        for pipe in (program.process.stdin, program.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], bool]:
    """Whether something becomes true within a minute: the engine's threads let go of what a query
    has read a moment after its last row."""

    def eventually(is_so: Callable[[], bool]) -> bool:
        end = time.monotonic() + 60
        while not is_so() and time.monotonic() < end:
            time.sleep(0.01)
        return is_so()

    return eventually


@pytest.fixture
def interrupting() -> Callable[..., AbstractContextManager[None]]:
    """Calls a function again and again while a block runs, first after some seconds.

    Once would not do: on a busy machine the statement may begin later than that.
    """

    @contextmanager
    def interrupting(interrupt: Callable[[], object], after: float = 0.4) -> Iterator[None]:
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(after):
                interrupt()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    return interrupting


def used_bytes(path: Path) -> int:
    """The memory that the files below a directory take, each counted once."""
    seen: set[int] = set()
    total = 0
    for file in path.rglob("*"):
        try:
            stat = file.lstat()
        except FileNotFoundError:
            continue
        if stat.st_ino not in seen:
            seen.add(stat.st_ino)
            total += stat.st_blocks * 512
    return total


@pytest.fixture
def used() -> Callable[[Path], int]:
    """Measures the memory of a namespace."""
    return used_bytes
