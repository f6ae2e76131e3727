"""Where things are, compilers as strict as can be, and running programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
C99, CPP = ["gcc", "-std=c99", *STRICT], ["g++", "-std=c++17", *STRICT]
GNU = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
#: Memory-backed, as the usual namespace is.
SHM = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
TOOLS = {"gcc": "gcc", "g++": "g++", "pkg-config": "pkg-config", "nm": "binutils"}


class Program:
    """A running program that is told lines and answers by lines."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(
            [str(part) for part in command],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )

    def answer(self):
        line = self.process.stdout.readline()
        assert line.endswith("\n"), "the program has ended"
        return line.strip()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        """Closes its ends of the pipes, and waits for it."""
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()
        return self.process.wait()

    def end(self):
        return self.close()
