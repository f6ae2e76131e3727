"""Answers the statements of one sqllogictest file from a cluster, as ``session.py`` does from one
database: any SQL has to give the answer of one database with all the rows.

    python cluster.py --programs DIR [--shards N] [--cut hash|as_it_lies|replicated]

Starts so many nodes of its own, processes of this machine with empty databases. With ``--cut hash``
tables are cut by the hash of their first column where that can be, else they lie as they lie.
Sessions move to the newest state before each statement, as those of one database do.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import swingdb
from session import letter, renamed, serve

_TEXTS = "SELECT COLUMNS(*)::VARCHAR FROM slt_result"
_NAME = r'(?:"(?:[^"]|"")+"|\w+)'
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?:{_NAME}\s*\.\s*)*{_NAME}\s*(?:\(\s*(?P<column>{_NAME})|AS\b(?P<query>.*))",
    re.IGNORECASE | re.DOTALL,
)
#: Sessions on one database have these too; the text of a time of day with a zone goes by it.
_ZONE = re.compile(r"\s*(RE)?SET\s.*zone", re.IGNORECASE)
_PR_SET_PDEATHSIG = 1
#: Removes a folder when nobody holds the other end of its standard input any more. Nodes that are
#: just being killed may make files meanwhile.
_REMOVER = """
import os, shutil, sys, time
sys.stdin.read()
for _ in range(100):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.1)
    if not os.path.exists(sys.argv[1]):
        break
"""


def _folder() -> tuple[str, subprocess.Popen[bytes]]:
    """A folder in memory, and the process that removes it when this one has ended, also when it is
    killed. A session of its own, so that signals to this one's group do not end it.
    """
    folder = tempfile.mkdtemp(prefix="swingdb-slt-", dir="/dev/shm")
    command = [sys.executable, "-S", "-c", _REMOVER, folder]
    none = subprocess.DEVNULL
    remover = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True
    )
    return folder, remover


def _end_with_parent() -> None:
    """Lets a node end with this process, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _node(program: Path, home: str) -> subprocess.Popen[bytes]:
    command = [program, "--listen", "127.0.0.1:0", "--home", home, "--write", "shard"]
    environment = {**os.environ, "SWINGDB_THREADS": "2"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, preexec_fn=_end_with_parent
    )


class Clustered:
    """Sessions on a cluster of this machine."""

    def __init__(self, programs: Path, shards: int, cut: str) -> None:
        folder, self._remover = _folder()
        homes = [f"{folder}/{shard}" for shard in range(shards)]
        for home in homes:
            os.mkdir(home)
        self._nodes = [_node(programs / "swingdb-node", home) for home in homes]
        self._places = []
        for node in self._nodes:
            assert node.stdout is not None
            address = node.stdout.readline().decode().split()[-1]
            self._places.append(f"{address}/shard")
        self._program, self._cut = programs / "swingdb-cluster", cut
        self._sessions = {0: self.opened()}
        #: Whose transactions are open.
        self._blocks: set[int] = set()
        #: Says what types and values are called.
        self._local = swingdb.connect()

    def opened(self) -> swingdb.Cluster:
        return swingdb.cluster(self._places, program=self._program)

    def session(self, number: int) -> swingdb.Cluster:
        """The session of a number, made when it is named first."""
        if number not in self._sessions:
            self._sessions[number] = self.opened()
        return self._sessions[number]

    def reconnect(self, number: int) -> None:
        """Replaces a session."""
        self._sessions[number].close()
        self._sessions[number] = self.opened()
        self._blocks.discard(number)

    def _column(self, session: swingdb.Cluster, statement: str) -> str | None:
        """The column that a table is cut by."""
        made = _CREATE.match(statement)
        if made is None or self._cut != "hash":
            return None
        if made["column"] is not None:
            return made["column"]
        query = made["query"].rstrip().rstrip(";")
        try:
            made_of = session.query(f"SELECT * FROM ({query}) AS q LIMIT 0").arrow()
            name: str = made_of.column_names[0]
        except (swingdb.Error, IndexError):
            return None
        return '"' + name.replace('"', '""') + '"'

    def _run(self, session: swingdb.Cluster, number: int, statement: str) -> Any:
        cut = None if self._cut == "hash" else self._cut
        column = self._column(session, statement)
        if column is not None and number not in self._blocks:
            try:
                return session.query(statement, cut=f"hash:{column}")
            except swingdb.Error:
                # A column that no table can be cut by; or the statement fails, and does so again.
                session.refresh()
        return session.query(statement, cut=cut)

    def run(self, number: int, statement: str) -> dict[str, Any]:
        """Runs a statement."""
        session = self.session(number)
        if number not in self._blocks:
            session.refresh()
        result = self._run(session, number, statement)
        word = statement.split(None, 1)[0].rstrip(";").upper()
        if word in ("BEGIN", "START"):
            self._blocks.add(number)
        elif word in ("COMMIT", "END", "ROLLBACK", "ABORT"):
            self._blocks.discard(number)
        if _ZONE.match(statement):
            self._local.execute(statement)
        if result.rows_changed is not None:
            return {"count": result.rows_changed}
        table = result.arrow()
        if table.num_columns == 0:
            return {"count": 0}
        self._local.register("slt_result", renamed(table))
        try:
            types = self._local.sql("SELECT * FROM slt_result").types
            rows = self._local.execute(_TEXTS).fetchall()
        finally:
            self._local.unregister("slt_result")
        return {"types": "".join(letter(each) for each in types), "rows": rows}

    def close(self) -> None:
        """Ends the nodes."""
        for session in self._sessions.values():
            session.close()
        for node in self._nodes:
            node.kill()
            node.wait()
        self._remover.communicate()


def main() -> None:
    """Serves a cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="the folder of swingdb-node")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--cut", choices=["hash", "as_it_lies", "replicated"], default="hash")
    options = parser.parse_args()
    os.environ["SWINGDB_REMOTE"] = "/nonexistent/swingdb-remote"
    clustered = Clustered(options.programs, options.shards, options.cut)
    try:
        serve(clustered)
    finally:
        clustered.close()


if __name__ == "__main__":
    main()
