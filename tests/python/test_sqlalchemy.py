"""The dialect of SQLAlchemy, and what stands on it: pandas, JupySQL's way of connecting."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
import uuid

import pandas as pd
import polars as pl
import pytest

import swingdb

sa = pytest.importorskip("sqlalchemy")

from sqlalchemy import orm  # noqa: E402 - only where there is SQLAlchemy
from sqlalchemy.dialects.postgresql import insert as upsert  # noqa: E402

import swingdb.sqlalchemy  # noqa: E402


@pytest.fixture
def engine():
    engine = sa.create_engine("swingdb://")
    yield engine
    engine.dispose()


class Base(orm.DeclarativeBase):
    """The tables of these tests."""


class Person(Base):
    """One of each type."""

    __tablename__ = "person"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(20), unique=True)
    height: orm.Mapped[float]
    money: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric(12, 2))
    precise: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric)
    key: orm.Mapped[uuid.UUID | None]
    born: orm.Mapped[dt.date | None]
    seen: orm.Mapped[dt.datetime | None]
    zoned: orm.Mapped[dt.datetime | None] = orm.mapped_column(sa.DateTime(timezone=True))
    slept: orm.Mapped[dt.timedelta | None]
    more: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    picture: orm.Mapped[bytes | None]
    tags: orm.Mapped[list | None] = orm.mapped_column(sa.ARRAY(sa.String))
    order: orm.Mapped[bool] = orm.mapped_column(default=True)


ADA = {
    "name": "Ada",
    "height": 0.1,
    "money": decimal.Decimal("1234567.89"),
    "precise": decimal.Decimal("0.1234567891"),
    "key": uuid.UUID(int=77),
    "born": dt.date(1815, 12, 10),
    "seen": dt.datetime(2024, 5, 1, 12, 30, 0, 5),
    "zoned": dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.timezone.utc),
    "slept": dt.timedelta(hours=30, microseconds=7),
    "more": {"a": [1, None, "x"]},
    "picture": b"\x00\xff",
    "tags": ["x", "y"],
    "order": False,
}


def test_objects_come_back_as_they_were(engine):
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all([Person(**ADA), Person(name="Bo", height=1.5)])
        session.commit()
    with orm.Session(engine) as session:
        ada, bo = session.scalars(sa.select(Person).order_by(Person.id))
        assert {name: getattr(ada, name) for name in ADA} == ADA
        assert (ada.id, bo.id, bo.order, bo.more, bo.seen) == (1, 2, True, None, None)
        bo.height = 1.75
        session.delete(ada)
        session.commit()
        assert session.scalars(sa.select(Person.height)).all() == [1.75]
        session.add(Person(name="Bo", height=0))
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
        session.rollback()
        assert session.get(Person, 2).name == "Bo"
    Base.metadata.drop_all(engine)
    inspected = sa.inspect(engine)
    assert inspected.get_table_names() == inspected.get_sequence_names() == []


def test_many_objects_get_their_keys_in_order(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        people = [Person(name=f"p{number}", height=number) for number in range(50)]
        session.add_all(people)
        session.flush()
        assert [person.id for person in people] == list(range(1, 51))
        session.commit()
        for person in people:
            assert person.name == f"p{person.id - 1}"


def test_core(engine):
    meta = sa.MetaData()
    t = sa.Table(
        "t",
        meta,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("index", sa.String),
        sa.Column("Group", sa.Float),
    )
    meta.create_all(engine)
    with engine.begin() as con:
        rows = [{"id": i, "index": f"x{i}", "Group": i / 3} for i in range(5)]
        assert con.execute(t.insert(), rows).rowcount == 5
        assert con.execute(sa.select(t.c.Group).where(t.c.id == 1)).scalar() == 1 / 3
        assert con.execute(t.select().where(t.c.id.in_([1, 3])).order_by(t.c.id)).all() == [
            (1, "x1", 1 / 3),
            (3, "x3", 1.0),
        ]
        assert con.execute(t.select().order_by(t.c.id).limit(2).offset(1)).first()[0] == 1
        assert con.execute(t.update().where(t.c.id > 2).values(index="y")).rowcount == 2
        found = con.execute(t.delete().where(t.c.id == 4).returning(t.c.index)).scalar()
        assert found == "y"
        change = upsert(t).values(id=0, index="new")
        con.execute(
            change.on_conflict_do_update(
                index_elements=[t.c.id], set_={"index": change.excluded.index}
            )
        )
        assert con.execute(sa.select(t.c.index).where(t.c.id == 0)).scalar() == "new"
        assert con.execute(sa.select(sa.literal(7) / 2)).scalar() == 3.5
        assert con.execute(sa.select(sa.literal(7) // 2)).scalar() == 3
        assert con.execute(sa.select(t.c.id / 2).where(t.c.id == 1)).scalar() == 0.5
        joined = t.alias("a").join(t.alias("b"), sa.text("a.id = b.id"))
        assert con.execute(sa.select(sa.func.count()).select_from(joined)).scalar() == 4
        cte = sa.select(t.c.id).where(t.c.id > 1).cte("big")
        assert con.execute(sa.select(sa.func.sum(cte.c.id))).scalar() == 5
        with pytest.raises(sa.exc.CompileError, match="no SELECT ... FOR UPDATE"):
            con.execute(t.select().with_for_update())


def test_transactions(engine):
    with engine.begin() as con:
        con.execute(sa.text("CREATE TABLE t (a INT)"))
    with pytest.raises(RuntimeError), engine.begin() as con:
        con.execute(sa.text("INSERT INTO t VALUES (1)"))
        raise RuntimeError
    with engine.connect() as con:
        assert con.execute(sa.text("SELECT count(*) FROM t")).scalar() == 0
        con.execute(sa.text("INSERT INTO t VALUES (1)"))
        with engine.connect() as other:
            assert other.execute(sa.text("SELECT count(*) FROM t")).scalar() == 0
        with con.begin_nested() as nested:
            con.execute(sa.text("INSERT INTO t VALUES (2)"))
            nested.rollback()
        con.commit()
        con.execute(sa.text("INSERT INTO t VALUES (3)"))
    with engine.connect() as con:
        assert con.execute(sa.text("SELECT a FROM t")).scalars().all() == [1]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as con:
        con.execute(sa.text("INSERT INTO t VALUES (4)"))
        with engine.connect() as other:
            assert other.get_isolation_level() == "SNAPSHOT"
            assert other.execute(sa.text("SELECT count(*) FROM t")).scalar() == 2
    with engine.connect() as con:
        assert con.get_isolation_level() == "SNAPSHOT"


def test_reflection(engine):
    with engine.begin() as con:
        con.exec_driver_sql("CREATE SCHEMA other")
        con.exec_driver_sql(
            'CREATE TABLE t (a INT, "b, c" VARCHAR(9) DEFAULT \'x,)\', d DECIMAL(9,3) NOT NULL, '
            "e TIMESTAMPTZ, f INT[], g STRUCT(x INT), h UUID, i INTERVAL, "
            'PRIMARY KEY (a, "b, c"), UNIQUE (d), CHECK (a > 0 AND d < 5))'
        )
        con.exec_driver_sql('CREATE TABLE other."T 2" (k BIGINT)')
        con.exec_driver_sql("CREATE VIEW v AS SELECT a FROM t")
        con.exec_driver_sql("CREATE TEMP TABLE tmp (a INT)")
    with engine.connect() as con:
        seen = sa.inspect(con)
        assert seen.get_schema_names() == ["main", "other"]
        assert (seen.get_table_names(), seen.get_view_names()) == (["t"], ["v"])
        assert seen.get_table_names("other") == ["T 2"]
        columns = {column["name"]: column for column in seen.get_columns("t")}
        assert list(columns) == ["a", "b, c", "d", "e", "f", "g", "h", "i"]
        assert [column["nullable"] for column in columns.values()] == [False] * 3 + [True] * 5
        assert columns["b, c"]["default"] == "'x,)'"
        assert repr(columns["d"]["type"]) == "DECIMAL(precision=9, scale=3)"
        assert columns["e"]["type"].timezone
        assert isinstance(columns["f"]["type"].item_type, sa.INTEGER)
        assert columns["g"]["type"].name.startswith("STRUCT")
        assert seen.get_pk_constraint("t")["constrained_columns"] == ["a", "b, c"]
        assert seen.get_unique_constraints("t") == [{"name": None, "column_names": ["d"]}]
        (check,) = seen.get_check_constraints("t")
        assert check["sqltext"].startswith("a > 0 AND")
        assert seen.get_foreign_keys("t") == seen.get_indexes("t") == []
        assert seen.get_view_definition("v") == "SELECT a FROM t"
        assert seen.has_table("T") and seen.has_table("v") and not seen.has_table("t", "other")
        for call in (seen.get_columns, seen.get_pk_constraint, seen.get_foreign_keys):
            with pytest.raises(sa.exc.NoSuchTableError):
                call("nowhere")
    copied = sa.MetaData()
    copied.reflect(engine)
    copy = sa.create_engine("swingdb://")
    copied.create_all(copy)
    assert [c["name"] for c in sa.inspect(copy).get_columns("t")] == list(columns)
    assert sa.inspect(copy).get_pk_constraint("t")["constrained_columns"] == ["a", "b, c"]


def test_pandas(engine):
    frame = pd.DataFrame(
        {
            "a": [1, 2],
            "f": [0.1, None],
            "s": ["x", None],
            "t": [pd.Timestamp("2024-01-01 10:00"), pd.NaT],
            "b": [True, False],
        }
    )
    assert frame.to_sql("f", engine) == 2
    assert frame.to_sql("f", engine, if_exists="append", index=True, method="multi") == 2
    assert pd.read_sql("SELECT count(*) AS n FROM f", engine)["n"].tolist() == [4]
    frame.to_sql("f", engine, if_exists="replace", index=False)
    back = pd.read_sql_table("f", engine)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)
    query = sa.text("SELECT a FROM f WHERE a > :least")
    assert pd.read_sql(query, engine, params={"least": 1})["a"].tolist() == [2]
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("f", engine)


def test_polars(engine):
    frame = pl.DataFrame({"a": [1, 2], "s": ["x", None]})
    frame.write_database("f", engine)
    assert pl.read_database("SELECT * FROM f ORDER BY a", engine).equals(frame)
    with swingdb.connect() as con:
        con.from_df(frame).create("f")
        query, least = "SELECT * FROM f WHERE a > ?", {"params": [1]}
        assert pl.read_database(query, con, execute_options=least).equals(frame[1:])


def test_what_the_database_does_not_have(engine):
    meta = sa.MetaData()
    sa.Table("parent", meta, sa.Column("id", sa.Integer, primary_key=True))
    child = sa.Table("child", meta, sa.Column("parent", sa.ForeignKey("parent.id"), index=True))
    meta.create_all(engine)
    with pytest.raises(sa.exc.IntegrityError, match="FOREIGN KEY"), engine.begin() as con:
        con.execute(child.insert(), [{"parent": 1}])
    [key] = sa.inspect(engine).get_foreign_keys("child")
    assert (key["constrained_columns"], key["referred_table"]) == (["parent"], "parent")
    meta.drop_all(engine)
    lenient = sa.create_engine("swingdb://?foreign_keys=ignore")
    meta.create_all(lenient)
    assert sa.inspect(lenient).has_table("child")
    sa.Index("only_one", child.c.parent, unique=True).create(lenient)
    with pytest.raises(sa.exc.IntegrityError), lenient.begin() as con:
        con.execute(child.insert(), [{"parent": 1}, {"parent": 1}])


def test_urls(tmp_path):
    with sa.create_engine(f"swingdb:///shop?store={tmp_path / 'store'}&threads=1").begin() as con:
        con.execute(sa.text("CREATE TABLE t AS SELECT 1 AS a"))
        assert con.execute(sa.text("SHOW threads")).one()[1] == "1"
        driver = con.connection.dbapi_connection
        assert (driver.name, driver.store.path) == ("shop", str(tmp_path / "store"))
    with swingdb.connect("shop") as owner:
        owner.share()
    reader = sa.create_engine("swingdb:///shop?read_only=true")
    with reader.connect() as con:
        assert con.execute(sa.text("SELECT a FROM t")).scalar() == 1
        with pytest.raises(sa.exc.DBAPIError, match="read_only"):
            con.execute(sa.text("DELETE FROM t"))
    with pytest.raises(sa.exc.ArgumentError, match="three slashes"):
        sa.create_engine("swingdb://shop").connect()
    with pytest.raises(sa.exc.ArgumentError, match="foreign_keys"):
        sa.create_engine("swingdb://?foreign_keys=maybe").connect()
    with pytest.raises(sa.exc.DBAPIError, match="nonsense"):
        sa.create_engine("swingdb://?nonsense=1").connect()


def test_connections_of_an_engine_share_its_private_database(engine):
    with engine.begin() as con:
        con.execute(sa.text("CREATE TABLE t (a INT)"))
    failures = []

    def work(number):
        try:
            with engine.connect() as con:
                count = con.execute(sa.text("SELECT count(*) FROM t")).scalar()
                assert count == 0, count
        except Exception as error:
            failures.append((number, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with sa.create_engine("swingdb://").connect() as other:
        assert not sa.inspect(other).has_table("t")


def test_variables_are_no_tables(engine):
    parameters = statement = context = {"a": [1]}
    assert parameters is statement is context
    with engine.connect() as con:
        for name in ("parameters", "statement", "context"):
            with pytest.raises(sa.exc.ProgrammingError, match="does not exist"):
                con.execute(sa.text(f"SELECT * FROM {name}"))
            con.rollback()


def test_errors_are_those_of_the_database(engine):
    with engine.connect() as con:
        with pytest.raises(sa.exc.ProgrammingError) as raised:
            con.execute(sa.text("SELECT * FROM nowhere"))
        assert isinstance(raised.value.orig, swingdb.NotFoundError)
        assert raised.value.orig.name == "nowhere"
