"""What `random_functions.py` calls functions with, and which differences are decided."""

import json
import re

WHOLE = {
    "TINYINT": (-128, 127), "SMALLINT": (-(2**15), 2**15 - 1), "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1), "UTINYINT": (0, 255), "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1), "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (-(10**38) + 1, 10**38 - 1),
}
TEXTS = [
    "", "a", "A", "ab", "abc", "aXbXc", " a b ", "ä", "Ünïcödé ✓", "e\u0301le\u0300ve", 
    "👨‍👩‍👧 x",
    "a,b,,c", "123", "-7", "0x1F", "NULL", "%_\\", "a.b*c", "line\nbreak\ttab", "'", "quote\"d",
    "ǅ", "İstanbul", "longer than twelve bytes", "aaaa", "Straße",
    "\u00a0x\u2003", "~", "x=1&y=ü",
    "/a/b.csv", "a\\b\\c.txt",
]
STAMPS = [
    "2024-02-29 12:34:56.789012", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999",
    "1582-10-04 01:02:03", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999",
    "2024-03-10 02:30:00", "2024-11-03 01:30:00", "2000-12-31 00:00:00.5", "1900-01-01 00:00:00",
    "2021-01-03 06:00:00", "12345-06-07 08:09:10", "0044-03-15 (BC) 10:00:00",
    "2026-11-30 23:59:59",
]
VALUES = {
    **{
        name: [str(n) for n in [low, low + 1, -7, -1, 0, 1, 2, 3, 5, 10, 100, high - 1, high]
               if low <= n <= high]
        for name, (low, high) in WHOLE.items()
    },
    "DOUBLE": ["0", "-0.0", "1", "-1", "0.5", "-2.5", "2.5", "1e-300", "1e300", "nan", "inf",
               "-inf",
               "3.7", "-3.2", "0.1", "1e15", "123456.789", "5e-324", "1.7976931348623157e308", "9",
               "4503599627370497.5", "1e18", "10"],
    "FLOAT": ["0", "-0.0", "1", "-1.5", "2.5", "1e-40", "3e38", "nan", "inf", "-inf", "0.1",
              "16777217"],
    "DECIMAL": ["0"],
    "BOOLEAN": ["true", "false"],
    "VARCHAR": TEXTS,
    "BLOB": ["", "a", "abc", "\\x00\\xFF", "\\x80", "longer than twelve bytes"],
    "DATE": [stamp.replace(" (BC)", "").split(" ")[0] + (" (BC)" if "BC" in stamp else "")
             for stamp in STAMPS],
    "TIME": ["00:00:00", "12:34:56.789012", "23:59:59.999999", "01:00:00"],
    "TIMESTAMP": STAMPS,
    "TIMESTAMP WITH TIME ZONE": [stamp + "+00" for stamp in STAMPS],
    "TIMESTAMP_NS": ["2024-02-29 12:34:56.789012345", "1970-01-01 00:00:00",
                     "1969-12-31 23:59:59.999999999", "1700-01-01 00:00:00", "2200-05-05 05:05:05"],
    "TIMESTAMP_S": ["2024-02-29 12:34:56", "1969-12-31 23:59:59", "0001-01-01 00:00:00"],
    "TIMESTAMP_MS": ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999"],
    "INTERVAL": ["0 days", "1 day", "-1 day", "1 month", "-13 months", "1 year 2 months 3 days",
                 "25 hours", "-00:00:00.000001", "90 minutes", "1000 years", "12:34:56.789",
                 "36 days",
                 "3 days -1 hour"],
    "JSON": ["{}", "[]", "null", "1", "\"a\"", "{\"a\": 1, \"b\": [1, 2, {\"c\": null}]}",
             "[1, 2.5, \"x\"]",
             "true", "{\"a\": {\"b\": \"ü\"}}", "[[]]", "18446744073709551616", "1e400",
             "{\"a.b\": 3, \"\": 4}",
             "\"\\u00e4\\n\"", "[null]"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000",
             "ffffffff-ffff-7fff-bfff-ffffffffffff"],
}


