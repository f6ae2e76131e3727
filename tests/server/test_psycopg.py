"""psycopg: types, parameters, transactions, cancel requests, limits, TLS, ends of processes."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

import pytest
import swingdb

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")

UUID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
SLOW = "SELECT count(*) FROM range(100000000) a(i), range(1000) b(j) WHERE i * j % 7 = 3"


def connect(server, **parameters):
    """A session that commits each statement by itself."""
    parameters = {"dbname": "served", "user": "somebody", "autocommit": True, **parameters}
    return psycopg.connect(host=server.host, port=server.port, **parameters)


TYPES = [
    ("true", True, 16),
    ("(-7)::TINYINT", -7, 21),
    ("(-7)::SMALLINT", -7, 21),
    ("7::UTINYINT", 7, 21),
    ("65535::USMALLINT", 65535, 23),
    ("7::INTEGER", 7, 23),
    ("4294967295::UINTEGER", 4294967295, 20),
    ("(-9223372036854775807)::BIGINT", -9223372036854775807, 20),
    ("18446744073709551615::UBIGINT", decimal.Decimal(18446744073709551615), 1700),
    ("1.5::FLOAT", 1.5, 700),
    ("0.1::DOUBLE", 0.1, 701),
    ("1e300::DOUBLE", 1e300, 701),
    ("'-Infinity'::DOUBLE", float("-inf"), 701),
    ("12345.678::DECIMAL(10, 3)", decimal.Decimal("12345.678"), 1700),
    ("(-0.005)::DECIMAL(10, 3)", decimal.Decimal("-0.005"), 1700),
    ("99999999999999999999999999999999999999::DECIMAL(38, 0)", decimal.Decimal("9" * 38), 1700),
    ("'h\u00e9\"l'", 'h\u00e9"l', 25),
    ("''", "", 25),
    (r"'\x00\xFF'::BLOB", b"\0\xff", 17),
    ("DATE '2024-02-29'", dt.date(2024, 2, 29), 1082),
    ("DATE '0001-01-01'", dt.date(1, 1, 1), 1082),
    ("TIME '12:34:56.789'", dt.time(12, 34, 56, 789000), 1083),
    ("TIMESTAMP '2024-02-29 12:34:56.123456'", dt.datetime(2024, 2, 29, 12, 34, 56, 123456), 1114),
    ("TIMESTAMP '1999-12-31 23:59:59.5'", dt.datetime(1999, 12, 31, 23, 59, 59, 500000), 1114),
    (
        "TIMESTAMPTZ '2024-02-29 12:34:56+01'",
        dt.datetime(2024, 2, 29, 11, 34, 56, tzinfo=dt.timezone.utc),
        1184,
    ),
    ("INTERVAL '3 days 04:05:06.5'", dt.timedelta(3, 4 * 3600 + 5 * 60 + 6.5), 1186),
    ("INTERVAL '-1 day 2 hours'", dt.timedelta(days=-1, hours=2), 1186),
    (f"'{UUID}'::UUID", UUID, 2950),
    ("[1, NULL, 3]::INTEGER[]", [1, None, 3], 1007),
    ("[]::INTEGER[]", [], 1007),
    ("['a b', '', NULL, 'NULL', 'q\"x\\y,{}']", ["a b", "", None, "NULL", 'q"x\\y,{}'], 1009),
    ("[1.5, 2.25]::DOUBLE[]", [1.5, 2.25], 1022),
    ("[DATE '2024-01-01']", [dt.date(2024, 1, 1)], 1182),
    ("{'a': 1, 'b': 'z', 'c': NULL}", {"a": 1, "b": "z", "c": None}, 114),
    ("[[1, 2], [3]]", [[1, 2], [3]], 114),
    ("NULL", None, 25),
    ("NULL::INTEGER", None, 23),
]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(("sql", "expected", "oid"), TYPES, ids=[row[0] for row in TYPES])
def test_values_of_all_types(shared_session, sql, expected, oid, binary):
    cursor = shared_session.cursor(binary=binary)
    cursor.execute(f"SELECT {sql} AS value".encode())
    assert cursor.description[0].type_code == oid
    value = cursor.fetchone()[0]
    assert value == expected and type(value) is type(expected)


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory):
    """A session for tests that need no rows."""
    import os
    import tempfile

    from conftest import SHM, Server

    home = tempfile.mkdtemp(prefix="swingdb-test-", dir=SHM)
    with swingdb.connect("served", home=home) as connection:
        connection.execute("CREATE TABLE t (x INTEGER)")
        connection.share()
        before = os.environ.get("SWINGDB_HOME")
        server = Server("--home", home)
        assert before == os.environ.get("SWINGDB_HOME")
        with connect(server) as session:
            yield session
        assert server.stop() == 0
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("form", ["%t", "%b"], ids=["text", "binary"])
@pytest.mark.parametrize(
    "value",
    [
        1,
        -(2**40),
        1.5,
        True,
        "h\u00e9'llo",
        "",
        b"\0\\\xff",
        decimal.Decimal("-12.50"),
        dt.date(2024, 2, 29),
        dt.time(1, 2, 3, 400),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.timezone.utc),
        dt.timedelta(days=2, seconds=3),
        UUID,
        [1, 2, 3],
        [1.5, None],
        None,
    ],
    ids=repr,
)
def test_parameters_come_back(shared_session, value, form):
    cursor = shared_session.cursor(binary=form == "%b")
    got = cursor.execute(f"SELECT {form} AS value", [value]).fetchone()[0]
    if isinstance(value, uuid.UUID):
        # A UUID is a text to the engine until a column or a cast says otherwise.
        got = uuid.UUID(got)
    assert got == value


def test_a_list_of_texts_comes_back(shared_session):
    # In the text format psycopg sends it as one text, of a type that the server is to find out.
    texts = ["a b", 'c"d', "", "NULL"]
    assert shared_session.execute("SELECT %b AS value", [texts]).fetchone()[0] == texts


def test_parameters_take_the_types_of_their_places(server, writer):
    writer.execute("CREATE TABLE typed (id BIGINT, d DATE, p DECIMAL(8, 2))")
    writer.execute("INSERT INTO typed VALUES (1, '2024-01-01', 1.50), (2, '2024-02-02', 2.50)")
    writer.share()
    with connect(server) as session:
        one = session.execute("SELECT id FROM typed WHERE d = %s", ["2024-02-02"]).fetchall()
        assert one == [(2,)]
        one = session.execute("SELECT d FROM typed WHERE id = %s", ["1"]).fetchall()
        assert one == [(dt.date(2024, 1, 1),)]
        one = session.execute("SELECT id FROM typed WHERE id = ANY(%s)", [[2, 3]]).fetchall()
        assert one == [(2,)]
        query = b"SELECT id, d FROM typed WHERE d > $1 AND p < $2 LIMIT $3"
        low = session.pgconn.prepare(b"q", query)
        assert low.status == psycopg.pq.ExecStatus.COMMAND_OK
        told = session.pgconn.describe_prepared(b"q")
        assert [told.param_type(at) for at in range(told.nparams)] == [1082, 1700, 20]
        assert [told.ftype(at) for at in range(told.nfields)] == [20, 1082]


def test_a_statement_sees_the_newest_state_and_a_transaction_one(server, writer):
    def count(session):
        return session.execute("SELECT count(*) FROM t").fetchone()[0]

    with connect(server) as each, connect(server, autocommit=False) as whole:
        assert count(each) == count(whole) == 1000
        writer.execute("INSERT INTO t VALUES (1000, 'new')")
        assert count(each) == 1000, "not shared yet"
        writer.share()
        assert (count(each), count(whole)) == (1001, 1000)
        whole.commit()
        assert count(whole) == 1001
        held = each.cursor()
        rows = held.stream("SELECT id FROM t ORDER BY id")
        next(rows)
        writer.execute("DELETE FROM t")
        writer.share()
        assert sum(1 for _ in rows) == 1000, "a result keeps its state"
        assert count(each) == 0


def test_temporary_tables_stay_while_the_state_changes(server, writer):
    with connect(server) as session:
        session.execute("CREATE TEMP TABLE mine AS SELECT max(id) AS most FROM t")
        writer.execute("INSERT INTO t VALUES (5000, 'new')")
        writer.share()
        query = "SELECT most, (SELECT max(id) FROM t) FROM mine"
        assert session.execute(query).fetchone() == (999, 5000)


def test_a_prepared_statement_whose_columns_change_is_refused(server, writer):
    with connect(server) as session:
        session.pgconn.prepare(b"q", b"SELECT * FROM t LIMIT 1")
        told = session.pgconn.describe_prepared(b"q")
        assert [told.ftype(at) for at in range(told.nfields)] == [20, 25]
        assert session.pgconn.exec_prepared(b"q", [], result_format=1).ntuples == 1
        writer.execute("DROP TABLE t")
        writer.execute("CREATE TABLE t AS SELECT 'x' AS id, 1.5::DOUBLE AS name")
        writer.share()
        refused = session.pgconn.exec_prepared(b"q", [], result_format=1)
        assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"0A000"
        assert session.execute("SELECT * FROM t").fetchall() == [("x", 1.5)]


def test_a_client_that_reads_nothing_loses_its_session(start):
    server = start("--statement-timeout", 1)
    words = b"\0\3\0\0user\0x\0database\0served\0\0"
    query = b"SELECT repeat('x', 1000) FROM range(1000000)\0"
    with socket.create_connection((server.host, server.port)) as client:
        client.sendall((len(words) + 4).to_bytes(4, "big") + words)
        client.sendall(b"Q" + (len(query) + 4).to_bytes(4, "big") + query)
        wait_for(lambda: readers() != [])
        wait_for(lambda: readers() == [])


def test_writes_are_refused(server):
    with connect(server) as session:
        for statement in (
            "INSERT INTO t VALUES (1, 'x')",
            "UPDATE t SET id = 1",
            "DELETE FROM t",
            "DROP TABLE t",
            "CREATE TABLE u (x INTEGER)",
            "ALTER TABLE t ADD COLUMN y INTEGER",
        ):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="serves snapshots"):
                session.execute(statement)
        assert session.execute("SELECT count(*) FROM t").fetchone() == (1000,)


def test_errors_have_their_codes(server):
    expected = {
        "SELEC 1": psycopg.errors.SyntaxError,
        "SELECT * FROM nothing": psycopg.errors.UndefinedTable,
        "SELECT nothing FROM t": psycopg.errors.UndefinedColumn,
        "SELECT nothing(1)": psycopg.Error,
        "SELECT 'x'::INTEGER": psycopg.errors.InvalidTextRepresentation,
        "SELECT * FROM '/etc/passwd'": psycopg.errors.InsufficientPrivilege,
        "COPY t TO '/tmp/never.csv'": psycopg.errors.InsufficientPrivilege,
        "SET enable_external_access = true": psycopg.Error,
        "SET memory_limit = '1TB'": psycopg.errors.InsufficientPrivilege,
        "SET DateStyle = 'German'": psycopg.errors.FeatureNotSupported,
        "LISTEN x": psycopg.Error,
    }
    with connect(server) as session:
        for statement, error in expected.items():
            with pytest.raises(error):
                session.execute(statement)
            with pytest.raises(error):
                session.execute(statement, prepare=True)
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            session.execute("SELECT id FROM t WHERE id = %s", ["x"])
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_waits_for_rollback(server):
    with connect(server, autocommit=False) as session:
        with pytest.raises(psycopg.errors.UndefinedTable):
            session.execute("SELECT * FROM nothing")
        assert session.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            session.execute("SELECT 1")
        session.rollback()
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_cancel_request_ends_the_statement(server):
    with connect(server) as session:
        timer = threading.Timer(0.5, session.cancel)
        timer.start()
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute(SLOW)
        timer.join()
        assert time.monotonic() - began < 10
        assert session.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        # One with a wrong secret does nothing.
        with socket.create_connection((server.host, server.port)) as other:
            number = session.info.backend_pid
            other.sendall(b"".join(n.to_bytes(4, "big") for n in (16, 80877102, number, 12345)))
            assert other.recv(1) == b""
        assert session.execute("SELECT 2").fetchone() == (2,)


class Wire:
    """A session by messages, for what psycopg has no call for."""

    def __init__(self, server) -> None:
        self.server = server
        self.socket = socket.create_connection((server.host, server.port))
        words = b"user\0somebody\0database\0served\0\0"
        self.socket.sendall((len(words) + 8).to_bytes(4, "big") + b"\0\3\0\0" + words)
        self.input = self.socket.makefile("rb")
        self.key = next(body for kind, body in self.until(b"Z") if kind == b"K")

    def send(self, *messages: tuple[bytes, bytes]) -> None:
        """Messages as they are."""
        packed = (kind + (len(body) + 4).to_bytes(4, "big") + body for kind, body in messages)
        self.socket.sendall(b"".join(packed))

    def until(self, *last: bytes) -> list[tuple[bytes, bytes]]:
        """What comes up to a message of one of these kinds."""
        came = []
        while not came or came[-1][0] not in last:
            kind, length = self.input.read(1), int.from_bytes(self.input.read(4), "big")
            came.append((kind, self.input.read(length - 4)))
        return came

    def cancel(self) -> None:
        """Asks to cancel what the session does, and waits until that was heard."""
        with socket.create_connection((self.server.host, self.server.port)) as other:
            other.sendall(b"\0\0\0\x10" + (80877102).to_bytes(4, "big") + self.key)
            assert other.recv(1) == b""


def test_a_cancel_request_leaves_a_portal_between_messages_alone(server):
    session = Wire(server)
    sql = b"SELECT range FROM range(300000)"
    parse, bind = b"\0" + sql + b"\0\0\0", b"\0" * 8
    one, flush = (b"E", b"\0\0\0\0\1"), (b"H", b"")
    session.send((b"P", parse), (b"B", bind), one, flush)
    assert session.until(b"s", b"E")[-1][0] == b"s"
    session.cancel()
    session.send((b"E", b"\0\0\0\0\0"), flush)
    rest = session.until(b"C", b"E")
    assert rest[-1] == (b"C", b"SELECT 300000\0"), rest[-1]
    assert sum(kind == b"D" for kind, _ in rest) == 299999
    # What is computed for a message ends, also if another message has begun it.
    slow = b"SELECT range AS a FROM range(10) UNION ALL (" + SLOW.encode() + b")"
    session.send((b"S", b""), (b"P", b"\0" + slow + b"\0\0\0"), (b"B", bind), one, flush)
    assert session.until(b"s", b"E")[-1][0] == b"s"
    timer = threading.Timer(0.3, session.cancel)
    timer.start()
    session.send((b"E", b"\0\0\0\0\0"), flush)
    assert b"57014" in session.until(b"C", b"E")[-1][1]
    timer.join()
    session.socket.close()


def test_limits(start):
    server = start("--max-sessions", 2, "--statement-timeout", 3, "--memory", "16MB")
    with connect(server) as session:
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
            session.execute(SLOW)
        assert time.monotonic() - began < 10
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="--statement-timeout"):
            session.execute("SET statement_timeout = 0")
        session.execute("SET statement_timeout = '100ms'")
        assert session.execute("SHOW statement_timeout").fetchone() == ("100ms",)
        session.execute("SET statement_timeout = '3s'")
        with pytest.raises(psycopg.errors.OutOfMemory):
            session.execute(
                "SELECT count(*) FROM range(3000000) a(i) JOIN range(3000000) b(j) ON i = j"
            )
        with connect(server), pytest.raises(psycopg.OperationalError, match="too many sessions"):
            connect(server)

        def there_is_room():
            try:
                with connect(server) as again:
                    return again.execute("SELECT 1").fetchone() == (1,)
            except psycopg.OperationalError:
                return False

        # A place is free once the server has seen the end of the session that had it.
        wait_for(there_is_room)


def test_many_statements_in_a_pipeline(server):
    with connect(server) as session:
        with session.pipeline():
            cursors = [
                session.execute("SELECT id FROM t WHERE id = %s", [number]) for number in range(50)
            ]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(50))
        with pytest.raises(psycopg.errors.UndefinedTable), session.pipeline():
            session.execute("SELECT 1")
            session.execute("SELECT * FROM nothing")
            session.execute("SELECT 2")
        assert session.execute("SELECT 3").fetchone() == (3,)
        for number in range(20):
            got = session.execute("SELECT %s::BIGINT + 1", [number], prepare=True).fetchone()
            assert got == (number + 1,)


def test_large_results_arrive_whole(server):
    with connect(server) as session:
        cursor = session.cursor(binary=True)
        rows = cursor.execute("SELECT i, i::VARCHAR FROM range(300000) r(i)").fetchall()
        assert len(rows) == 300000
        assert sum(row[0] for row in rows) == sum(range(300000))
        assert all(str(number) == text for number, text in rows)


def test_bytes_that_are_no_protocol_end_one_connection(server, rng):
    for round in range(30):
        with socket.create_connection((server.host, server.port)) as other:
            other.settimeout(5)
            good = b"\0\3\0\0user\0x\0database\0served\0\0"
            start = (len(good) + 4).to_bytes(4, "big") + good
            noise = rng.randbytes(rng.randrange(1, 200))
            other.sendall((start if round % 2 else b"") + noise)
            other.shutdown(socket.SHUT_WR)
            while other.recv(4096):
                pass
    with connect(server) as session:
        assert session.execute("SELECT count(*) FROM t").fetchone() == (1000,)


def certificate(folder):
    """A certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: apt-get install openssl")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )
    return cert, key


