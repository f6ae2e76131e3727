"""What copy-on-write costs a process that stores all the time: SWING's figures 9a and 9b.

    python3 bench/fig9.py [--mib 8192] [--parts a,b] [--pages huge,small]
                          [--ways swing,ahead,fork,copying]

9a: one process updates all of its memory from start to end, over and over; another takes a snapshot
every so often and keeps it until the next. 9b: a snapshot every 8 s, updates at random places, of
which 50 to 90 % go to 50 to 10 % of the memory. By live hooks of an area, and by `fork` of private
memory; an update adds one to an eight-byte number. `ahead` is live hooks of an area that a second
thread of the owner copies ahead of the updates. `copying` (both: huge pages and 9a only) takes no
snapshot, but copies what is updated, once in each interval: what is left then is the most that
copy-on-write by the updating thread can leave. Memory is not equally fast at all times on a machine
that others share, so each measurement follows one of the same process while nobody takes snapshots,
and is compared with that (`part`); of several rounds the median. Each interval of 9a has a process
of its own: what is left of another is not measured with it. What is measured anew replaces
what is in bench/results/fig9.json; what was measured here and today besides stays.
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
ONLY_HUGE_9A = ("ahead", "copying")


def in_pairs(interval: str, rounds: int) -> str:
    """An interval after one without snapshots: so often, or twice when it takes longer."""
    return ",".join([f"0,{interval}"] * (rounds if int(interval) <= SHORT_MS else min(rounds, 2)))


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
    parser.add_argument("--ways", default="swing,ahead,fork,copying")
    parser.add_argument("--intervals", default=INTERVALS_MS, help="of 9a, in milliseconds")
    parser.add_argument("--skews", default=",".join(map(str, SKEWS)), help="of 9b, in percent")
    parser.add_argument("--rounds", type=int, default=5, help="of intervals up to a second")
    arguments = parser.parse_args()
    swing_examples.build()
    lines = swing_examples.known("fig9", "lines")
    intervals = [i for i in arguments.intervals.split(",") if i != "0"]
    sweeps = [[f"sweep={in_pairs(i, arguments.rounds)}"] for i in intervals]
    skewed = [f"random:{skew}=0,8000" for skew in arguments.skews.split(",")]
    for pages in arguments.pages.split(","):
        for way in arguments.ways.split(","):
            only_9a = way in ONLY_HUGE_9A
            if only_9a and pages != "huge":
                continue
            name = "fork-huge" if (way, pages) == ("fork", "huge") else way
            parts = sweeps if "a" in arguments.parts else []
            if "b" in arguments.parts and not only_9a:
                parts = [*parts, skewed]
            rounds = Rounds()
            for part in parts:
                for line in swing_examples.run(pages, "fig9-bench", name, arguments.mib, *part):
                    new = rounds.add({"pages": pages, **line, "way": way})
                    lines = swing_examples.replace(lines, new, KEYS)
                    # At once: a run that is cut off has measured something.
                    common.write("fig9", {"lines": lines})


if __name__ == "__main__":
    main()