def texts(*some):
    return ["'" + text.replace("'", "''") + "'" for text in some]


UNITS = texts("year", "month", "day", "hour", "minute", "second", "week", "quarter", "decade",
              "century",
              "millennium", "millisecond", "microsecond")
PARTS = UNITS + texts("dow", "isodow", "doy", "epoch", "era", "isoyear", "yearweek", "weekday",
                      "dayofyear", "julian")
ORDERS = texts("ASC", "DESC")
NULLS = texts("NULLS FIRST", "NULLS LAST")
AGGREGATES = texts("min", "max", "sum", "avg", "count", "first", "last", "string_agg", "median",
                   "mode",
                   "any_value", "product", "bool_and", "stddev_samp", "list", "histogram")
PATTERNS = texts("a", "[a-z]+", "(a)(b)?", "^a", "b*", "\\d+", ".", "", "x|X", "(?i)A", "\\s", "ä",
                 "c$")
OPTIONS = texts("", "i", "g", "gi", "s", "c")
FORMATS = texts("%Y-%m-%d", "%d/%m/%y %H:%M:%S", "%a %A %b %B", "%I:%M %p", "%j %U %W", "%f", "%g",
                "%n %%", "%-d.%-m.%Y", "%c", "%x %X", "%G-%V-%u", "%Z %z", "%y", "%H%M%S.%f", "%w")
PATHS = texts("$", "$.a", "$.b[0]", "$.b[#-1]", "/a", "/b/2/c", "a", "$.*", "$.b[*]", "$.\"a.b\"",
              "$..c",
              "$.a.b")
SMALL = ["0", "1", "2", "3", "-1", "-2", "5", "100", "NULL"]
ZONES = texts("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia")
WIDTHS = ["INTERVAL '1 day'", "INTERVAL '7 minutes'", "INTERVAL '1 month'", "INTERVAL '3 months'",
          "INTERVAL '1 hour 30 minutes'"]
PATTERNS_OF_FILES = texts("*", "a*", "[a-c]", "?", "[!a]*", "", "*.csv", "a?c")
LIKES = texts("%", "a%", "_", "%b%", "", "a_c", "A%")

#: Values for a place of a function, by its name and the place, or the type there.
ARGUMENTS = {}
for name in ["date_part", "datepart"]:
    ARGUMENTS[name, 0] = PARTS
    ARGUMENTS[name, "VARCHAR[]"] = ["['year', 'month', 'epoch']", "['hour', 'dow']"]
for name in ["date_diff", "datediff", "date_sub", "datesub", "date_trunc", "datetrunc"]:
    ARGUMENTS[name, 0] = UNITS
for name in ["list_aggr", "list_aggregate", "array_aggr", "array_aggregate"]:
    ARGUMENTS[name, 1] = AGGREGATES
for name in ["list_sort", "array_sort", "list_grade_up", "array_grade_up", "grade_up",
             "list_reverse_sort", "array_reverse_sort"]:
    ARGUMENTS[name, 1] = ORDERS if "reverse" not in name else NULLS
    ARGUMENTS[name, 2] = NULLS
for name in ["regexp_matches", "regexp_full_match", "regexp_extract", "regexp_extract_all",
             "regexp_split_to_array", "str_split_regex", "string_split_regex", "regexp_replace"]:
    ARGUMENTS[name, 1] = PATTERNS
    ARGUMENTS[name, 2] = OPTIONS
    ARGUMENTS[name, 3] = OPTIONS
for name in ["regexp_extract", "regexp_extract_all"]:
    ARGUMENTS[name, 2] = ["0", "1", "2"]
ARGUMENTS["regexp_replace", 2] = texts("", "X", "\\1", "<\\0>", "\\\\", "$1", "ä")
for name in ["strftime", "strptime", "try_strptime"]:
    ARGUMENTS[name, 1] = FORMATS
    ARGUMENTS[name, 0] = None
