"""The C blocks of the documents fit the header: a compiler reads each as the body of a function."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```c\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(code, id=f"{path.name}-{number}")
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for number, code in enumerate(BLOCK.findall(path.read_text()))
]
#: Variables that the blocks take for granted.
GIVEN = "swingdb_database *taxi; (void)taxi;"


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_fits_the_header(code, tmp_path):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    file = tmp_path / "block.c"
    file.write_text(f'#include "swingdb.h"\nvoid block(void) {{\n{GIVEN}\n{code}\n}}\n')
    command = [compiler, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}"]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_wrong_block_is_found(tmp_path):
    with pytest.raises(AssertionError):
        test_a_block_fits_the_header("swingdb_open(1, 2);", tmp_path)
