"""Sharing, snapshots, lineage."""

from __future__ import annotations

import threading
import time

import pytest

import swingdb


@pytest.fixture
def taxi():
    con = swingdb.connect("taxi")
    con.execute(
        "CREATE TABLE trips AS SELECT a AS id, a * 0.5 AS km FROM generate_series(1, 1000) g(a)"
    )
    con.share()
    yield con
    con.close()


def count(con) -> int:
    return con.sql("SELECT count(*) FROM trips").fetchone()[0]


def test_a_snapshot_is_the_shared_state(taxi):
    taxi.execute("INSERT INTO trips VALUES (0, 0)")
    snap = swingdb.snapshot("taxi")
    assert count(snap) == 1000
    assert count(taxi) == 1001
    info = taxi.share()
    assert info.epoch > snap.epoch
    assert info.seconds < 1
    assert count(snap) == 1000
    assert count(swingdb.snapshot("taxi")) == 1001
    assert snap.is_snapshot
    assert not taxi.is_snapshot
    assert snap.name is None
    assert taxi.name == "taxi"


def test_snapshots_are_writable_and_private(taxi):
    one, two = swingdb.snapshot("taxi"), swingdb.snapshot("taxi")
    one.execute("DELETE FROM trips WHERE id > 10")
    two.execute("UPDATE trips SET km = 0")
    two.execute("CREATE TABLE extra AS SELECT 1 AS a")
    assert (count(one), count(two), count(taxi)) == (10, 1000, 1000)
    assert taxi.sql("SELECT max(km) FROM trips").fetchone() == (500.0,)
    assert one.sql("SELECT max(km) FROM trips").fetchone() == (5.0,)
    assert two.sql("SELECT max(km) FROM trips").fetchone() == (0.0,)
    assert taxi.tables() == ["trips"]


def test_named_snapshots_are_shared_on(taxi):
    mine = swingdb.get_snapshot("taxi", "clean")
    assert mine.name == "clean"
    mine.execute("DELETE FROM trips WHERE km > 100")
    mine.share()
    third = swingdb.get_snapshot("clean", "cleaner")
    assert count(third) == 200
    third.execute("DELETE FROM trips WHERE km > 50")
    third.share()
    assert [count(swingdb.snapshot(name)) for name in ("taxi", "clean", "cleaner")] == [
        1000,
        200,
        100,
    ]
    names = [item.name for item in swingdb.list()]
    assert names == ["clean", "cleaner", "taxi"]
    nodes = {node.name: node for node in swingdb.lineage()}
    assert nodes["clean"].parents == ("taxi",)
    assert nodes["cleaner"].parents == ("clean",)
    assert "clean" in nodes["taxi"].children
    third.close()
    swingdb.discard_snapshot("cleaner")
    swingdb.discard_snapshot("clean")
    assert mine.closed
    assert [item.name for item in swingdb.list()] == ["taxi"]


def test_only_snapshots_are_discarded(taxi):
    with pytest.raises(swingdb.ProgrammingError, match="drop"):
        swingdb.discard_snapshot("taxi")
    assert count(taxi) == 1000
    assert [item.name for item in swingdb.list()] == ["taxi"]
    # One that was neither written to nor shared.
    fresh = swingdb.get_snapshot("taxi", "fresh")
    rows = fresh.table("trips").arrow()
    assert swingdb.discard_snapshot("fresh").freed_bytes == 0
    assert fresh.closed
    assert rows.num_rows == 1000
    with pytest.raises(swingdb.NotFoundError):
        swingdb.discard_snapshot("fresh")


def test_a_derived_database_outlives_its_origin(taxi):
    mine = swingdb.get_snapshot("taxi", "clean")
    mine.execute("UPDATE trips SET km = 1 WHERE id = 1")
    mine.share()
    mine.close()
    taxi.close()
    swingdb.drop("taxi")
    assert count(swingdb.snapshot("clean")) == 1000
    with swingdb.connect("clean") as again:
        assert again.sql("SELECT sum(km) FROM trips WHERE id <= 2").fetchone() == (2.0,)