for name in ["json_extract", "json_extract_path", "json_extract_string", "json_extract_path_text",
             "json_value", "json_exists", "json_contains", "json_type", "json_keys",
             "json_array_length"]:
    ARGUMENTS[name, 1] = PATHS
for name in ["left", "right", "repeat", "lpad", "rpad", "substring", "substr", "split_part",
             "range",
             "generate_series", "list_resize", "array_resize", "list_slice", "array_slice",
             "overlay",
             "list_element", "list_extract", "array_extract", "string_split", "round", "trunc",
             "round_even", "roundbankers", "factorial", "to_base", "chr", "array_length"]:
    for of in ["INTEGER", "BIGINT"]:
        ARGUMENTS[name, of] = SMALL
for name in ["list_resize", "array_resize", "list_slice", "array_slice"]:
    ARGUMENTS[name, 1] = SMALL
    ARGUMENTS[name, 2] = SMALL
ARGUMENTS["list_resize", 2] = ARGUMENTS["array_resize", 2] = None
for name in ["list_slice", "array_slice"]:
    ARGUMENTS[name, 3] = ["1", "2", "-1", "3"]
for name in ["round", "round_even", "roundbankers", "trunc"]:
    ARGUMENTS[name, 0] = None
for name in ["range", "generate_series"]:
    # Long series take both engines long.
    for of in ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]:
        ARGUMENTS[name, of] = [f"'{stamp}'::{of}" for stamp in [
            "2024-02-29 12:34:56.789012", "2024-03-09 02:30:00", "2024-03-12 02:30:00",
            "2024-11-05 01:30:00", "2023-12-31 00:00:00"]]
    ARGUMENTS[name, "INTERVAL"] = [f"INTERVAL '{of}'" for of in [
        "1 day", "-1 day", "1 month", "25 hours", "-36 hours", "1 month -1 day", "1 day 1 hour"]]
ARGUMENTS["chr", 0] = ["0", "65", "228", "128512", "-1", "55296", "1114111", "1114112"]
ARGUMENTS["timezone", 0] = ZONES
ARGUMENTS["time_bucket", 0] = WIDTHS
ARGUMENTS["time_bucket", "VARCHAR"] = ZONES
for name in ["make_date", "make_timestamp", "make_timestamptz", "make_time"]:
    ARGUMENTS[name, 0] = ["2024", "1", "9999", "-1", "0", "23", "1582", "NULL"]
    ARGUMENTS[name, 1] = ["1", "12", "2", "13", "0"]
    ARGUMENTS[name, 2] = ["1", "29", "31", "0", "59.999999", "10"]
    ARGUMENTS[name, 3] = ["0", "23", "24"]
    ARGUMENTS[name, 4] = ["0", "59", "60"]
    ARGUMENTS[name, 5] = ["0", "59.999999", "60", "0.0000005", "12.3456789"]
    ARGUMENTS[name, 6] = ZONES
for name in ["format"]:
    ARGUMENTS[name, 0] = texts("{}", "{:>8}|", "{:<8}|", "{:05}", "{:,}", "{1} {0}", "{{}}",
                               "{:x}", "{:.2f}",
                               "{:+}", "{:^9}", "{:e}", "x")
ARGUMENTS["printf", 0] = texts("%s", "%d", "%5d|", "%-5d|", "%05d", "%x", "%.2f", "%+d", "%e",
                               "%g", "%%",
                               "%10s|", "%c", "%,d")
ARGUMENTS["from_json", 1] = ARGUMENTS["from_json_strict", 1] = texts(
    "{\"a\": \"INTEGER\"}", "[\"VARCHAR\"]", "\"JSON\"", "{\"a\": \"VARCHAR\", \"b\": \"JSON\"}")
