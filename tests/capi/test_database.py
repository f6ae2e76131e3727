"""Databases in C: swingdb.h as installed, built by gcc and g++, run as real processes."""

from __future__ import annotations

import re
import subprocess

import pytest
from installed import BUILT, C99, CPP, ROOT

pytestmark = pytest.mark.skipif(
    not (BUILT / "libswingdb_c.so").exists(), reason="libswingdb was not built"
)
HEADER = ROOT / "include/swingdb.h"


def run(command: list, env: dict) -> subprocess.CompletedProcess:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_a_database_is_written_shared_and_opened_from_its_store(build, env, tmp_path):
    program = build(C99, ROOT / "examples/c/database.c", "swingdb")
    done = run([program, tmp_path / "store"], env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["1 of Oslo", "1 of Bergen", "1 of Tromsø"]
    assert lines[3].startswith("refused: ") and "Tromsø" in lines[3]
    assert lines[4:] == ["snapshot: 1088395, writer: 370685", "from the store: 370685"]
    # The store has the table from the first run.
    done = run([program, tmp_path / "store"], env)
    assert done.returncode == 1 and "create: the name is taken" in done.stderr, done.stderr


def test_mistakes_are_errors(build, env, tmp_path):
    program = build(C99, ROOT / "tests/capi/database.c", "swingdb")
    done = run([program, tmp_path], env)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout == "ok\n"


def test_the_header_is_cpp_too(build, env, tmp_path):
    source = tmp_path / "header.cpp"
    source.write_text(
        "#include <swingdb.h>\n#include <swingdb.h>\n"
        "int main() { return swingdb_strerror(0)[0] == 's' ? 0 : 1; }\n"
    )
    assert run([build(CPP, source, "swingdb")], env).returncode == 0


def test_the_library_exports_what_the_header_declares_and_no_more():
    declared = set(re.findall(r"\b(swingdb_\w+)\(", HEADER.read_text()))
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", BUILT / "libswingdb_c.so"],
        check=True, capture_output=True, text=True,
    )
    exported = {line.split()[-1] for line in listed.stdout.splitlines() if " T " in line}
    assert declared - exported == set()
    assert {name for name in exported if name.startswith("swingdb_")} == declared
