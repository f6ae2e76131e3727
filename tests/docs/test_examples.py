"""Every Python example in the documents runs, and every link leads somewhere.

The blocks of one document run in order in one process, in a directory and a namespace of their
own. A block that cannot run by itself is marked so: `<!-- not run: why -->` in the line above it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^(<!-- not run.*?-->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def examples(document: Path) -> list[str]:
    """The Python blocks of a document that are to be run."""
    return [code for not_run, code in BLOCK.findall(document.read_text()) if not not_run]


WITH_EXAMPLES = [document for document in DOCUMENTS if examples(document)]


def test_examples_are_found():
    """The pattern still fits how the documents are written."""
    names = {document.name for document in WITH_EXAMPLES}
    assert {"README.md", "python.md"} <= names


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda path: path.name)
def test_examples_run(document, tmp_path):
    """All Python blocks of one document, one after the other."""
    code = examples(document)
    with tempfile.TemporaryDirectory(prefix="swingdb-docs-", dir="/dev/shm") as home:
        script = tmp_path / "examples.py"
        script.write_text("\n".join(code))
        ended = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=os.environ | {"SWINGDB_HOME": home, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    """Links to files of the repository."""
    for target in LINK.findall(document.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
