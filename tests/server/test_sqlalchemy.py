"""SQLAlchemy's dialect of PostgreSQL inspects a served database."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")
sa = pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy: pip install sqlalchemy")


@pytest.fixture
def engine(server, writer):
    """An engine of a database with keys, an index, comments, a view and a second schema."""
    for statement in (
        "CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR UNIQUE, x DOUBLE CHECK (x > 0))",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT REFERENCES parent(id), day DATE)",
        "CREATE INDEX by_day ON child (day, id)",
        "CREATE VIEW v AS SELECT id FROM parent",
        "CREATE SEQUENCE numbers",
        "CREATE SCHEMA s",
        "CREATE TABLE s.u (y DECIMAL(8, 2) NOT NULL)",
        "COMMENT ON TABLE parent IS 'the parents'",
        "COMMENT ON COLUMN parent.code IS 'its code'",
    ):
        writer.execute(statement)
    writer.share()
    engine = sa.create_engine(f"postgresql+psycopg://x@{server.host}:{server.port}/served")
    yield engine
    engine.dispose()


def test_inspection(engine):
    found = sa.inspect(engine)
    assert set(found.get_schema_names()) >= {"main", "s"}
    assert sorted(found.get_table_names()) == ["child", "parent", "t"]
    assert found.get_table_names(schema="s") == ["u"]
    assert found.get_view_names() == ["v"]
    assert found.get_sequence_names() == ["numbers"]
    assert found.has_table("parent") and not found.has_table("nothing")
    columns = {column["name"]: column for column in found.get_columns("parent")}
    assert list(columns) == ["id", "code", "x"]
    assert isinstance(columns["id"]["type"], sa.INTEGER) and not columns["id"]["nullable"]
    assert columns["code"]["comment"] == "its code" and columns["code"]["nullable"]
    assert found.get_pk_constraint("parent")["constrained_columns"] == ["id"]
    assert found.get_table_comment("parent") == {"text": "the parents"}
    assert "SELECT id FROM parent" in found.get_view_definition("v")
    [index] = [index for index in found.get_indexes("child") if index["name"] == "by_day"]
    assert index["column_names"] == ["day", "id"] and not index["unique"]


def test_reflection(engine):
    metadata = sa.MetaData()
    metadata.reflect(engine)
    assert set(metadata.tables) == {"child", "parent", "t"}
    [key] = metadata.tables["child"].foreign_keys
    assert key.target_fullname == "parent.id"
    metadata = sa.MetaData()
    metadata.reflect(engine, schema="s")
    [table] = metadata.tables.values()
    assert isinstance(table.c.y.type, sa.NUMERIC) and not table.c.y.nullable
