"""TPC-DS' tables and queries as files, for `bench/sql_suites.py --tpcds FOLDER`.

    python bench/tpcds_files.py FOLDER [--scale 1]

Run by a Python that has DuckDB and its extension `tpcds` of one version (packages `duckdb` and
`duckdb-extension-tpcds`); `make tpcds-files` makes one. FOLDER gets a Parquet file for each of the
24 tables, and the 99 queries with the specification's values in `queries/`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb
import duckdb_extension_tpcds


def main() -> None:
    """Makes the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1, help="gigabytes of the specification")
    arguments = parser.parse_args()
    folder = Path(duckdb_extension_tpcds.__file__).parent
    (extension,) = folder.rglob("tpcds.duckdb_extension")
    queries = arguments.folder / "queries"
    queries.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect()
    con.execute(f"LOAD '{extension}'")
    con.execute(f"CALL dsdgen(sf = {arguments.scale})")
    for (table,) in con.execute("SHOW TABLES").fetchall():
        con.execute(f"COPY {table} TO '{arguments.folder / table}.parquet'")
    for number, text in con.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
        (queries / f"{number:02}.sql").write_text(text)


if __name__ == "__main__":
    main()
