"""The commands in the documents' console blocks run, in order, in a namespace of their own.

Only their success is looked at; what the README shows is checked by test_tour. What would run on,
or needs what a test has not, is named in `NOT_RUN` with the reason; its options are at least known.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from test_tour import binaries

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if "```console" in path.read_text() and path.name not in ("cluster.md", "flight.md")
]
#: Beginnings of commands that are not run, and why.
NOT_RUN = {
    "swingdb serve": "serves until it is ended",
    "swingdb node": "of the workspace of clusters, which the usual build leaves out",
    "swingdb --cluster": "of the workspace of clusters, which the usual build leaves out",
    "swingdb ui": "serves until it is ended",
    "swingdb-server": "serves until it is ended",
    "dbt": "another program",
    "psql": "another program",
    "PGPASSWORD=": "another program",
    "swingdb probe": "measures a disk for a minute",
}
#: Databases and files that the documents take for granted.
TAXI = """
CREATE TABLE trips AS
    SELECT i AS id, i::DOUBLE AS speed, i % 2 = 0 AS occupied, 1.5 AS fare FROM range(5) AS r(i);
COPY trips TO 'trips.parquet'; COPY trips TO '2026-01.parquet'; COPY trips TO 'trips.csv';
COPY trips TO 'trips.jsonl' (FORMAT json); SHARE;
"""


def commands(text: str) -> list[str]:
    """What is typed in the console blocks of a text."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def prepare(folder: Path, environment: dict[str, str]) -> None:
    """Makes the files and the database that the commands name."""
    subprocess.run(
        ["swingdb", "sql", "taxi", "--write", TAXI], cwd=folder, env=environment, check=True
    )
    for name in ("trips.csv", "trips.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    (folder / "data.txt").write_text("1|a\n2|b\n")
    (folder / "report.sql").write_text("SELECT * FROM trips;")
    for name in ("data", "backup"):
        (folder / name).mkdir()
    # Programs that read what comes.
    (folder / "bin").mkdir()
    for name in ("program", "other-program", "jq"):
        program = folder / "bin" / name
        program.write_text("#!/bin/sh\nexec cat > /dev/null\n")
        program.chmod(0o755)


def local(command: str, folder: Path) -> str:
    """The command with directories of the test instead of those of the document, and few rows."""
    command = re.sub(r"(?<=[ '])/(data|backup)\b", lambda m: f"{folder}/{m[1]}", command)
    # What is exported must not be where a copy is made, nor imported where there are tables.
    command = command.replace("/backup/taxi'", "/backup/exported'")
    command = command.replace('sql taxi "IMPORT', 'sql new "IMPORT')
    command = command.replace("--rows 20000000", "--rows 1000")
    command = command.replace("--scale 1", "--scale 0.001")
    return command.replace("generate taxi taxi", "generate taxi cabs")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_run(document, tmp_path):
    typed = commands(document.read_text())
    assert typed, "no command was found"
    programs = binaries()
    with tempfile.TemporaryDirectory(prefix="swingdb-console-", dir="/dev/shm") as home:
        environment = os.environ | {
            "SWINGDB_HOME": home,
            "SWINGDB_HISTORY": "",
            "PATH": f"{tmp_path}/bin:{programs}:{os.environ['PATH']}",
        }
        prepare(tmp_path, environment)
        for command in typed:
            if any(command.startswith(beginning) for beginning in NOT_RUN):
                continue
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", local(command, tmp_path)],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            # `doctor` answers by its status whether it has found something.
            found = command.startswith("swingdb doctor") and ended.returncode == 1
            assert ended.returncode == 0 or found, f"{command}\n{ended.stderr}"


def test_options_of_what_is_not_run_are_known():
    """Each long option stands in the help of its command."""
    programs = binaries()
    for document in DOCUMENTS:
        for command in commands(document.read_text()):
            words = command.partition("#")[0].split()
            if not command.startswith(("swingdb serve", "swingdb probe")):
                continue
            help_text = subprocess.run(
                [f"{programs}/swingdb", words[1], "--help"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for option in (word for word in words if word.startswith("--")):
                assert option in help_text, command
