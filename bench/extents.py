"""What the size of extents trades: time of a copy, memory, mappings; docs/extents.md.

    python3 bench/extents.py [--mib 512] [--pages huge,small]

Writes bench/results/extents.json and puts its tables into docs/extents.md.
"""

from __future__ import annotations

import argparse

import common
import swing_examples

KEYS = ("pages", "extent_kib", "mib")
BEGIN, END = "<!-- begin: bench/extents.py -->\n", "<!-- end -->\n"
TITLES = {
    "huge": "With huge pages (a tmpfs mounted with `huge=advise`):",
    "small": "Without (pages of 4 KiB):",
}
HEADS = ("extent", "one copy", "copied a round", "runs at the end", "publish", "hook")


def time(us: float) -> str:
    """Microseconds, or milliseconds with two digits."""
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.2g} ms"


def size(kib: int) -> str:
    """An extent's size."""
    shown = f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB"
    return f"**{shown}**" if kib == 2048 else shown


def tables(lines: list[dict]) -> str:
    """The tables of the document."""
    machine = common.machine()
    text = f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}.\n"
    for pages, title in TITLES.items():
        text += f"\n{title}\n\n| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}\n"
        for line in sorted(lines, key=lambda line: line["extent_kib"]):
            if line["pages"] == pages:
                cells = (
                    size(line["extent_kib"]), time(line["copy_us"]),
                    f"{line['copied_mib_a_round']:.0f} MiB", str(line["runs"]),
                    time(line["publish_us"]), time(line["hook_us"]),
                )
                text += f"| {' | '.join(cells)} |\n"
    return text


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", default="512", help="size of the area")
    parser.add_argument("--pages", default="huge,small")
    arguments = parser.parse_args()
    swing_examples.build()
    lines = swing_examples.known("extents", "lines")
    for pages in arguments.pages.split(","):
        for line in swing_examples.run(pages, "extent-bench", arguments.mib, "64"):
            lines = swing_examples.replace(lines, {"pages": pages, **line}, KEYS)
            common.write("extents", {"lines": lines})
    path = common.ROOT / "docs" / "extents.md"
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + tables(lines) + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