for name in ["json_transform", "json_transform_strict"]:
    ARGUMENTS[name, 1] = ARGUMENTS["from_json", 1]
for name in ["strptime", "try_strptime"]:
    ARGUMENTS[name, 0] = texts("2024-02-29", "29/02/24 12:34:56", "2024-13-01", "",
                               "Thu Thursday Feb February",
                               "1.3.2024", "11:30 PM", "2024-W09-4")
ARGUMENTS["({} LIKE {})", 1] = ARGUMENTS["({} ILIKE {})", 1] = ARGUMENTS["({} NOT LIKE {})",
                                                                         1] = LIKES
ARGUMENTS["({} SIMILAR TO {})", 1] = PATTERNS
for name in ["({} GLOB {})", "glob"]:
    ARGUMENTS[name, 1] = PATTERNS_OF_FILES
ARGUMENTS["decode", 1] = texts("utf-8", "hex", "base64")
ARGUMENTS["encode", 1] = texts("utf-8", "hex", "base64")
ARGUMENTS["from_base64", 0] = texts("YWI=", "YQ==", "", "YWI", "!!", "AAAA")
for name in ["from_hex", "unhex"]:
    ARGUMENTS[name, 0] = texts("6162", "", "1", "fF", "0x1", "zz", "00ff")
for name in ["from_binary", "unbin"]:
    ARGUMENTS[name, 0] = texts("01100001", "", "1", "2", "0110000101100010")
for name in ["list_where", "array_where"]:
    ARGUMENTS[name, 1] = ["[true, false]", "[true]", "[]::BOOLEAN[]", "[true, NULL, true]"]
for name in ["list_select", "array_select"]:
    ARGUMENTS[name, 1] = ["[1, 2]", "[0]", "[-1]", "[9, 1, 1]", "[]::BIGINT[]", "[NULL]::BIGINT[]"]
ARGUMENTS["bar", 3] = ["10", "80", "1", "3.5"]
ARGUMENTS["to_base", 1] = ["2", "10", "16", "36"]
ARGUMENTS = {key: pool for key, pool in ARGUMENTS.items() if pool is not None}

#: Arguments that are the same for all rows.
CONSTANT = {
    (name, place) for name, places in {
        "from_json": [1], "from_json_strict": [1], "json_transform": [1],
        "json_transform_strict": [1],
        "list_aggr": [1], "list_aggregate": [1], "array_aggr": [1], "array_aggregate": [1],
        "list_sort": [1, 2], "array_sort": [1, 2], "list_grade_up": [1, 2],
        "array_grade_up": [1, 2],
        "grade_up": [1, 2], "list_reverse_sort": [1], "array_reverse_sort": [1],
        "regexp_extract": [2, 3], "regexp_extract_all": [2, 3], "regexp_replace": [3],
        "regexp_matches": [2], "regexp_full_match": [2], "date_part": [0], "datepart": [0],
        "struct_extract": [1], "array_extract": [1], "strptime": [1], "try_strptime": [1],
        "strftime": [1], "format": [0], "printf": [0],
    }.items() for place in places
}
#: Functions that are not called, and why.
SKIPPED = {
    **dict.fromkeys(
        ["random", "rand", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "now", "current_date",
         "today",
         "get_current_time", "get_current_timestamp", "transaction_timestamp", "current_timestamp",
         "hash", "version", "current_database", "current_schema", "current_schemas"],
        "another value by design"),
    **dict.fromkeys(["nextval", "currval", "setval", "error", "getvariable", "current_setting",
                     "pg_typeof", "typeof"], "of the session or the engine"),
}

def always(_error, _expected, _found):
    return True


def by_characters(_error, expected, found):
    """Whether one of the arguments may have letters beyond ASCII."""
    return bool(expected and found)


def same_elements(_error, expected, found):
    """Lists whose elements are in any order."""
    parts = [sorted(re.split(r", |(?=[{(])", text[1:-1])) for text in (expected, found)]
    return sorted(map(plain, parts[0])) == sorted(map(plain, parts[1]))


