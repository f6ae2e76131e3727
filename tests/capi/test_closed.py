"""Programs in C that close all descriptors and go on: their areas, their tokens, their files."""

from __future__ import annotations

import pytest
from installed import GNU, ROOT, Program


@pytest.fixture
def start(build, env):
    program = build(GNU, ROOT / "tests/capi/closed.c")
    started = []

    def start():
        started.append(Program([program], env))
        return started[-1], int(started[-1].answer())

    yield start
    for other in started:
        if other.process.poll() is None:
            other.process.kill()


def test_areas_go_on_when_all_descriptors_are_closed(start, tmp_path):
    (owner, token), (reader, other) = start(), start()
    assert token != other
    for name in ("owner", "reader"):
        (tmp_path / name).mkdir()
    assert owner.tell("store 1") == "stored"
    assert reader.tell(f"hook {token}") == "1"
    assert reader.tell(f"close {tmp_path}/reader") == "closed"
    for n in range(2, 6):
        assert owner.tell(f"store {n}") == "stored"
        # What was hooked stays as it was, and a new hook is fresh.
        assert reader.tell("find") == str(n - 1)
        assert reader.tell(f"hook {token}") == str(n)
    assert reader.tell("intact") == "1"
    assert owner.tell(f"close {tmp_path}/owner") == "closed"
    # Nobody gets the token of a process that lives.
    assert start()[1] not in (token, other)
    for n in range(6, 9):
        assert owner.tell(f"store {n}") == "stored"
        assert reader.tell("find") == str(n - 1)
        assert reader.tell(f"hook {token}") == str(n)
    assert owner.tell("intact") == reader.tell("intact") == "1"
    assert owner.end() == reader.end() == 0
