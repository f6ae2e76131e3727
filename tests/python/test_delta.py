"""Delta tables: directories whose log says which Parquet files make up each version."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import swingdb

SCHEMA = [("v", "long"), ("day", "date"), ("name", "string")]


@pytest.fixture
def con():
    with swingdb.connect() as con:
        yield con


class Table:
    """A table that the test writes itself."""

    def __init__(self, root, columns=SCHEMA, partitions=(), protocol=None, configuration=None):
        self.root = root
        self.next = 0
        (root / "_delta_log").mkdir(parents=True)
        fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
        self.metadata = {
            "id": "1",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitions),
            "configuration": configuration or {},
        }
        self.protocol = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        self.commit({"protocol": self.protocol}, {"metaData": self.metadata})

    def commit(self, *actions):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (self.root / "_delta_log" / f"{self.next:020}.json").write_text(text)
        self.next += 1

    def write(self, name, table, values=None, **more):
        """Writes a file, and returns the action that adds it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        quoted = name.replace("%", "%25").replace(" ", "%20")
        return {"add": {"path": quoted, "partitionValues": values or {}, "size": 1, **more}}

    def checkpoint(self, adds, parts=1):
        """Writes a checkpoint of the newest version, and removes the commits before it."""
        version = self.next - 1
        kinds = {
            "protocol": pa.struct([("minReaderVersion", pa.int32())]),
            "metaData": pa.struct(
                [
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", pa.map_(pa.string(), pa.string())),
                ]
            ),
            "add": pa.struct(
                [("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string()))]
            ),
        }
        metadata = {key: self.metadata[key] for key in ("schemaString", "partitionColumns")}
        metadata["configuration"] = []
        rows = [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}]
        for action in adds:
            add = action["add"]
            values = list(add["partitionValues"].items())
            rows.append({"add": {"path": add["path"], "partitionValues": values}})
        for part in range(parts):
            some = rows[part::parts]
            columns = {
                name: pa.array([row.get(name) for row in some], kind)
                for name, kind in kinds.items()
            }
            infix = f".{part + 1:010}.{parts:010}" if parts > 1 else ""
            name = f"{version:020}.checkpoint{infix}.parquet"
            pq.write_table(pa.table(columns), self.root / "_delta_log" / name)
        for number in range(version + 1):
            (self.root / "_delta_log" / f"{number:020}.json").unlink()


def rows(*values):
    return pa.table({"v": pa.array(values, pa.int64()), "name": [f"n{v}" for v in values]})


def test_versions_of_a_table(con, tmp_path):
    table = Table(tmp_path / "t", [("v", "long"), ("name", "string")])
    table.commit(table.write("a.parquet", rows(1, 2)))
    table.commit(table.write("b.parquet", rows(3)))
    removed = {"remove": {"path": "a.parquet", "dataChange": True}}
    table.commit(removed, table.write("c.parquet", rows(2)))

    scan = f"delta_scan('{table.root}'"
    assert con.sql(f"SELECT v, name FROM {scan}) ORDER BY v").fetchall() == [(2, "n2"), (3, "n3")]
    before = con.sql(f"SELECT v FROM {scan}, version = 2) ORDER BY v")
    assert before.fetchall() == [(1,), (2,), (3,)]
    assert con.sql(f"SELECT count(*) FROM {scan}, version = 0)").fetchall() == [(0,)]
    assert con.sql(f"SELECT sum(v) FROM '{table.root}'").fetchall() == [(5,)]
    # A statement sees the version that is the newest when it begins.
    table.commit(table.write("d.parquet", rows(10)))
    assert con.sql(f"SELECT sum(v) FROM '{table.root}' WHERE v > 2").fetchall() == [(13,)]
    assert con.sql(f"SELECT sum(v) FROM '{table.root}'").fetchall() == [(15,)]
    with pytest.raises(swingdb.FileImportError, match="no version 9; the newest one is 4"):
        con.sql(f"FROM {scan}, version = 9)")
    with pytest.raises(swingdb.PlanError, match=r'no option "versoin"; there is: version'):
        con.sql(f"FROM {scan}, versoin = 1)")


def test_values_of_partitions_come_from_the_log(con, tmp_path):
    table = Table(tmp_path / "t", partitions=["day", "name"])
    one = pa.table({"v": pa.array([1, 2], pa.int64())})
    # Folders say something else, or nothing.
    table.commit(
        table.write("day=1999-01-01/a b%.parquet", one, {"day": "2024-02-29", "name": "x/y"}),
        table.write("b.parquet", one, {"day": None, "name": ""}),
    )
    found = con.sql(f"SELECT v, day, name FROM '{table.root}' ORDER BY day, v").fetchall()
    day = datetime.date(2024, 2, 29)
    assert found == [(1, day, "x/y"), (2, day, "x/y"), (1, None, None), (2, None, None)]
    some = con.sql(f"SELECT count(*) FROM '{table.root}' WHERE day > DATE '2024-01-01' AND v = 2")
    assert some.fetchall() == [(1,)]
    assert con.sql(f"DESCRIBE (FROM '{table.root}')").fetchall()[1][:2] == ("day", "DATE")


def test_columns_that_come_later_are_null_before(con, tmp_path):
    table = Table(tmp_path / "t", [("v", "long"), ("extra", "double"), ("name", "string")])
    later = pa.table({"name": ["z"], "extra": [2.5], "v": pa.array([7], pa.int64())})
    table.commit(table.write("a.parquet", rows(1)), table.write("b.parquet", later))
    found = con.sql(f"SELECT * FROM '{table.root}' ORDER BY v").fetchall()
    assert found == [(1, None, "n1"), (7, 2.5, "z")]
    assert con.sql(f"SELECT v FROM '{table.root}' WHERE extra IS NULL").fetchall() == [(1,)]
    assert con.sql(f"SELECT count(extra), max(extra) FROM '{table.root}'").fetchall() == [(1, 2.5)]
    wrong = pa.table({"v": ["text"], "name": ["n"]})
    table.commit(table.write("c.parquet", wrong))
    with pytest.raises(swingdb.FileImportError, match='VARCHAR as column "v".*BIGINT'):
        con.sql(f"SELECT * FROM '{table.root}'").fetchall()


@pytest.mark.parametrize("parts", [1, 3])
def test_checkpoints(con, tmp_path, parts):
    table = Table(tmp_path / "t", [("v", "long"), ("name", "string")])
    adds = [table.write(f"{v}.parquet", rows(v)) for v in range(6)]
    for add in adds:
        table.commit(add)
    table.checkpoint(adds, parts)
    table.commit({"remove": {"path": "0.parquet"}}, table.write("x.parquet", rows(100)))
    assert con.sql(f"SELECT sum(v) FROM '{table.root}'").fetchall() == [(115,)]
    of_checkpoint = con.sql(f"SELECT sum(v) FROM delta_scan('{table.root}', version = 6)")
    assert of_checkpoint.fetchall() == [(15,)]
    with pytest.raises(swingdb.FileImportError, match="no version 3 any more"):
        con.sql(f"FROM delta_scan('{table.root}', version = 3)")
    if parts > 1:
        # A checkpoint that lacks a part is none.
        next((table.root / "_delta_log").glob("*.checkpoint.0000000002*")).unlink()
        with pytest.raises(swingdb.FileImportError, match="no commit 0"):
            con.sql(f"FROM '{table.root}'")


def test_what_readers_must_know_is_refused(con, tmp_path):
    def refused(name, match, add=None, **options):
        table = Table(tmp_path / name, [("v", "long"), ("name", "string")], **options)
        table.commit(table.write("a.parquet", rows(1), **(add or {})))
        with pytest.raises(swingdb.NotSupportedError, match=match):
            con.sql(f"FROM '{table.root}'")

    vector = {"deletionVector": {"storageType": "i", "pathOrInlineDv": "x", "cardinality": 1}}
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    refused("vectors", "deletion vectors", vector, protocol=features)
    refused("renamed", "column mapping", configuration={"delta.columnMapping.mode": "name"})
    unknown = {**features, "readerFeatures": ["variantType"]}
    refused("unknown", 'reader feature "variantType"', protocol=unknown)
    refused("newer", "reader version 4", protocol={"minReaderVersion": 4, "minWriterVersion": 7})
    # The feature alone says that there may be such files.
    table = Table(tmp_path / "none", [("v", "long"), ("name", "string")], protocol=features)
    table.commit(table.write("a.parquet", rows(1)))
    assert con.sql(f"SELECT v FROM '{table.root}'").fetchall() == [(1,)]


def test_damaged_logs_and_other_directories(con, tmp_path):
    with pytest.raises(swingdb.FileImportError, match="no Delta table"):
        con.sql(f"FROM delta_scan('{tmp_path}')")
    with pytest.raises(swingdb.NotFoundError):
        con.sql(f"FROM delta_scan('{tmp_path}/nothing')")
    with pytest.raises(swingdb.NotSupportedError, match="s3"):
        con.sql("FROM delta_scan('s3://bucket/table')")
    table = Table(tmp_path / "t", [("v", "long"), ("name", "string")])
    table.commit(table.write("a.parquet", rows(1)))
    (table.root / "a.parquet").unlink()
    with pytest.raises(swingdb.NotFoundError, match=r"a\.parquet"):
        con.sql(f"FROM '{table.root}'")
    (table.root / "_delta_log" / f"{1:020}.json").write_text('{"add": {"nothing": 1}}\n')
    with pytest.raises(swingdb.FileImportError, match="no action of a Delta log"):
        con.sql(f"FROM '{table.root}'")
    confined = swingdb.connect(config={"enable_external_access": False})
    with pytest.raises(swingdb.NotAllowedError):
        confined.sql(f"FROM delta_scan('{table.root}')")


def test_tables_of_the_package_deltalake(con, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    root = str(tmp_path / "t")
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    data = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "small": pa.array([1, None, 3], pa.int16()),
            "name": ["a", "b", None],
            "day": [datetime.date(2024, 1, 1)] * 3,
            "at": pa.array([moment] * 3, pa.timestamp("us", tz="UTC")),
            "local": pa.array([moment] * 3, pa.timestamp("us")),
            "exact": pa.array([None, Decimal("1.25"), Decimal(2)], pa.decimal128(10, 2)),
            "list": [[1, 2], None, []],
            "pair": [{"a": 1, "b": "x"}] * 3,
            "raw": [b"x", b"y", None],
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )
    deltalake.write_deltalake(root, data)
    assert con.sql(f"FROM '{root}' ORDER BY id").arrow().to_pylist() == data.to_pylist()
    deltalake.write_deltalake(root, data.slice(0, 1), mode="append")
    deltalake.DeltaTable(root).delete("id = 2")
    assert con.sql(f"SELECT id FROM '{root}' ORDER BY id").fetchall() == [(1,), (1,), (3,)]
    assert con.sql(f"SELECT count(*) FROM delta_scan('{root}', version = 0)").fetchall() == [(3,)]

    parts = str(tmp_path / "parts")
    keys = ["x", "y z", "a/b=%", None, "ü"]
    places = pa.table(
        {"k": keys, "at": pa.array([moment] * 5, pa.timestamp("us", tz="UTC")), "v": range(5)}
    )
    deltalake.write_deltalake(parts, places, partition_by=["k", "at"])
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    found = con.sql(f"FROM '{parts}' ORDER BY v").arrow().select(["k", "v"]).to_pylist()
    assert found == places.select(["k", "v"]).to_pylist()
    utc = con.sql(f"SELECT DISTINCT at = TIMESTAMPTZ '2024-01-02 03:04:05.678901Z' FROM '{parts}'")
    assert utc.fetchall() == [(True,)]

    nested = str(tmp_path / "nested")
    deltalake.write_deltalake(nested, pa.table({"s": [{"a": 1}], "l": [[{"a": 1}]]}))
    later = pa.table({"s": [{"a": 2, "b": "x"}], "l": [[{"a": 1, "b": "y"}]]})
    deltalake.write_deltalake(nested, later, mode="append", schema_mode="merge")
    found = con.sql(f"SELECT s.a, s.b, l[1].b FROM '{nested}' ORDER BY 1").fetchall()
    assert found == [(1, None, None), (2, "x", "y")]

    many = str(tmp_path / "many")
    for v in range(12):
        deltalake.write_deltalake(many, pa.table({"v": [v]}), mode="append")
    deltalake.DeltaTable(many).create_checkpoint()
    new = pa.table({"v": [100], "w": ["new"]})
    deltalake.write_deltalake(many, new, mode="append", schema_mode="merge")
    assert con.sql(f"SELECT sum(v), count(w) FROM '{many}'").fetchall() == [(166, 1)]
    deltalake.DeltaTable(many).optimize.compact()
    assert con.sql(f"SELECT sum(v), count(w) FROM '{many}'").fetchall() == [(166, 1)]
