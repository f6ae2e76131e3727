"""Random queries of the clauses that other generators leave out, on SwingDB and on DuckDB.

USING and NATURAL joins of every kind, chained; POSITIONAL and ASOF joins; LATERAL; VALUES; unnest
of lists made of columns; PIVOT and UNPIVOT; recursive queries with UNION and UNION ALL that join
tables; trees of set operations with parentheses, ORDER BY and LIMIT inside, UNION BY NAME; DISTINCT
ON; GROUP BY ALL and GROUPING SETS with HAVING and QUALIFY over grouping(); windows over groups;
rows in IN and NOT IN; ANY and ALL; names reused within a SELECT list. Columns are small whole
numbers with NULLs, decimals and floating point numbers of the same values, so that keys of several
types meet. Some queries draw random numbers, of which only what holds for all is asked.

    python tests/oracle/random_clauses.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: The columns of each table.
TABLES = {"a": ("i", "k", "v"), "b": ("i", "k", "w"), "c": ("k", "v", "x"), "d": ("i", "x")}
#: Types of a table's columns; more of those that are quick to read in a difference.
TYPES = ("INTEGER", "INTEGER", "INTEGER", "BIGINT", "DECIMAL(9, 2)", "DOUBLE", "UTINYINT")
SIZES = (0, 1, 3, 6, 12, 40)


class Clauses:
    """Tables of one seed, and queries over them. Columns of a relation have distinct names."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        self.names = 0
        for name, columns in TABLES.items():
            self.make_table(name, columns)

    def make_table(self, name, columns):
        rng = self.rng
        types = ", ".join(f"{column} {rng.choice(TYPES)}" for column in columns)
        nulls = rng.choice([0, 0.15, 0.4])
        one = lambda: "NULL" if rng.random() < nulls else str(rng.randint(0, 5))
        rows = [f"({', '.join(one() for _ in columns)})" for _ in range(rng.choice(SIZES))]
        for engine in self.engines:
            engine.execute(f"CREATE TABLE {name} ({types})")
            if rows:
                engine.execute(f"INSERT INTO {name} VALUES {', '.join(rows)}")

    # Small parts

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def fresh(self):
        self.names += 1
        return f"n{self.names}"

    def number(self):
        return str(self.rng.randint(0, 5))

    def value(self, columns):
        column = lambda: self.rng.choice(columns)
        return self.pick(
            column, column, column, self.number, lambda: f"{column()} + {self.number()}",
            lambda: f"coalesce({column()}, {self.number()})",
            lambda: f"CASE WHEN {column()} > {self.number()} THEN {column()} END",
        )()

    def condition(self, columns, depth=1):
        v = lambda: self.value(columns)
        inner = lambda: f"({self.condition(columns, depth - 1)})"
        no = self.pick("", "NOT ")
        simple = [
            lambda: f"{v()} {self.pick('=', '<', '>=', '<>', 'IS DISTINCT FROM')} {v()}",
            lambda: f"{v()} IS {no}NULL",
            lambda: f"{v()} {no}BETWEEN {self.number()} AND {v()}",
            lambda: f"({v()}, {v()}) {no}IN (({v()}, {self.number()}), ({self.number()}, {v()}))",
        ]
        if depth <= 0:
            return self.rng.choice(simple)()
        return self.pick(
            *simple, lambda: f"{inner()} AND {inner()}", lambda: f"{inner()} OR {inner()}",
            lambda: f"NOT {inner()}", lambda: self.membership(columns),
            lambda: self.membership(columns),
        )()

    def membership(self, columns):
        """A condition that asks a subquery."""
        table = self.rng.choice(list(TABLES))
        alias = self.fresh()
        own = [f"{alias}.{column}" for column in TABLES[table]]
        tie = f"{self.rng.choice(own)} {self.pick('=', '<>', '<')} {self.rng.choice(columns)}"
        where = self.pick("", f" WHERE {tie}", f" WHERE {self.condition(own, 0)}")
        one, other = self.rng.choice(own), self.rng.choice(own)
        v, no = (lambda: self.rng.choice(columns)), self.pick("", "NOT ")
        return self.pick(
            f"({v()}, {v()}) {no}IN (SELECT {one}, {other} FROM {table} {alias}{where})",
            f"{v()} {no}IN (SELECT {one} FROM {table} {alias}{where})",
            f"{v()} {self.pick('=', '>', '<>')} ANY (SELECT {one} FROM {table} {alias}{where})",
            f"{v()} {self.pick('<=', '<>')} ALL (SELECT {one} FROM {table} {alias}{where})",
            f"{no}EXISTS (SELECT 1 FROM {table} {alias}{where})",
        )

    def all_ordered(self, count):
        numbers = [str(n + 1) for n in range(count)]
        self.rng.shuffle(numbers)
        way = lambda: self.pick("", " DESC") + self.pick(" NULLS FIRST", " NULLS LAST")
        return "ORDER BY " + ", ".join(number + way() for number in numbers)

    def cut(self):
        return self.pick(f"LIMIT {self.number()}", f"LIMIT {self.number()} OFFSET 2", "OFFSET 1")

    # Relations

    def relation(self, depth):
        """Something in FROM, and the names of its columns."""
        if depth <= 0 or self.chance(0.25):
            return self.plain_table()
        return self.pick(
            self.using, self.using, self.natural, self.natural, self.derived, self.united,
            self.unnested, self.lateral, self.recursive, self.pivoted, self.unpivoted,
            self.values, self.positional, self.asof,
        )(depth - 1)

    def plain_table(self):
        """A table whose columns have new names."""
        table = self.rng.choice(list(TABLES))
        return self.renamed(table, TABLES[table])

    def renamed(self, table, columns):
        names = [self.fresh() for _ in columns]
        return f"{table} AS {self.fresh()}({', '.join(names)})", names

    def query_as(self, sql, count):
        """A query as a relation whose columns have new names."""
        return self.renamed(f"({sql})", range(count))

    def derived(self, depth):
        sql, count = self.select(depth)
        if self.chance(0.5):
            sql = f"{sql} {self.all_ordered(count)} {self.cut()}"
        return self.query_as(sql, count)

    def sharing(self, depth, shared):
        """A relation that has columns with some names of another one."""
        table, columns = self.relation(depth)
        taken = self.rng.sample(columns, min(len(shared), len(columns)))
        names = dict(zip(taken, shared))
        shown = [f"{c} AS {names[c]}" if c in names else c for c in columns]
        sql = f"(SELECT {', '.join(shown)} FROM {table}) AS {self.fresh()}"
        return sql, list(names.values()), [c for c in columns if c not in names]

    def joined(self, depth, natural):
        left, columns = self.relation(depth)
        shared = self.rng.sample(columns, min(len(columns), self.pick(1, 1, 2)))
        right, shared, more = self.sharing(depth - 1, shared)
        kind = self.pick("", "", "LEFT ", "LEFT ", "RIGHT ", "FULL ", "FULL ", "SEMI ", "ANTI ")
        own = [column for column in columns if column not in shared]
        if kind in ("SEMI ", "ANTI "):
            return f"{left} {kind}JOIN {right} USING ({', '.join(shared)})", columns
        if natural:
            return f"{left} NATURAL {kind}JOIN {right}", shared + own + more
        return f"{left} {kind}JOIN {right} USING ({', '.join(shared)})", shared + own + more

    def using(self, depth):
        return self.joined(depth, False)

    def natural(self, depth):
        return self.joined(depth, True)

    def set_tree(self, depth, count):
        """Set operations of queries of so many columns, with parentheses."""
        if depth <= 0 or self.chance(0.3):
            table, columns = self.relation(min(depth, 1))
            items = ", ".join(self.value(columns) for _ in range(count))
            where = f" WHERE {self.condition(columns, 0)}" if self.chance(0.4) else ""
            sql = f"SELECT {items} FROM {table}{where}"
            if self.chance(0.25):
                return f"({sql} {self.all_ordered(count)} {self.cut()})"
            return sql
        of = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL")
        one, other = self.set_tree(depth - 1, count), self.set_tree(depth - 1, count)
        return f"{self.bracketed(one)} {of} {self.bracketed(other)}"

    def bracketed(self, sql):
        return f"({sql})" if self.chance(0.5) and not sql.startswith("(") else sql

    def united(self, depth):
        if self.chance(0.3):
            a, b = (self.rng.choice(list(TABLES)) for _ in range(2))
            names = list(dict.fromkeys(TABLES[a] + TABLES[b]))
            of = self.pick("UNION BY NAME", "UNION ALL BY NAME")
            return self.query_as(f"SELECT * FROM {a} {of} SELECT * FROM {b}", len(names))
        count = self.rng.randint(1, 2)
        return self.query_as(self.set_tree(depth + 1, count), count)

    def unnested(self, depth):
        table, columns = self.relation(depth)
        some = ", ".join(self.rng.sample(columns, min(2, len(columns))))
        element, alias = self.fresh(), self.fresh()
        # The elements are of one type, whichever the columns have.
        of = self.pick(f"[{some}]::DOUBLE[]", f"[{some}, NULL]::DOUBLE[]")
        if self.chance(0.5):
            return f"{table}, unnest({of}) AS {alias}({element})", [*columns, element]
        items = ", ".join(columns)
        return self.query_as(f"SELECT {items}, unnest({of}) FROM {table}", len(columns) + 1)

    def lateral(self, depth):
        table, columns = self.relation(depth)
        inner, own = self.plain_table()
        name, alias = self.fresh(), self.fresh()
        tie = f"{self.rng.choice(own)} {self.pick('=', '=', '<')} {self.rng.choice(columns)}"
        value = self.rng.choice(own)
        sql = self.pick(
            f"SELECT {value} FROM {inner} WHERE {tie}",
            f"SELECT count(*) FROM {inner} WHERE {tie}",
            f"SELECT max({value}) FROM {inner} WHERE {tie} HAVING count(*) > 1",
            f"SELECT DISTINCT {value} FROM {inner} WHERE {tie} ORDER BY 1 NULLS LAST LIMIT 2",
            f"SELECT {self.rng.choice(columns)} + {self.number()}",
        )
        join, on = self.pick((" CROSS JOIN", ""), (" LEFT JOIN", " ON true"))
        return f"{table}{join} LATERAL ({sql}) AS {alias}({name}){on}", [*columns, name]

    def recursive(self, depth):
        table, columns = self.relation(depth)
        inner, own = self.plain_table()
        r, n, m = self.fresh(), self.fresh(), self.fresh()
        first = f"SELECT {self.rng.choice(columns)}::INTEGER, 0 FROM {table}"
        step = self.pick(
            f"SELECT {n} + 1, {m} + 1 FROM {r} WHERE {m} < 3",
            f"SELECT ({n} * 2 + 1) % 7, 0 FROM {r} WHERE {m} < 3",
            f"SELECT {own[0]}::INTEGER, {m} + 1 FROM {r} JOIN {inner} ON {own[-1]} = {n}"
            f" WHERE {m} < 2",
            f"SELECT {n}, {m} + 1 FROM {r} WHERE {m} < 2 AND {n} IN (SELECT {own[0]} FROM {inner})",
            f"SELECT max({n}), {m} + 1 FROM {r} WHERE {m} < 2 GROUP BY {m}",
        )
        of = "UNION" if "% 7" in step else self.pick("UNION", "UNION ALL")
        sql = f"WITH RECURSIVE {r}({n}, {m}) AS ({first} {of} {step}) SELECT * FROM {r}"
        return self.query_as(sql, 2)

    def pivoted(self, _depth):
        table = self.pick("a", "b", "c")
        group, on, of = self.rng.sample(TABLES[table], 3)
        call = self.pick("sum", "count", "max")
        listed = self.rng.sample(range(6), 2)
        sql = (f"PIVOT (SELECT {group}, {on}::INTEGER AS {on}, {of} FROM {table}) ON {on} IN"
               f" ({listed[0]}, {listed[1]}) USING {call}({of}) GROUP BY {group}")
        return self.query_as(f"SELECT * FROM ({sql})", 3)

    def unpivoted(self, _depth):
        table = self.pick("a", "b", "c")
        columns = ", ".join(f"{column}::DOUBLE AS {column}" for column in TABLES[table])
        listed = ", ".join(self.rng.sample(TABLES[table], 2))
        sql = f"UNPIVOT (SELECT {columns} FROM {table}) ON {listed} INTO NAME na VALUE va"
        return self.query_as(f"SELECT * EXCLUDE (na) FROM ({sql})", 2)

    def values(self, _depth):
        one = lambda: self.pick("NULL::INTEGER", self.number(), self.number())
        rows = [f"({one()}, {one()})" for _ in range(self.rng.randint(1, 4))]
        return self.renamed(f"(VALUES {', '.join(rows)})", range(2))

    def positional(self, depth):
        sides = []
        for _ in range(2):
            sql, count = self.select(depth)
            sides.append(self.query_as(f"{sql} {self.all_ordered(count)}", count))
        (left, a), (right, b) = sides
        return f"{left} POSITIONAL JOIN {right}", a + b

    def asof(self, depth):
        left, columns = self.relation(depth)
        right, own = self.plain_table()
        # One row of each value: which of several is found is not said.
        name = self.fresh()
        right = f"(SELECT DISTINCT {own[0]} AS {name} FROM {right}) AS {self.fresh()}"
        on = f"{self.rng.choice(columns)} {self.pick('>=', '>', '<=', '<')} {name}"
        return f"{left} ASOF {self.pick('', 'LEFT ')}JOIN {right} ON {on}", [*columns, name]

    # Queries

    def select(self, depth):
        """A query without ORDER BY, and how many columns it has."""
        table, columns = self.relation(depth)
        where = f" WHERE {self.condition(columns)}" if self.chance(0.5) else ""
        return self.pick(self.plain, self.plain, self.grouped, self.sets, self.windowed,
                         self.first_of_each)(table, columns, where)

    def plain(self, table, columns, where):
        if self.chance(0.2):
            return f"SELECT * FROM {table}{where}", len(columns)
        items = [self.value(columns) for _ in range(self.rng.randint(1, 3))]
        if self.chance(0.2):
            name = self.fresh()
            items = [f"{items[0]} AS {name}", f"{name} + 1", *items[1:]]
        distinct = self.pick("", "", "DISTINCT ")
        return f"SELECT {distinct}{', '.join(items)} FROM {table}{where}", len(items)

    def aggregate(self, columns):
        column = self.rng.choice(columns)
        of = self.pick("count(*)", f"count({column})", f"sum({column})", f"max({column})",
                       f"count(DISTINCT {column})", f"sum(DISTINCT {column})", f"min({column})")
        return of + (f" FILTER (WHERE {self.condition(columns, 0)})" if self.chance(0.2) else "")

    def grouped(self, table, columns, where):
        keys = self.rng.sample(columns, min(len(columns), self.pick(0, 1, 2)))
        calls = [self.aggregate(columns) for _ in range(2)]
        having = self.pick("", "", f" HAVING count(*) > {self.pick(0, 1, 2)}",
                           f" HAVING {self.aggregate(columns)} IS NOT NULL")
        if keys and self.chance(0.3):
            over = self.pick(f"PARTITION BY {keys[0]}", f"ORDER BY {', '.join(keys)}")
            calls[0] = f"sum({calls[0]}) OVER ({over})"
        by = f" GROUP BY {self.pick('ALL', ', '.join(keys))}" if keys else ""
        if " OVER " in calls[0]:
            by = by.replace("ALL", ", ".join(keys))
        return (f"SELECT {', '.join([*keys, *calls])} FROM {table}{where}{by}{having}",
                len(keys) + 2)

    def sets(self, table, columns, where):
        if len(columns) < 2:
            return self.grouped(table, columns, where)
        a, b = self.rng.sample(columns, 2)
        by = self.pick(f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})", f"GROUPING SETS (({a}), ({b}))",
                       f"GROUPING SETS (({a}, {b}), ({a}), (), ())", f"ROLLUP ({a}), {b}",
                       f"GROUPING SETS ((), ({b}))")
        call = self.aggregate(columns)
        having = self.pick("", f" HAVING grouping({a}) = 1 OR {call} > 1", " HAVING count(*) > 1",
                           f" HAVING {a} IS NULL", f" HAVING {b} > 1")
        keep = self.pick("", "", f" QUALIFY rank() OVER (PARTITION BY grouping({a}, {b})"
                         f" ORDER BY {call} DESC) = 1")
        return (f"SELECT {a}, {b}, {call}, grouping({a}, {b}) FROM {table}{where} GROUP BY {by}"
                f"{having}{keep}", 4)

    def windowed(self, table, columns, where):
        order = ", ".join(f"{c} NULLS LAST" for c in self.rng.sample(columns, len(columns)))
        part = self.pick("", f"PARTITION BY {self.rng.choice(columns)} ")
        column = self.rng.choice(columns)
        call = self.pick("row_number()", "rank()", f"sum({column})", f"count({column})",
                         f"lag({column})", f"last_value({column})", "ntile(2)")
        shown = columns[:4]
        keep = self.pick("", "", f" QUALIFY row_number() OVER ({part}ORDER BY {order}) <= 2",
                         f" QUALIFY rank() OVER ({part}ORDER BY {column}) = 1")
        return (f"SELECT {', '.join(shown)}, {call} OVER ({part}ORDER BY {order}) FROM"
                f" {table}{where}{keep}", len(shown) + 1)

    def first_of_each(self, table, columns, where):
        key = self.rng.choice(columns)
        order = ", ".join(f"{c} DESC NULLS LAST" for c in columns)
        sql = f"SELECT DISTINCT ON ({key}) * FROM {table}{where} ORDER BY {key}, {order}"
        return f"SELECT * FROM ({sql})", len(columns)

    def drawn(self):
        """A query with random numbers that says the same whatever they are."""
        table, columns = self.relation(2)
        key = self.rng.choice(columns)
        rows = f"(SELECT *, random() AS ra FROM {table})"
        return self.pick(
            f"SELECT count(*) FROM {rows} WHERE ra <> ra OR ra NOT BETWEEN 0 AND 1",
            f"SELECT count(*), count(DISTINCT ra) FROM {rows}",
            f"SELECT count(*) FROM (SELECT * FROM {rows} ORDER BY ra LIMIT 5)",
            f"SELECT count(*) FROM (SELECT ra, lag(ra) OVER (ORDER BY ra) AS p FROM {rows})"
            " WHERE ra < p",
            f"SELECT count(*) FROM {rows} JOIN (VALUES (0), (1)) o(o) ON o = (ra < 0.5)::INTEGER",
            f"SELECT {key}, count(*) FROM (SELECT {key} FROM {rows} QUALIFY row_number() OVER"
            f" (PARTITION BY {key} ORDER BY ra) <= 2) GROUP BY {key}",
            f"SELECT {key}, count(DISTINCT ra) FROM {rows} GROUP BY {key}",
            f"SELECT sum(n) FROM (SELECT count(*) AS n FROM {rows} GROUP BY ra < 0.5)",
        )

    def query(self):
        """A whole query, and whether its rows come in a definite order."""
        if self.chance(0.08):
            return self.drawn(), False
        if self.chance(0.2):
            count = self.rng.randint(1, 3)
            sql = self.set_tree(2, count)
        else:
            sql, count = self.select(self.rng.randint(1, 3))
        if self.chance(0.4) and not sql.startswith("("):
            sql = f"SELECT * FROM ({sql}) {self.all_ordered(count)} {self.pick('', self.cut())}"
            return sql, True
        return sql, False

    def step(self):
        """The query, what is different, and details."""
        sql, ordered = self.query()
        return sql, *query_differs(self.engines, sql, ordered)


if __name__ == "__main__":
    differences.main(__doc__, Clauses)