def test_list(taxi, run):
    (info,) = swingdb.list()
    assert info.name == "taxi"
    assert info.own_bytes > 0
    assert info.pid is not None
    assert "python" in info.command
    assert info.shared_epoch == taxi.epoch
    assert info.readers == ()
    assert 0 < time.time() - info.created < 600
    program = run("import swingdb\nsnap = swingdb.snapshot('taxi')\nprint('ready')\ninput()\n")
    assert program.line() == "ready"
    assert swingdb.list()[0].readers == (program.pid,)
    program.kill()
    assert swingdb.list()[0].readers == ()


def test_refresh(taxi):
    snap = swingdb.snapshot("taxi")
    assert snap.refresh() is False
    taxi.execute("DELETE FROM trips WHERE id > 5")
    assert snap.refresh() is False
    old = snap.table("trips").arrow()
    taxi.share()
    assert snap.refresh() is True
    assert count(snap) == 5
    assert old.num_rows == 1000
    snap.execute("DELETE FROM trips WHERE id = 5")
    with pytest.raises(swingdb.Error):
        snap.refresh()


def test_wait_newer(taxi):
    snap = swingdb.snapshot("taxi")
    started = time.monotonic()
    assert snap.wait_newer(0.2) is False
    assert 0.15 < time.monotonic() - started < 60
    assert snap.wait_newer(0) is False

    def share_later():
        time.sleep(0.3)
        taxi.execute("INSERT INTO trips VALUES (0, 0)")
        taxi.share()

    thread = threading.Thread(target=share_later)
    thread.start()
    started = time.monotonic()
    assert snap.wait_newer(600) is True
    assert time.monotonic() - started < 60
    thread.join()
    assert snap.wait_newer() is True
    assert snap.refresh()
    assert count(snap) == 1001


def test_a_database_that_was_made_anew_is_newer(taxi):
    for _ in range(5):
        taxi.execute("INSERT INTO trips VALUES (0, 0)")
        taxi.share()
    snap = swingdb.snapshot("taxi")
    assert snap.wait_newer(0) is False
    taxi.close()
    swingdb.drop("taxi")
    with pytest.raises(swingdb.Error, match="taxi"):
        snap.refresh()
    assert count(snap) == 1005
    with swingdb.connect("taxi") as anew:
        anew.execute("CREATE TABLE trips AS SELECT 7 AS id")
        epoch = anew.share().epoch
        assert epoch < snap.epoch
        assert snap.wait_newer(600) is True
        assert snap.refresh() is True
        assert (count(snap), snap.epoch) == (1, epoch)
        assert snap.refresh() is False


def test_fan_in(taxi):
    with swingdb.connect("zones") as zones:
        zones.execute(
            "CREATE TABLE zone AS SELECT * FROM (VALUES (1, 'A'), (2, 'B')) AS t(id, name)"
        )
        zones.share()
        with swingdb.connect("both") as both:
            both.attach("taxi").attach(swingdb.snapshot("zones"), "z")
            sql = "SELECT name, km FROM taxi.trips JOIN z.zone USING (id) ORDER BY name"
            assert both.sql(sql).fetchall() == [("A", 0.5), ("B", 1.0)]
            both.execute("CREATE TABLE trips CLONE taxi.trips")
            both.execute("CREATE TABLE zone CLONE z.zone")
            both.detach("taxi").detach("z")
            with pytest.raises(swingdb.Error):
                both.sql(sql)
            both.share()
        rows = swingdb.snapshot("both").sql("SELECT count(*) FROM trips JOIN zone USING (id)")
        assert rows.fetchone() == (2,)
    with pytest.raises(swingdb.ProgrammingError):
        taxi.attach(swingdb.snapshot("taxi"))