def test_tls_and_token(start, tmp_path):
    cert, key = certificate(tmp_path)
    secret = "a secret of some length"
    (tmp_path / "token").write_text(secret + "\n")
    tls = ("--tls-cert", cert, "--tls-key", key)
    server = start("--listen", "0.0.0.0", *tls, "--token-file", tmp_path / "token")
    server.host = "127.0.0.1"
    tls = {"sslmode": "verify-full", "sslrootcert": str(cert)}
    with connect(server, password=secret, **tls) as session:
        assert session.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        assert session.pgconn.ssl_in_use
        timer = threading.Timer(0.3, session.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute(SLOW)
        timer.join()
    with pytest.raises(psycopg.OperationalError, match="not the server's token"):
        connect(server, password="wrong", **tls)
    with pytest.raises(psycopg.OperationalError, match="speaks TLS only"):
        connect(server, password=secret, sslmode="disable")


def test_nothing_listens_beyond_this_machine_without_tls_and_token(start, tmp_path):
    cert, key = certificate(tmp_path)
    with pytest.raises(RuntimeError, match="other machines"):
        start("--listen", "0.0.0.0")
    with pytest.raises(RuntimeError, match="other machines"):
        start("--listen", "0.0.0.0", "--tls-cert", cert, "--tls-key", key)
    with pytest.raises(RuntimeError, match="fewer than 16"):
        start("--token", "short")
    with pytest.raises(RuntimeError, match="does not exist"):
        start(name="nothing")


def readers():
    """The processes that hold a state of the database."""
    from conftest import TARGET

    import os

    command = os.environ.get("SWINGDB_BIN", str(TARGET / "release" / "swingdb"))
    said = subprocess.run([command, "ls", "--json"], capture_output=True, text=True, check=True)
    [served] = [entry for entry in json.loads(said.stdout) if entry["name"] == "served"]
    return served["reader_pids"]


def wait_for(condition):
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_leases_end_with_clients_and_servers(start):
    server = start()
    assert readers() == []
    source = (
        "import psycopg, time\n"
        f"session = psycopg.connect(host={server.host!r}, port={server.port}, dbname='served',"
        " user='x', autocommit=True)\n"
        "print(session.execute('SELECT count(*) FROM t').fetchone(), flush=True)\n"
        "time.sleep(60)\n"
    )
    client = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "(1000,)\n"
    assert readers() == [server.process.pid]
    client.kill()
    client.wait()
    client.stdout.close()
    wait_for(lambda: readers() == [])
    with connect(server) as session:
        assert session.execute("SELECT 1").fetchone() == (1,)
        server.stop(signal.SIGKILL)
        swingdb.gc()
        assert readers() == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_within_a_statement(start, how):
    server = start()
    session = connect(server)
    failed = []

    def run():
        try:
            session.execute(SLOW)
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    assert server.stop(how) == 0
    assert time.monotonic() - began < 10
    thread.join(10)
    assert len(failed) == 1
    assert readers() == []
