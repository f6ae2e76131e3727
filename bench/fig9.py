"""What copy-on-write costs a process that stores all the time: SWING's figures 9a and 9b.

    python3 bench/fig9.py [--mib 8192] [--parts a,b] [--pages huge,small]
                          [--ways swing,fork,copying]

9a: one process updates all of its memory from start to end, over and over; another takes a snapshot
every so often and keeps it until the next. 9b: a snapshot every 8 s, updates at random places, of
which 50 to 90 % go to 50 to 10 % of the memory. By live hooks of an area, and by `fork` of private
memory; an update adds one to an eight-byte number. `copying` (huge pages and 9a only) takes no
snapshot, but copies what is updated, once in each interval: what is left then is the most that
copy-on-write by the updating thread can leave. Each rate is compared with the same process before
anybody took a snapshot. What is measured anew replaces what is in bench/results/fig9.json.
"""

from __future__ import annotations

import argparse

import common
import swing_examples

KEYS = ("pages", "way", "pattern", "mib", "interval_ms")
INTERVALS_MS = "0,250,1000,4000,8000,20000"
SKEWS = (50, 60, 70, 80, 90)


def runs_of(way: str, runs: list[str]) -> list[str]:
    """What a way is measured by."""
    return runs[:1] if way == "copying" else runs


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", default="8192", help="size of the memory that is updated")
    parser.add_argument("--parts", default="a,b")
    parser.add_argument("--pages", default="huge,small")
    parser.add_argument("--ways", default="swing,fork,copying")
    parser.add_argument("--intervals", default=INTERVALS_MS, help="of 9a, in milliseconds")
    parser.add_argument("--skews", default=",".join(map(str, SKEWS)), help="of 9b, in percent")
    arguments = parser.parse_args()
    swing_examples.build()
    lines = swing_examples.known("fig9", "lines")
    runs = [f"sweep={arguments.intervals}"] if "a" in arguments.parts else []
    if "b" in arguments.parts:
        runs += [f"random:{skew}=0,8000" for skew in arguments.skews.split(",")]
    for pages in arguments.pages.split(","):
        for way in arguments.ways.split(","):
            if way == "copying" and (pages != "huge" or "a" not in arguments.parts):
                continue
            name = "fork-huge" if (way, pages) == ("fork", "huge") else way
            words = (name, arguments.mib, *runs_of(way, runs))
            for line in swing_examples.run(pages, "fig9-bench", *words):
                new = {"pages": pages, **line, "way": way}
                lines = swing_examples.replace(lines, new, KEYS)
                # At once: a run that is cut off has measured something.
                common.write("fig9", {"lines": lines})


if __name__ == "__main__":
    main()