def test_by_sql(taxi):
    taxi.execute("INSERT INTO trips VALUES (0, 0)")
    taxi.execute("SHARE")
    with swingdb.connect() as con:
        con.execute("ATTACH 'taxi' AS t")
        assert con.sql("SELECT count(*) FROM t.trips").fetchone() == (1001,)
        con.execute("DETACH t")
        assert len(con.sql("SHOW SNAPSHOTS").fetchall()) >= 1


def test_two_homes(taxi, home, tmp_path_factory):
    other = home / "inner"
    with swingdb.connect("taxi", home=other) as con:
        con.execute("CREATE TABLE trips AS SELECT 1 AS id")
        con.share()
        assert count(swingdb.snapshot("taxi", home=other)) == 1
        assert count(swingdb.snapshot("taxi")) == 1000
        assert [item.name for item in swingdb.list(home=other)] == ["taxi"]
    swingdb.drop("taxi", home=str(other))
    assert swingdb.list(home=other) == []
    swingdb.gc(home=other)


def test_drop(taxi):
    with pytest.raises(swingdb.BusyError):
        swingdb.drop("taxi")
    snap = swingdb.snapshot("taxi")
    taxi.close()
    swingdb.drop("taxi")
    assert swingdb.list() == []
    assert count(snap) == 1000
    snap.execute("DELETE FROM trips WHERE id > 1")
    assert count(snap) == 1


def test_doctor():
    findings = swingdb.doctor()
    assert all(finding.what for finding in findings)


def test_reprs(taxi):
    assert repr(taxi) == "<swingdb.Connection 'taxi'>"
    snap = swingdb.snapshot("taxi")
    assert repr(snap) == "<swingdb.Connection snapshot unnamed>"
    snap.close()
    assert repr(snap) == "<swingdb.Connection closed>"


def test_a_new_database_stays_from_its_first_commit_on():
    with swingdb.connect("taxi_new") as con:
        assert con.sql("SELECT 1").fetchone() == (1,)
        con.begin()
        con.execute("CREATE TABLE t (x INT)")
        con.rollback()
        with pytest.raises(swingdb.NotSharedError):
            swingdb.snapshot("taxi_new")
    assert "taxi_new" not in [item.name for item in swingdb.list()]
    with pytest.raises(swingdb.NotFoundError):
        swingdb.snapshot("taxi_new")
    with swingdb.connect("taxi_new") as con:
        con.execute("CREATE TABLE t (x INT)")
    with pytest.raises(swingdb.NotFoundError, match='did you mean "taxi_new"'):
        swingdb.snapshot("taxi_nev")
    with swingdb.connect("taxi_new") as con:
        assert con.tables() == ["t"]


def test_read_only():
    with swingdb.connect("shop") as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(swingdb.NotSharedError):
            swingdb.connect("shop", read_only=True)
        writer.share()
        writer.execute("INSERT INTO t VALUES (2)")
        reader = swingdb.connect("shop", read_only=True, config={"threads": 1})
        assert reader.read_only and not writer.read_only
        assert reader.table("t").fetchall() == [(1,)]
        for session in (reader, reader.duplicate()):
            for change in (
                lambda session=session: session.execute("INSERT INTO t VALUES (3)"),
                lambda session=session: session.execute("CREATE TABLE u (a INT)"),
                lambda session=session: session.execute("DROP TABLE t"),
                lambda session=session: session.append("t", {"a": [3]}),
                lambda session=session: session.table("t").filter("a > 0").create("u"),
                lambda session=session: session.executemany("INSERT INTO t VALUES (?)", [(1,)]),
            ):
                with pytest.raises(swingdb.Error, match="read_only=True"):
                    change()
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
        writer.share()
        assert reader.refresh() and reader.table("t").shape == (2, 1)
    with pytest.raises(swingdb.NotFoundError):
        swingdb.connect("nowhere", read_only=True)
    with pytest.raises(swingdb.ProgrammingError, match="needs a name"):
        swingdb.connect(read_only=True)
    with pytest.raises(swingdb.ProgrammingError, match="leave store out"):
        swingdb.connect("shop", read_only=True, store="dir")
