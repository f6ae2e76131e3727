"""Writers, derivers, readers and live hookers of one namespace, killed at random for as long as one
likes: ``python tests/soak/soak.py --seconds 60 --seed 1``.

Each role is a process of its own. The supervisor kills one of them by SIGKILL about twice a second
and starts it anew; some close all descriptors that they did not open, and open files in their
place. What must hold is looked at by the roles that read, and from outside at the end:

* ``ledger`` holds pairs of amounts whose sum is 0 in each state, and an even number of rows.
* The generation of what is shared never goes back.
* A snapshot says the same at its end as at its begin.
* A live hook shows memory of one instant: stores in order leave a staircase of one step.
* A file that got the number of a descriptor which its program closed keeps its bytes, and while
  such a program owns the database nobody else does.
* When all are dead and everything is dropped, nothing is left in the namespace.

A role that finds something else prints BROKEN and ends; so does the soak, with status 1. Errors of
the library are typed; those that a role has to expect (somebody was killed) are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

import numpy as np

import swingdb
from swingdb import memory

#: Words of the memory that is hooked live.
WORDS = 1 << 18
#: How often the supervisor kills somebody, in seconds.
KILL_EVERY_S = 0.4
#: The variable that names the folder for the files of roles.
FILES = "SWINGDB_SOAK_FILES"
#: What a role may meet because another one was killed, closed or replaced.
EXPECTED = (
    swingdb.NotFoundError,
    swingdb.NotSharedError,
    swingdb.BusyError,
    swingdb.AlreadyExistsError,
    swingdb.MemoryGoneError,
    swingdb.TransactionError,
    memory.MemoryError,
)


class Broken(Exception):
    """Something that must always hold does not."""


def expect(holds: bool, what: str, *seen: object) -> None:
    """Ends the role unless ``holds``."""
    if not holds:
        raise Broken(f"{what}: {seen}")


def state_of(con: swingdb.Connection) -> tuple[int, int, int]:
    """(rows, sum of amounts, generation) of the ledger."""
    rows, total = con.sql("SELECT count(*), coalesce(sum(amount), 0) FROM ledger").fetchone()
    (generation,) = con.sql("SELECT n FROM generation").fetchone()
    return rows, int(total), generation


def check_state(con: swingdb.Connection, least: int) -> tuple[int, int, int]:
    """The state, which must be whole and no older than generation ``least``."""
    rows, total, generation = state = state_of(con)
    expect(rows % 2 == 0 and total == 0, "a torn state", state)
    expect(generation >= least, "an older state than before", generation, least)
    return state


def change(con: swingdb.Connection, chance: random.Random) -> None:
    """One transaction that keeps the ledger's sum."""
    amount = chance.randrange(1, 1000)
    with con.transaction():
        kind = chance.randrange(4)
        if kind == 0:
            sql = "DELETE FROM ledger WHERE pair IN (SELECT pair FROM ledger LIMIT ?)"
            con.execute(sql, [chance.randrange(1, 50)])
        elif kind == 1:
            con.execute("UPDATE ledger SET amount = amount * -1 WHERE pair % 7 = ?", [amount % 7])
        else:
            first = chance.randrange(1 << 40)
            pairs = chance.choice([1, 10, 5000])
            for each in (amount, -amount):
                rows = f"SELECT {first} + range, {each} FROM range({pairs})"
                con.execute(f"INSERT INTO ledger {rows}")
        con.execute("UPDATE generation SET n = n + 1")


def writer(chance: random.Random) -> None:
    """Opens the database as its writer, changes it, and shares now and then."""
    with swingdb.connect("soak") as con:
        with con.transaction():
            con.execute("CREATE TABLE IF NOT EXISTS ledger (pair BIGINT, amount BIGINT)")
            con.execute("CREATE TABLE IF NOT EXISTS generation AS SELECT 0 AS n")
        least = check_state(con, 0)[2]
        con.share()
        for round_ in range(chance.randrange(20, 200)):
            change(con, chance)
            if chance.random() < 0.3:
                con.share()
            if round_ % 16 == 0:
                least = check_state(con, least)[2]
            if con.sql("SELECT count(*) FROM ledger").fetchone()[0] > 200_000:
                con.execute("DELETE FROM ledger")


def reader(chance: random.Random) -> None:
    """Takes snapshots, looks at them twice, and moves on."""
    least = 0
    for _ in range(20):
        with swingdb.snapshot("soak") as snap:
            first = check_state(snap, least)
            least = first[2]
            time.sleep(chance.random() * 0.2)
            expect(state_of(snap) == first, "a snapshot changed", first, state_of(snap))
            snap.execute("DELETE FROM ledger")
            expect(snap.sql("SELECT count(*) FROM ledger").fetchone() == (0,), "a write is lost")


