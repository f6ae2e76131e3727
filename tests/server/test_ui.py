"""`swingdb ui` over HTTP: calls, limits, who is let in, ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import swingdb
from page import SWINGDB, Page
from webdriver import until

SLOW = "SELECT count(*) FROM range(100000000) a(i), range(1000) b(j) WHERE i * j % 7 = 3"


@pytest.fixture
def serve(writer: swingdb.Connection) -> Iterator[Callable[..., Page]]:
    """Starts pages, and ends them."""
    started: list[Page] = []

    def one(*arguments: object, **env: str) -> Page:
        started.append(Page(*arguments, **env))
        return started[-1]

    yield one
    for page in started:
        if page.process.poll() is None:
            status, _, errors = page.stop()
            assert (status, errors) == (0, "")


@pytest.fixture
def page(serve: Callable[..., Page]) -> Page:
    """A page with its usual limits."""
    return serve()


# ---- who is let in


def test_every_call_needs_the_token(page):
    own = f"127.0.0.1:{page.port}"
    for method, path in [
        ("GET", "overview"),
        ("POST", "sessions"),
        ("GET", "nosuch"),
        ("DELETE", "runs/1"),
    ]:
        for shown in (
            {},
            {"Authorization": "Bearer "},
            {"Authorization": f"Bearer {page.token[:-1]}x"},
            {"Authorization": page.token},
            {"Cookie": f"token={page.token}"},
        ):
            status, _, body = page.raw(method, f"/api/{path}", Host=own, **shown)
            assert status == 401 and "token" in json.loads(body)["error"], (path, shown)
    status, _, _ = page.raw("GET", f"/api/overview?token={page.token}", Host=own)
    assert status == 401


def test_pages_of_others_are_kept_out(page):
    bearer = {"Authorization": f"Bearer {page.token}"}
    own = f"127.0.0.1:{page.port}"
    for host in ("evil.example", f"evil.example:{page.port}", "localhost.evil.example", ""):
        assert page.raw("GET", "/api/overview", Host=host, **bearer)[0] == 421, host
        assert page.raw("GET", "/", Host=host)[0] == 421, host
    for host in (own, f"localhost:{page.port}", "localhost:1234", f"[::1]:{page.port}"):
        assert page.raw("GET", "/api/overview", Host=host, **bearer)[0] == 200, host
    for foreign in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        status, headers, _ = page.raw("POST", "/api/sessions", b"{}", Host=own, **bearer, **foreign)
        assert status == 403, foreign
        assert not [name for name in headers if name.lower().startswith("access-control")]
    same = {"Origin": f"http://{own}", "Sec_Fetch_Site": "same-origin"}
    assert page.raw("GET", "/api/overview", Host=own, **bearer, **same)[0] == 200
    # A browser that asks whether another page may call hears no permission.
    asks = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    status, headers, _ = page.raw("OPTIONS", "/api/sessions", Host=own, **asks)
    assert status in (403, 405) and headers["Access-Control-Allow-Origin"] is None


def test_the_files_of_the_page(page):
    status, headers, body = page.raw("GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<title>SwingDB</title>" in body and page.token.encode() not in body
    for path in ("/", "/main.js", "/api/overview", "/nosuch"):
        headers = page.raw("GET", path)[1]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert (
            headers["X-Content-Type-Options"] == "nosniff"
            and headers["Cache-Control"] == "no-store"
        )
        assert headers["X-Frame-Options"] == "DENY" and headers["Referrer-Policy"] == "no-referrer"
    for path in ("/nosuch", "/../Cargo.toml", "/page/main.js", "//", "/main.js/"):
        assert page.raw("GET", path)[0] == 404, path
    assert page.raw("POST", "/", b"x")[0] == 405


def test_it_listens_on_loopback_only(home):
    for address in ("0.0.0.0:0", "192.0.2.1:80", "[::]:0"):
        done = subprocess.run([SWINGDB, "ui", "--listen", address], capture_output=True, text=True)
        assert done.returncode == 2 and "ssh -L" in done.stderr, done.stderr
    done = subprocess.run(
        [SWINGDB, "ui", "nosuch", "--listen", "127.0.0.1:0"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "does not exist" in done.stderr
    page = Page("--listen", "[::1]:0")
    assert page.url.startswith("http://[::1]:") and page.call("GET", "overview")["databases"] == []
    assert page.stop()[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([SWINGDB, "ui", "--listen", address], capture_output=True, text=True)
    assert done.returncode == 1 and "--listen 127.0.0.1:0" in done.stderr


# ---- connections


def talk(page: Page, data: bytes, seconds: float = 20) -> bytes:
    """Sends bytes and reads up to the end of the connection."""
    with socket.create_connection((page.host, page.port), timeout=seconds) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def test_requests_that_make_no_sense(page):
    head = b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\n"
    cases = [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (head + b"Content-Length: -1\r\n\r\n", 400),
        (head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (head + b"Content-Length: 99999999\r\n\r\n" + b"x" * 100_000, 413),
        (head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (head + b"X: " + b"y" * 20_000 + b"\r\n\r\n", 431),
        (head + b"A: b\r\n" * 100 + b"\r\n", 431),
    ]
    for data, status in cases:
        assert talk(page, data).startswith(f"HTTP/1.1 {status} ".encode()), data[:80]
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert talk(page, twice).startswith(b"HTTP/1.1 421 ")
    # Two requests in one packet, on one connection.
    one = b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n"
    both = talk(page, one + b"\r\n" + one + b"Connection: close\r\n\r\n")
    assert both.count(b"HTTP/1.1 200 OK") == 2


def test_slow_clients_hold_no_thread(page):
    begun = time.monotonic()
    idle = socket.create_connection((page.host, page.port))
    slow = socket.create_connection((page.host, page.port))
    slow.sendall(b"GET / HTTP/1.1\r\nHost: localh")
    body = socket.create_connection((page.host, page.port))
    body.sendall(b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    waiting = {idle, slow, body}
    while waiting:
        assert time.monotonic() - begun < 25, "a connection that does nothing stays open"
        for connection in list(waiting):
            connection.settimeout(0.2)
            try:
                if not connection.recv(1000):
                    waiting.discard(connection)
            except TimeoutError:
                pass
            except ConnectionResetError:
                waiting.discard(connection)
        if slow in waiting:
            try:
                # A byte now and then does not extend the time.
                slow.sendall(b"o")
            except OSError:
                waiting.discard(slow)
        assert page.call("GET", "overview")["version"]
    for connection in (idle, slow, body):
        connection.close()
    threads = Path(f"/proc/{page.process.pid}/task")
    until(lambda: not [t for t in threads.iterdir() if (t / "comm").read_text() == "connection\n"])


def test_too_many_connections_are_closed(page):
    many = [socket.create_connection((page.host, page.port)) for _ in range(80)]
    last = many[-1]
    last.settimeout(10)
    assert last.recv(10) == b""
    for connection in many:
        connection.close()

    def answers():
        # Until it has seen that the others are gone, a new connection is one too many as well.
        try:
            return page.raw("GET", "/")[0] == 200
        except (ConnectionError, http.client.HTTPException):
            return False

    until(answers)


# ---- databases and tables


def test_the_overview_is_that_of_ls(page, writer):
    with swingdb.get_snapshot("served", "taken") as taken:
        taken.execute("CREATE TABLE own AS SELECT 1 AS x")
        taken.share()
        overview = page.call("GET", "overview")
    databases = {database["name"]: database for database in overview["databases"]}
    listed = json.loads(subprocess.run([SWINGDB, "ls", "--json"], capture_output=True).stdout)
    assert databases.keys() == {one["name"] for one in listed}
    assert databases["served"].keys() == {
        key for one in listed for key in one if one["name"] == "served"
    }
    assert databases["taken"]["parents"] == ["served"] and databases["served"]["children"] == [
        "taken"
    ]
    holders = {process["pid"]: process for process in overview["processes"]}
    own = holders[os.getpid()]
    assert own["command"] and own["resident_bytes"] > 0 and not own["is_this"]
    held = {(held["database"], held["role"]): held["bytes"] for held in own["holds"]}
    assert held["served", "writer"] == databases["served"]["own_bytes"] > 0
    page.session()
    overview = page.call("GET", "overview")
    (this,) = [process for process in overview["processes"] if process["is_this"]]
    assert this["pid"] == page.process.pid
    assert [(held["database"], held["role"]) for held in this["holds"]] == [("served", "reader")]
    assert "findings" in page.call("GET", "doctor")


def test_tables_with_their_columns(page, writer):
    writer.execute('CREATE SCHEMA "we""ird"')
    writer.execute(
        'CREATE TABLE "we""ird"."<script>alert(1)</script>" '
        '("a b" INTEGER NOT NULL DEFAULT 7, d DECIMAL(9, 2))'
    )
    writer.execute("CREATE VIEW v AS SELECT id FROM t")
    writer.execute("COMMENT ON TABLE t IS 'the rows'")
    writer.share()
    session = page.session()
    answer = page.call("GET", f"{session}/tables")
    tables = {(table["schema"], table["name"]): table for table in answer["tables"]}
    assert answer["more"] is False
    t = tables["main", "t"]
    assert (t["kind"], t["rows"], t["comment"]) == ("table", 1000, "the rows") and t[
        "bytes"
    ] >= 8000
    assert [(column["name"], column["type"]) for column in t["columns"]] == [
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
    ]
    v = tables["main", "v"]
    assert (v["kind"], v["rows"], v["bytes"], len(v["columns"])) == ("view", None, None, 1)
    odd = tables['we"ird', "<script>alert(1)</script>"]
    assert odd["columns"][0]["nullable"] is False and odd["columns"][0]["default"] == "7"
    assert odd["columns"][1]["type"] == "DECIMAL(9,2)"
    assert page.rows(session, f"SELECT * FROM {odd['sql']}") == []


# ---- cells


def test_a_cell_returns_pages(page):
    session = page.session()
    run, about = page.run(
        session,
        "SELECT 1 AS one; SELECT id, CASE WHEN id > 0 THEN name END AS name FROM t ORDER BY id",
    )
    first, second = about["results"]
    assert (first["tag"], first["rows"], first["columns"][0]["name"]) == ("SELECT", 1, "one")
    assert (second["rows"], second["more"], second["plan"]) == (1000, False, None)
    assert second["columns"] == [
        {"name": "id", "type": "BIGINT", "numeric": True},
        {"name": "name", "type": "VARCHAR", "numeric": False},
    ]
    page_one = page.call("GET", f"{run}/rows?result=1")
    assert len(page_one["rows"]) == 100 and page_one["rows"][:2] == [["0", None], ["1", "n1"]]
    last = page.call("GET", f"{run}/rows?result=1&offset=995&limit=100")
    assert last["offset"] == 995 and [row[0] for row in last["rows"]] == [
        "995",
        "996",
        "997",
        "998",
        "999",
    ]
    assert page.call("GET", f"{run}/rows?result=1&offset=99999999999999999999")["rows"]
    assert page.call("GET", f"{run}/rows?result=1&offset=18446744073709551615")["rows"] == []
    page.call("GET", f"{run}/rows?result=2", status=404)
    page.call("DELETE", run)
    page.call("GET", run, status=404)


def test_a_long_result_is_ended(serve):
    page = serve("--max-rows", 50)
    session = page.session(None)
    run, about = page.run(session, "SELECT * FROM range(1000000000000)")
    (result,) = about["results"]
    assert (result["rows"], result["more"]) == (50, True)
    # By bytes as well: 32 MiB of a run, 4 KiB of a value.
    page = serve("--max-rows", 1_000_000)
    run, about = page.run(page.session(None), "SELECT repeat('x', 100000) FROM range(1000000)")
    (result,) = about["results"]
    assert 8000 < result["rows"] < 8400 and result["more"]
    ((value,),) = page.call("GET", f"{run}/rows?limit=1")["rows"]
    assert value == "x" * 4096 + "… (95904 bytes more)"
    assert len(page.call("GET", f"{run}/rows?limit=1000")["rows"]) < 600


def test_changes_are_refused_unless_scratch(page, writer):
    session = page.session()
    for sql in ("DELETE FROM t", "CREATE TABLE u(x INT)", "DROP TABLE t", "UPDATE t SET id = 1"):
        _, about = page.run(session, sql)
        assert about["state"] == "failed" and "scratch" in about["error"]["message"], about
    assert (
        page.run(session, "CREATE TEMP TABLE u AS SELECT 1 AS x; SELECT * FROM u")[1]["state"]
        == "done"
    )
    scratch = page.session(scratch=True)
    assert page.run(scratch, "DELETE FROM t WHERE id >= 10")[1]["results"][0]["rows_changed"] == 990
    assert page.rows(scratch, "SELECT count(*) FROM t") == [["10"]]
    assert page.rows(session, "SELECT count(*) FROM t") == [["1000"]]
    assert writer.execute("SELECT count(*) FROM t").fetchone() == (1000,)
    page.call("POST", f"{scratch}/refresh")
    assert page.rows(scratch, "SELECT count(*) FROM t") == [["1000"]]


def test_a_session_is_a_snapshot_until_it_is_refreshed(page, writer):
    session = page.session()
    assert page.call("GET", session)["newer"] is False
    writer.execute("DELETE FROM t WHERE id >= 500")
    writer.share()
    assert page.call("GET", session)["newer"] is True
    assert page.rows(session, "SELECT count(*) FROM t") == [["1000"]]
    refreshed = page.call("POST", f"{session}/refresh")
    assert refreshed["taken_ms"] < 1000
    assert page.call("GET", session)["newer"] is False
    assert page.rows(session, "SELECT count(*) FROM t") == [["500"]]
    writer.close()
    swingdb.drop("served")
    assert page.call("GET", session)["gone"] is True
    assert page.rows(session, "SELECT count(*) FROM t") == [["500"]]
    error = page.call("POST", f"{session}/refresh", status=400)["error"]
    assert "does not exist" in error


def test_errors_show_their_place(page):
    session = page.session()
    _, about = page.run(session, "SELECT 1;\nSELECT id,\n  nosuch FROM t")
    error = about["error"]
    assert (error["line"], error["column"]) == (3, 3) and error["message"].endswith(
        "\n    nosuch FROM t\n    ^"
    )
    _, about = page.run(session, "SELECT id FRM t WHERE", explain=True)
    assert about["error"]["line"] == 1 and about["error"]["message"].endswith("^")
    _, about = page.run(session, "SELECT 1; SELECT CAST('x' AS INTEGER)")
    assert (
        about["state"] == "failed" and about["error"]["line"] is None and len(about["results"]) == 1
    )


def test_a_plan_is_a_tree(page):
    session = page.session()
    _, about = page.run(
        session,
        "SET threads = 1; SELECT name, count(*) FROM t WHERE id > 5 GROUP BY name",
        explain=True,
    )
    nodes = about["results"][1]["plan"]
    assert nodes[0]["indent"] == 0 and all(node["indent"] > 0 for node in nodes[1:])
    assert any("Aggregate" in node["operator"] for node in nodes)
    assert nodes[-1]["rows"] == "994" and "t" in nodes[-1]["detail"]
    assert sum(node["share"] or 0 for node in nodes) == pytest.approx(1)
    run, about = page.run(session, "EXPLAIN SELECT * FROM t")
    assert about["results"][0]["plan"] is None
    assert page.call("GET", f"{run}/rows")["rows"][0][1]


def test_a_slow_cell_keeps_nobody_waiting_and_is_cancelled(page, writer):
    session = page.session()
    run = page.begin(session, SLOW)
    for _ in range(5):
        begun = time.monotonic()
        assert page.rows(session, "SELECT count(*) FROM t") == [["1000"]]
        assert time.monotonic() - begun < 5
    about = page.call("GET", run)
    assert about["state"] == "running" and about["elapsed_ms"] > 0
    # The writer goes on, too.
    writer.execute("INSERT INTO t VALUES (1000, 'new')")
    writer.share()
    begun = time.monotonic()
    page.call("POST", f"{run}/cancel")
    until(lambda: page.call("GET", run)["state"] == "cancelled", 5)
    assert time.monotonic() - begun < 5
    many = page.begin(session, f"{SLOW}; {SLOW}; {SLOW}")
    page.call("POST", f"{many}/cancel")
    until(lambda: page.call("GET", many)["state"] == "cancelled", 5)


def test_progress_is_told(page, writer):
    writer.execute("CREATE TABLE big AS SELECT i, i % 1000 AS k FROM range(3000000) r(i)")
    writer.share()
    session = page.session()
    run = page.begin(
        session, "SELECT count(*) FROM big a, range(2000) b(j) WHERE (a.i * j) % 7 = 3"
    )
    progress = until(lambda: page.call("GET", run)["progress"], 60)
    assert progress["unit"] == "rows" and progress["total"] >= 3000000 and progress["done"] >= 0
    page.call("DELETE", run)


def test_too_many_cells_are_refused(page):
    session = page.session()
    runs = [page.begin(session, SLOW) for _ in range(8)]
    refused = page.call("POST", f"{session}/runs", {"sql": "SELECT 1"}, status=429)
    assert "cancel" in refused["error"]
    for run in runs:
        page.call("DELETE", run)
    until(
        lambda: (
            page.raw(
                "POST",
                f"/api/{session}/runs",
                b'{"sql": "SELECT 1"}',
                Authorization=f"Bearer {page.token}",
            )[0]
            == 202
        )
    )


def test_calls_that_make_no_sense(page):
    session = page.session()
    for method, path, body, status in [
        ("GET", "nosuch", None, 404),
        ("GET", "sessions/99", None, 404),
        ("GET", "sessions/x", None, 400),
        ("GET", "sessions/-1", None, 400),
        ("GET", "runs/99", None, 404),
        ("POST", "sessions", {"database": 7}, 400),
        ("POST", "sessions", {"database": "nosuch"}, 400),
        ("POST", "sessions", {"database": None, "scratch": "yes"}, 400),
        ("POST", f"{session}/runs", {"sql": 7}, 400),
        ("POST", f"{session}/runs", ["x"], 400),
        ("POST", f"{session}/runs", None, 400),
        ("PUT", "sessions", {}, 405),
    ]:
        assert page.call(method, path, body, status)["error"], path
    bearer = f"Bearer {page.token}"
    for body in (b"\xff\xfe", b"{", b"[" * 100_000):
        assert page.raw("POST", f"/api/{session}/runs", body, Authorization=bearer)[0] == 400
    for sql in ("", "   ", "-- nothing", ";;"):
        assert page.run(session, sql)[1] | {"elapsed_ms": 0} == {
            "state": "done",
            "elapsed_ms": 0,
            "progress": None,
            "results": [],
            "error": None,
        }


def test_many_at_once(page):
    def one(number: int) -> None:
        session = page.session()
        for _ in range(5):
            assert page.rows(session, f"SELECT sum(id) + {number} FROM t") == [
                [str(499500 + number)]
            ]
        page.call("DELETE", session)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(12)))


# ---- ends


def entries(home: Path) -> set[str]:
    """What is in the directory of the databases."""
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_stays_behind(serve, home, how):
    page = serve()
    before = entries(home)
    scratch = page.session(scratch=True)
    page.run(scratch, "CREATE TABLE more AS SELECT * FROM t")
    page.session(None)
    page.begin(scratch, SLOW)
    connection = socket.create_connection((page.host, page.port))
    status, seconds, errors = page.stop(how)
    assert (status, errors) == (0, "") and seconds < 5
    connection.close()
    assert entries(home) <= before
    listed = json.loads(subprocess.run([SWINGDB, "ls", "--json"], capture_output=True).stdout)
    assert [one["name"] for one in listed] == ["served"] and listed[0]["reader_pids"] == []


def test_a_closed_session_holds_nothing(page, home):
    before = entries(home)
    session = page.session(scratch=True)
    page.run(session, "CREATE TABLE more AS SELECT * FROM t")
    run = page.begin(session, SLOW)
    page.call("DELETE", session)
    page.call("GET", session, status=404)
    page.call("GET", run, status=404)
    until(lambda: entries(home) <= before)
    until(lambda: not [p for p in page.call("GET", "overview")["processes"] if p["is_this"]])


def test_open_tells_the_secret_to_the_browser_alone(serve, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/told.new\nmv {tmp_path}/told.new {tmp_path}/told\n'
    )
    browser.chmod(0o755)
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    page = serve("--open", BROWSER=str(browser), XDG_RUNTIME_DIR=str(runtime))
    until((tmp_path / "told").exists)
    file = Path((tmp_path / "told").read_text().strip())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and page.token not in file.name
    assert page.url in file.read_text()
    assert page.stop()[0] == 0
    assert not list(runtime.iterdir())
    page = serve("--open", BROWSER=str(tmp_path / "nosuch"), XDG_RUNTIME_DIR=str(runtime))
    assert page.call("GET", "overview")
    status, _, errors = page.stop()
    assert status == 0 and "--open" in errors
