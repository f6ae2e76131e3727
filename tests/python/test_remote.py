"""Files of object stores and the web: fetched by swingdb-remote, from servers of this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import swingdb

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = Path(os.environ.get("SWINGDB_REMOTE", TARGET / "remote" / "release" / "swingdb-remote"))
MOTO = shutil.which("moto_server")

fetches = pytest.mark.skipif(not PROGRAM.exists(), reason="needs swingdb-remote: make remote")
stores = pytest.mark.skipif(MOTO is None, reason="needs moto_server: pip install 'moto[server]'")


@pytest.fixture(autouse=True)
def program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that was built here fetches."""
    monkeypatch.setenv("SWINGDB_REMOTE", str(PROGRAM))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Web(http.server.ThreadingHTTPServer):
    """A server of some files, which counts what is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        #: Set: a file stops in its middle until this is set.
        self.stop: threading.Event | None = None
        self.broken = False
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET and HEAD; parts and lists as Google's store does."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """One file, or a part of it."""
        self.server.asked.append(urllib.parse.unquote(self.path))
        path, _, query = self.path.partition("?")
        path = urllib.parse.unquote(path)
        body = self.list(path, query) if "list-type" in query else self.server.files.get(path)
        self.send_response(404 if body is None else 206 if self.headers["Range"] else 200)
        self.send_header("Last-Modified", "Thu, 29 Feb 2024 12:00:00 GMT")
        self.send_header("ETag", '"same"')
        if body is not None and self.headers["Range"]:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            whole, body = len(body), body[first : last + 1]
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{whole}")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command == "HEAD":
            return
        half = len(body or b"") // 2
        self.wfile.write((body or b"")[:half])
        self.wfile.flush()
        if self.server.stop:
            self.server.stop.wait(60)
        if not self.server.broken:
            self.wfile.write((body or b"")[half:])

    do_HEAD = do_GET

    def list(self, bucket: str, query: str) -> bytes:
        """The names of the objects of a bucket that begin with what is asked for."""
        prefix = "/".join((bucket, urllib.parse.parse_qs(query).get("prefix", [""])[0]))
        facts = "<LastModified>2024-02-29T12:00:00Z</LastModified><ETag>same</ETag>"
        objects = [
            f"<Contents><Key>{name[len(bucket) + 1 :]}</Key><Size>{len(body)}</Size>{facts}"
            "</Contents>"
            for name, body in self.server.files.items()
            if name.startswith(prefix)
        ]
        return f"<ListBucketResult>{''.join(objects)}</ListBucketResult>".encode()


@pytest.fixture
def web() -> Iterator[Web]:
    """A server of files."""
    server = Web()
    yield server
    if server.stop:
        server.stop.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def con() -> Iterator[swingdb.Connection]:
    """A private database."""
    with swingdb.connect() as con:
        yield con


def parquet(con: swingdb.Connection, path: Path, rows: str) -> bytes:
    """The bytes of a Parquet file of a query."""
    con.execute(f"COPY ({rows}) TO '{path}'")
    return path.read_bytes()


# ---- the web


@fetches
def test_files_of_the_web(con, web, tmp_path):
    rows = "SELECT i AS id, 'n' || i AS name FROM range(200000) r(i)"
    web.files["/a.parquet"] = parquet(con, tmp_path / "a.parquet", rows)
    web.files["/b c/b.csv"] = b"x,y\n1,one\n2,two\n"
    web.files["/c.csv.gz"] = gzip.compress(b"x\n7\n8\n")
    web.files["/d.jsonl"] = b'{"k": 1}\n{"k": 2}\n'
    one = con.execute(f"SELECT count(*), max(id), min(name) FROM '{web.url}/a.parquet'").fetchone()
    assert one == (200000, 199999, "n0")
    # Once for a statement, however often it is planned and read.
    assert web.asked == ["/a.parquet"]
    again = f"SELECT (SELECT max(id) FROM '{web.url}/a.parquet') FROM '{web.url}/a.parquet' LIMIT 1"
    assert con.execute(again).fetchone() == (199999,)
    assert web.asked == ["/a.parquet"] * 2
    assert con.execute(f"SELECT * FROM '{web.url}/b%20c/b.csv'").fetchall() == [
        (1, "one"),
        (2, "two"),
    ]
    sql = f"SELECT sum(x) FROM read_csv('{web.url}/c.csv.gz', compression='gzip')"
    assert con.execute(sql).fetchone() == (15,)
    con.execute(f"CREATE TABLE t (k BIGINT); COPY t FROM '{web.url}/d.jsonl'")
    assert con.execute("SELECT sum(k) FROM t").fetchone() == (3,)
    both = f"read_parquet(['{tmp_path}/a.parquet', '{web.url}/a.parquet'], filename=true)"
    sql = f"SELECT filename, count(*) FROM {both} GROUP BY 1 ORDER BY 1"
    expected = [(f"{tmp_path}/a.parquet", 200000), (f"{web.url}/a.parquet", 200000)]
    assert con.execute(sql).fetchall() == expected


@fetches
def test_changed_files_are_fetched_anew(con, web):
    sql = f"SELECT sum(x) FROM '{web.url}/a.csv'"
    web.files["/a.csv"] = b"x\n1\n"
    assert con.execute(sql).fetchone() == (1,)
    web.files["/a.csv"] = b"x\n2\n"
    assert con.execute(sql).fetchone() == (2,)


@fetches
def test_what_is_wrong_is_said(con, web):
    with pytest.raises(swingdb.NotFoundError, match=r"http://127.0.0.1.*/no.csv"):
        con.execute(f"SELECT * FROM '{web.url}/no.csv'")
    web.files["/a.csv"] = b"x\n1\n"
    with pytest.raises(swingdb.Error, match="behind"):
        con.execute(f"SELECT * FROM read_csv('{web.url}/a.csv?token=1')")
    with pytest.raises(swingdb.Error, match="127.0.0.1"):
        con.execute("SELECT * FROM 'https://127.0.0.1:1/a.csv'")
    with pytest.raises(swingdb.NotSupportedError, match="ftp://"):
        con.execute("SELECT * FROM 'ftp://127.0.0.1/a.csv'")
    with pytest.raises(swingdb.NotSupportedError, match="http://"):
        con.execute(f"COPY (SELECT 1) TO '{web.url}/a.csv'")


@fetches
def test_half_a_file_is_an_error(con, web):
    web.files["/a.csv"] = b"x\n" + b"1\n" * 1000
    web.broken = True
    with pytest.raises(swingdb.Error, match="a.csv"):
        con.execute(f"SELECT count(*) FROM '{web.url}/a.csv'")
    con.execute("CREATE TABLE t (x BIGINT)")
    with pytest.raises(swingdb.Error, match="a.csv"):
        con.execute(f"COPY t FROM '{web.url}/a.csv'")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


@fetches
def test_a_fetch_is_interrupted(con, web, interrupting):
    web.files["/a.csv"] = b"x\n" + b"1\n" * 1000
    web.stop = threading.Event()
    begun = time.monotonic()
    with interrupting(con.interrupt), pytest.raises(swingdb.QueryInterruptedError):
        con.execute(f"SELECT count(*) FROM '{web.url}/a.csv'")
    assert time.monotonic() - begun < 5
    # The program that fetched is gone.
    own = Path(f"/proc/{os.getpid()}/task")
    children = [p for t in own.iterdir() for p in (t / "children").read_text().split()]
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in children]
    assert "swingdb-remote" not in names


@fetches
def test_without_external_access_nothing_is_asked_for(con, web):
    web.files["/a.csv"] = b"x\n1\n"
    con.execute("SET enable_external_access = false")
    with pytest.raises(swingdb.Error, match="enable_external_access"):
        con.execute(f"SELECT * FROM '{web.url}/a.csv'")
    with pytest.raises(swingdb.Error, match="enable_external_access"):
        con.execute(f"SELECT * FROM read_csv('{web.url}/a.csv')")
    assert web.asked == []


def test_without_the_program_the_error_says_how_to_get_it(con, monkeypatch):
    monkeypatch.setenv("SWINGDB_REMOTE", "/nonexistent/swingdb-remote")
    for address in ("s3://b/a.csv", "gs://b/*.parquet", "https://h/a.csv"):
        with pytest.raises(swingdb.NotSupportedError, match="make remote"):
            con.execute(f"SELECT * FROM '{address}'")


# ---- object stores


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A local S3."""
    process = subprocess.Popen(
        [MOTO, "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    url = None
    for line in process.stderr:
        if b"Running on http" in line:
            url = line.split()[-1].decode()
            break
    # The log must not fill its pipe.
    threading.Thread(target=lambda: process.stderr.read(), daemon=True).start()
    yield url
    process.terminate()
    process.wait(20)


class Bucket:
    """A bucket of the local S3."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.base, self.url = f"{endpoint}/{name}", f"s3://{name}"
        self.request("PUT", "")

    def request(self, method: str, path: str, body: bytes = b"") -> None:
        """One request without a signature, which this server does not ask for."""
        url = f"{self.base}/{path}" if path else self.base
        kind = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, body, kind, method=method)
        with urllib.request.urlopen(request, timeout=30):
            pass

    def put(self, path: str, body: bytes) -> None:
        """Stores an object."""
        self.request("PUT", path, body)


@pytest.fixture
def bucket(endpoint, monkeypatch, request) -> Bucket:
    """A new bucket, and credentials for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return Bucket(endpoint, request.node.name.replace("_", "-"))


@fetches
@stores
def test_objects_and_patterns(con, bucket, tmp_path):
    for year in (2023, 2024):
        for part in range(2):
            rows = f"SELECT i AS id, {year * 10 + part} AS part FROM range(1000) r(i)"
            bucket.put(
                f"data/year={year}/{part}.parquet", parquet(con, tmp_path / "p.parquet", rows)
            )
    bucket.put("data/year=2024/deep/2.parquet", b"no Parquet")
    one = con.execute(f"SELECT count(*), max(part) FROM '{bucket.url}/data/year=2024/1.parquet'")
    assert one.fetchone() == (1000, 20241)
    many = f"read_parquet('{bucket.url}/data/*/*.parquet', hive_partitioning=true, filename=true)"
    sql = f"SELECT year, count(*), min(filename) FROM {many} GROUP BY year ORDER BY year"
    first = f"{bucket.url}/data/year={{}}/0.parquet"
    assert con.execute(sql).fetchall() == [(y, 2000, first.format(y)) for y in (2023, 2024)]
    con.execute(f"CREATE TABLE t AS SELECT * FROM '{bucket.url}/data/year=202[4]/?.parquet'")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (2000,)
    with pytest.raises(swingdb.NotFoundError, match="s3://"):
        con.execute(f"SELECT * FROM '{bucket.url}/data/*.parquet'")
    with pytest.raises(swingdb.NotFoundError, match="s3://"):
        con.execute(f"SELECT * FROM '{bucket.url}/nosuch.parquet'")
    with pytest.raises(swingdb.Error, match="2.parquet"):
        con.execute(f"SELECT * FROM '{bucket.url}/data/year=2024/deep/2.parquet'")


@fetches
@stores
def test_a_large_object_comes_in_parts(con, bucket, tmp_path):
    rows = "SELECT i AS id, md5(i::VARCHAR) AS hash FROM range(1000000) r(i)"
    body = parquet(con, tmp_path / "p.parquet", rows)
    assert len(body) > 20 << 20
    bucket.put("large.parquet", body)
    program = subprocess.run([PROGRAM, "get", f"{bucket.url}/large.parquet"], capture_output=True)
    assert program.stdout == body
    sql = f"SELECT count(*), count(DISTINCT hash), max(id) FROM '{bucket.url}/large.parquet'"
    assert con.execute(sql).fetchone() == (1000000, 1000000, 999999)
    bucket.put("empty.csv", b"")
    program = subprocess.run([PROGRAM, "get", f"{bucket.url}/empty.csv"], capture_output=True)
    assert (program.returncode, program.stdout) == (0, b"")


@fetches
def test_google_cloud_storage(con, web, monkeypatch):
    key = {"gcs_base_url": web.url, "disable_oauth": True, "client_email": "", "private_key": ""}
    key |= {"private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    large = b"x\n" + b"1234567\n" * 3_000_000
    web.files = {"/b/d/1.csv": b"x\n1\n", "/b/d/2.csv": b"x\n2\n", "/b/large.csv": large}
    assert con.execute("SELECT sum(x) FROM 'gs://b/d/*.csv'").fetchone() == (3,)
    sql = "SELECT count(*), sum(x) FROM 'gs://b/large.csv'"
    assert con.execute(sql).fetchone() == (3_000_000, 3_000_000 * 1234567)
    # The length, and three parts.
    assert web.asked.count("/b/large.csv") == 4, web.asked


@fetches
@stores
def test_odd_names(con, bucket):
    names = {"a%20b.csv": "a b.csv", "caf%C3%A9.csv": "caf\u00e9.csv", "100%25.csv": "100%.csv"}
    for number, sent in enumerate(names):
        bucket.put(f"odd/{sent}", f"x\n{number}\n".encode())
    for number, name in enumerate(names.values()):
        one = con.execute(f"SELECT x FROM '{bucket.url}/odd/{name}'").fetchone()
        assert one == (number,), name
    sql = f"SELECT filename FROM read_csv('{bucket.url}/odd/*.csv', filename=true) ORDER BY x"
    expected = [f"{bucket.url}/odd/{name}" for name in names.values()]
    assert [name for (name,) in con.execute(sql).fetchall()] == expected


@fetches
@stores
def test_wrong_buckets_and_credentials(con, bucket, monkeypatch):
    with pytest.raises(swingdb.Error, match=r"s3://nosuch-bucket"):
        con.execute("SELECT * FROM 's3://nosuch-bucket/*.csv'")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(swingdb.Error) as failure:
        con.execute(f"SELECT * FROM '{bucket.url}/a.csv'")
    assert "secret" not in str(failure.value)


@fetches
def test_without_credentials_the_error_says_so(con, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # Nobody answers there, instead of the machine's role.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/169.254.169.254")
    with pytest.raises(swingdb.Error, match="no credentials in the environment"):
        con.execute("SELECT * FROM 's3://bucket/a.csv'")


@fetches
def test_the_program_alone():
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)

    assert run().returncode == 2 and "usage" in run().stderr
    assert run("--help").returncode == 0 and "AWS_ENDPOINT_URL" in run("--help").stdout
    for wrong in ("a.csv", "s3://", "ftp://h/x", "https://user:word@h/x"):
        ended = run("get", wrong)
        assert ended.returncode == 1 and ended.stdout == "" and "\n" not in ended.stderr.strip()
    assert run("list", "https://h/*").returncode == 1
