"""Answers the statements of one sqllogictest file: one JSON object a line in, one a line out.

    python session.py [--engine swingdb|duckdb] [--setup SQL]

Request: ``{"connection": 0, "sql": "..."}``; connection 0 is there from the start, further numbers
make further sessions on the same database. ``{"reconnect": 0}`` puts a new session in its place.

Answer: ``{"types": "IT", "rows": [["1", "a"], [null, ""]]}`` for a result, ``{"count": 3}`` for a
statement without one, ``{"error": "...", "class": "ParseError"}`` for a failure. Values are the
text that the engine's own cast to VARCHAR gives them.

With ``--engine duckdb`` the same files run on DuckDB, to compare expectations with it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from typing import Any, Protocol

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_LETTERS = {"FLOAT": "R", "DOUBLE": "R", "BOOLEAN": "B", "NULL": "?", '"NULL"': "?"}
_TEXTS = "SELECT COLUMNS(*)::VARCHAR FROM slt_result"


def letter(sql_type: str) -> str:
    """The type letter of sqllogictest: I, R, B, D (dates and times), T, ? (only NULL)."""
    if sql_type in _LETTERS:
        return _LETTERS[sql_type]
    if sql_type.endswith("]"):
        return "T"
    if sql_type.startswith("DECIMAL"):
        return "I" if sql_type.endswith(",0)") else "R"
    if sql_type.removeprefix("U") in _INTEGERS:
        return "I"
    return "D" if sql_type.startswith(("DATE", "TIME")) else "T"


def renamed(table: Any) -> Any:
    """An Arrow table whose columns have names that differ."""
    return table.rename_columns([f"c{place}" for place in range(table.num_columns)])


class SwingDb:
    """A private, unnamed database of this process."""

    def __init__(self) -> None:
        import swingdb

        self._first = swingdb.connect()
        self._sessions = {0: self._first}

    def session(self, number: int) -> Any:
        """The session of a number, made when it is named first."""
        if number not in self._sessions:
            self._sessions[number] = self._first.duplicate()
        return self._sessions[number]

    def reconnect(self, number: int) -> None:
        """Replaces a session; the first one is kept open, since the database is its own."""
        self._sessions[number] = self._first.duplicate()

    def run(self, number: int, statement: str) -> dict[str, Any]:
        """Runs a statement. No local variable here may be one that a query takes for a table."""
        session = self.session(number)
        result = session.sql(statement)
        types = result.types
        if not types:
            return {"count": result.rows_changed or 0}
        letters = "".join(letter(each) for each in types)
        # Columns of one name are allowed in a result and not in a table.
        unique = len({name.lower() for name in result.columns}) == len(types)
        # Runs the statement to its end, so that an error is that of the statement.
        len(result)
        session.register("slt_result", result if unique else renamed(result.arrow()))
        try:
            rows = session.execute(_TEXTS).fetchall()
        finally:
            session.unregister("slt_result")
        return {"types": letters, "rows": rows}


class DuckDb:
    """A private database of DuckDB."""

    def __init__(self) -> None:
        import duckdb

        # That the Arrow table is a copy does not matter here.
        warnings.simplefilter("ignore")
        self._first = duckdb.connect()
        self._sessions = {0: self._first}

    def session(self, number: int) -> Any:
        """The session of a number, made when it is named first."""
        if number not in self._sessions:
            self._sessions[number] = self._first.cursor()
        return self._sessions[number]

    def reconnect(self, number: int) -> None:
        """Replaces a session."""
        self._sessions[number] = self._first.cursor()

    def run(self, number: int, statement: str) -> dict[str, Any]:
        """Runs a statement; the session that ran it also makes its result text."""
        session = self.session(number)
        session.execute(statement)
        description = session.description
        if not description or [column[0] for column in description] in (["Count"], ["Success"]):
            rows = session.fetchall() if description else []
            return {"count": rows[0][0] if rows and isinstance(rows[0][0], int) else 0}
        letters = "".join(letter(str(column[1])) for column in description)
        session.register("slt_result", renamed(session.to_arrow_table()))
        try:
            rows = session.execute(_TEXTS).fetchall()
        finally:
            session.unregister("slt_result")
        return {"types": letters, "rows": rows}


class Engine(Protocol):
    """Runs the statements of one file."""

    def reconnect(self, number: int) -> None:
        """Replaces the session of a number."""

    def run(self, number: int, statement: str) -> dict[str, Any]:
        """Runs a statement in the session of a number."""


def answer(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; every exception is one."""
    try:
        if "reconnect" in request:
            engine.reconnect(request["reconnect"])
            return {"count": 0}
        return engine.run(request["connection"], request["sql"])
    except Exception as error:  # whatever a statement does wrong, the next one is still asked
        return {"error": str(error), "class": type(error).__name__}


def serve(engine: Engine) -> None:
    """Answers until the standard input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(engine, json.loads(line))), flush=True)


def main() -> None:
    """Serves one process's own database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["swingdb", "duckdb"], default="swingdb")
    parser.add_argument("--setup", default="", help="a statement to run first")
    options = parser.parse_args()
    # No statement asks the network, where swingdb-remote is installed.
    os.environ["SWINGDB_REMOTE"] = "/nonexistent/swingdb-remote"
    engine = SwingDb() if options.engine == "swingdb" else DuckDb()
    if options.setup:
        engine.run(0, options.setup)
    serve(engine)


if __name__ == "__main__":
    main()
