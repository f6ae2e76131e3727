//! What functions under the names that DuckDB's users know are the same as.

pub(crate) use swingdb_functions::time::units::{CENTURIES, DECADES, MILLENNIA};

/// Names, number of arguments, what it is the same as.
pub(crate) const TEMPLATES: &[(&[&str], usize, &str)] = &[
    (
        &["arg_max", "max_by", "argmax"],
        2,
        "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)",
    ),
    (
        &["arg_min", "min_by", "argmin"],
        2,
        "first_value($1 ORDER BY $2 ASC) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)",
    ),
    (&["arg_max_null"], 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $2 IS NOT NULL)"),
    (&["arg_min_null"], 2, "first_value($1 ORDER BY $2 ASC) FILTER (WHERE $2 IS NOT NULL)"),
    (&["arg_max_nulls_last"], 2, "first_value($1 ORDER BY $2 DESC NULLS LAST)"),
    (&["arg_min_nulls_last"], 2, "first_value($1 ORDER BY $2 ASC NULLS LAST)"),
    (
        &["max"],
        2,
        "first_elements(array_agg($1 ORDER BY $1 DESC) FILTER (WHERE $1 IS NOT NULL), $2)",
    ),
    (
        &["min"],
        2,
        "first_elements(array_agg($1 ORDER BY $1 ASC) FILTER (WHERE $1 IS NOT NULL), $2)",
    ),
    (&["arg_max", "max_by", "argmax"], 3, MOST_BY),
    (&["arg_min", "min_by", "argmin"], 3, LEAST_BY),
    (&["regr_r2"], 2, R2),
    (&["geomean", "geometric_mean"], 1, "exp(avg(ln($1)))"),
    (&["sum_no_overflow"], 1, "sum($1)"),
    (&["sem"], 1, "stddev_pop($1) / sqrt(count($1))"),
    (&["weighted_avg", "wavg"], 2, WEIGHTED),
    (&["arbitrary", "first"], 1, "first_value($1)"),
    (&["any_value"], 1, "first_value($1) FILTER (WHERE $1 IS NOT NULL)"),
    (&["last"], 1, "last_value($1)"),
    (&["list"], 1, "array_agg($1)"),
    (&["count_star"], 0, "count(1)"),
    (&["count_if", "countif"], 1, "count(CASE WHEN $1 THEN 1 END)"),
    (&["group_concat", "listagg", "string_agg"], 1, "string_agg($1, ',')"),
    (&["group_concat", "listagg"], 2, "string_agg($1, $2)"),
    (&["year"], 1, "date_part('year', $1)"),
    (&["quarter"], 1, "date_part('quarter', $1)"),
    (&["month"], 1, "date_part('month', $1)"),
    (&["week", "weekofyear"], 1, "date_part('week', $1)"),
    (&["day", "dayofmonth"], 1, "date_part('day', $1)"),
    (&["dayofweek", "weekday"], 1, "date_part('dow', $1)"),
    (&["isodow"], 1, "date_part('isodow', $1)"),
    (&["dayofyear"], 1, "date_part('doy', $1)"),
    (&["hour"], 1, "date_part('hour', $1)"),
    (&["minute"], 1, "date_part('minute', $1)"),
    (&["second"], 1, "date_part('second', $1)"),
    (&["epoch"], 1, "date_part('epoch', $1)"),
    (&["julian"], 1, JULIAN),
    (&["days_in_month"], 1, DAYS_IN_MONTH),
    (&["isoyear"], 1, "date_part('isoyear', $1)"),
    (&["millisecond"], 1, "date_part('millisecond', $1)"),
    (&["microsecond"], 1, "date_part('microsecond', $1)"),
    (&["nanosecond"], 1, "date_part('nanosecond', $1)"),
    (&["age"], 1, "age(CAST(current_date() AS TIMESTAMP), $1)"),
    (&["monthname"], 1, "strftime(CAST($1 AS TIMESTAMP), '%B')"),
    (&["dayname"], 1, "strftime(CAST($1 AS TIMESTAMP), '%A')"),
    (&["last_day"], 1, LAST_DAY),
    (&["ago"], 1, "now() - $1"),
    (&["date_add", "add"], 2, "$1 + $2"),
    (&["make_timestamp"], 6, "timestamp_of_parts($1, $2, $3, $4, $5, $6)"),
    (&["make_timestamptz"], 6, ZONED),
    (&["make_timestamptz"], 7, "at_time_zone($7, timestamp_of_parts($1, $2, $3, $4, $5, $6))"),
    (&["make_time"], 3, "time_of_parts($1, $2, $3)"),
    (&["make_timestamp"], 1, "timestamp_of_micros(CAST($1 AS BIGINT))"),
    (&["make_timestamp_ms"], 1, "timestamp_of_micros(CAST($1 AS BIGINT) * 1000)"),
    (&["make_timestamp_ns"], 1, "timestamp_of_nanos(CAST($1 AS BIGINT))"),
    (&["timezone"], 1, "zone_offset($1)"),
    (&["timezone"], 2, "at_time_zone($1, $2)"),
    (&["timezone_hour"], 1, ZONE_HOUR),
    (&["timezone_minute"], 1, ZONE_MINUTE),
    (&["to_millennia"], 1, "CAST(CAST($1 * 1000 AS VARCHAR) || ' years' AS INTERVAL)"),
    (&["to_centuries"], 1, "CAST(CAST($1 * 100 AS VARCHAR) || ' years' AS INTERVAL)"),
    (&["to_decades"], 1, "CAST(CAST($1 * 10 AS VARCHAR) || ' years' AS INTERVAL)"),
    (&["to_years"], 1, "CAST(CAST($1 AS VARCHAR) || ' years' AS INTERVAL)"),
    (&["to_quarters"], 1, "CAST(CAST($1 * 3 AS VARCHAR) || ' months' AS INTERVAL)"),
    (&["to_months"], 1, "CAST(CAST($1 AS VARCHAR) || ' months' AS INTERVAL)"),
    (&["to_weeks"], 1, "CAST(CAST($1 AS VARCHAR) || ' weeks' AS INTERVAL)"),
    (&["to_days"], 1, "CAST(CAST($1 AS VARCHAR) || ' days' AS INTERVAL)"),
    (&["to_hours"], 1, "CAST(CAST($1 AS VARCHAR) || ' hours' AS INTERVAL)"),
    (&["to_minutes"], 1, "CAST(CAST($1 AS VARCHAR) || ' minutes' AS INTERVAL)"),
    // As text a small number has an exponent, which no interval has.
    (&["to_seconds"], 1, "INTERVAL '1 second' * CAST($1 AS DOUBLE)"),
    (&["to_milliseconds"], 1, "INTERVAL '1 millisecond' * CAST($1 AS DOUBLE)"),
    (&["to_microseconds"], 1, "CAST(CAST($1 AS VARCHAR) || ' microseconds' AS INTERVAL)"),
    (&["len"], 1, "length($1)"),
    // The engine's own take a negative length of a column for a very large one.
    (&["lpad"], 2, "lpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END)"),
    (&["lpad"], 3, "lpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END, $3)"),
    (&["rpad"], 2, "rpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END)"),
    (&["rpad"], 3, "rpad($1, CASE WHEN $2 < 0 THEN 0 ELSE $2 END, $3)"),
    (&["editdist3"], 2, "levenshtein($1, $2)"),
    (&["encode"], 1, "text_bytes($1)"),
    (&["decode"], 1, "bytes_text($1)"),
    (&["octet_length", "strlen"], 1, "byte_length($1)"),
    (&["parse_filename"], 1, "regexp_replace($1, '^.*[/\\\\]', '')"),
    (&["json"], 1, "json_extract($1, '$')"),
    (&["json_group_array"], 1, JSON_ARRAY),
    (&["json_group_object"], 2, JSON_OBJECT),
    (&["prefix"], 2, "starts_with($1, $2)"),
    (&["suffix"], 2, "ends_with($1, $2)"),
    (&["string_split", "str_split", "split", "string_to_array"], 2, SPLIT),
    (&["unicode", "ord"], 1, "CASE WHEN $1 = '' THEN -1 ELSE ascii($1) END"),
    (&["from_hex", "unhex"], 1, "decode($1, 'hex')"),
    (&["base64", "to_base64"], 1, "encode($1, 'base64pad')"),
    (&["from_base64"], 1, "decode($1, 'base64pad')"),
    (&["regexp_matches"], 2, "regexp_like($1, $2)"),
    (&["regexp_matches"], 3, "regexp_like($1, $2, $3)"),
    (&["struct_extract"], 2, "get_field($1, $2)"),
    (&["fdiv"], 2, "floor(CAST($1 AS DOUBLE) / CAST($2 AS DOUBLE))"),
    (&["fmod"], 2, FMOD),
    // NULL is no element that two lists have in common.
    (&["list_has_any", "array_has_any", "arrays_overlap"], 2, HAS_ANY),
    (&["list_has_all", "array_has_all"], 2, HAS_ALL),
    (&["list_count"], 1, "array_length(array_filter($1, x -> x IS NOT NULL))"),
    (&["regexp_full_match"], 2, "regexp_like($1, '^(?:' || $2 || ')\\z')"),
    (
        &["list_unique", "array_unique"],
        1,
        "array_length(array_distinct(array_filter($1, x -> x IS NOT NULL)))",
    ),
    (&["list_string_agg"], 1, LIST_TEXT),
    (&["list_string_agg"], 2, LIST_TEXT_BY),
    (&["list_reverse_sort", "array_reverse_sort"], 2, "array_sort($1, 'DESC', $2)"),
    // NULL is no element that two lists have in common.
    (&["list_intersect", "array_intersect"], 2, INTERSECTION),
    (&["flatten"], 1, "flatten(array_filter($1, x -> x IS NOT NULL))"),
    (&["regexp_split_to_table"], 2, "unnest(regexp_split_to_array($1, $2))"),
    (&["map"], 2, "map_of_lists($1, $2)"),
    (&["map_contains"], 2, "array_has(map_keys($1), $2)"),
    (&["map_contains_value"], 2, "array_has(map_values($1), $2)"),
    (&["list_sort", "array_sort"], 1, SORT),
    (&["list_sort", "array_sort"], 2, SORT_IN),
    (&["list_reverse_sort", "array_reverse_sort"], 1, "array_sort($1, 'DESC', 'NULLS LAST')"),
    (
        &["list_distinct", "array_distinct"],
        1,
        "array_distinct(array_filter($1, x -> x IS NOT NULL))",
    ),
    (&["if", "iif"], 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    (&["ifnull"], 2, "coalesce($1, $2)"),
    (&["subtract"], 2, "$1 - $2"),
    (&["multiply"], 2, "$1 * $2"),
    (&["mod"], 2, "$1 % $2"),
    (&["sign"], 1, SIGN),
    (&["variance"], 1, "var_samp($1)"),
    (&["approx_count_distinct"], 1, "approx_distinct($1)"),
    (&["gen_random_uuid"], 0, "uuid()"),
    (&["uuid_extract_version"], 1, UUID_VERSION),
    (&["current_schema"], 0, "'main'"),
    (&["current_schemas"], 1, "CASE WHEN $1 THEN ['pg_catalog', 'main'] ELSE ['main'] END"),
    (&["current_database"], 0, "'swingdb'"),
    (&["pg_typeof"], 1, "lower(typeof($1))"),
    (&["pg_get_userbyid"], 1, "CASE WHEN $1 IS NOT NULL THEN 'swingdb' END"),
    (&["pg_encoding_to_char"], 1, "CASE WHEN $1 IS NOT NULL THEN 'UTF8' END"),
    (
        &["pg_type_is_visible", "pg_collation_is_visible", "pg_statistics_obj_is_visible"],
        1,
        "CASE WHEN $1 IS NOT NULL THEN TRUE END",
    ),
    (&["pg_get_expr"], 2, "CAST($1 AS VARCHAR)"),
    (&["pg_get_expr"], 3, "CAST($1 AS VARCHAR)"),
    (&["current_user", "current_role", "session_user"], 0, "'swingdb'"),
    (&["current_catalog"], 0, "'swingdb'"),
    (
        &["pg_relation_size", "pg_table_size", "pg_total_relation_size"],
        1,
        "object_size(regclass($1))",
    ),
    (&["generate_subscripts"], 2, "unnest(generate_series(1, array_length($1, $2)))"),
    (&["pg_database_size"], 1, "object_size(regdatabase($1))"),
    (&["pg_indexes_size"], 1, "CASE WHEN $1 IS NOT NULL THEN CAST(0 AS BIGINT) END"),
    (&["pg_get_function_sqlbody"], 1, NO_TEXT),
    (&["pg_is_in_recovery"], 0, "FALSE"),
    (&["pg_relation_is_publishable"], 1, "CASE WHEN $1 IS NOT NULL THEN FALSE END"),
    (&["pg_size_pretty"], 1, "format_bytes($1)"),
    (&["pg_get_function_result", "pg_get_partkeydef"], 1, NO_TEXT),
    (&["pg_get_statisticsobjdef_columns", "pg_tablespace_location"], 1, NO_TEXT),
    (&["pg_get_triggerdef", "pg_get_ruledef"], 1, NO_TEXT),
    (&["pg_get_triggerdef", "pg_get_ruledef"], 2, NO_TEXT),
    (&["pg_get_serial_sequence", "shobj_description"], 2, NO_TEXT),
    (PRIVILEGES, 2, "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN TRUE END"),
    (PRIVILEGES, 3, "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL THEN TRUE END"),
    (
        &["has_column_privilege"],
        4,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL AND $4 IS NOT NULL \
         THEN TRUE END",
    ),
    (&["list_max"], 1, "array_max($1)"),
    // Of a text as well.
    (&["array_slice", "list_slice"], 3, "$1[($2):($3)]"),
    (&["array_slice", "list_slice"], 4, "$1[($2):($3):($4)]"),
    (&["array_extract", "list_extract", "list_element"], 2, "$1[$2]"),
    (&["array_push_back"], 2, "array_append($1, $2)"),
    (&["array_push_front"], 2, "array_prepend($2, $1)"),
    (&["list_first"], 1, "array_element($1, 1)"),
    (&["list_last"], 1, "array_element($1, -1)"),
    (&["list_any_value"], 1, "array_element(array_filter($1, x -> x IS NOT NULL), 1)"),
    (
        &["list_dot_product", "list_inner_product", "array_dot_product", "array_inner_product"],
        2,
        "inner_product($1, $2)",
    ),
    (
        &[
            "list_negative_dot_product",
            "list_negative_inner_product",
            "array_negative_dot_product",
            "array_negative_inner_product",
        ],
        2,
        "-inner_product($1, $2)",
    ),
    (&["list_cosine_similarity", "array_cosine_similarity"], 2, "1 - cosine_distance($1, $2)"),
    (&["list_cosine_distance", "array_cosine_distance"], 2, "cosine_distance($1, $2)"),
    (&["even"], 1, EVEN),
    (&["xor"], 2, "($1 | $2) - ($1 & $2)"),
    (&["list_min"], 1, "array_min($1)"),
    (&["sha256"], 1, "encode(sha256($1), 'hex')"),
];

/// Of what there is none of here.
const NO_TEXT: &str = "CASE WHEN $1 IS NULL THEN CAST(NULL AS VARCHAR) END";

/// Everybody may do everything with what there is.
const PRIVILEGES: &[&str] = &[
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_function_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_table_privilege",
    "has_tablespace_privilege",
    "has_type_privilege",
    "pg_has_role",
];

/// Templates for functions that the engine has under that name, and that are to be others.
pub(crate) const OURS: &[&str] = &[
    "array_slice",
    "list_slice",
    "array_extract",
    "list_extract",
    "list_element",
    "array_push_back",
    "array_push_front",
    "string_agg",
    "week",
    "day",
    "lpad",
    "rpad",
    "list_sort",
    "array_sort",
    "list_distinct",
    "array_distinct",
    "sha256",
    "regr_r2",
    "max",
    "min",
    "age",
    "encode",
    "decode",
    "list_first",
    "list_last",
    "octet_length",
    "list_has_any",
    "array_has_any",
    "arrays_overlap",
    "list_has_all",
    "array_has_all",
    "list_intersect",
    "array_intersect",
    "flatten",
    "map",
    "string_to_array",
    "make_time",
];

/// Names that only stand for another, whatever the call looks like.
pub(crate) const RENAMES: &[(&str, &str)] = &[
    ("list_value", "make_array"),
    ("list_pack", "make_array"),
    ("array_value", "make_array"),
    ("list", "array_agg"),
    ("first", "first_value"),
    ("last", "last_value"),
    ("group_concat", "string_agg"),
    ("listagg", "string_agg"),
    ("list_apply", "list_transform"),
    ("array_apply", "list_transform"),
    ("apply", "list_transform"),
    ("filter", "list_filter"),
    ("array_zip", "list_zip"),
    ("grouping_id", "grouping"),
    ("ceiling", "ceil"),
    ("lcase", "lower"),
    ("ucase", "upper"),
    ("greatest_common_divisor", "gcd"),
    ("least_common_multiple", "lcm"),
    ("get_current_timestamp", "now"),
    ("transaction_timestamp", "now"),
    ("uuidv4", "uuid"),
    ("json_build_object", "json_object"),
];

const MOST_BY: &str = "first_elements(array_agg($1 ORDER BY $2 DESC) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), $3)";
const LEAST_BY: &str = "first_elements(array_agg($1 ORDER BY $2 ASC) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), $3)";
const ZONED: &str = "CAST(timestamp_of_parts($1, $2, $3, $4, $5, $6) AS TIMESTAMP WITH TIME ZONE)";
/// A line through equal values explains them; the engine's own gives NULL.
const R2: &str = "CASE WHEN regr_syy($1, $2) = 0 AND regr_sxx($1, $2) > 0 \
     THEN CAST('1' AS DOUBLE) ELSE regr_r2($1, $2) END";
/// The digit that begins the third group.
const UUID_VERSION: &str =
    "CAST(instr('123456789abcdef', substr(lower(CAST($1 AS VARCHAR)), 15, 1)) AS UINTEGER)";
/// To the next even number away from zero. Half of the least number is zero.
const EVEN: &str = "CASE WHEN $1 > 0 AND $1 < 2 THEN CAST(2 AS DOUBLE) \
     WHEN $1 < 0 AND $1 > -2 THEN CAST(-2 AS DOUBLE) \
     WHEN $1 < 0 THEN floor(CAST($1 AS DOUBLE) / 2) * 2 \
     ELSE ceil(CAST($1 AS DOUBLE) / 2) * 2 END";
/// NaN has none, though it compares as the greatest number.
const SIGN: &str = "CASE WHEN $1 < 0 THEN -1 WHEN $1 > 0 AND $1 <= CAST('Infinity' AS DOUBLE) \
     THEN 1 WHEN $1 IS NOT NULL THEN 0 END";
/// A row counts when both are there.
const WEIGHTED: &str = "sum(CAST($1 AS DOUBLE) * $2) \
     / sum(CASE WHEN $1 IS NOT NULL THEN CAST($2 AS DOUBLE) END)";

/// From the end, of a negative place; backwards, of a negative length.
pub(crate) const TAIL: &str = "CASE WHEN $2 < 0 THEN right($1, -$2) ELSE substr($1, $2) END";
pub(crate) const PART: &str = "CASE WHEN $3 < 0 \
     THEN substr($1, CASE WHEN $2 < 0 THEN length($1) + 1 ELSE 0 END + $2 + $3, -$3) \
     ELSE substr($1, CASE WHEN $2 < 0 THEN length($1) + 1 ELSE 0 END + $2, $3) END";
const HAS_ANY: &str = "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN \
     array_has_any($1, array_compact($2)) END";
/// With NULL a list has nothing in common.
const INTERSECTION: &str = "CASE WHEN $1 IS NOT NULL THEN coalesce( \
     array_filter(array_intersect($1, $2), x -> x IS NOT NULL), array_filter($1, x -> false)) END";
/// Nothing to join is NULL, as of any aggregate.
const LIST_TEXT: &str =
    "CASE WHEN array_length(array_compact($1)) > 0 THEN array_to_string($1, ',') END";
const LIST_TEXT_BY: &str =
    "CASE WHEN array_length(array_compact($1)) > 0 THEN array_to_string($1, $2) END";
const HAS_ALL: &str = "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN \
     array_has_all($1, array_compact($2)) END";

/// NULL comes last, as it does in ORDER BY.
const SORT: &str = "array_sort($1, 'ASC', 'NULLS LAST')";
const SORT_IN: &str = "array_sort($1, $2, 'NULLS LAST')";

/// The engine's own makes no piece of the empty text, and takes NULL for what is between two
/// characters.
const SPLIT: &str = "CASE WHEN $1 = '' THEN make_array($1) \
     WHEN $2 = '' THEN string_to_array($1, CAST(NULL AS VARCHAR)) \
     WHEN $2 IS NULL AND $1 IS NOT NULL THEN make_array($1) ELSE string_to_array($1, $2) END";
const JSON_ARRAY: &str =
    "json_extract('[' || string_agg(coalesce(to_json($1), 'null'), ',') || ']', '$')";
const JSON_OBJECT: &str = "json_extract('{' || string_agg(to_json(CAST($1 AS VARCHAR)) || ':' \
     || coalesce(to_json($2), 'null'), ',') || '}', '$')";
const FMOD: &str = "CAST($1 AS DOUBLE) \
     - floor(CAST($1 AS DOUBLE) / CAST($2 AS DOUBLE)) * CAST($2 AS DOUBLE)";
const DAYS_IN_MONTH: &str =
    "date_part('day', date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day')";
const LAST_DAY: &str =
    "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)";

/// What `date_part` is for names of parts that the engine does not have.
pub(crate) const PARTS: &[(&[&str], &str)] = &[
    (MILLENNIA, "millennium($1)"),
    (CENTURIES, "century($1)"),
    (DECADES, "decade($1)"),
    (&["dayofweek", "weekday"], "date_part('dow', $1)"),
    (&["dayofmonth"], "date_part('day', $1)"),
    (&["dayofyear"], "date_part('doy', $1)"),
    (&["weekofyear"], "date_part('week', $1)"),
    (&["yearweek"], "yearweek($1)"),
    (&["julian"], JULIAN),
    (&["era"], "era($1)"),
    (&["timezone"], "zone_offset($1)"),
    (&["timezone_hour"], ZONE_HOUR),
    (&["timezone_minute"], ZONE_MINUTE),
];

/// Of the clock of the session.
pub(crate) const OF_NOW: &[(&[&str], &str)] = &[
    (&["current_date", "today"], "CAST(now() AS DATE)"),
    (&["current_time", "get_current_time", "localtime"], "CAST(now() AS TIME)"),
    (&["localtimestamp"], "CAST(now() AS TIMESTAMP)"),
];

const ZONE_HOUR: &str = "zone_offset($1) / 3600";
const ZONE_MINUTE: &str = "zone_offset($1) / 60 % 60";

const JULIAN: &str = "date_part('epoch', CAST($1 AS TIMESTAMP)) / 86400.0 + 2440588.0";