def plain(part):
    return {"-0.0": "0.0", "nan": "NaN"}.get(part.strip("'"), part.strip("'"))


def same_json(_error, expected, found):
    try:
        return json.loads(expected) == json.loads(found)
    except ValueError:
        return "nan" in expected.lower() or "inf" in expected.lower()


def contains(*parts):
    return lambda error, expected, found: any(part in error for part in parts)


def old_or_late(_error, expected, found):
    """Points in time of a zone before 1900, or before the year 1."""
    return "-04:56" in found or "BC" in expected + found or expected.lstrip("-").isdigit()


#: Differences that are decided, or DuckDB's own: functions, a test of the error and both values.
#: What stands in docs/sql.md is not explained here.
KNOWN = [
    ("(damerau_)?levenshtein|editdist3|jaccard|jaro.*|hamming|mismatches", by_characters),
    ("(array|list)_(distinct|intersect)", same_elements),
    ("json_.*|to_json|array_to_json|row_to_json|from_json.*", same_json),
    # NULL where the text is none of the structure; bytes are hexadecimal digits in JSON.
    ("json_(transform|transform_strict)|from_json(_strict)?", always),
    ("json_array|json_object|json_quote|to_json", lambda _error, theirs, ours: '"' in ours),
    ("lower|lcase|upper|ucase|reverse|struct_values|row|array_zip|list_zip", always),
    ("to_hex|(array|list)_resize|even|format_bytes|format|concat_ws|concat|decode", always),
    # Of the least value, where DuckDB takes the first that it meets.
    (".*_aggr(egate)?", always),
    # Near the largest DOUBLE, and of FLOAT, which are DOUBLE here.
    ("(array|list)_.*(product|distance|similarity)|asinh|acosh|bar", always),
    # Spaces are those of ASCII; `\s` is what Unicode has for it.
    ("[lr]?trim|btrim|regexp_.*|str.*_split_regex", lambda _error, theirs, ours: "\u2003" in ours),
    ("(str_split_regex|regexp_split_to_array|string_split|str_split)", lambda *of: of[2] == ""),
    # The day is that of the session, in DuckDB that of UTC.
    ("age", always),
    ("(year|yearweek|decade|century|millennium|era|isoyear|nanosecond|.*second|date_?part"
     "|date_?diff|date_?sub|date_?trunc|time_bucket|make_timestamptz|generate_series|range).*",
     old_or_late),
    (".*CAST.*TIME ZONE.*|.*TIMESTAMP.*", old_or_late),
    (r"\(\{\} [/%] \{\}\)", always),
    # A point before 1970 in nanoseconds is rounded up in DuckDB.
    (".*CAST.*(DATE|TIME|TIMESTAMP.*|BLOB)\\)", always),
    (".*CAST.*", lambda _error, theirs, ours: ours in ("", "NULL") or theirs == ""),
    (".*GLOB.*|glob", always),
    ("round_even|roundbankers", always),
    (".*", lambda _error, theirs, ours: "-04:56:02" in ours),
    # Parts that an INTERVAL and a TIME do not have, and a NULL without a type.
    ("date_?part|day.*|iso.*|week.*|array_slice|list_slice", contains("does not support")),
    ("struct_extract", contains("Field name must be")),
    (".*", contains("ivide by zero", "negative number", "negative power", "no interval",
                    "Arithmetic overflow: Overflow happened on", "there is no such time",
                    "is no unit of time", "the pattern has no group", "did not compile",
                    "Odd number of digits", "Failed to decode", "start position must",
                    "of the same length", "no valid interval", "logarithm")),
]


def known_difference(name, error, expected, found):
    """Whether a difference is one of docs/sql.md."""
    return any(
        re.fullmatch(names, name) and test(error or "", expected or "", found or "")
        for names, test in KNOWN
    )
