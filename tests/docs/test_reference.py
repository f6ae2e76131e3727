"""Reference pages are what the product says of itself; the index of docs has every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_reference_pages_are_up_to_date():
    """`make reference` would write the committed pages; examples there are computed anew."""
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_index_lists_each_page_once():
    """docs/README.md leads to every page of docs."""
    listed = re.findall(r"\]\((?!\.\./)([\w-]+\.md)\)", (DOCS / "README.md").read_text())
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert set(listed) == pages
    assert len(listed) == len(set(listed))


def test_the_command_line_page_names_each_command():
    """What `swingdb --help` lists is also explained in docs/cli.md."""
    text = (DOCS / "commands.md").read_text()
    commands = re.findall(r"^## swingdb (\S+)$", text, re.MULTILINE)
    explained = (DOCS / "cli.md").read_text()
    assert len(commands) >= 10
    assert not [name for name in commands if f"swingdb {name}" not in explained]


def test_the_site_can_be_made(tmp_path):
    """`make site` writes a page for each document, and each link leads somewhere."""
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "site.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "docs" / "functions.html").exists()
