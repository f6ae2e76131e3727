"""What copy-on-write costs a process that stores all the time: SWING's figures 9a and 9b.

    python3 bench/fig9.py [--mib 8192] [--parts a,b] [--pages huge,small]
                          [--ways swing,fork,copying]

9a: one process updates all of its memory from start to end, over and over; another takes a snapshot
every so often and keeps it until the next. 9b: a snapshot every 8 s, updates at random places, of
which 50 to 90 % go to 50 to 10 % of the memory. By live hooks of an area, and by `fork` of private
memory; an update adds one to an eight-byte number. `copying` (huge pages and 9a only) takes no
snapshot, but copies what is updated, once in each interval: what is left then is the most that
copy-on-write by the updating thread can leave. Memory is not equally fast at all times on a machine
that others share, so each measurement follows one of the same process while nobody takes snapshots,
and is compared with that (`part`); of several rounds the median. What is measured anew replaces
what is in bench/results/fig9.json.
"""

from __future__ import annotations

import argparse
import statistics

import common
import swing_examples

KEYS = ("pages", "way", "pattern", "mib", "interval_ms")
INTERVALS_MS = "0,250,1000,4000,8000,20000"
SKEWS = (50, 60, 70, 80, 90)
SHORT_MS = 1000


def runs_of(way: str, runs: list[str]) -> list[str]:
    """What a way is measured by."""
    return runs[:1] if way == "copying" else runs


def in_pairs(intervals: str, rounds: int) -> str:
    """Each interval after one without snapshots: so often, or twice when it takes longer."""
    short, long = [], []
    for interval in intervals.split(","):
        if interval != "0":
            (short if int(interval) <= SHORT_MS else long).append(f"0,{interval}")
    return ",".join(short * rounds + long * min(rounds, 2))


class Rounds:
    """The measurements of one process, of which medians are told."""

    def __init__(self) -> None:
        """Nothing measured."""
        self.alone: dict[str, float] = {}
        self.found: dict[tuple, list[dict]] = {}

    def add(self, line: dict) -> dict:
        """One more; the median of those of its kind."""
        if line["interval_ms"] == 0:
            self.alone[line["pattern"]] = line["updates_per_s"]
        line = line | {"part": line["updates_per_s"] / self.alone[line["pattern"]]}
        same = self.found.setdefault(tuple(line.get(key) for key in KEYS), [])
        same.append(line)
        parts = [other["part"] for other in same]
        rate = statistics.median(other["updates_per_s"] for other in same)
        took = statistics.median(other["snapshot_us"] for other in same)
        return line | {"updates_per_s": rate, "snapshot_us": took, "rounds": len(same),
                       "part": statistics.median(parts), "parts": sorted(parts)}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", default="8192", help="size of the memory that is updated")
    parser.add_argument("--parts", default="a,b")
    parser.add_argument("--pages", default="huge,small")
    parser.add_argument("--ways", default="swing,fork,copying")
    parser.add_argument("--intervals", default=INTERVALS_MS, help="of 9a, in milliseconds")
    parser.add_argument("--skews", default=",".join(map(str, SKEWS)), help="of 9b, in percent")
    parser.add_argument("--rounds", type=int, default=5, help="of intervals up to a second")
    arguments = parser.parse_args()
    swing_examples.build()
    lines = swing_examples.known("fig9", "lines")
    pairs = in_pairs(arguments.intervals, arguments.rounds)
    runs = [f"sweep={pairs}"] if "a" in arguments.parts else []
    if "b" in arguments.parts:
        runs += [f"random:{skew}=0,8000" for skew in arguments.skews.split(",")]
    for pages in arguments.pages.split(","):
        for way in arguments.ways.split(","):
            if way == "copying" and (pages != "huge" or "a" not in arguments.parts):
                continue
            name = "fork-huge" if (way, pages) == ("fork", "huge") else way
            words = (name, arguments.mib, *runs_of(way, runs))
            rounds = Rounds()
            for line in swing_examples.run(pages, "fig9-bench", *words):
                new = rounds.add({"pages": pages, **line, "way": way})
                lines = swing_examples.replace(lines, new, KEYS)
                # At once: a run that is cut off has measured something.
                common.write("fig9", {"lines": lines})


if __name__ == "__main__":
    main()
