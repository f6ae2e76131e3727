"""Every function that both engines have, with random values, on SwingDB and on DuckDB.

DuckDB tells the types of each function's arguments. A step takes one of these signatures, gives it
values of its types, edges among them, and calls it with columns, with constants and with both. The
texts of the results are compared with DuckDB's, and those of constants with those of columns.

    python tests/oracle/random_functions.py [--seed N] [--steps N] [--runs N] [--go-on]

`--only NAME` calls some functions alone.

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import argparse
import collections
import math
import random
import re

import duckdb
import swingdb
from differences import ERRORS, kind_of_difference
from function_values import ARGUMENTS, CONSTANT, SKIPPED, VALUES, WHOLE, known_difference

#: Errors of statements that are refused before they run.
REFUSALS = (swingdb.NotSupportedError, swingdb.ProgrammingError)
#: What a signature of DuckDB's may be of; others do not exist here.
PLAIN = set(VALUES)
#: What T, K and V stand for.
ELEMENTS = ["INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN",
            "DECIMAL(9, 2)", "UBIGINT", "TINYINT", "FLOAT", "INTERVAL", "BLOB"]
SCALARS = [of for of in VALUES if of not in ("DECIMAL", "JSON")] + ["DECIMAL"]
KEYS = ["INTEGER", "VARCHAR", "DATE", "BIGINT"]
#: Functions whose results get too long with any value.
BOUNDED = {"range", "generate_series", "repeat", "lpad", "rpad", "list_resize", "array_resize"}
LAMBDAS = ["lambda x: x", "lambda x: x IS NULL", "lambda x, i: i", "lambda x: [x]"]
FOLDS = ["lambda a, x: a", "lambda a, x: x", "lambda a, x: coalesce(x, a)"]
NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|\binf(?:inity)?\b|\bnan\b)",
                    re.IGNORECASE)


def signatures(duck, names):
    """The functions of both engines with their types: `(name, types, varargs)`."""
    found = []
    rows = duck.execute(
        "SELECT function_name, parameter_types, varargs FROM duckdb_functions()"
        " WHERE function_type = 'scalar' ORDER BY ALL"
    ).fetchall()
    for name, types, more in rows:
        if name in names and name not in SKIPPED and name.isidentifier():
            if all(map(is_known, [*types, *([more] if more else [])])):
                found.append((name, tuple(types), more))
    return sorted(set(found), key=str) + operators()


def operators():
    """Operators and casts in the form of functions, their names with places for arguments."""
    numbers = [*WHOLE, "DOUBLE", "FLOAT", "DECIMAL"]
    stamps = ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
    casts = [(f"{word}({{}} AS {to})", (of,), None)
             for word in ("CAST", "TRY_CAST") for of in SCALARS for to in SCALARS]
    casts += [(f"CAST({{}} AS {to}{deep})", (of + deep,), None)
              for of in ELEMENTS for to in ELEMENTS for deep in ("[]", "[3]")]
    sums = [(f"({{}} {sign} {{}})", (a, b), None)
            for sign in "+-*/%" for a in numbers for b in numbers]
    sums += [(f"({{}} {sign} {{}})", pair, None) for sign in "+-" for of in stamps
             for pair in ((of, "INTERVAL"), (of, of), ("INTERVAL", "INTERVAL"),
                          ("DATE", "INTEGER"))]
    sums += [("({} * {})", ("INTERVAL", of), None) for of in ("INTEGER", "DOUBLE", "BIGINT")]
    sums += [("(- {})", (of,), None) for of in [*numbers, "INTERVAL"]]
    bits = [(f"({{}} {sign} {{}})", (of, of), None)
            for sign in ("&", "|", "<<", ">>") for of in WHOLE]
    compared = [(f"({{}} {sign} {{}})", (of, of), None)
                for of in [*SCALARS, "T[]", "MAP(K, V)", "STRUCT"]
                for sign in ("=", "<", ">=", "<>", "IS DISTINCT FROM")]
    compared += [(f"({{}} {sign} {{}})", (a, b), None)
                 for sign in ("=", "<", "IS NOT DISTINCT FROM") for a in numbers for b in numbers]
    compared += [(f"({{}} {sign} {{}})", (a, b), None)
                 for sign in ("=", "<", "IS NOT DISTINCT FROM") for a in stamps for b in stamps]
    others = [("({} BETWEEN {} AND {})", (of,) * 3, None) for of in SCALARS]
    others += [("({} IN ({}, {}))", (of,) * 3, None) for of in SCALARS]
    others += [("CASE WHEN {} THEN {} ELSE {} END", ("BOOLEAN", of, of), None) for of in SCALARS]
    others += [(f"({{}} {word} {{}})", ("VARCHAR", "VARCHAR"), None)
               for word in ("LIKE", "ILIKE", "NOT LIKE", "GLOB", "SIMILAR TO", "||")]
    return [*casts, *sums, *bits, *compared, *others]


def is_operator(name):
    return "{" in name


def is_known(of):
    inner = re.sub(r"(\[(ANY|\d+)?\])+$", "", of)
    return inner in PLAIN or inner in ("T", "K", "V", "ANY", "DECIMAL", "LAMBDA", "MAP(K, V)",
                                       "STRUCT")


def alike(expected, found):
    """Whether texts are the same up to the last digits of the fractions in them."""
    if expected == found or expected is None or found is None:
        return expected == found
    theirs, ours = NUMBER.findall(expected), NUMBER.findall(found)
    if len(theirs) != len(ours) or NUMBER.sub("#", expected) != NUMBER.sub("#", found):
        return False
    return all(map(close, theirs, ours))


def close(a, b):
    if re.fullmatch(r"[-+]?\d+", a) and re.fullmatch(r"[-+]?\d+", b):
        return int(a) == int(b)
    a, b = float(a), float(b)
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-6,
                                                                       abs_tol=1e-12)


class Functions:
    """Calls of one seed."""

    def __init__(self, seed, only=None):
        self.rng = random.Random(seed)
        self.duck, self.swing = duckdb.connect(), swingdb.connect()
        for engine in (self.duck, self.swing):
            engine.execute("SET TimeZone = 'America/New_York'")
        names = {row[0] for row in self.swing.execute("SHOW FUNCTIONS").fetchall()}
        self.signatures = signatures(self.duck, names)
        names = sorted({name for name, _, _ in self.signatures})
        if only:
            names = [name for name in names if name in only or name.split("(")[0] in only]
        self.operators = list(filter(is_operator, names))
        self.names = [name for name in names if not is_operator(name)] or self.operators

    # Values

    def concrete(self, of, bound):
        """A type for one of a signature; the same for the same letter."""
        for letter, choices in (("T", ELEMENTS), ("K", KEYS), ("V", ELEMENTS), ("ANY", ELEMENTS)):
            if letter != "ANY" or "ANY" not in bound:
                bound.setdefault(letter, self.rng.choice(choices))
        if of.endswith("[ANY]"):
            return self.concrete(of[:-5], bound) + "[3]"
        if of.endswith("[]"):
            return self.concrete(of[:-2], bound) + "[]"
        if of == "ANY" and self.rng.random() < 0.3:
            return self.rng.choice(ELEMENTS)
        if of == "DECIMAL":
            return self.rng.choice(["DECIMAL(4, 1)", "DECIMAL(9, 2)", "DECIMAL(18, 6)",
                                    "DECIMAL(38, 10)", "DECIMAL(18, 0)", "DECIMAL(19, 4)"])
        if of == "STRUCT":
            return "STRUCT(a INTEGER, b VARCHAR)"
        if of == "MAP(K, V)":
            return f"MAP({bound['K']}, {bound['V']})"
        return bound.get(of, of)

    def value(self, of, nulls):
        """A value of a type, as SQL has it."""
        rng = self.rng
        if rng.random() < nulls:
            return f"NULL::{of}"
        if of.endswith("[3]"):
            return f"[{', '.join(self.value(of[:-3], 0) for _ in range(3))}]::{of}"
        if of.endswith("[]"):
            length = rng.choice([0, 1, 2, 3, 5])
            inner = [self.value(of[:-2], nulls / 2) for _ in range(length)]
            return f"[{', '.join(inner)}]::{of}"
        if of.startswith("MAP"):
            key, value = of[4:-1].split(", ", 1)
            some = sorted({self.value(key, 0) for _ in range(rng.randint(0, 3))})
            values = [self.value(value, nulls / 2) for _ in some]
            return f"MAP([{', '.join(some)}]::{key}[], [{', '.join(values)}]::{value}[])"
        if of.startswith("STRUCT"):
            return f"{{'a': {self.value('INTEGER', nulls)}, 'b': {self.value('VARCHAR', nulls)}}}"
        family = "DECIMAL" if of.startswith("DECIMAL") else of
        text = rng.choice(VALUES[family])
        if family == "DECIMAL":
            precision, scale = map(int, of[8:-1].split(", "))
            digits = precision - scale
            whole = "".join(rng.choice("09515") for _ in range(rng.randint(0, digits))) or "0"
            fraction = "".join(rng.choice("0959") for _ in range(rng.randint(0, scale))) or "0"
            text = rng.choice(["", "-"]) + f"{whole}.{fraction}"
        return "'" + text.replace("'", "''") + f"'::{of}"

    def argument(self, name, place, of, nulls):
        """A value for a place of a function, some of which take few texts only."""
        pool = ARGUMENTS.get((name, place), ARGUMENTS.get((name, of)))
        if of == "LAMBDA":
            return self.rng.choice(FOLDS if "reduce" in name else LAMBDAS)
        if pool is not None and (name in BOUNDED or self.rng.random() < 0.93):
            return self.rng.choice(pool)
        return self.value(of, nulls)

    # Steps

    def call(self):
        """A name, and rows of arguments."""
        rng = self.rng
        name = rng.choice(self.operators if rng.random() < 0.4 and self.operators else self.names)
        _, types, more = rng.choice([s for s in self.signatures if s[0] == name])
        types = [*types, *([more] * rng.randint(0 if types else 1, 3) if more else [])]
        bound = {}
        types = [self.concrete(of, bound) for of in types]
        nulls = rng.choice([0, 0, 0.15, 0.5])
        fixed = [rng.random() < 0.3 or self.constant(name, n, of) for n, of in enumerate(types)]
        rows = [[self.argument(name, n, of, nulls) for n, of in enumerate(types)]
                for _ in range(8)]
        for row in rows[1:]:
            row[:] = [first if same else value for first, value, same in zip(rows[0], row, fixed)]
        return name, types, fixed, rows

    def over_columns(self, name, fixed, rows):
        """The call as a query over the rows; what is fixed stands in the call."""
        names = [chr(97 + n) for n in range(len(fixed))]
        columns = [column for column, same in zip(names, fixed) if not same]
        given = [value if same else column for value, same, column in zip(rows[0], fixed, names)]
        values = ", ".join(
            "(" + ", ".join([str(n), *(v for v, same in zip(row, fixed) if not same)]) + ")"
            for n, row in enumerate(rows))
        call = name.format(*given) if is_operator(name) else f"{name}({', '.join(given)})"
        return (f"SELECT ({call})::VARCHAR, typeof({call}) FROM (VALUES {values})"
                f" v({', '.join(['n', *columns])}) ORDER BY n")

    def texts(self, engine, sql):
        try:
            return engine.execute(sql).fetchall(), None
        except (*ERRORS, UnicodeDecodeError) as error:
            return None, error

    def step(self):
        """The statement that is wrong, what is different after it, and details."""
        name, types, fixed, rows = self.call()
        sql = self.over_columns(name, fixed, rows)
        (theirs, their_error), (ours, our_error) = (
            self.texts(engine, sql) for engine in (self.duck, self.swing))
        if theirs is None or ours is None:
            outcomes = [self.single(name, types, [True] * len(fixed), row) for row in rows[:3]]
            return next((o for o in outcomes if o[1] not in (None, "both failed")), outcomes[0])
        what = self.rows_differ(name, sql, theirs, ours, rows)
        if what[1] is None:
            row = self.rng.randrange(len(rows))
            mask = [self.rng.random() < 0.5 or self.constant(name, n, of)
                    for n, of in enumerate(types)]
            alone = self.over_columns(name, mask, [rows[row]])
            again, error = self.texts(self.swing, alone)
            if again is None and known_difference(name, str(error), None, None):
                return what
            # Of an exact number the type has as many places as a constant says.
            if again is None or again[0] != ours[row] and "DECIMAL" not in str(again[0][1]):
                return alone, "another value than over columns", f"{ours[row]}, {again or error}"
        return what

    def constant(self, name, place, of):
        """Whether an argument has to be the same for all rows."""
        return of == "LAMBDA" or (name, place) in CONSTANT

    def single(self, name, types, mask, row):
        sql = self.over_columns(name, mask, [row])
        (theirs, their_error), (ours, our_error) = (
            self.texts(engine, sql) for engine in (self.duck, self.swing))
        if theirs is None or ours is None:
            if theirs is None and ours is None:
                return sql, "both failed", None
            if ours is None:
                message = str(our_error)
                if known_difference(name, message, theirs[0][0], None):
                    return sql, None, None
                if "nternal" not in message and isinstance(our_error, REFUSALS):
                    message = f"not supported: {message}"
                return sql, f"failed: {message}", f"{theirs}"
            # DuckDB has fewer casts of arguments, and bounds of its own.
            return sql, None, None
        return self.rows_differ(name, sql, theirs, ours, [row])

    def rows_differ(self, name, sql, theirs, ours, rows):
        for n, (expected, found) in enumerate(zip(theirs, ours)):
            if not alike(expected[0], found[0]):
                if known_difference(name, None, expected[0], found[0]):
                    continue
                call = f"{name}({', '.join(rows[n])})"
                return sql, "values differ", f"{call}: {expected} in DuckDB, {found} here"
        return sql, None, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--go-on", action="store_true", help="list all differences")
    parser.add_argument("--only", help="functions, separated by commas")
    parsed = parser.parse_args()
    print(f"seeds {parsed.seed} to {parsed.seed + parsed.runs - 1}", flush=True)
    seen = collections.Counter()
    for seed in range(parsed.seed, parsed.seed + parsed.runs):
        run = Functions(seed, parsed.only and parsed.only.split(","))
        for step in range(parsed.steps):
            sql, what, detail = run.step()
            kind = kind_of_difference(what)
            seen[kind.split(":")[0]] += 1
            if kind.startswith("WRONG"):
                place = f"seed {seed}, step {step}: {what} {detail or ''}\n    {sql}"
                if not parsed.go_on:
                    raise AssertionError(place)
                print(f"--- {place}", flush=True)
    for kind, count in seen.most_common():
        print(f"{count:6} {kind}")


if __name__ == "__main__":
    main()
