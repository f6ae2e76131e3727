"""Files of object stores and the web: fetched by swingdb-remote, from servers of this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import random
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
        #: Bytes of files that were sent.
        self.sent = 0
        #: Whether parts are sent where they are asked for.
        self.parts = True
        self.version = "same"
        #: Set: a file stops in its middle until this is set.
        self.stop: threading.Event | None = None
        #: So many files are sent before that.
        self.free = 0
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
        wanted = self.headers["Range"] if self.server.parts else None
        if wanted and body == b"":
            self.send_error(416)
            return
        self.send_response(404 if body is None else 206 if wanted else 200)
        self.send_header("Last-Modified", "Thu, 29 Feb 2024 12:00:00 GMT")
        self.send_header("ETag", f'"{self.server.version}"')
        if body is not None and wanted:
            first, last = wanted.removeprefix("bytes=").split("-")
            whole = len(body)
            if first:
                begin, end = int(first), min(int(last) + 1, whole)
            else:
                begin, end = max(whole - int(last), 0), whole
            body = body[begin:end]
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{whole}")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.server.sent += len(body or b"")
        half = len(body or b"") // 2
        self.wfile.write((body or b"")[:half])
        self.wfile.flush()
        if self.server.stop and self.server.free > 0:
            self.server.free -= 1
        elif self.server.stop:
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
    again = f"SELECT (SELECT max(id) FROM '{web.url}/a.parquet') FROM '{web.url}/a.parquet' LIMIT 1"
    assert con.execute(again).fetchone() == (199999,)
    assert con.execute(f"SELECT * FROM '{web.url}/b%20c/b.csv'").fetchall() == [
        (1, "one"),
        (2, "two"),
    ]
    sql = f"SELECT sum(x) FROM read_csv('{web.url}/c.csv.gz', compression='gzip')"
    web.asked.clear()
    assert con.execute(sql).fetchone() == (15,)
    # Once for a statement, however often it is planned and read.
    assert web.asked == ["/c.csv.gz"]
    assert con.execute(f"SELECT delimiter FROM sniff_csv('{web.url}/b%20c/b.csv')").fetchone() == (
        ",",
    )
    con.execute(f"CREATE TABLE t (k BIGINT); COPY t FROM '{web.url}/d.jsonl'")
    assert con.execute("SELECT sum(k) FROM t").fetchone() == (3,)
    both = f"read_parquet(['{tmp_path}/a.parquet', '{web.url}/a.parquet'], filename=true)"
    sql = f"SELECT filename, count(*) FROM {both} GROUP BY 1 ORDER BY 1"
    expected = [(f"{tmp_path}/a.parquet", 200000), (f"{web.url}/a.parquet", 200000)]
    assert con.execute(sql).fetchall() == expected


def groups(folder: Path) -> bytes:
    """A Parquet file of 8 row groups of 50,000 rows, whose column `noise` is most of it."""
    rng = random.Random(7)
    rows = 400_000
    noise = rng.randbytes(rows * 30)
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "small": pa.array([number * 7 % 1000 for number in range(rows)], pa.int16()),
            "noise": pa.array([noise[at : at + 30] for at in range(0, len(noise), 30)]),
        }
    )
    path = folder / "groups.parquet"
    pq.write_table(table, path, row_group_size=50_000, use_dictionary=False)
    return path.read_bytes()


def column(body: bytes, names: set[str], which: set[int]) -> int:
    """The bytes of some columns of some row groups."""
    metadata = pq.ParquetFile(pa.BufferReader(body)).metadata
    chunks = (metadata.row_group(g).column(c) for g in which for c in range(metadata.num_columns))
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema in names)


@fetches
def test_parts_of_a_parquet_file(con, web, tmp_path):
    body = groups(tmp_path)
    web.files = {"/g.parquet": body, "/no/name": body}
    local, far = tmp_path / "groups.parquet", f"{web.url}/g.parquet"
    every = set(range(8))
    #: What may be sent beside the columns: the end, and what lies between two parts.
    beside = 400_000

    def sent(sql: str, address: str = far) -> int:
        """The same rows as of the local file, and the bytes that were sent for them."""
        before = web.sent
        rows = con.execute(sql.replace("FILE", f"'{address}'")).fetchall()
        assert rows == con.execute(sql.replace("FILE", f"'{local}'")).fetchall(), sql
        return web.sent - before

    assert sent("SELECT count(*) FROM FILE") == 64 << 10
    assert sent("SELECT min(id), max(id) FROM FILE") == 64 << 10
    assert sent("SELECT name, type FROM parquet_schema(FILE)") == 64 << 10
    small = column(body, {"small"}, every)
    assert small < sent("SELECT sum(small) FROM FILE") < small + beside < len(body) / 5
    one = column(body, {"id", "noise"}, {3})
    sql = "SELECT noise FROM FILE WHERE id = 175000"
    assert sent(sql) < one + beside < len(body) / 4
    before = web.sent
    assert len(con.execute(f"SELECT id, noise FROM '{far}' LIMIT 5").fetchall()) == 5
    assert web.sent - before < len(body) / 2
    assert sent("SELECT sum(id), max(noise) FROM FILE") < len(body) + beside
    # A statement fetches a part once, however often it reads it.
    one = "(SELECT sum(small) AS s FROM FILE)"
    twice = f"SELECT a.s, b.s FROM {one} AS a, {one} AS b"
    assert sent(twice) < 2 * small + beside
    sql = "SELECT sum(small) FROM read_parquet(FILE)"
    assert sent(sql, f"{web.url}/no/name") < small + beside
    before = web.sent
    con.execute(f"CREATE TABLE t AS SELECT small FROM '{far}'")
    con.execute(f"CREATE TABLE u (id BIGINT, small SMALLINT, noise BLOB); COPY u FROM '{far}'")
    assert web.sent - before < small + len(body) + 2 * beside
    assert con.execute("SELECT sum(small) FROM t").fetchone() == (
        con.execute("SELECT sum(small) FROM u").fetchone()
    )
    same = f"SELECT count(*) FROM (FROM u EXCEPT ALL FROM '{local}')"
    assert con.execute(same).fetchone() == (0,)
    # A server that knows no parts sends the whole file.
    web.parts = False
    assert sent("SELECT sum(small) FROM FILE") >= len(body)
    assert sent("SELECT noise FROM FILE WHERE id = 175000") >= len(body)


@fetches
def test_parts_are_of_one_version(con, web, tmp_path):
    web.files["/g.parquet"] = groups(tmp_path)
    sql = f"SELECT sum(small) FROM '{web.url}/g.parquet'"

    class Changing(str):
        """Another version at each look."""

        looks = 0

        def __format__(self, _: str) -> str:
            Changing.looks += 1
            return f"version {Changing.looks}"

    web.version = Changing()
    with pytest.raises(swingdb.Error, match=r"g\.parquet.*changed while it was read"):
        con.execute(sql).fetchall()
    web.version = "one"
    expected = con.execute(sql).fetchall()
    web.broken = True
    with pytest.raises(swingdb.Error, match=r"g\.parquet"):
        con.execute(sql).fetchall()
    web.broken = False
    assert con.execute(sql).fetchall() == expected
    web.files["/empty.parquet"] = b""
    web.files["/text.parquet"] = b"no Parquet " * 20_000
    for name in ("empty", "text"):
        with pytest.raises(swingdb.Error, match=f"{name}.parquet.*is no readable Parquet file"):
            con.execute(f"SELECT * FROM '{web.url}/{name}.parquet'")
    with pytest.raises(swingdb.NotFoundError, match="no.parquet"):
        con.execute(f"SELECT * FROM '{web.url}/no.parquet'")
    # A footer says where parts are that there are not.
    web.files["/cut.parquet"] = web.files["/g.parquet"][-100_000:]
    with pytest.raises(swingdb.Error, match="cut.parquet"):
        con.execute(f"SELECT sum(small) FROM '{web.url}/cut.parquet'").fetchall()


@fetches
def test_parts_of_many_files(con, web, tmp_path):
    for number in range(40):
        rows = f"SELECT {number} AS part, i AS id FROM range(1000) r(i)"
        web.files[f"/b/p/{number}.parquet"] = parquet(con, tmp_path / "p.parquet", rows)
    files = ", ".join(f"'{web.url}/b/p/{number}.parquet'" for number in range(40))
    found = f"read_parquet([{files}], filename=true)"
    sql = f"SELECT count(*), sum(part), count(DISTINCT filename) FROM {found}"
    assert con.execute(sql).fetchone() == (40_000, 780_000, 40)


@fetches
def test_a_fetch_of_parts_is_interrupted(con, web, tmp_path, interrupting):
    web.files["/g.parquet"] = groups(tmp_path)
    sql = f"SELECT sum(small), max(noise) FROM '{web.url}/g.parquet'"
    expected = con.execute(sql).fetchall()
    for when in (0, 1):
        web.stop, web.free = threading.Event(), when
        begun = time.monotonic()
        with interrupting(con.interrupt), pytest.raises(swingdb.QueryInterruptedError):
            con.execute(sql).fetchall()
        assert time.monotonic() - begun < 5
        web.stop.set()
        web.stop = None
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
    sql = f"SELECT hash FROM '{bucket.url}/large.parquet' WHERE id = 777777"
    assert con.execute(sql).fetchall() == con.execute("SELECT md5('777777')").fetchall()
    bucket.put("empty.parquet", b"")
    with pytest.raises(swingdb.Error, match="is no readable Parquet file"):
        con.execute(f"SELECT * FROM '{bucket.url}/empty.parquet'")
    bucket.put("empty.csv", b"")
    program = subprocess.run([PROGRAM, "get", f"{bucket.url}/empty.csv"], capture_output=True)
    assert (program.returncode, program.stdout) == (0, b"")


@fetches
def test_google_cloud_storage(con, web, monkeypatch, tmp_path):
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
    body = groups(tmp_path)
    web.files = {"/b/g/1.parquet": body, "/b/g/2.parquet": body}
    web.sent = 0
    assert con.execute("SELECT count(*), sum(small) FROM 'gs://b/g/*.parquet'").fetchone() == (
        800_000,
        2 * 400 * 499_500,
    )
    assert web.sent < len(body) / 2


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
