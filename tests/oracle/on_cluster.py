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
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import swingdb

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "slt"))

import cluster  # noqa: E402

_CREATE = re.compile(r"\s*CREATE (OR REPLACE )?TABLE \w+ (AS |\(\s*(\w+)[^,]*,?\s*(\w+)?)", re.I)


class Session:
    """A session on a cluster that is used like a connection."""

    def __init__(self, nodes: cluster.Clustered) -> None:
        self._session = nodes.opened()
        for kind, listed in (("VIEW", "duckdb_views()"), ("TABLE", "duckdb_tables()")):
            names = self._session.query(f"SELECT {kind.lower()}_name FROM {listed}").fetchall()
            for (name,) in names:
                self._session.query(f'DROP {kind} IF EXISTS "{name}"')

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> swingdb.ClusterResult:
        """Runs a statement."""
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
        swingdb.connect = lambda: Session(nodes)
        sys.argv = [given.comparison, *given.options]
        runpy.run_path(str(HERE / given.comparison), run_name="__main__")
    finally:
        nodes.close()


if __name__ == "__main__":
    main()
