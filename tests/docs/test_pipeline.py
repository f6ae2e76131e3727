"""The demonstration, with few rows: all checks hold, nothing is left, and failures are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("SWINGDB_BIN", ROOT / "target/release/swingdb")).parent
TAXIS = 4_000
STAGES = ["pipeline-load-taxi", "pipeline-load-reference", "pipeline-speed"]
pytestmark = pytest.mark.skipif(
    not all((BIN / stage).exists() for stage in STAGES), reason="make build builds the stages"
)


def run(binaries: Path, out: Path) -> subprocess.CompletedProcess:
    """Runs the pipeline with few rows; its databases must be gone afterwards."""
    script = str(ROOT / "examples/pipeline/run.py")
    more = ["--rows", "300000", "--bin", str(binaries), "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, script, *more],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output, errors = process.communicate(timeout=1200)
    assert not list(Path("/dev/shm").glob(f"swingdb-demo-{process.pid}-*"))
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def test_five_programs_hand_on_what_they_made(tmp_path):
    ended = run(BIN, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("  ok ") == 6, ended.stdout
    assert "0 checks failed" in ended.stdout
    for picture in ("clusters.png", "timeline.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    events = json.loads((tmp_path / "events.json").read_text())
    shared = {event["stage"] for event in events if event["kind"] == "share"}
    assert shared == set("ABCDE")
    measured = {m["table"]: m for m in json.loads((tmp_path / "hand-overs.json").read_text())}
    # A writes on in ticks of one row a taxi; on a busy machine C comes after some of them.
    ticks, rest = divmod(measured["gps"]["rows"] - 300_000, TAXIS)
    assert ticks >= 0 and rest == 0, measured["gps"]
    assert all(m["pipe_s"] > 0 and m["file_s"] > 0 for m in measured.values())


def test_a_stage_that_fails_is_named_with_what_it_said(tmp_path):
    for stage in STAGES:
        (tmp_path / stage).symlink_to(BIN / stage)
    broken = tmp_path / STAGES[2]
    broken.unlink()
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    ended = run(tmp_path, tmp_path / "out")
    assert ended.returncode == 1
    assert "error: stage E ended with status 3:\nit is broken" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_more_rows_than_memory_are_refused_at_the_beginning(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples/pipeline"))
    import run as pipeline

    gigabyte = 10**9
    assert pipeline.want_of_memory(20_000_000, 24 * gigabyte, 12 * gigabyte) is None
    refusal = pipeline.want_of_memory(20_000_000, 24 * gigabyte, gigabyte // 10)
    assert "in /dev/shm; there are 24.0 GB, and 0.1 GB" in refusal
    for available, shared in ((8 * gigabyte, 8 * gigabyte), (24 * gigabyte, gigabyte)):
        refusal = pipeline.want_of_memory(170_000_000, available, shared)
        enough = int(refusal.split("--rows ")[1].split()[0])
        assert enough > 0
        assert pipeline.want_of_memory(enough, available, shared) is None
    assert "--rows 0 " in pipeline.want_of_memory(1_000, 1_000, 1_000)
    rows = ["--rows", "1000000000000", "--out", str(tmp_path)]
    script = str(ROOT / "examples/pipeline/run.py")
    ended = subprocess.run([sys.executable, script, *rows], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("\nerror: 1,000,000,000,000 rows need")
