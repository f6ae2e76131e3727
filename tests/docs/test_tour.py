"""The README's tour, typed as written into two terminals, shows what the README says it shows.

A block of the tour stands below a line that begins with `**Terminal 1**` or `**Terminal 2**`.
Lines that begin with `$` are typed into a shell, those with `>>>` and `...` at Python's prompt;
what follows is what the terminal shows, where `...` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import tempfile
from pathlib import Path

import pytest
from terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^\*\*Terminal (\d)\*\*.*?^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MATCHING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def steps(block: str) -> list[tuple[str, str, str]]:
    """Takes a block apart into prompt, what is typed, what is shown."""
    found: list[list[str]] = []
    for line in block.splitlines():
        if match := re.match(r"(\$|>>>) (.*)", line):
            found.append([match.group(1), match.group(2), ""])
        elif found and found[-1][0] == ">>>" and re.match(r"\.\.\.( |$)", line):
            if found[-1][2]:
                found[-1][2] += line + "\n"
            else:
                found[-1][1] += "\n" + line[4:]
        else:
            assert found, f"nothing was typed before {line!r}"
            found[-1][2] += line + "\n"
    return [tuple(step) for step in found]


def blocks() -> list[tuple[str, str]]:
    """The terminals and blocks of the tour."""
    return BLOCK.findall((ROOT / "README.md").read_text())


def binaries() -> str:
    """Where the command line is that the tour calls `swingdb`."""
    program = os.environ.get("SWINGDB_BIN")
    if not program or not Path(program).exists():
        pytest.skip("SWINGDB_BIN names no built command line (make test sets it)")
    return str(Path(program).parent)


def test_the_tour_is_true(tmp_path):
    """Every step shows what the README says."""
    assert len(blocks()) >= 4
    checker = doctest.OutputChecker()
    with tempfile.TemporaryDirectory(prefix="swingdb-tour-", dir="/dev/shm") as home:
        environment = {
            "SWINGDB_HOME": home,
            "PYTHONPATH": str(ROOT / "python"),
            "PATH": f"{binaries()}:{os.environ['PATH']}",
        }
        terminals = {n: Terminal(environment, tmp_path) for n in "12"}
        try:
            for number, block in blocks():
                for prompt, typed, expected in steps(block):
                    shown = terminals[number].type(prompt, typed)
                    assert checker.check_output(expected, shown, MATCHING), (
                        f"terminal {number}: {prompt} {typed}\nexpected:\n{expected}\n"
                        f"shown:\n{shown}"
                    )
        finally:
            for terminal in terminals.values():
                terminal.close()


def test_a_block_is_taken_apart():
    """Prompts, continuation lines and output."""
    block = "$ ls\na\nb\n>>> for i in x:\n...     f(i)\n1\n...\n>>> g()\n"
    assert steps(block) == [
        ("$", "ls", "a\nb\n"),
        (">>>", "for i in x:\n    f(i)", "1\n...\n"),
        (">>>", "g()", ""),
    ]
