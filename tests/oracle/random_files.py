"""Random tables of every type through files with options, on SwingDB and on DuckDB.

Each of them writes a table; both read what either has written, by the types of the table and by
what they find out, whole and with conditions. All have to give the same values. Files of folders
(PARTITION_BY), of several schemas (union_by_name) and single ones.

    python tests/oracle/random_files.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import pathlib
import random
import shutil
import tempfile

import differences
import duckdb
import swingdb
from differences import ERRORS
from random_functions import alike

#: Types, and texts of their values.
TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127", "0"], "SMALLINT": ["-32768", "5"], "INTEGER": ["-2147483648", "7"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "0"],
    "UTINYINT": ["255", "0"], "USMALLINT": ["65535"], "UINTEGER": ["4294967295"],
    "UBIGINT": ["18446744073709551615", "9223372036854775808", "1"],
    "HUGEINT": ["-99999999999999999999999999999999999999", "12345678901234567890123", "0"],
    "FLOAT": ["0.1", "-0.0", "3e38", "nan", "inf", "1e-40", "16777216"],
    "DOUBLE": ["0.1", "-0.0", "1e300", "nan", "-inf", "5e-324", "1e15", "123456789.125", "1e23"],
    "DECIMAL(4, 1)": ["-999.9", "0.1", "5"], "DECIMAL(9, 2)": ["1234567.89", "-0.01"],
    "DECIMAL(18, 6)": ["-123456789012.000001", "0.5"],
    "DECIMAL(38, 10)": ["1234567890123456789012345678.0123456789", "-0.0000000001"],
    "DECIMAL(38, 0)": ["-99999999999999999999999999999999999999", "3"],
    "DATE": ["2024-02-29", "1582-10-04", "0001-01-01", "9999-12-31", "12345-06-07",
             "0044-03-15 (BC)",
             "1969-12-31"],
    "TIME": ["00:00:00", "23:59:59.999999", "12:34:56", "01:02:03.5"],
    "TIMESTAMP": ["2024-02-29 12:34:56.789012", "1582-10-04 01:02:03", "0001-01-01 00:00:00",
                  "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999",
                  "12345-06-07 08:09:10",
                  "2000-01-01 00:00:00"],
    "TIMESTAMP_S": ["2024-02-29 12:34:56", "1583-01-01 00:00:00"],
    "TIMESTAMP_MS": ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999"],
    "TIMESTAMP_NS": ["2024-02-29 12:34:56.789012345", "1969-12-31 23:59:59.999999999"],
    "TIMESTAMPTZ": ["2024-02-29 12:34:56.789012+00", "1969-12-31 23:59:59+00",
                    "2024-07-01 00:00:00+02"],
    "INTERVAL": ["1 month", "-3 days", "25:00:00", "1 year 2 months 3 days 04:05:06.789", "0 days"],
    "VARCHAR": ["", "a", "NULL", "null", "\\N", "it's", 'say "hi"', '"', '""', "a,b", "a;b|c",
                "tab\there",
                "line\nbreak", "cr\r\nlf", "\r", " spaces ", "\\", "a\\\"b",
                "ünïcödé ✓ 👨‍👩‍👧",
                "007", "-7", "1e5",
                "true", "2020-01-01", "{}", "[1, 2]", "#x", "longer than twelve bytes by far", "'",
                "nan", "-",
                "a=b", "x/y", "%41", "é", "../up", "."],
    "BLOB": ["", "a", "\\x00\\xFF", "\\x80abc", "\\x22,\\x0A", "\\x5Cx41"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "ffffffff-ffff-7fff-bfff-ffffffffffff"],
    "ENUM('x', 'y''z', '')": ["x", "y'z", ""],
}
#: What the formats do not carry, or the engines write differently by design.
WITHOUT = {
    "csv": {"BLOB", "INTERVAL"},
    "json": {"BLOB", "FLOAT", "DOUBLE", "INTERVAL"},
    "parquet": {"INTERVAL", "HUGEINT", "TIMESTAMP_S"},
}
NESTED = ["{}[]", "STRUCT(p {}, q VARCHAR)", "MAP(VARCHAR, {})", "{}[][]", "STRUCT(p {}[])[]",
          "MAP(INTEGER, {})", "MAP(VARCHAR, STRUCT(p {}, q VARCHAR))"]
NAMES = ["a", "B", "odd name", 'quo"te', "Ü", "select", "x,y", "1st", "a.b", "dáta", "file name"]
#: What is refused, by the error: types of columns that do not go together, or that a format lacks;
#: and what DuckDB writes that is not the format: NaN in JSON, quotes within quotes, some timestamps
#: in another format, years below 1 in formats. With DATEFORMAT alone, nanoseconds are no timestamp.
REFUSED = ["give it one type in a SELECT", "unknown type", "Only UTF8 keys", "is no JSON",
           "after its closing quote", "is no TIMESTAMP_", "is no DATE"]
OPERATORS = ["=", "<", ">=", "<>", "IS DISTINCT FROM", "<=", ">"]
CSV = {
    "DELIM": [",", ";", "|", "\\t", "||", "§"], "QUOTE": ["'", '"'], "ESCAPE": ["\\", '"'],
    "HEADER": ["true", "false"],
    "NULLSTR": ["NA", "\\N", "-", "NULL"],
    "DATEFORMAT": ["%d.%m.%Y", "%Y/%m/%d", "%Y%m%d", "%b %d, %Y"],
    "TIMESTAMPFORMAT": ["%d.%m.%Y %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y%m%d%H%M%S%f"],
    "COMPRESSION": ["gzip", "zstd"], "FORCE_QUOTE": ["*"],
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def text(value):
    return "'" + value.replace("'", "''") + "'"


def refused(error):
    """What a step says of an error."""
    known = any(part in str(error) for part in REFUSED)
    return f"failed: {'not supported: ' if known else ''}{error}"


class Files:
    """Tables of one seed, in both engines, and a folder."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.engines = {"duck": duckdb.connect(), "swing": swingdb.connect()}
        for engine in self.engines.values():
            engine.execute(f"SET TimeZone = '{self.rng.choice(['UTC', 'America/New_York'])}'")
            zone = self.rng.choice(["UTC", "Asia/Kathmandu"])
        for engine in self.engines.values():
            engine.execute(f"SET TimeZone = '{zone}'")
        self.count = 0

    def __del__(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    # A table

    def value(self, of, nulls):
        rng = self.rng
        if rng.random() < nulls:
            return f"NULL::{of}"
        if of.endswith("[]"):
            inner = [self.value(of[:-2], nulls / 2) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
            return f"[{', '.join(inner)}]::{of}"
        if of.startswith("STRUCT(p "):
            inner, rest = of[9:-1], ""
            if inner.endswith(", q VARCHAR"):
                inner, rest = inner[:-11], f", 'q': {self.value('VARCHAR', nulls)}"
            return f"{{'p': {self.value(inner, nulls)}{rest}}}"
        if of.startswith("MAP("):
            key, inner = of[4:-1].split(", ", 1)
            some = sorted({text(rng.choice(TYPES[key])) for _ in range(rng.randint(0, 3))})
            values = ", ".join(self.value(inner, nulls) for _ in some)
            return f"MAP([{', '.join(some)}]::{key}[], [{values}]::{inner}[])"
        return f"{text(rng.choice(TYPES[of]))}::{of}"

    def make(self, kind, rows=None):
        """A table `t` in both engines; its columns."""
        rng = self.rng
        scalars = sorted(set(TYPES) - WITHOUT[kind])
        columns = []
        for name in rng.sample(NAMES, rng.randint(1, 6)):
            of = rng.choice(scalars)
            if rng.random() < 0.25 and not of.startswith(("ENUM", "UUID", "TIMESTAMP_NS")):
                of = rng.choice(NESTED).format(of)
            columns.append((name, of, rng.choice([0, 0.2, 0.6])))
        count = rows if rows is not None else rng.choice([0, 1, 3, 8, 30])
        tuples = [", ".join(self.value(of, nulls) for _, of, nulls in columns)
                  for _ in range(count)]
        declared = ", ".join(f"{quoted(name)} {of}" for name, of, _ in columns)
        for engine in self.engines.values():
            engine.execute(f"CREATE OR REPLACE TABLE t ({declared})")
            for start in range(0, count, 10):
                some = ", ".join(f"({row})" for row in tuples[start:start + 10])
                engine.execute(f"INSERT INTO t VALUES {some}")
        return [(name, of) for name, of, _ in columns]

    def path(self, ending):
        self.count += 1
        return str(self.folder / f"f{self.count}.{ending}")

    # Reading

    def rows(self, engine, source, columns, where="", types=None):
        """The rows as texts, or the error."""
        shown = ", ".join(f"{quoted(name)}::VARCHAR" for name, _ in columns)
        try:
            if engine == "duck":
                # It gives the text of the file where a value of that is cast to text at once.
                self.engines[engine].execute(
                    f"CREATE OR REPLACE TEMP TABLE found AS FROM {source}{where}")
                source, where = "found", ""
            return self.engines[engine].execute(f"SELECT {shown} FROM {source}{where}").fetchall()
        except ERRORS as error:
            return error
        except UnicodeDecodeError:
            return ValueError("no text")

    def differ(self, told, expected, found, ordered=True):
        """What is different, as a step has it."""
        if isinstance(expected, Exception) or isinstance(found, Exception):
            if isinstance(expected, Exception) and isinstance(found, Exception):
                return told, "both failed", None
            if isinstance(found, Exception):
                return told, refused(found), None
            # DuckDB takes fewer comparisons, dates and words for NULL.
            return told, None, None
        if not ordered:
            expected, found = sorted(expected, key=repr), sorted(found, key=repr)
        if len(expected) != len(found):
            return told, "rows differ", f"{len(expected)} rows and {len(found)}"
        for one, other in zip(expected, found):
            for a, b in zip(one, other):
                if not alike(a, b):
                    return told, "values differ", f"{a!r} and {b!r} of {one} and {other}"
        return told, None, None

    def step(self):
        kind = self.rng.choice(["csv", "csv", "json", "parquet", "parquet", "folders", "union",
                                "sniff"])
        return getattr(self, kind)()

    def csv(self):
        # A file without a byte has no columns.
        columns = self.make("csv", self.rng.choice([1, 3, 8, 30]))
        options = {key: self.rng.choice(values) for key,
                   values in CSV.items() if self.rng.random() < 0.2}
        if options.get("QUOTE") == "'" and options.get("ESCAPE") == '"':
            del options["ESCAPE"]
        writer = self.rng.choice(["duck", "swing"])
        path = self.path("csv" + {"gzip": ".gz", "zstd": ".zst"}.get(options.get("COMPRESSION"),
                                                                     ""))
        given = ", ".join(f"{key} {value if value in ('*', 'true', 'false') else text(value)}"
                          for key, value in options.items())
        sql = f"COPY t TO '{path}' (FORMAT csv{', ' + given if given else ''})"
        try:
            self.engines[writer].execute(sql)
        except ERRORS as error:
            return sql, ("both failed" if writer == "duck" else refused(error)), None
        reading = {key: value for key, value in options.items() if key != "FORCE_QUOTE"}
        reading.setdefault("HEADER", "true")
        given = ", ".join(f"{key.lower()} = {value if value in ('true', 'false') else text(value)}"
                          for key, value in reading.items())
        declared = ", ".join(f"{text(name)}: {text(of)}" for name, of in columns)
        # Quoted texts are never NULL here.
        source = f"read_csv('{path}', columns = {{{declared}}}, {given})"
        theirs = source.replace(given, f"{given}, allow_quoted_nulls = false, auto_detect = false")
        told = f"{sql} by {writer}; {source}; {columns}"
        here = self.rows("swing", source, columns)
        if writer == "swing":
            # What was written has to come back.
            own = self.differ(told, self.rows("swing", "t", columns), here)
            # Texts in lists and structs are JSON, whose escapes DuckDB does not know in a STRUCT.
            if own[1] is not None or any("VARCHAR" in of[1:] for _, of in columns):
                return own
        return self.differ(told, self.rows("duck", theirs, columns), here)

    def sniff(self):
        """A file of DuckDB's, whose types both find out: the values are the same."""
        columns = self.make("csv", self.rng.choice([3, 8, 30]))
        path = self.path("csv")
        writer = self.rng.choice(["duck", "swing"])
        source = f"read_csv('{path}')"
        told = f"{source} by {writer} {columns}"
        try:
            self.engines[writer].execute(f"COPY t TO '{path}' (FORMAT csv, HEADER true)")
        except ERRORS as error:
            return told, ("both failed" if writer == "duck" else refused(error)), None
        theirs = self.rows("duck", f"read_csv('{path}', allow_quoted_nulls = false)", columns)
        return self.differ(told, theirs, self.rows("swing", source, columns))

    def json(self):
        columns = self.make("json")
        columns = [(name, of) for name, of in columns]
        writer = self.rng.choice(["duck", "swing"])
        ending = self.rng.choice(["json", "json.gz"])
        path = self.path(ending)
        options = self.rng.choice(["", ", ARRAY true"])
        sql = f"COPY t TO '{path}' (FORMAT json{options})"
        try:
            self.engines[writer].execute(sql)
        except ERRORS as error:
            return sql, ("both failed" if writer == "duck" else refused(error)), None
        declared = ", ".join(f"{text(name)}: {text(of)}" for name, of in columns)
        source = f"read_json('{path}', columns = {{{declared}}})"
        told = f"{sql} by {writer}; {source}"
        here = self.rows("swing", source, columns)
        own = self.differ(told, self.rows("swing", "t", columns), here)
        if own[1] is not None:
            return own
        # DuckDB takes a `T` with a fraction behind it for text, and objects of many keys for maps.
        has_maps = any("MAP" in of for _, of in columns)
        if self.rng.random() < 0.5 and writer == "duck" and not has_maps:
            source = f"read_json('{path}')"
            return self.differ(f"{told}; {source}",
                               *(self.rows(of, source, columns) for of in self.engines))
        return self.differ(told, self.rows("duck", source, columns), here)

    def condition(self, columns):
        name, of = self.rng.choice(columns)
        # An ENUM is a text in a file.
        if "[" in of or of.startswith(("STRUCT", "MAP", "ENUM")):
            return f"{quoted(name)} IS {self.rng.choice(['', 'NOT '])}NULL"
        value = f"{text(self.rng.choice(TYPES[of]))}::{of}"
        return self.rng.choice([
            f"{quoted(name)} {self.rng.choice(OPERATORS)} {value}",
            f"{quoted(name)} IS NULL",
            f"{quoted(name)} IN ({value}, {text(self.rng.choice(TYPES[of]))}::{of})",
            f"{quoted(name)} BETWEEN {value} AND {text(self.rng.choice(TYPES[of]))}::{of}",
        ])

    def parquet(self):
        columns = self.make("parquet", self.rng.choice([None, 100]))
        writer = self.rng.choice(["duck", "swing"])
        path = self.path("parquet")
        options = self.rng.choice(["", ", COMPRESSION zstd", ", ROW_GROUP_SIZE 2048",
                                   ", COMPRESSION gzip"])
        sql = f"COPY t TO '{path}' (FORMAT parquet{options})"
        try:
            self.engines[writer].execute(sql)
        except ERRORS as error:
            return sql, ("both failed" if writer == "duck" else refused(error)), None
        where = f" WHERE {self.condition(columns)}" if self.rng.random() < 0.6 else ""
        if self.rng.random() < 0.3 and where:
            where += f" {self.rng.choice(['AND', 'OR'])} {self.condition(columns)}"
        told = f"{sql} by {writer};{where}; {columns}"
        expected = self.rows("duck", "t", columns, where)
        here = self.rows("swing", f"'{path}'", columns, where)
        first = self.differ(told, expected, here)
        if first[1] is not None:
            return first
        own = self.rows("swing", "t", columns, where)
        if not isinstance(own, Exception):
            first = self.differ(told + " TABLE", expected, own)
            if first[1] is not None:
                return first
        return self.differ(told, self.rows("duck", f"'{path}'", columns, where), here)

    def folders(self):
        kind = self.rng.choice(["parquet", "csv", "json"])
        columns = self.make(kind)
        plain = [name for name,
                 of in columns if "[" not in of and "(" not in of and of not in ("BLOB",)]
        plain = [name for name in plain if "/" not in name and name.isidentifier()]
        if not plain or len(columns) < 2:
            return "nothing", None, None
        keys = self.rng.sample(plain, self.rng.randint(1, min(2, len(plain), len(columns) - 1)))
        writer = self.rng.choice(["duck", "swing"])
        path = self.path("d")
        by = ", ".join(map(quoted, keys))
        header = ", HEADER true" if kind == "csv" else ""
        sql = f"COPY t TO '{path}' (FORMAT {kind}, PARTITION_BY ({by}){header})"
        try:
            self.engines[writer].execute(sql)
        except ERRORS as error:
            return sql, ("both failed" if writer == "duck" else refused(error)), None
        types = ", ".join(f"{text(name)}: {text(dict(columns)[name])}" for name in keys)
        ending = "" if kind == "parquet" else ""
        source = (f"read_{kind}('{path}/{'*/' * len(keys)}*', hive_partitioning = true, "
                  f"hive_types = {{{types}}}{ending})")
        if kind != "parquet":
            columns = [(name, of) for name, of in columns if name in keys]
        told = f"{sql} by {writer}; {source}; {columns}"
        condition = self.condition([column for column in columns if column[0] in keys])
        where = self.rng.choice(["", f" WHERE {condition}"])
        expected = self.rows("duck", "t", columns, where)
        here = self.rows("swing", source, columns, where)
        if not isinstance(expected, Exception) and not expected and isinstance(here, Exception):
            return told, None, None
        return self.differ(told + where, expected, here, ordered=False)

    def union(self):
        """Files of several schemas, by the names of their columns."""
        kind = self.rng.choice(["parquet", "csv", "json"])
        folder = pathlib.Path(self.path("u"))
        folder.mkdir()
        names, sqls = [], []
        # Values of other types are JSON in DuckDB, and texts here; NaN is no JSON.
        numbers = ["INTEGER", "BIGINT", "DECIMAL(9, 2)"] + ["DOUBLE"] * (kind != "json")
        times = [["DATE"], ["TIMESTAMP"]] if kind != "json" else []
        scalars = self.rng.choice([numbers, ["VARCHAR"], ["BOOLEAN"], *times])
        for n in range(self.rng.randint(2, 4)):
            columns = [(name, self.rng.choice(scalars))
                       for name in self.rng.sample(["a", "b", "C", "d"], 2)]
            values = ", ".join(f"{self.value(of, 0.1)} AS {quoted(name)}" for name, of in columns)
            writer = self.rng.choice(["duck", "swing"])
            sql = f"COPY (SELECT {values}) TO '{folder}/{n}.{kind}' (FORMAT {kind})"
            self.engines[writer].execute(sql)
            sqls.append(sql)
            names += [name for name, _ in columns if name not in names]
        source = f"read_{kind}('{folder}/*.{kind}', union_by_name = true)"
        columns = [(name, "") for name in names]
        told = f"{sqls}; {source}"
        theirs = source.replace(" = true)", " = true, allow_quoted_nulls = false)")
        theirs = theirs if kind == "csv" else source
        return self.differ(
            told, self.rows("duck", theirs, columns), self.rows("swing", source, columns))


if __name__ == "__main__":
    differences.main(__doc__, Files)
