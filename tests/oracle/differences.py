"""What the random comparisons with DuckDB share: rows compared, differences judged, seeds run.

A run is an object with `step()`, which does something on both engines and gives the statement, what
is different after it (None: nothing), and details.
"""

import argparse
import collections
import datetime
import decimal
import math
import random

import duckdb
import swingdb

#: What either engine says to a statement that it cannot run.
ERRORS = (duckdb.Error, swingdb.Error)
#: What SwingDB refuses, by the beginning of the message; docs/sql.md lists it.
REFUSED = (
    "not supported: ",
    "Correlated scalar subquery ",
    "Unary operator '-' only supports signed",
)
#: What DuckDB refuses and SwingDB does: it computes in narrower types, and also what no row needs.
STRICT = (
    "Out of Range Error: Overflow in ",
    "Conversion Error: Type ",
    "Binder Error: Cannot change the type of a column that has a UNIQUE or PRIMARY KEY",
    # `least(a, a)` in a query that is named twice.
    "Serialization Error: Error during bind of function in deserialization",
)
#: The parser takes `(` before SELECT for that of a subquery: `a IN ((SELECT ...), b)`.
NOT_PARSED = "Expected: ), found: "


def normal(value):
    """A value in a form that sorts and compares across the engines."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, (int, decimal.Decimal, float)):
        if isinstance(value, float) and math.isnan(value):
            return (3, "nan")
        return (2, float(f"{float(value):.7g}") + 0.0)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return (4, str(value.date()))
    if isinstance(value, (list, tuple)):
        return (5, tuple(map(normal, value)))
    if isinstance(value, dict):
        return (6, tuple((normal(key), normal(of)) for key, of in value.items()))
    return (4, str(value))


def normal_rows(rows):
    """Rows with normal values, in their order."""
    return [tuple(map(normal, row)) for row in rows]


def same(expected, found):
    """Whether normal rows are equal; numbers to six digits."""
    def close(a, b):
        if a == b:
            return True
        return a[0] == b[0] == 2 and math.isclose(a[1], b[1], rel_tol=1e-6, abs_tol=1e-9)

    return len(expected) == len(found) and all(
        len(e) == len(f) and all(map(close, e, f)) for e, f in zip(expected, found)
    )


def rows_differ(expected, found):
    """What is different between normal rows, and details; twice None where nothing is."""
    if same(expected, found):
        return None, None
    wrong = [(e, f) for e, f in zip(expected, found) if not same([e], [f])][:3]
    return "rows differ", f"{len(expected)} rows in DuckDB, {len(found)} here; first {wrong}"


def failures_differ(their_error, our_error):
    """What is different where an engine failed, or both did; None where none did."""
    if their_error is not None and our_error is not None:
        return "both failed"
    if our_error is not None:
        return f"failed: {our_error}"
    if their_error is not None:
        return f"only DuckDB failed: {their_error}"
    return None


def rows_of_both(engines, sql, rows_of):
    """What is different where an engine fails, and the rows of both as `rows_of` has them."""
    rows, errors = [], []
    for engine in engines:
        try:
            rows.append(rows_of(engine.execute(sql).fetchall()))
            errors.append(None)
        except ERRORS as error:
            rows.append(None)
            errors.append(error)
    return failures_differ(*errors), rows


def query_differs(engines, sql, ordered=False):
    """What is different between the rows of a query on both engines, and details."""
    in_order = (lambda rows: rows) if ordered else sorted
    what, rows = rows_of_both(engines, sql, lambda found: in_order(normal_rows(found)))
    return (what, None) if what is not None else rows_differ(*rows)


def kind_of_difference(what):
    """`same`, `refused`, or what is wrong."""
    if what is None or what == "both failed":
        return what or "same"
    message = what.removeprefix("failed: ")
    if message != what and (message.startswith(REFUSED) or NOT_PARSED in message):
        return "refused: " + message[:60]
    message = what.removeprefix("only DuckDB failed: ")
    if message != what and message.startswith(STRICT):
        return "DuckDB refused: " + message[:40]
    return "WRONG: " + what[:100]


def compare(start, seeds, steps, go_on=False):
    """Makes a run for each seed and goes its steps; a count of what came out.

    Stops at the first difference, or prints all.
    """
    seen = collections.Counter()
    for seed in seeds:
        run = start(seed)
        for step in range(steps):
            sql, what, detail = run.step()
            kind = kind_of_difference(what)
            seen[kind] += 1
            if kind.startswith("WRONG"):
                place = f"seed {seed}, step {step}: {what} {detail or ''}\n    {sql}"
                if not go_on:
                    raise AssertionError(place)
                print(f"--- {place}", flush=True)
    return seen


def options(doc, runs, steps=None, go_on=True, minutes=False):
    """The command line of a comparison: `seeds`, which are printed, and what else it can do."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--runs", type=int, default=runs)
    if steps is not None:
        parser.add_argument("--steps", type=int, default=steps)
    if minutes:
        parser.add_argument("--minutes", type=float, default=0, help="more seeds for so long")
    if go_on:
        parser.add_argument("--go-on", action="store_true", help="list all differences")
    parsed = parser.parse_args()
    parsed.seeds = range(parsed.seed, parsed.seed + parsed.runs)
    print(f"seeds {parsed.seeds[0]} to {parsed.seeds[-1]}", flush=True)
    return parsed


def main(doc, start):
    """Compares as the command line says, and prints what came out."""
    parsed = options(doc, runs=10, steps=100)
    for kind, count in compare(start, parsed.seeds, parsed.steps, parsed.go_on).most_common():
        print(f"{count:6} {kind}")
