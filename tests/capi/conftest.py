"""What the tests of the C interface share: the library as installed, and compilers."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from installed import BUILT, ROOT, SHM, TOOLS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the tools that programs in C are built with there is nothing to test here."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if not missing:
        return
    skip = pytest.mark.skip(reason=f"needs {', '.join(missing)}: apt-get install them")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


def pytest_configure(config: pytest.Config) -> None:
    """One seed a run; SWINGDB_SEED repeats it."""
    if not hasattr(config, "seed"):
        config.seed = int(os.environ.get("SWINGDB_SEED", time.time_ns() % 1_000_000))


@pytest.fixture
def rng(request):
    """Random numbers from the run's seed and the test's name."""
    print("seed", request.config.seed)
    return random.Random(f"{request.config.seed}:{request.node.nodeid}")


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    where = tmp_path_factory.mktemp("a prefix")
    subprocess.run([ROOT / "tools/install_c.sh", BUILT, where], check=True)
    return where


@pytest.fixture
def home():
    path = tempfile.mkdtemp(prefix="swingdb-test-", dir=SHM)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def env(home, prefix):
    return {**os.environ, "SWINGDB_HOME": home, "LD_LIBRARY_PATH": str(prefix / "lib")}


@pytest.fixture(scope="session")
def build(prefix, tmp_path_factory):
    out = tmp_path_factory.mktemp("bin")

    def pkg_config(*arguments):
        env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        command = ["pkg-config", *arguments]
        found = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        return shlex.split(found.stdout)

    def build(compiler, source, package="swing", extra=(), static=False):
        source = Path(source)
        words = [source.name, package, *compiler[:1], *extra, "static" if static else ""]
        program = out / "-".join(words).replace("=", "")
        libs = pkg_config("--libs", package)
        if static:
            libs = [str(prefix / "lib/libswing.a"), "-lpthread", "-ldl", "-lm"]
        command = [*compiler, *extra, *pkg_config("--cflags", package), str(source), "-o", program]
        subprocess.run([*command, *libs], check=True)
        return program

    return build