class UsersFiles:
    """Closes all descriptors that this role did not open, as daemons do, and opens files, which get
    their numbers; whoever goes on using a number that is not his any more changes one of them."""

    CONTENTS = b"user" * 25_000
    COUNT = 48

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ[FILES])
        os.closerange(3, 4096)
        self.files = [
            open(os.path.join(self.folder, str(i)), "w+b", buffering=0)  # noqa: SIM115
            for i in range(self.COUNT)
        ]
        for file in self.files:
            file.write(self.CONTENTS)

    def check(self) -> None:
        """Each is open, where it was left, and what it was."""
        length = len(self.CONTENTS)
        for file in self.files:
            number = file.fileno()
            at, size = os.lseek(number, 0, os.SEEK_CUR), os.fstat(number).st_size
            expect((at, size) == (length, length), "a file was moved or has grown", at, size)
            expect(os.pread(number, length, 0) == self.CONTENTS, "a file was changed", number)

    def close(self) -> None:
        """Checks them once more."""
        self.check()
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder)


def closing_reader(chance: random.Random) -> None:
    """Goes on reading a snapshot without its descriptors, and takes another one."""
    snap = swingdb.snapshot("soak")
    first = check_state(snap, 0)
    users = UsersFiles()
    for _ in range(10):
        time.sleep(chance.random() * 0.1)
        expect(state_of(snap) == first, "a snapshot changed after closerange", first)
        users.check()
    with swingdb.snapshot("soak") as later:
        check_state(later, first[2])
    snap.close()
    users.close()


#: What another process finds that wants to write, too.
SECOND_WRITER = """
import swingdb
try: swingdb.connect("soak"); print("let in")
except swingdb.BusyError: print("refused")
"""


def closing_writer(chance: random.Random) -> None:
    """Goes on writing without its descriptors; nobody else may write meanwhile."""
    with swingdb.connect("soak") as con:
        if "generation" not in con.tables():
            return
        con.share()
        users = UsersFiles()
        least = 0
        for round_ in range(chance.randrange(5, 40)):
            change(con, chance)
            if chance.random() < 0.5:
                con.share()
            least = check_state(con, least)[2]
            users.check()
            if round_ == 3:
                command = [sys.executable, "-c", SECOND_WRITER]
                second = subprocess.run(command, capture_output=True, text=True, check=False)
                expect(second.stdout == "refused\n", "a second writer", second)
    users.close()


def deriver(chance: random.Random) -> None:
    """Takes a snapshot under a name, changes it, shares it, and reads what it has shared."""
    name = f"derived-{chance.randrange(3)}"
    with contextlib.suppress(*EXPECTED):
        swingdb.drop(name)
    with swingdb.get_snapshot("soak", name) as mine:
        for _ in range(5):
            change(mine, chance)
            mine.share()
            with swingdb.snapshot(name) as theirs:
                check_state(theirs, 0)


def storer(chance: random.Random, closing: bool = False) -> None:
    """Stores in order into memory that others hook while it does."""
    with contextlib.suppress(memory.MemoryError):
        memory.hook("stairs").release()
    area = memory.create(WORDS * 8, name="stairs")
    area.allow_live_hooks()
    words = area.array((WORDS,), "int64")
    area.publish()
    users = UsersFiles() if closing else None
    until = time.monotonic() + 1 + chance.random() * 4
    step, number = 4096, 0
    while time.monotonic() < until:
        number += 1
        for at in range(0, WORDS, step):
            words[at : at + step] = number
        if users and number % 64 == 0:
            users.check()
    if users:
        expect(bool((words == number).all()), "a store is lost", number)
        users.close()


def closing_storer(chance: random.Random) -> None:
    """The same without its descriptors."""
    storer(chance, closing=True)


def hooker(chance: random.Random, closing: bool = False) -> None:
    """Hooks a storing owner live: what it sees is a staircase of one step down."""
    users: UsersFiles | None = None
    for round_ in range(50):
        area = memory.hook("stairs", live=True)
        expect(area.is_fresh, "an older state", area)
        words = area.array((WORDS,), "int64")
        closed = closing and round_ % 16 == 0
        if closed:
            # The connection to the owner is kept for the next hook.
            if users:
                users.close()
            users = UsersFiles()
        steps = np.diff(words)
        down = np.flatnonzero(steps)
        expect(down.size <= 1 and bool((steps[down] == -1).all()), "no instant", down[:5])
        # Private memory has no name to be opened by again: a store there is the program's end.
        if not closed:
            words[:] = -1
        area.release()
        time.sleep(chance.random() * 0.05)
        if users:
            users.check()


