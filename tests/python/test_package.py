"""The package itself: names, stubs, import time, documentation that runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import swingdb
from swingdb import _internal

PACKAGE = Path(swingdb.__file__).parent
MODULES = ["swingdb", *(f"swingdb.{m.name}" for m in pkgutil.iter_modules([str(PACKAGE)]))]


def python(source: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", source], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Those of the memory module run with its other tests, in a namespace that lasts as long.
ELSEWHERE = ("swingdb._internal", "swingdb.memory")


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ELSEWHERE])
def test_examples_in_the_documentation(name):
    if name == "swingdb.ibis":
        pytest.importorskip("ibis")
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_names():
    assert len(set(swingdb.__all__)) == len(swingdb.__all__)
    for name in swingdb.__all__:
        assert hasattr(swingdb, name)
    issue = "connect snapshot get_snapshot discard_snapshot drop list lineage gc doctor"
    assert set(issue.split()) <= set(swingdb.__all__)
    methods = (
        "execute executemany cursor sql append table begin commit rollback attach detach share "
        "close refresh wait_newer import_file export"
    )
    assert all(callable(getattr(swingdb.Connection, name)) for name in methods.split())


def test_everything_public_is_documented():
    for name in swingdb.__all__:
        thing = getattr(swingdb, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name
            if inspect.isclass(thing) and thing.__module__.startswith("swingdb"):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and inspect.isfunction(value):
                        assert value.__doc__, f"{name}.{member}"


def test_stubs_match_the_extension():
    tree = ast.parse((PACKAGE / "_internal.pyi").read_text())
    declared: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            declared[node.name] = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            declared[node.name] = set()
    actual = {name for name in dir(_internal) if not name.startswith("_")}
    assert set(declared) == actual
    for name, members in declared.items():
        if members:
            thing = getattr(_internal, name)
            public = {m for m in vars(thing) if not m.startswith("_")}
            dunders = {m for m in vars(thing) if m.startswith(("__arrow", "__array"))}
            assert members == public | dunders, name
    assert (PACKAGE / "py.typed").exists()


def test_import_needs_no_other_package():
    heavy = "{'numpy', 'pandas', 'polars', 'pyarrow', 'decimal', 'zoneinfo', 'uuid'}"
    assert python(f"import sys, swingdb; print({heavy} & set(sys.modules))") == "set()"


def test_import_is_fast():
    # Computing time, against that of the standard library's modules it needs: machines differ. The
    # loader corrects addresses in 15 MB of the extension, which takes some three times as long
    # where the kernel has just read or written the file in small pieces.
    source = """
import time
started = time.process_time()
import contextlib, datetime, re, threading, typing, weakref
known = time.process_time()
import swingdb
print((time.process_time() - known) / (known - started))
"""
    assert min(float(python(source)) for _ in range(5)) < 6


def test_without_optional_packages():
    source = """
import sys
for name in ("numpy", "pandas", "polars", "pyarrow"):
    sys.modules[name] = None
import swingdb
con = swingdb.connect()
con.execute("CREATE TABLE t (a INT, s VARCHAR)")
con.append("t", {"a": [1, 2], "s": ["x", None]})
con.executemany("INSERT INTO t VALUES (?, ?)", [(3, "z")])
assert con.sql("SELECT * FROM t ORDER BY a").fetchall() == [(1, "x"), (2, None), (3, "z")]
for form in ("arrow", "df", "pl", "fetchnumpy"):
    try:
        getattr(con.table("t"), form)()
    except ImportError as error:
        assert "pip install" in str(error)
    else:
        raise AssertionError(form)
print("fine")
"""
    assert python(source) == "fine"


def test_pandas_without_pyarrow():
    source = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd, polars as pl, swingdb
con = swingdb.connect()
frame = pd.DataFrame({"a": [1, 2], "x": [0.5, None], "s": ["x", None]})
assert con.sql("SELECT * FROM frame").fetchall() == [(1, 0.5, "x"), (2, None, None)]
con.execute("CREATE TABLE t (a INT, x DOUBLE, s VARCHAR)")
con.append("t", frame)
assert con.table("t").df()["a"].tolist() == [1, 2]
polars = pl.DataFrame({"a": [3], "x": [1.5], "s": ["y"]})
con.append("t", polars)
assert con.table("t").pl()["s"].to_list() == ["x", None, "y"]
print("fine")
"""
    assert python(source) == "fine"


def test_the_command_line_module(tmp_path):
    program = tmp_path / "swingdb"
    program.write_text("#!/bin/sh\necho called with $@\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "swingdb", "ls", "--all"],
        env={"PATH": str(tmp_path) + ":/usr/bin:/bin", "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "called with ls --all\n"


def test_types_check():
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(PACKAGE)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


FRAMES = """
import asyncio
import polars
import swingdb
from swingdb import aio

con = swingdb.connect()
reveal_type(con.sql("SELECT 1").df())
reveal_type(con.execute("SELECT 1").pl())
reveal_type(con.table("t").filter("a > 1").select("a").pl())
reveal_type(con.pl())
reveal_type(con.from_df(polars.DataFrame()).fetchnumpy())
reveal_type(con.fetchall())

async def main() -> None:
    async with await aio.connect("x") as session:
        reveal_type(await session.pl("SELECT 1"))
        async for row in session.rows("SELECT 1"):
            reveal_type(row)

con.sql("SELECT 1").pl().no_such_method()
con.table(1)
"""


def test_type_checkers_see_frames(tmp_path):
    (tmp_path / "user.py").write_text(FRAMES)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "user.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    seen = re.findall(r'Revealed type is "(.*)"', done.stdout)
    frames = [re.sub(r"\w+\.(?:\w+\.)*", "", name) for name in seen]
    assert frames[1:4] == ["DataFrame", "DataFrame", "DataFrame"], done.stdout
    assert seen[0].startswith("pandas.") and seen[1].startswith("polars.")
    assert frames[4].startswith("dict[str, ndarray["), done.stdout
    assert frames[5:] == ["list[tuple[Any, ...]]", "DataFrame", "tuple[Any, ...]"], done.stdout
    errors = re.findall(r"error: (.*)  \[([a-z-]+)\]", done.stdout)
    assert [kind for _, kind in errors] == ["attr-defined", "arg-type"], done.stdout
