"""What each of the memory layer's choices buys that only buy speed (policy/switches.rs).

    python3 bench/switches.py [--rounds 3] [--names affinity,copy-ahead] [--jobs live-small,redis]
                              [--mib 128] [--seconds 1] [--hooks 25]

Runs the programs behind bench-live, bench-fig9 and bench-fig10 in short forms, and hooks of an
owner that rests: with all choices made, and with each of them switched off (SWING_WITHOUT), by
turns. Each round gives a ratio for each of them: how much worse a figure is without it, compared
with the same round with all of them. `none` switches nothing off: it tells how far two runs of the
same differ. All raw figures are written to bench/results/switches.json. One table is of the medians
of the ratios over the rounds; one of the best figures of all rounds, which tells more on a machine
that is not quiet.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import common
import fig10
import swing_examples
from report import table

SOURCE = common.ROOT / "crates/swing/src/policy/switches.rs"
VARIABLE = "SWING_WITHOUT"
#: Nothing is switched off, twice in each round.
ALL, NONE = "all", "none"
#: So many are measured between two measurements with all choices.
FEW = 4
#: Of each switch the figures, several of each.
Figures = dict[str, dict[str, list[float]]]
#: What is worse when it is less; all else is worse when it is more.
RATES = ("updates_per_s", "stores_per_s", "throughput")
#: Of each job, the figures that a user would notice, as columns of the table.
COLUMNS = {
    "live: hook, half": r"live-.*hook p50",
    "live: hook, 90 %": r"live-.*hook p90",
    "live: stall, 99 %": r"live-.*stall p99",
    "live: mappings": r"live-.*runs",
    "resting: hook, half": r"resting-.*hook p50",
    "fig9: updates": r"fig9-.*updates_per_s",
    "fig9: hook": r"fig9-.*snapshot_us",
    "fig10: requests": r"redis throughput",
    "fig10: 99.9 %": r"redis p99.9",
    "fig10: hook": r"redis had_us",
}


def names() -> list[str]:
    """All that can be switched off."""
    return re.findall(r'^    \("([a-z-]+)", \|s\|', SOURCE.read_text(), re.MULTILINE)


@contextmanager
def without(name: str) -> Iterator[None]:
    """Programs started meanwhile do without it."""
    os.environ[VARIABLE] = "" if name in (ALL, NONE) else name
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)


def live(pages: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Of bench-live: hooks of an owner that stores in three patterns."""
    found = {}
    words = (str(arguments.mib), str(arguments.hooks), str(arguments.interval))
    for line in swing_examples.run(pages, "live-bench", *words):
        at = f"live-{pages} {line['pattern']}"
        found |= {f"{at} hook {p}": line["hook_us"][p] for p in ("p10", "p50", "p90")}
        found |= {f"{at} stall {p}": line["stall_us"][p] for p in ("p50", "p99")}
        found |= {f"{at} {key}": line[key] for key in ("runs", "stores_per_s")}
    return found


def resting(pages: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Hooks of an owner that has stored something, and rests."""
    found = {}
    words = (str(arguments.mib), str(arguments.hooks), "20")
    for line in swing_examples.run(pages, "resting-bench", *words):
        at = f"resting-{pages} {line['pattern']} hook"
        found |= {f"{at} {part}": line["hook_us"][part] for part in ("p10", "p50", "p90")}
    return found


def fig9(pages: str, way: str, pattern: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Of bench-fig9: updates while somebody hooks every 250 ms."""
    found = {}
    os.environ["SWING_BENCH_SECONDS"] = str(arguments.seconds)
    words = (way, str(arguments.mib), f"{pattern}=250")
    for line in swing_examples.run(pages, "fig9-bench", *words):
        at = f"fig9-{pages} {way} {pattern}"
        found |= {f"{at} {key}": line[key] for key in ("updates_per_s", "snapshot_us")}
    return found


JOBS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "live-small": lambda a: live("small", a),
    "live-huge": lambda a: live("huge", a),
    "resting-small": lambda a: resting("small", a),
    "resting-huge": lambda a: resting("huge", a),
    "fig9-sweep": lambda a: fig9("huge", "swing", "sweep", a),
    "fig9-ahead": lambda a: fig9("huge", "ahead", "sweep", a),
    "fig9-random": lambda a: fig9("small", "swing", "random:90", a),
}
REDIS = "redis"


class Server(fig10.Server):
    """A Redis whose heap is hooked, and which does without something."""

    def __init__(self, name: str, out: Path, home: Path, arguments: argparse.Namespace) -> None:
        """Starts and loads it."""
        out = out / name
        out.mkdir()
        self.programs = out.parent
        with without(name):
            super().__init__("hook", out, home / name, arguments)
            size = (str(arguments.records), str(arguments.connections))
            fig10.ycsb(self.programs, self, "load", *size)
            self.take()
            fig10.ycsb(self.programs, self, "A", *size, "1")


def redis(server: Server, arguments: argparse.Namespace) -> dict[str, float]:
    """Of bench-fig10: workload A while the heap is hooked and scanned every so often."""
    anywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(fig10.OTHER_CORE)})
    found = fig10.point("A", server, arguments, server.programs)
    os.sched_setaffinity(0, anywhere)
    taken = [t.get("had_ns", t["all_ns"]) / 1e3 for t in found["taken"]]
    of_all = {f"{REDIS} {p}": found["all"][p] / 1e3 for p in ("p50", "p99", "p99.9")}
    throughput = {f"{REDIS} throughput": found["throughput"]}
    return {**throughput, **of_all, f"{REDIS} had_us": statistics.median(taken)}


