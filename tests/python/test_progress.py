"""Progress bars of long statements: on a terminal only, never going back, gone at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import swingdb

QUERY = """SELECT count(*) FROM
    (SELECT sum(i) OVER (PARTITION BY i % 7 ORDER BY sin(i)) s FROM t) WHERE s > 0"""
SHARE = re.compile(r"\r *(\d+) % \[([= ]{30})\] \d+ s")


class Screen(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def busy(con):
    con.execute("CREATE TABLE t AS SELECT range AS i FROM range(500000)")
    con.execute("SET threads = 1, enable_progress_bar = true, progress_bar_time = 0")
    return con


def test_off_unless_it_is_asked_for(con, monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    shown = "SELECT current_setting('enable_progress_bar'), current_setting('progress_bar_time')"
    assert [str(value) for value in con.execute(shown).fetchone()] == ["False", "2000"]
    con.execute("SET progress_bar_time = 0")
    con.execute("SELECT count(*) FROM range(3000000) AS r(i) WHERE sin(i) > 2").fetchall()
    assert screen.getvalue() == ""
    with pytest.raises(swingdb.PlanError):
        con.execute("SET progress_bar_time = 'soon'")
    con.execute("SET enable_progress_bar = true; RESET ALL")
    assert str(con.execute(shown).fetchone()[0]) == "False"


@pytest.mark.parametrize(
    "statement",
    [
        QUERY,
        f"CREATE TABLE made AS {QUERY}",
        f"INSERT INTO sums {QUERY}",
        f"COPY ({QUERY}) TO '{{file}}'",
    ],
    ids=["select", "create", "insert", "copy"],
)
def test_a_bar_never_goes_back_and_is_removed(busy, monkeypatch, tmp_path, statement):
    busy.execute("CREATE TABLE sums (n BIGINT)")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    cursor = busy.execute(statement.format(file=tmp_path / "sums.csv"))
    if statement == QUERY:
        cursor.fetchall()
    text = screen.getvalue()
    shares = [int(share) for share, _ in SHARE.findall(text)]
    assert shares and shares == sorted(shares) and shares[-1] <= 99, text
    # Blanks, and the cursor at the start of the line.
    assert re.search(r"\r +\r$", text), text[-80:]


def test_a_bar_waits_and_needs_a_terminal(busy, monkeypatch):
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    busy.execute(QUERY).fetchall()
    assert plain.getvalue() == ""
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    busy.execute(QUERY).fetchall()
    assert SHARE.search(plain.getvalue())
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    busy.execute("SET progress_bar_time = 600000")
    busy.execute(QUERY).fetchall()
    assert screen.getvalue() == ""
    # Notebooks have it by themselves.
    with swingdb.connect() as other:
        assert str(other.execute("SHOW enable_progress_bar").fetchone()[1]) == "true"


def test_a_stream_of_another_library_shows_none(busy, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    rows = busy.execute(QUERY)
    begun = len(screen.getvalue())
    assert pa.RecordBatchReader.from_stream(rows).read_all().num_rows == 1
    assert not SHARE.search(screen.getvalue()[begun:])


def test_no_standard_error_is_no_problem(busy, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert busy.execute(QUERY).fetchone()[0] > 0


def _shell(terminal: bool, *settings: str) -> tuple[str, str]:
    """What the shell writes to its outputs for one long statement."""
    program = os.environ.get("SWINGDB_BIN")
    if not program or not Path(program).exists():
        pytest.skip("SWINGDB_BIN names no built command line (make test sets it)")
    table = "CREATE TABLE t AS SELECT range AS i FROM range(500000)"
    text = "; ".join(["SET threads = 1", *settings, table, QUERY])
    error, other = pty.openpty() if terminal else os.pipe()
    output = subprocess.Popen(
        [program, "-c", text], stdout=subprocess.PIPE, stderr=other
    )
    os.close(other)
    seen = b""
    while True:
        try:
            part = os.read(error, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(error)
    shown = output.stdout.read().decode()
    assert output.wait(60) == 0, seen
    return shown, seen.decode()


def test_the_shell_shows_a_bar_on_a_terminal():
    shown, error = _shell(True, "SET progress_bar_time = 0")
    assert SHARE.search(error) and re.search(r"\r +\r$", error), error
    assert "1 row" in shown and "%" not in shown
    off = "SET enable_progress_bar = false"
    _, error = _shell(True, off, "SET progress_bar_time = 0")
    assert error == ""


def test_the_shell_shows_none_in_a_pipe():
    _, error = _shell(False, "SET progress_bar_time = 0")
    assert error == ""
