"""Random arithmetic on whole numbers near the bounds of their types, on SwingDB and on DuckDB.

Each expression is computed for output and below aggregates. Both engines must fail or give the same
value. (Not in filters: DuckDB rearranges comparisons, and then computes something else.)

    python tests/oracle/overflow.py [--seed N] [--steps N]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import argparse
import random

import duckdb
import swingdb

TYPES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}


def number(rng, name):
    """A value of a type, mostly near where something overflows."""
    bits = TYPES[name.removeprefix("U")]
    low, high = (0, 2**bits - 1) if name[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    near = rng.choice([low, high, 0, int(high**0.5), high // 2, low // 2])
    return min(max(near + rng.randint(-2, 2), low), high)


def expression(rng, name, depth=2):
    """A random expression on the columns a, b and constants, all of one type."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice("ab")  # DuckDB rearranges constants, and fails elsewhere
    if name[0] != "U" and rng.random() < 0.15:
        return f"(-{rng.choice('ab')})"
    left, right = expression(rng, name, depth - 1), expression(rng, name, depth - 1)
    return f"({left} {rng.choice('+-*')} {right})"


def answer(run, sql):
    """The rows, or that it failed."""
    try:
        return run(sql).fetchall()
    except (duckdb.Error, swingdb.Error):
        return "failed"


def main():
    """Runs steps until one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    engines = [duckdb.connect(), swingdb.connect()]
    failed = 0
    for step in range(arguments.steps):
        name = rng.choice([*TYPES, *(f"U{name}" for name in TYPES)])
        a, b = number(rng, name), number(rng, name)
        for engine in engines:
            engine.execute(f"CREATE OR REPLACE TABLE t (a {name}, b {name})")
            engine.execute(f"INSERT INTO t VALUES ({a}, {b}), (NULL, {b})")
        value = expression(rng, name)
        for sql in (
            f"SELECT {value} FROM t WHERE a IS NOT NULL",
            f"SELECT b, min({value}) FROM t GROUP BY b",
            f"SELECT max({value}) FROM t",
        ):
            expected, found = (answer(engine.execute, sql) for engine in engines)
            failed += expected == "failed"
            if expected != found:
                raise SystemExit(f"step {step}, a {a}, b {b}: {sql}: {found}, DuckDB {expected}")
    print(f"{arguments.steps} expressions agree, {failed} statements failed in both")


if __name__ == "__main__":
    main()
