"""Random expressions over lists, structs, maps and texts, on SwingDB and on DuckDB.

Functions of lists with lambdas inside of each other that use columns, the number of the element and
outer parameters; slices with negative bounds and steps; maps, structs and lists of these; texts of
several scripts. Columns have NULLs, empty lists and NULL elements. Expressions are also grouped,
aggregated, sorted by, compared and unnested.

    python tests/oracle/random_nested.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import decimal
import math
import random

import differences
import duckdb
import swingdb
from differences import rows_of_both

WORDS = ["", "a", "b", "Ab", "Ä", "ǆ", "日本語", "🦆x", "é", "e\u0301", "it''s", " x\ty ",
         "longer than twelve bytes", "a,b,,c", "%_", "Ω"]
KINDS = ("int", "text", "ints", "texts", "lists", "pair", "map", "pairs")
TYPES = {
    "int": "INTEGER", "text": "VARCHAR", "ints": "INTEGER[]", "texts": "VARCHAR[]",
    "lists": "INTEGER[][]", "pair": "STRUCT(a INTEGER, b VARCHAR)", "map": "MAP(VARCHAR, INTEGER)",
    "pairs": "STRUCT(a INTEGER, b VARCHAR)[]", "bool": "BOOLEAN", "double": "DOUBLE",
}


def plain(value):
    """A value that compares: numbers to some digits, maps as sorted pairs."""
    if isinstance(value, dict):
        return ("{",) + tuple((str(k), plain(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ("[",) + tuple(plain(v) for v in value)
    if isinstance(value, (float, decimal.Decimal)):
        if math.isnan(value):
            return "nan"
        return float(f"{float(value):.6g}") + 0.0
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def plain_rows(rows):
    """Rows of plain values, in one order."""
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


class Nested:
    """A table of one seed, and queries of expressions over it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        self.names = 0
        columns = {f"c{n}": kind for n, kind in enumerate(KINDS)}
        self.columns = [(name, kind) for name, kind in columns.items()]
        rows = []
        for number in range(self.rng.choice([1, 9, 40])):
            values = [self.value(kind) for kind in columns.values()]
            rows.append(f"({number}, {', '.join(values)})")
        ddl = ", ".join(f"{name} {TYPES[kind]}" for name, kind in columns.items())
        for engine in self.engines:
            engine.execute(f"CREATE TABLE t (id INTEGER, {ddl})")
            engine.execute(f"INSERT INTO t VALUES {', '.join(rows)}")

    def value(self, kind, nulls=0.2):
        rng = self.rng
        if rng.random() < nulls:
            return "NULL"
        many = lambda of: f"[{', '.join(self.value(of) for _ in range(rng.randint(0, 4)))}]"
        return {
            "int": lambda: str(rng.randint(-3, 6)),
            "text": lambda: f"'{rng.choice(WORDS)}'",
            "ints": lambda: many("int"),
            "texts": lambda: many("text"),
            "lists": lambda: many("ints"),
            "pair": lambda: f"{{'a': {self.value('int')}, 'b': {self.value('text')}}}",
            "map": lambda: "MAP {" + ", ".join(
                f"'{k}': {self.value('int')}"
                for k in rng.sample(["a", "b", "Ä", ""], rng.randint(0, 3))) + "}",
            "pairs": lambda: many("pair"),
        }[kind]()

    def fresh(self):
        self.names += 1
        return f"x{self.names}"

    def literal(self, kind):
        if kind == "bool":
            return self.rng.choice(["true", "false", "NULL::BOOLEAN"])
        if kind == "double":
            return f"{self.rng.randint(-9, 9) / 4}::DOUBLE"
        return f"({self.value(kind, 0.05)})::{TYPES[kind]}"

    def expr(self, kind, scope, depth):
        known = [name for name, of in scope if of == kind]
        if depth <= 0 or self.rng.random() < 0.15:
            if known and self.rng.random() < 0.8:
                return self.rng.choice(known)
            return self.literal(kind)
        if self.rng.random() < 0.08:
            e = lambda: self.expr(kind, scope, depth - 1)
            return self.rng.choice([
                lambda: f"CASE WHEN {self.expr('bool', scope, depth - 1)}"
                        f" THEN {e()} ELSE {e()} END",
                lambda: f"coalesce({e()}, {e()})",
            ])()
        made = getattr(self, f"expr_{kind}")(scope, depth - 1)
        # Functions count in several types, which have no list or struct in common here.
        return f"({made})::INTEGER" if kind == "int" else made

    def over(self, scope, depth):
        """A list, its lambda's parameters and the scope inside."""
        of = self.rng.choice(["ints", "ints", "texts", "lists", "pairs"])
        element = {"ints": "int", "texts": "text", "lists": "ints", "pairs": "pair"}[of]
        x, i = self.fresh(), self.fresh()
        inner = [*scope, (x, element), (x, element)]
        params = x
        if self.rng.random() < 0.3:
            params, inner = f"{x}, {i}", [*inner, (i, "int")]
        return self.expr(of, scope, depth), f"lambda {params}: ", inner

    def transformed(self, to, scope, depth):
        source, params, inner = self.over(scope, depth)
        body = self.expr(to, inner, depth)
        if self.rng.random() < 0.2:
            name = self.fresh()
            of = self.rng.choice(["ints", "texts"])
            element = "int" if of == "ints" else "text"
            inner = [*scope, (name, element), (name, element)]
            where = self.rng.choice(["", f" IF {self.expr('bool', inner, depth)}"])
            source = self.expr(of, scope, depth)
            return f"[{self.expr(to, inner, depth)} FOR {name} IN {source}{where}]"
        return f"list_transform({source}, {params}{body})"

    def filtered(self, of, scope, depth):
        element = {"ints": "int", "texts": "text", "lists": "ints", "pairs": "pair"}[of]
        x, i = self.fresh(), self.fresh()
        inner = [*scope, (x, element), (x, element)]
        params = x
        if self.rng.random() < 0.3:
            params, inner = f"{x}, {i}", [*inner, (i, "int")]
        return (f"list_filter({self.expr(of, scope, depth)}, lambda {params}: "
                f"{self.expr('bool', inner, depth)})")

    def of_list(self, of, scope, depth):
        """What any list can be."""
        rng = self.rng
        element = {"ints": "int", "texts": "text", "lists": "ints", "pairs": "pair"}[of]
        e = lambda k=of: self.expr(k, scope, depth)
        n = lambda: rng.randint(-4, 5)
        b = lambda: rng.choice([str(n()), "", self.expr("int", scope, 0)])
        step = lambda: rng.choice(["", "", "", f":{rng.choice([1, 2, -1, -2])}"])
        order = lambda: rng.choice(["", ", 'ASC'", ", 'DESC'", ", 'DESC', 'NULLS FIRST'",
                                    ", 'ASC', 'NULLS LAST'"])
        def slice_():
            by = step()
            low, high = b(), b()
            if by:
                low, high = low or "1", high or "-1"
            return f"({e()})[{low}:{high}{by}]"
        choices = [
            lambda: slice_(),
            lambda: slice_(),
            lambda: f"list_slice({e()}, {n()}, {n()})",
            lambda: f"list_concat({e()}, {e()})",
            lambda: f"({e()} || {e()})",
            lambda: f"list_append({e()}, {e(element)})",
            lambda: f"list_prepend({e(element)}, {e()})",
            lambda: f"list_reverse({e()})",
            lambda: f"list_resize({e()}, {rng.randint(0, 5)})",
            lambda: f"list_resize({e()}, {rng.randint(0, 5)}, {e(element)})",
            lambda: self.filtered(of, scope, depth),
            lambda: self.transformed(element, scope, depth),
            lambda: f"[{e(element)}, {e(element)}]",
        ]
        if of in ("ints", "texts", "lists", "pairs"):
            choices += [
                lambda: f"list_sort({e()}{order()})",
                lambda: f"list_reverse_sort({e()})",
                lambda: f"list_sort(list_distinct({e()}))",
                lambda: f"list_sort(list_intersect({e()}, {e()}))",
            ]
        return rng.choice(choices)()

    def expr_ints(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        rng = self.rng
        return rng.choice([
            *[lambda: self.of_list("ints", scope, depth)] * 8,
            lambda: f"list_grade_up({e('ints')})",
            lambda: f"range({rng.randint(-2, 3)}, ({e('int')}) % 7)",
            lambda: f"generate_series({e('int')} % 5, {rng.randint(-3, 5)},"
                    f" {rng.choice([1, 2, -1])})",
            lambda: f"flatten({e('lists')})",
            lambda: f"map_values({e('map')})",
            lambda: f"list_transform({e('pairs')}, lambda p: p.a)",
            lambda: f"({e('lists')})[{rng.randint(-2, 3)}]",
            lambda: f"map_extract({e('map')}, {e('text')})",
            lambda: f"list_extract({e('lists')}, {rng.randint(-2, 3)})",
        ])()

    def expr_texts(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        rng = self.rng
        return rng.choice([
            *[lambda: self.of_list("texts", scope, depth)] * 6,
            lambda: f"string_split({e('text')}, {rng.choice(['a', ',', 'ä', '', ' '])!r})",
            lambda: f"str_split_regex({e('text')}, '{rng.choice(['[ab]', ',', ' +'])}')",
            lambda: f"regexp_extract_all({e('text')}, '{rng.choice(['[ab]', '.', '(.)b?'])}')",
            lambda: f"map_keys({e('map')})",
            lambda: f"list_transform({e('pairs')}, lambda p: p.b)",
        ])()

    def expr_lists(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        return self.rng.choice([
            *[lambda: self.of_list("lists", scope, depth)] * 6,
            lambda: f"list_transform({e('ints')}, lambda y: [y, y + 1])",
        ])()

    def expr_pairs(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        return self.rng.choice([
            *[lambda: self.of_list("pairs", scope, depth)] * 5,
            lambda: f"list_transform({e('ints')}, lambda y: {{'a': y, 'b': {e('text')}}})",
        ])()

    def expr_pair(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        return self.rng.choice([
            lambda: f"{{'a': {e('int')}, 'b': {e('text')}}}",
            lambda: f"struct_pack(a := {e('int')}, b := {e('text')})",
            lambda: f"({e('pairs')})[{self.rng.randint(-2, 3)}]",
            lambda: f"list_min({e('pairs')})",
            lambda: f"list_max({e('pairs')})",
            lambda: f"list_first({e('pairs')})",
            lambda: f"list_last({e('pairs')})",
        ])()

    def expr_map(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        return self.rng.choice([
            lambda: f"map_concat({e('map')}, {e('map')})",
            lambda: f"MAP {{'k': {e('int')}, 'l': {e('int')}}}",
            lambda: f"map(['p', 'q'], [{e('int')}, {e('int')}])",
        ])()

    def expr_bool(self, scope, depth):
        rng = self.rng
        kind = rng.choice(["int", "int", "text", "ints", "texts", "pair", "lists", "pairs"])
        e = lambda k=kind: self.expr(k, scope, depth)
        of, element = rng.choice([("ints", "int"), ("texts", "text"), ("lists", "ints"),
                                  ("pairs", "pair")])
        operator = rng.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"])
        return rng.choice([
            lambda: f"({e()} {operator} {e()})",
            lambda: f"({e()} {operator} {e()})",
            lambda: f"({e()} IS NULL)",
            lambda: f"list_contains({e(of)}, {e(element)})",
            lambda: f"list_has_any({e(of)}, {e(of)})",
            lambda: f"list_has_all({e(of)}, {e(of)})",
            lambda: f"({e(element)} IN ({e(element)}, {e(element)}))",
            lambda: f"map_contains({e('map')}, {e('text')})",
            lambda: f"(NOT {e('bool')})",
            lambda: f"({e('bool')} AND {e('bool')})",
            lambda: f"({e('bool')} OR {e('bool')})",
            lambda: f"list_bool_and(list_transform({e(of)}, lambda z: z IS NULL))",
            lambda: f"contains({e('text')}, {e('text')})",
            lambda: f"starts_with({e('text')}, {e('text')})",
            lambda: f"suffix({e('text')}, {e('text')})",
        ])()

    def expr_int(self, scope, depth):
        rng = self.rng
        e = lambda k="int": self.expr(k, scope, depth)
        of, element = rng.choice([("ints", "int"), ("texts", "text"), ("lists", "ints"),
                                  ("pairs", "pair")])
        x, y = self.fresh(), self.fresh()
        inner = [*scope, (x, "int"), (y, "int"), (x, "int"), (y, "int")]
        return rng.choice([
            lambda: f"len({e(of)})",
            lambda: f"length({e('text')})",
            lambda: f"strlen({e('text')})",
            lambda: f"bit_length({e('text')})",
            lambda: f"unicode({e('text')})",
            lambda: f"ascii({e('text')})",
            lambda: f"instr({e('text')}, {e('text')})",
            lambda: f"levenshtein(hex({e('text')}), hex({e('text')}))",
            lambda: f"damerau_levenshtein(hex({e('text')}), hex({e('text')}))",
            lambda: f"list_position({e(of)}, {e(element)})",
            lambda: f"list_unique({e(of)})",
            lambda: f"list_count({e(of)})",
            lambda: f"list_sum({e('ints')})",
            lambda: f"list_min({e('ints')})",
            lambda: f"list_max({e('ints')})",
            lambda: f"list_first({e('ints')})",
            lambda: f"list_last({e('ints')})",
            lambda: f"list_any_value({e('ints')})",
            lambda: f"list_bit_or({e('ints')})",
            lambda: f"list_bit_xor({e('ints')})",
            lambda: f"list_product({e('ints')})::BIGINT",
            lambda: f"list_aggregate({e('ints')}, "
                    f"'{rng.choice(['sum', 'max', 'count', 'min'])}')",
            lambda: f"({e('ints')})[{rng.randint(-3, 4)}]",
            lambda: f"({e('ints')})[{e()}]",
            lambda: f"({e('pair')}).a",
            lambda: f"struct_extract({e('pair')}, 'a')",
            lambda: f"({e('map')})[{e('text')}]",
            lambda: f"cardinality({e('map')})",
            lambda: f"(({e()} % 50) {rng.choice(['+', '-', '*'])} ({e()} % 50))",
            lambda: f"list_reduce({e('ints')}, lambda {x}, {y}: "
                    f"(({self.expr('int', inner, depth - 1)}) % 97)::INTEGER)",
            lambda: f"list_reduce({e('ints')}, lambda {x}, {y}: "
                    f"(({self.expr('int', inner, depth - 1)}) % 97)::INTEGER, "
                    f"({e()} % 9)::INTEGER)",
            lambda: f"array_length({e('lists')}, 1)",
        ])()

    def expr_text(self, scope, depth):
        rng = self.rng
        e = lambda k="text": self.expr(k, scope, depth)
        n = lambda: rng.randint(-4, 6)
        return rng.choice([
            lambda: f"({e()} || {e()})",
            lambda: f"{rng.choice(['upper', 'lower', 'reverse', 'trim', 'strip_accents'])}({e()})",
            lambda: f"({e()})[{n()}]",
            lambda: f"({e()})[{n()}:{n()}]",
            lambda: f"array_slice({e()}, {n()}, {n()})",
            lambda: f"substring({e()}, {n()}, {rng.randint(0, 5)})",
            lambda: f"substring({e()}, {n()})",
            lambda: f"{rng.choice(['left', 'right'])}({e()}, {n()})",
            lambda: f"{rng.choice(['lpad', 'rpad'])}({e()}, {rng.randint(0, 8)},"
                    f" {rng.choice(['x', 'ä', '🦆', 'xy'])!r})",
            lambda: f"replace({e()}, {e()}, {e()})",
            lambda: f"translate({e()}, 'aÄb', 'x日')",
            lambda: f"split_part({e()}, ',', {rng.choice([-2, -1, 1, 2, 3])})",
            lambda: f"repeat({e()}, {rng.randint(-1, 2)})",
            lambda: f"concat_ws({e()}, {e()}, {e()}, {e('int')})",
            lambda: f"concat({e()}, {e('int')}, {e()})",
            lambda: f"regexp_replace({e()}, '{rng.choice(['[ab]', '(.)b', '^', '.'])}', "
                    + rng.choice(["'#')", "'<\\0>', 'g')", "'', 'g')", "'x')"]),
            lambda: f"regexp_extract({e()}, '{rng.choice(['[ab]+', '(.)(.)', 'x'])}')",
            lambda: f"coalesce(array_to_string({e('texts')}, {rng.choice(['', ',', '日'])!r}), '')",
            lambda: f"list_aggregate({e('texts')}, 'string_agg', '+')",
            lambda: f"list_min({e('texts')})",
            lambda: f"list_max({e('texts')})",
            lambda: f"({e('texts')})[{rng.randint(-3, 4)}]",
            lambda: f"({e('pair')}).b",
            lambda: f"({e('ints')})::VARCHAR",
            lambda: f"({e('lists')})::VARCHAR",
            lambda: f"({e('texts')})::VARCHAR",
            lambda: f"({e('pair')})::VARCHAR",
            lambda: f"({e('pairs')})::VARCHAR",
            lambda: f"({e('map')})::VARCHAR",
            lambda: f"({e('bool')})::VARCHAR",
            lambda: f"md5({e()})",
            lambda: f"hex({e()})",
            lambda: f"to_base64(encode({e()}))",
            lambda: f"url_encode({e()})",
            lambda: f"bar(({e('int')} % 9), 0, 9, 5)",
            lambda: f"format('{{}}|{{:>5}}', {e()}, ({e('int')}))",
            lambda: f"printf('%s|%5d', {e()}, ({e('int')}))",
            lambda: f"chr((abs({e('int')} % 500) + 1)::INTEGER)",
            lambda: f"to_json({e('pair')})::VARCHAR",
            lambda: f"to_json({e('map')})::VARCHAR",
            lambda: f"to_json({e('lists')})::VARCHAR",
            lambda: f"parse_filename({e()} || '/x.y')",
            lambda: f"regexp_escape({e()})",
        ])()

    def expr_double(self, scope, depth):
        e = lambda k: self.expr(k, scope, depth)
        return self.rng.choice([
            lambda: f"list_avg({e('ints')})",
            lambda: f"list_median({e('ints')})",
            lambda: f"list_stddev_pop({e('ints')})",
            lambda: f"list_var_samp({e('ints')})",
            lambda: f"jaro_winkler_similarity(hex({e('text')}), hex({e('text')}) || 'y')",
            lambda: f"jaccard(hex({e('text')}) || 'x', hex({e('text')}) || 'y')",
        ])()

    def query(self):
        rng = self.rng
        depth = rng.randint(1, 4)
        kind = rng.choice([*KINDS, "bool", "double", "int", "text"])
        e = lambda k=kind, d=depth: self.expr(k, self.columns, d)
        many = rng.choice(["ints", "texts", "lists", "pairs"])
        return rng.choice([
            *[lambda: f"SELECT id, {e()} AS v FROM t"] * 6,
            *[lambda: f"SELECT id, {e('bool')} AS v FROM t WHERE {e('bool')}"] * 2,
            lambda: f"SELECT {e()} AS v, count(*) AS n FROM t GROUP BY 1",
            lambda: f"SELECT DISTINCT {e()} AS v FROM t",
            lambda: f"SELECT id, unnest({e(many)}) AS v FROM t",
            lambda: f"SELECT id, unnest({e(many)}) AS v, unnest({e('ints')}) AS w FROM t",
            lambda: f"SELECT id, u.v FROM t, unnest({e(many)}) AS u(v)",
            lambda: f"SELECT id, (SELECT count(v) FROM (SELECT unnest({e(many)}) AS v)) FROM t",
            lambda: f"SELECT list({e()} ORDER BY id) AS v FROM t GROUP BY id % 3",
            lambda: f"SELECT min({e()}), max({e()}) FROM t" if kind not in ("map",) else
                    f"SELECT count({e()}) FROM t",
            lambda: f"SELECT id, rank() OVER (ORDER BY {e()}) FROM t",
            lambda: f"SELECT histogram({e('int')}), list_sort(list({e('int')})) FROM t",
            lambda: f"SELECT a.id, b.id FROM t a JOIN t b ON "
                    f"{self.expr(kind, [(f'a.{n}', k) for n, k in self.columns], 1)} = "
                    f"{self.expr(kind, [(f'b.{n}', k) for n, k in self.columns], 1)}",
        ])()

    def step(self):
        sql = self.query()
        what, rows = rows_of_both(self.engines, sql, plain_rows)
        if what is not None:
            return sql, what, None
        if rows[0] == rows[1]:
            return sql, None, None
        wrong = [(e, f) for e, f in zip(*rows) if e != f][:2]
        return sql, "rows differ", f"{len(rows[0])} in DuckDB, {len(rows[1])} here; first {wrong}"


if __name__ == "__main__":
    differences.main(__doc__, Nested)