@contextmanager
def servers(switches: list[str], arguments: argparse.Namespace) -> Iterator[dict[str, Server]]:
    """One for each switch, all loaded."""
    with ExitStack() as stack:
        out = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        fig10.compile_programs(out)
        small = stack.enter_context(common.namespace())
        home = stack.enter_context(common.namespace(huge_pages=True)) or small
        started = {}
        for name in switches:
            started[name] = Server(name, out, home, arguments)
            stack.callback(started[name].close)
        yield started


def gain(key: str, here: float, there: float) -> float | None:
    """How many times worse a figure is without something than with all."""
    if min(here, there) <= 0:
        return None
    return there / here if key.rsplit(" ", 1)[-1] in RATES else here / there


def compared(rounds: list[Figures]) -> Figures:
    """For each switch and figure the ratios of the rounds, in order of size."""
    ratios: Figures = {}
    for found in rounds:
        for name, figures in found.items():
            for key, values in figures.items():
                base = found[ALL].get(key, [0.0])
                ratio = gain(key, statistics.median(values), statistics.median(base))
                if name != ALL and ratio is not None:
                    ratios.setdefault(name, {}).setdefault(key, []).append(round(ratio, 3))
    return {name: {k: sorted(v) for k, v in of.items()} for name, of in ratios.items()}


def bests(rounds: list[Figures]) -> Figures:
    """The same of the best figures of all rounds: a single ratio each."""
    best: dict[str, dict[str, list[float]]] = {}
    for found in rounds:
        for name, figures in found.items():
            for key, values in figures.items():
                pick = max if key.rsplit(" ", 1)[-1] in RATES else min
                of = best.setdefault(name, {})
                of[key] = [pick(values + of.get(key, []))]
    return compared([best])


def told(ratios: Figures) -> str:
    """A table: of each column the middle one of its figures' ratios, and the least and the most."""
    rows = []
    for name, of in ratios.items():
        cells = []
        for pattern in COLUMNS.values():
            matching = [r for key, r in of.items() if re.match(pattern, key)]
            each = sorted(statistics.median(r) for r in matching)
            middle = f"{statistics.median(each):.2f}" if each else "-"
            cells.append(f"{middle} ({each[0]:.2f}-{each[-1]:.2f})" if len(each) > 1 else middle)
        rows.append([name, *cells])
    return table(["without", *COLUMNS], rows)


def options() -> argparse.Namespace:
    """The command line, with what fig10 wants to know."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--names", default=",".join(names()))
    default = "live-small,resting-small,fig9-ahead,fig9-random,redis"
    others = "there are also live-huge, resting-huge, fig9-sweep"
    parser.add_argument("--jobs", default=default, help=others)
    parser.add_argument("--mib", type=int, default=128, help="size of what is stored to")
    parser.add_argument("--hooks", type=int, default=25, help="of each pattern of live")
    parser.add_argument("--interval", type=int, default=20, help="milliseconds between these")
    parser.add_argument("--seconds", type=float, default=1.0, help="a point of fig9 and fig10")
    parser.add_argument("--every", type=float, default=0.4, help="seconds from hook to hook, redis")
    parser.add_argument("--records", type=int, default=50_000, help="in redis")
    arguments = parser.parse_args()
    arguments.connections, arguments.ramp = 8, 0.3
    return arguments


def in_turns(switches: list[str], turn: int) -> list[str]:
    """All choices before every few that are left out, which change places from round to round."""
    rest = switches[1:]
    rest = rest[turn % len(rest) :] + rest[: turn % len(rest)]
    return [name for i in range(0, len(rest), FEW) for name in [ALL, *rest[i : i + FEW]]]


def run_round(
    order: list[str], running: dict[str, Server], arguments: argparse.Namespace
) -> Figures:
    """All jobs, each with all choices and without each, one right after the other."""
    found: Figures = {}
    for job in arguments.jobs.split(","):
        for name in order:
            print(f"without {name}:" if name not in (ALL, NONE) else f"with {name}:", flush=True)
            with without(name):
                if job == REDIS:
                    figures = redis(running[name], arguments)
                else:
                    figures = JOBS[job](arguments)
            for key, value in figures.items():
                found.setdefault(name, {}).setdefault(key, []).append(value)
    return found


def main() -> None:
    """Measures, and writes after each round."""
    arguments = options()
    switches = [ALL, NONE, *arguments.names.split(",")]
    swing_examples.build()
    rounds: list[Figures] = []
    with ExitStack() as stack:
        running: dict[str, Server] = {}
        if REDIS in arguments.jobs.split(","):
            running = stack.enter_context(servers(switches, arguments))
        for turn in range(arguments.rounds):
            rounds.append(run_round(in_turns(switches, turn), running, arguments))
            ratios = compared(rounds)
            settings = {k: v for k, v in vars(arguments).items() if k != "bin"}
            common.write("switches", {"settings": settings, "ratios": ratios, "rounds": rounds})
    print(f"medians of {len(rounds)} rounds\n\n{told(ratios)}")
    print(f"of the best of {len(rounds)} rounds\n\n{told(bests(rounds))}")


if __name__ == "__main__":
    main()
