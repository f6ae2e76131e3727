"""Writes the CSV files of this directory and, beside each, what DuckDB reads from it, as Parquet.

Run it with DuckDB 2.0 installed: python make.py
"""

import pathlib

import duckdb

HERE = pathlib.Path(__file__).parent

FILES = {
    "plain": "id,name,score\n1,ann,1.5\n2,bob,2.25\n3,cid,-3\n",
    "quotes": 'a,b\n"x,1","say ""hi"""\n"two\nlines",plain\n" ",\'single\'\n',
    "semicolons": "when;what;n\n2024-01-31;alpha;1\n2024-02-29;beta;2\n",
    "tabs": "a\tb\tc\n1\t2024-01-31 10:20:30\ttrue\n2\t2024-01-31 23:59:59.5\tfalse\n",
    "pipes": "1|x|2.5\n2|y|3.5\n3|z|4.5\n",
    "nulls": "a,b,c\n1,,x\n,2.5,\n3,4,z\n",
    "crlf": "a,b\r\n1,one\r\n2,two\r\n",
    "wide": ",".join(f"c{i}" for i in range(60))
    + "\n"
    + "\n".join(",".join(str(i * j) for i in range(60)) for j in range(50))
    + "\n",
    "unicode": "stadt,größe\nKöln,1.5\n東京,2\nSão Paulo,3.75\n",
    "floats": "x\n1e10\n-2.5E-3\n.5\n5.\n123456789.123456789\n0.1\n",
    "integers": "x,y\n9223372036854775807,0\n-9223372036854775808,-0\n",
    "times": "t,d\n10:11:12,2024-01-01\n23:59:59.999999,1999-12-31\n",
    "no_end": "a,b\n1,2\n3,4",
    "blank_lines": "a,b\n1,2\n\n3,4\n\n",
    "bool": "flag,other\ntrue,TRUE\nfalse,False\n",
    "escaped": 'a;b\n"x ""y"" z";1\n"semi;colon";2\n',
}

for name, text in FILES.items():
    path = HERE / f"{name}.csv"
    path.write_bytes(text.encode())
    con = duckdb.connect()
    con.execute("SET preserve_insertion_order = true")
    con.execute(f"COPY (FROM read_csv('{path}')) TO '{HERE / name}.parquet' (FORMAT parquet)")
    print(name, con.execute(f"DESCRIBE FROM '{HERE / name}.parquet'").fetchall()[:3])
