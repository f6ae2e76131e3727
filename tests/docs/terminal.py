"""A terminal that a test types into: a shell, and Python's prompt inside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

END = "__the-command-has-ended__"
# What stands behind Python's prompt: runs one statement at a time and shows its value, as the
# prompt does, but reads whole statements, so that no echo has to be taken apart.
PROMPT = f"""
import sys, traceback
names = {{"__name__": "__main__"}}
while True:
    lines = []
    for line in sys.stdin:
        if line.rstrip() == "{END}":
            break
        lines.append(line)
    else:
        break
    try:
        exec(compile("".join(lines), "<prompt>", "single"), names)
    except SystemExit:
        break
    except BaseException:
        traceback.print_exc(limit=0, file=sys.stdout)
    print("{END}", flush=True)
"""


class Terminal:
    """A shell with an environment; `python` in it opens Python's prompt."""

    def __init__(self, environment: dict[str, str], directory: Path):
        self.environment, self.directory = environment, directory
        self.shell = self._start(["bash", "--norc", "--noprofile"])
        self.python: subprocess.Popen | None = None

    def _start(self, command: list[str]) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | self.environment,
            cwd=self.directory,
        )

    def _exchange(self, process: subprocess.Popen, text: str) -> tuple[str, bool]:
        process.stdin.write(text)
        process.stdin.flush()
        lines = []
        for line in process.stdout:
            if line.rstrip() == END:
                return "".join(lines), False
            lines.append(line)
        return "".join(lines), True

    def type(self, prompt: str, text: str) -> str:
        """Types at the shell's prompt `$` or Python's `>>>`; what the terminal shows then."""
        if prompt == "$" and re.fullmatch(r"python3?", text.strip()):
            self.python = self._start([sys.executable, "-u", "-c", PROMPT])
            return ""
        if prompt == "$":
            return self._exchange(self.shell, f"{text}\necho {END}\n")[0]
        assert self.python is not None, f"no Python runs in this terminal: {text}"
        shown, ended = self._exchange(self.python, f"{text}\n{END}\n")
        if ended:
            # It has been told to end, or was killed: the shell's prompt is back.
            self.python.communicate()
            self.python = None
        return shown

    def close(self) -> None:
        """Ends what still runs in it."""
        for process in (self.python, self.shell):
            if process is not None:
                process.kill()
                process.communicate()
