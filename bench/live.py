"""Live hooks of a storing owner: how long a hook takes, and how long the owner's stores stall.

    python3 bench/live.py [--mib 8192] [--pages huge,small] [--intervals 1000,100]

One process stores eight bytes at a time without a pause: ascending over all of its area, at random
places, and at random places of a sixteenth of it. Another hooks it, every so often. Written to
bench/results/live.json for each: how long a hook took; how long trapped stores took (`trapped_us`);
and of that what was not spent by the processor on copying the extent (`stall_us`): traps, system
calls, waiting for a publish.
"""

from __future__ import annotations

import argparse

import common
import swing_examples

KEYS = ("pages", "pattern", "mib", "interval_ms")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", default="8192", help="size of the storing owner's area")
    parser.add_argument("--pages", default="huge,small")
    parser.add_argument("--intervals", default="1000,100", help="milliseconds between hooks")
    parser.add_argument("--seconds", type=float, default=20, help="for each")
    arguments = parser.parse_args()
    swing_examples.build()
    lines = swing_examples.known("live", "lines")
    for pages in arguments.pages.split(","):
        for interval in arguments.intervals.split(","):
            hooks = str(max(20, int(arguments.seconds * 1000 / int(interval))))
            words = (arguments.mib, hooks, interval)
            for line in swing_examples.run(pages, "live-bench", *words):
                lines = swing_examples.replace(lines, {"pages": pages, **line}, KEYS)
                common.write("live", {"lines": lines})


if __name__ == "__main__":
    main()
