"""System calls that store into areas, and load from them, of programs linked with libswing."""

from __future__ import annotations

import subprocess

import pytest
from installed import CPP, GNU, ROOT

HERE = ROOT / "tests/capi"
FLAGS = {
    "plain": [],
    "checked": ["-D_FORTIFY_SOURCE=2"],
    "large files": ["-D_FILE_OFFSET_BITS=64"],
}


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("length", [8 << 20, 256 << 20])
@pytest.mark.parametrize("flags", FLAGS)
def test_they_do_what_they_do_elsewhere(build, env, length, static, flags):
    program = build(GNU, HERE / "syscalls.c", extra=FLAGS[flags], static=static)
    done = subprocess.run([program, str(length)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_without_the_library_before_them_they_fail(build, env):
    # The C library's own functions come first: what the test above tests is not there.
    program = build(GNU, HERE / "syscalls.c")
    unhelped = {**env, "LD_PRELOAD": "libc.so.6"}
    done = subprocess.run([program, str(8 << 20)], env=unhelped, capture_output=True, text=True)
    assert done.returncode == 1 and "errno 14" in done.stderr


@pytest.mark.parametrize("static", [False, True])
def test_no_datagram_is_lost_while_another_process_hooks(build, env, rng, static):
    program = build(GNU, HERE / "datagrams.c", static=static)
    command = [program, "1600", str(rng.randrange(1 << 20))]
    done = subprocess.run(command, env=env, check=True, capture_output=True)
    assert int(done.stdout) >= 90


def test_streams_of_cpp_and_cancelled_threads(build, env, tmp_path):
    source = tmp_path / "streams.cpp"
    source.write_text("""
        #include <swing.h>
        #include <cstring>
        #include <fstream>
        #include <iostream>
        #include <pthread.h>
        #include <unistd.h>
        static int ends[2];
        static char *at;
        static void *wait_for_ever(void *) {
            (void)!read(ends[0], at, 100000);
            return nullptr;
        }
        int main(int, char **argv) {
            swing_area area, before;
            if (swing_create(std::size_t(1) << 20, &area) || swing_allow_hooks(area.token, 1) ||
                swing_hook(area.token, 0, &before)) return 1;
            at = static_cast<char *>(area.address);
            std::ifstream file(argv[0], std::ios::binary);
            file.read(at, 12000);
            if (file.gcount() != 12000 || std::memcmp(at, "\\x7f" "ELF", 4) != 0) return 2;
            pthread_t thread;
            void *result = nullptr;
            if (pipe(ends) || swing_release(before.token) || swing_hook(area.token, 0, &before) ||
                pthread_create(&thread, nullptr, wait_for_ever, nullptr)) return 3;
            usleep(20000);
            if (pthread_cancel(thread) || pthread_join(thread, &result)) return 4;
            if (result != PTHREAD_CANCELED || std::memcmp(at, "\\x7f" "ELF", 4) != 0) return 5;
            std::cout << "fine" << std::endl;
            return 0;
        }""")
    program = build([*CPP, "-D_GNU_SOURCE"], source)
    done = subprocess.run([program], env=env, check=True, capture_output=True)
    assert done.stdout == b"fine\n"
