"""Hooking by name: areas, and the heaps of programs that know nothing of areas."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from installed import BUILT, GNU, ROOT, Program

LIBRARY = BUILT / "libswingmalloc_preload.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

#: Keeps a text that is never in its source, and says another when it is told to.
PROGRAM = """
import sys
kept = ["%06d" % i * 3 for i in range(20000)]
for line in sys.stdin:
    text = line.strip()[::-1]
    kept.append(text + ".")
    print("kept", flush=True)
"""


@pytest.fixture
def heap(env):
    """A program whose heap is called `program`."""
    variables = {"LD_PRELOAD": str(LIBRARY), "SWING_PRELOAD_NAME": "program"}
    # Python maps memory for small objects by itself otherwise.
    variables["PYTHONMALLOC"] = "malloc"
    python = Program([sys.executable, "-c", PROGRAM], {**env, **variables})
    yield python
    if python.process.poll() is None:
        python.process.kill()
        python.close()


@pytest.fixture
def hooker(build, env):
    with_names = Program([build(GNU, ROOT / "tests/capi/named.c")], env)
    yield with_names
    with_names.close()


def test_the_heap_of_a_program_is_hooked_by_its_name(heap, hooker):
    assert heap.tell("ssap siht si terces eht") == "kept"
    token, blocks = map(int, hooker.tell("origin program").split())
    assert 1 <= token <= 4095 and blocks > 20_000
    assert hooker.tell("find the secret is this pass.") == "1"
    assert hooker.tell("find .ssap siht si terces") == "0"
    assert hooker.tell("change") == "0"
    # It goes on, and what was hooked stays what it was.
    assert heap.tell("retal dias saw siht") == "kept"
    assert hooker.tell("find this was said later.") == "0"
    assert hooker.tell("origin program").startswith("-6 "), "the first one lies there"
    assert hooker.tell("hook program").split()[0].isdigit()
    assert hooker.tell("find this was said later.") == "1"
    assert heap.tell("dne") == "kept"
    assert heap.end() == 0
    assert hooker.tell("change") == "0", "it outlives the program"
    assert hooker.tell("hook program") == '-2 no living area has the name "program"'


def test_a_killed_programs_heap_is_no_living_area(heap, hooker):
    assert heap.tell("x") == "kept"
    assert int(hooker.tell("hook program").split()[1]) > 20_000
    heap.process.kill()
    heap.close()
    assert hooker.tell("hook program").startswith("-2 no living area")
    assert int(hooker.tell("published program").split()[1]) > 20_000


def test_names_that_lead_nowhere(hooker):
    assert hooker.tell("wrong") == "-1 -1 -1 -1"
    assert hooker.tell("hook nobody") == '-2 no living area has the name "nobody"'
    assert hooker.tell("hook " + "n" * 256).startswith("-1 a name has at most")
    assert hooker.tell("hook " + "n" * 250).startswith("-1 the name has 250 bytes")


def test_a_redis_server_is_looked_into_from_c(env, hooker, tmp_path):
    if not shutil.which("redis-server") or not shutil.which("redis-cli"):
        pytest.skip("redis-server is not installed")
    socket = tmp_path / "redis.sock"
    variables = {"LD_PRELOAD": str(LIBRARY), "SWING_PRELOAD_NAME": "redis"}
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--save", "", "--unixsocket", socket, "--dir", tmp_path],
        env={**env, **variables}, stdout=subprocess.DEVNULL,
    )  # fmt: skip

    def client(*words):
        command = ["redis-cli", "-s", socket, *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    try:
        while client("ping") != "PONG":
            assert server.poll() is None
        assert client("set", "key", "a value of some length") == "OK"
        assert int(hooker.tell("hook redis").split()[1]) > 100
        assert client("set", "key", "another one") == "OK"
        assert hooker.tell("find a value of some length") == "1"
        assert client("get", "key") == "another one" and hooker.tell("change") == "0"
        client("shutdown", "nosave")
        assert server.wait() == 0
    finally:
        server.kill()
        server.wait()