def closing_hooker(chance: random.Random) -> None:
    """The same without its descriptors."""
    hooker(chance, closing=True)


ROLES = {
    role.__name__: role
    for role in (
        writer,
        reader,
        closing_reader,
        closing_writer,
        deriver,
        storer,
        closing_storer,
        hooker,
        closing_hooker,
    )
}


def run_role(name: str, seed: int) -> int:
    """One process: 0 done, 4 met an error that it has to expect, 3 found something broken."""
    try:
        ROLES[name](random.Random(seed))
    except EXPECTED as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
        return 4
    except Broken as error:
        print(f"BROKEN {name} (seed {seed}): {error}", flush=True)
        return 3
    return 0


class Supervisor:
    """Keeps the roles running, kills them, and counts how they end."""

    def __init__(self, seed: int, log: str) -> None:
        self.chance = random.Random(seed)
        self.log = log
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: Counter[str] = Counter()
        self.broken = False

    def tend(self) -> None:
        """Starts what has ended, and notes how it did."""
        for role in [*ROLES, "reader 2", "writer 2"]:
            process = self.running.get(role)
            if process is not None:
                status = process.poll()
                if status is None:
                    continue
                self.note(role, status)
            seed = self.chance.randrange(1 << 32)
            arguments = [sys.executable, __file__, "--role", role.split()[0], "--seed", str(seed)]
            with open(self.log, "ab") as out:
                self.running[role] = subprocess.Popen(arguments, stdout=out, stderr=out)

    def note(self, role: str, status: int) -> None:
        """Counts an end; whatever is neither a kill nor an expected error is broken."""
        ways = {0: "done", 4: "expected error", -signal.SIGKILL: "killed"}
        self.ended[ways.get(status, f"status {status}")] += 1
        if status not in ways:
            print(f"{role} ended with status {status}", flush=True)
            self.broken = True

    def kill_one(self) -> None:
        """SIGKILL for one of them, whatever it is doing."""
        self.running[self.chance.choice(list(self.running))].kill()

    def finish(self) -> None:
        """Ends all of them."""
        for role, process in self.running.items():
            process.kill()
            self.note(role, process.wait())


def clean_up(home: str) -> list[str]:
    """Drops everything; what is left of files."""
    for info in swingdb.list():
        if info.name is not None:
            with contextlib.suppress(swingdb.NotFoundError):
                swingdb.drop(info.name)
    memory.collect()
    swingdb.gc()
    found = [os.path.join(at, file) for at, _, files in os.walk(home) for file in files]
    # The tables of the namespace itself, of a few bytes, stay.
    tables = {os.path.join(home, ".names"), os.path.join(home, ".tokens")}
    return [file for file in found if file not in tables]


def soak(seconds: float, seed: int, home: str) -> int:
    """The whole soak; the exit status."""
    print(f"seed {seed}, {seconds:.0f} s, in {home}", flush=True)
    log = os.path.join(tempfile.gettempdir(), f"swingdb-soak-{os.getpid()}.log")
    supervisor = Supervisor(seed, log)
    until = time.monotonic() + seconds
    supervisor.tend()
    while time.monotonic() < until and not supervisor.broken:
        time.sleep(KILL_EVERY_S * 2 * supervisor.chance.random())
        supervisor.kill_one()
        supervisor.tend()
    supervisor.finish()
    with open(log, encoding="utf-8", errors="replace") as file:
        said = Counter(line.partition(":")[0] for line in file)
    if not supervisor.broken:
        with contextlib.suppress(swingdb.NotFoundError), swingdb.connect("soak") as con:
            if "ledger" in con.tables():
                print("at the end: rows, sum, generation", check_state(con, 0), flush=True)
    left = clean_up(home)
    print("ends:", dict(supervisor.ended), "errors:", dict(said), flush=True)
    if left:
        print("BROKEN: left behind:", *left[:20], sep="\n  ", flush=True)
    if supervisor.broken or left:
        print(f"what the roles said: {log}", flush=True)
        return 1
    os.unlink(log)
    print("nothing broken", flush=True)
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        return run_role(given.role, given.seed)
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    home = tempfile.mkdtemp(prefix="swingdb-soak-", dir="/dev/shm")
    os.environ["SWINGDB_HOME"] = home
    os.environ[FILES] = files = tempfile.mkdtemp(prefix="swingdb-soak-files-")
    try:
        return soak(given.seconds, seed, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(files, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
