"""What each call answers: every error, holding, thresholds, memory, forks, threads; valgrind."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from installed import GNU, ROOT, Program

SECTIONS = [
    "arguments", "not_found", "refused", "shortage", "hold", "memory", "threshold", "fork",
    "threads", "names",
]  # fmt: skip
CODES = dict(ARGUMENT=-1, NO_TOKENS=-7, IO=-9, CORRUPT=-10)


@pytest.fixture
def program(build):
    return build(GNU, ROOT / "tests/capi/calls.c", extra=["-pthread"])


def answer(program, env, *words):
    """The number and the text that one call gives in a process of its own."""
    done = subprocess.run([program, *words], env=env, check=True, capture_output=True, text=True)
    number, _, text = done.stdout.strip().partition(" ")
    return int(number), text


def told(program: Program, line: str):
    number, _, text = program.tell(line).partition(" ")
    return int(number), text


@pytest.mark.parametrize("section", SECTIONS)
def test_calls(program, env, section):
    done = subprocess.run([program, section], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", ""), done.returncode


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize("section", ["arguments", "not_found", "memory", "hold", "threads"])
def test_calls_under_valgrind(program, env, section):
    # Registers are exact at a fault, and waiting threads get their turn, only when it is asked to.
    valgrind = ["valgrind", "-q", "--vex-iropt-register-updates=allregs-at-mem-access"]
    valgrind += ["--fair-sched=yes"]
    less = {**env, "ROUNDS": "2"}
    done = subprocess.run([*valgrind, program, section], env=less, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    # Stores that are trapped because there is no memory yet are reported; nothing else may be.
    bare = re.sub(r"^==\d+== ?(Thread \d+.*\n)?", "", done.stderr, flags=re.M)
    for report in bare.split("\n\n"):
        trapped = report.startswith("Invalid") and "anonymous segment" in report
        assert trapped or not report.strip(), report


def test_calls_with_the_address_sanitizer(build, env):
    flags = ["-pthread", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = build(["gcc", "-std=gnu11"], ROOT / "tests/capi/calls.c", extra=flags)
    for section in ("arguments", "refused", "memory", "threads"):
        less = {**env, "ROUNDS": "5"}
        done = subprocess.run([program, section], env=less, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_calls_at_the_end_of_the_process_answer(build, env, tmp_path):
    """What is told to `atexit` runs when the thread's own variables are gone."""
    source = tmp_path / "ending.c"
    source.write_text("""
        #include <stdlib.h>
        #include <unistd.h>
        #include <swing.h>
        static swing_area area;
        static void at_the_end(void) {
            swing_area other;
            int wrong = swing_release(area.token + 1) == 0 || swing_last_error() == NULL;
            wrong |= swing_hold(area.token) == 0 || swing_publish(area.token) != 0;
            wrong |= swing_copy(area.token, &other) != 0 || swing_resume(area.token) == 0;
            _exit(wrong || swing_release(area.token) != 0);
        }
        int main(void) {
            swing_area other;
            swing_hook(1, 0, &other);
            if (swing_create(1 << 20, &area) != 0 || swing_publish(area.token) != 0) {
                return 2;
            }
            return atexit(at_the_end);
        }""")
    ran = subprocess.run([build(["gcc"], source)], env=env, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_all_tokens_in_use(program, env, home):
    assert answer(program, env, "creating")[0] == 0
    with open(Path(home) / ".tokens", "rb+") as file:
        # As 4095 areas of other processes do.
        fcntl.lockf(file, fcntl.LOCK_EX, 4095, 1)
        number, text = answer(program, env, "creating")
        assert number == CODES["NO_TOKENS"] and "4095" in text
    assert answer(program, env, "creating")[0] == 0


def test_a_namespace_that_cannot_be_used(program, env, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for bad in (file, file / "below", "/proc/self/none"):
        number, text = answer(program, {**env, "SWINGDB_HOME": str(bad)}, "creating")
        assert number == CODES["IO"] and str(bad) in text


def test_damaged_files(program, env, home):
    owner = Program([program, "serve"], env)
    token = owner.answer()
    assert answer(program, env, "hooking", token)[0] == 0
    folder = next(Path(home).glob(f"swing-token-{token}*"))
    manifest = folder / "shared"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    number, text = answer(program, env, "hooking", token)
    assert number == CODES["CORRUPT"] and "damaged" in text
    manifest.write_bytes(whole)
    assert answer(program, env, "hooking", token)[0] == 0 and owner.end() == 0


def test_a_deleted_namespace_is_said_to_be_deleted(program, env, home):
    owner = Program([program, "serve"], env)
    token = owner.answer()
    shutil.rmtree(home)
    for call in ("create", "hook", "publish"):
        number, text = told(owner, call)
        assert number < 0 and "exists already" not in text, text
    number, text = told(owner, "create")
    assert number == CODES["IO"] and home in text and "deleted" in text
    # What it has stays usable; releasing it is no trouble.
    assert told(owner, "store")[0] == 0 and told(owner, "release")[0] == 0
    # Others make the directory again, and know nothing of what was there.
    number, text = answer(program, env, "hooking", token)
    assert number == -2
    assert answer(program, env, "creating")[0] == 0 and owner.end() == 0


def test_a_name_ends_with_its_process(program, env):
    first, second = Program([program, "serve"], env), Program([program, "serve"], env)
    tokens = [int(one.answer()) for one in (first, second)]
    assert answer(program, env, "finding", "served")[0] == -2
    assert told(first, "name") == (0, "")
    assert answer(program, env, "finding", "served") == (tokens[0], "")
    assert told(second, "name")[0] == -13
    first.process.kill()
    first.close()
    assert answer(program, env, "finding", "served")[0] == -2
    assert told(second, "name") == (0, "")
    assert answer(program, env, "finding", "served") == (tokens[1], "")
    assert second.end() == 0
    assert answer(program, env, "finding", "served")[0] == -2


def test_collecting_tells_how_many_it_took_away(program, env, home):
    living, *dead = (Program([program, "serve"], env) for _ in range(4))
    token, *_ = [one.answer() for one in (living, *dead)]
    for one in dead:
        one.process.kill()
        one.close()
    assert len([name for name in os.listdir(home) if name.startswith("swing-token-")]) == 4
    assert answer(program, env, "collecting") == (3, "")
    assert answer(program, env, "collecting") == (0, "")
    assert answer(program, env, "hooking", token)[0] == 0 and living.end() == 0
