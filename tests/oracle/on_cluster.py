"""Any of these comparisons with a cluster of this machine in the place of one database.

    python tests/oracle/on_cluster.py --programs DIR [--shards N] random_joins.py [--seed N] ...

Starts so many nodes. Each database that the comparison makes is a session on them, on which there
are no tables yet. Its tables are cut by their first or second column, lie as they lie, or are
replicated: what is chosen goes by the statement, so that a seed does the same again.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import swingdb

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "slt"))

import cluster  # noqa: E402

_CREATE = re.compile(r"\s*CREATE (OR REPLACE )?TABLE \w+ (AS |\(\s*(\w+)[^,]*,?\s*(\w+)?)", re.I)


class Result:
    """What a statement gives, as a cursor has it."""

    def __init__(self, result: swingdb.ClusterResult) -> None:
        self.fetchall = result.fetchall
        self.rowcount = result.rows_changed


class Session:
    """A session on a cluster that is used like a connection."""

    def __init__(self, nodes: cluster.Clustered, folder: Path) -> None:
        self._session = nodes.opened()
        self._folder = folder
        #: Files of the tables that are registered, by their names.
        self._files: dict[str, Path] = {}
        for kind, listed in (("VIEW", "duckdb_views()"), ("TABLE", "duckdb_tables()")):
            names = self._session.query(f"SELECT {kind.lower()}_name FROM {listed}").fetchall()
            for (name,) in names:
                self._session.query(f'DROP {kind} IF EXISTS "{name}"')

    def _file(self, table: pa.Table) -> Path:
        file = self._folder / f"{time.monotonic_ns()}.parquet"
        pq.write_table(table, file)
        return file

    def register(self, name: str, table: pa.Table) -> None:
        """Gives a table a name in statements that follow."""
        self._files[name] = self._file(table)

    def append(self, name: str, table: pa.Table) -> None:
        """Adds rows to a table."""
        self._session.query(f"INSERT INTO {name} BY NAME SELECT * FROM '{self._file(table)}'")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Result:
        """Runs a statement."""
        for name, file in self._files.items():
            sql = re.sub(rf"\b{name}\b", f"'{file}'", sql)
        return Result(self._run(sql, parameters))

    def _run(self, sql: str, parameters: Sequence[Any]) -> swingdb.ClusterResult:
        made = _CREATE.match(sql)
        if made is None:
            return self._session.query(sql, parameters)
        columns = [f"hash:{name}" for name in made.groups()[2:] if name is not None]
        cuts = [*columns, *columns, "as_it_lies", "replicated"]
        cut = cuts[zlib.crc32(sql.encode()) % len(cuts)]
        try:
            return self._session.query(sql, parameters, cut=cut)
        except swingdb.Error:
            # With a key that another column cuts; else it fails again.
            return self._session.query(sql, parameters, cut="replicated")

    sql = execute


def main() -> None:
    """Runs a comparison with its own options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, required=True, help="the folder of swingdb-node")
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("comparison")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    os.environ["SWINGDB_REMOTE"] = "/nonexistent/swingdb-remote"
    nodes = cluster.Clustered(given.programs, given.shards, "hash")
    try:
        sys.argv = [given.comparison, *given.options]
        with tempfile.TemporaryDirectory() as folder:
            swingdb.connect = lambda: Session(nodes, Path(folder))
            runpy.run_path(str(HERE / given.comparison), run_name="__main__")
    finally:
        nodes.close()


if __name__ == "__main__":
    main()
