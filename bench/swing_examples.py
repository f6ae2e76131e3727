"""Runs the examples of crates/swing that measure, with huge and with small pages.

Huge pages need a tmpfs mounted with huge=advise: as root one is mounted for the time of the run;
without root only small pages are measured.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import common


def build() -> None:
    """All examples, before anything is measured."""
    command = "cargo build --release --locked -q -p swing --examples".split()
    subprocess.run(command, check=True, cwd=common.ROOT)


def run(pages: str, example: str, *words: str) -> Iterator[dict]:
    """The lines of JSON of an example, as they come; none when there are no such pages."""
    if pages == "small":
        common.refuse_huge_pages()
    target = os.environ.get("CARGO_TARGET_DIR", str(common.ROOT / "target"))
    with common.namespace(huge_pages=pages == "huge") as home:
        if home is None:
            print("no file system with huge pages can be mounted: left out")
            return
        environment = os.environ | {"SWING_BENCH_DIR": str(home)}
        program = f"{target}/release/examples/{example}"
        with subprocess.Popen(
            [program, *words], stdout=subprocess.PIPE, text=True, env=environment
        ) as running:
            for line in running.stdout or ():
                print(pages, line, end="", flush=True)
                yield json.loads(line)
        if running.returncode != 0:
            raise SystemExit(f"{example} {words}: {running.returncode}")


def known(name: str, key: str) -> list[dict]:
    """The lines measured before, here and today: what is measured anew replaces what is there, the
    rest stays."""
    return common.earlier(name).get(key, [])


def replace(lines: list[dict], new: dict, keys: tuple[str, ...]) -> list[dict]:
    """The lines with one more, in the place of one that is about the same."""
    same = [all(line.get(k) == new.get(k) for k in keys) for line in lines]
    others = [line for line, s in zip(lines, same, strict=True) if not s]
    at = same.index(True) if any(same) else len(lines)
    return [*others[:at], new, *others[at:]]
