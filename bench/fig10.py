"""YCSB on an unmodified Redis whose memory another process takes and scans: SWING's figure 10.

Workloads A to F (bench/figures/ycsb.c) against redis-server, with every so many seconds
- `plain`: nothing; as it is installed;
- `heap`: nothing; with libswingmalloc_preload.so, so that its heap is an area;
- `hook`: the same, and another process hooks the heap and scans all of it;
- `hook4k`: the same with pages of 4 KiB, where the others' areas have huge pages if root runs this;
- `bgsave`: plain, and a BGSAVE: Redis's own fork, which saves all of it;
- `fifo`: plain, and it writes its memory into a FIFO that the other process scans;
- `shared`: its heap is shared memory, and it stands still while the other process scans it.

All servers are started, loaded and taken once before; then the ways come one after the other, each
with all workloads, as it would go on; with `--rounds` again and in another order. The server has
one core; the load generator, whatever takes the memory, and this program have the other one. Who
keeps nobody waiting, the process that scans what it has hooked and Redis's child that saves, has
what the load generator leaves of that. Results of other workloads and ways stay in the file, if
they are of this machine and day.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import common

WAYS = ("plain", "heap", "hook", "hook4k", "bgsave", "fifo", "shared")
# Those that something happens to once every `--every` seconds.
PERIODIC = ("hook", "hook4k", "bgsave", "fifo", "shared")
PRELOADED = ("heap", "hook", "hook4k", "shared")
FIGURES = common.ROOT / "bench/figures"
SERVER_CORE, OTHER_CORE = "0", "1"
# Time to answer, to save: far more than it takes.
PATIENCE_S = 120.0
# Cores that others may take; a point with more is measured once more.
LITTLE = 0.05
# As `nice -n`, of whoever saves.
LEAST_PRIORITY = 19
TICKS = os.sysconf("SC_CLK_TCK")


def compile_programs(out: Path) -> None:
    """The load generator, and the library with which a program writes its memory to a FIFO."""
    gcc = ["gcc", "-O2", "-std=gnu11"]
    subprocess.run([*gcc, FIGURES / "ycsb.c", "-o", out / "ycsb", "-lm"], check=True)
    shared = ["-shared", "-fPIC", FIGURES / "dump_heap.c", "-o", out / "dump_heap.so"]
    subprocess.run([*gcc, *shared], check=True)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(parent: int) -> Iterator[int]:
    """The processes that one has forked."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rsplit(") ", 1)[1].split()[1]) == parent:
                yield int(path.parent.name)


class Server:
    """A redis-server of one of the ways."""

    def __init__(self, way: str, out: Path, home: Path, arguments: argparse.Namespace) -> None:
        self.way, self.out, self.home, self.port = way, out, home, free_port()
        self.analyst = Path(arguments.bin) / "examples/analyst"
        self.name, self.fifo = f"redis-{way}", out / "fifo"
        self.log = (out / f"{way}.log").open("w+")
        self.process = subprocess.Popen(
            ["redis-server", *self.options()],
            env=self.environment(arguments), stdout=self.log, stderr=self.log,
        )
        begun = time.monotonic()
        while self.ask("PING") != "PONG":
            if self.process.poll() is not None or time.monotonic() - begun > PATIENCE_S:
                raise RuntimeError(f"redis-server ({way}) does not answer")
            time.sleep(0.05)

    def options(self) -> list[str]:
        """Of redis-server: saves nothing by itself, and stays on its core."""
        options = f"--port {self.port} --dir {self.out} --daemonize no --loglevel warning".split()
        options += f"--server_cpulist {SERVER_CORE} --bio_cpulist {OTHER_CORE}".split()
        options += ["--bgsave_cpulist", OTHER_CORE, "--dbfilename", f"{self.way}.rdb"]
        return [*options, "--save", ""]

    def environment(self, arguments: argparse.Namespace) -> dict[str, str]:
        """What makes the way."""
        environment = dict(os.environ)
        if self.way in PRELOADED:
            environment["LD_PRELOAD"] = str(Path(arguments.bin) / "libswingmalloc_preload.so")
            environment["SWING_PRELOAD_NAME"] = self.name
            environment["SWINGDB_HOME"] = str(self.home)
        if self.way == "fifo":
            environment["LD_PRELOAD"] = str(self.out / "dump_heap.so")
            environment["DUMP_HEAP_TO"] = str(self.fifo)
            os.mkfifo(self.fifo)
        return environment

    def ask(self, *words: str) -> str:
        """What the server answers."""
        command = ["redis-cli", "-p", str(self.port), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.stdout.strip()

    def take(self) -> dict:
        """Has another process get and scan all of the server's memory, or save it."""
        if self.way == "bgsave":
            return self.save()
        pid = str(self.process.pid)
        if self.way == "fifo":
            words = ["fifo", str(self.fifo), pid]
        elif self.way == "shared":
            words = ["shared", str(self.home / self.name / "memory"), pid]
        else:
            words = ["hook", self.name]
        command = ["taskset", "-c", OTHER_CORE, self.analyst, *words]
        environment = dict(os.environ, SWINGDB_HOME=str(self.home))
        ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return json.loads(ran.stdout)

    def save(self) -> dict:
        """BGSAVE, until it is done."""
        begun = time.monotonic()
        self.ask("BGSAVE")
        for child in children(self.process.pid):
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, child, LEAST_PRIORITY)
        while "rdb_bgsave_in_progress:0" not in (info := self.ask("INFO", "persistence")):
            if time.monotonic() - begun > PATIENCE_S:
                raise RuntimeError("saving does not end")
            time.sleep(0.2)
        if "rdb_last_bgsave_status:ok" not in info:
            raise RuntimeError("the server could not save")
        return {"all_ns": int((time.monotonic() - begun) * 1e9)}

    def resident_bytes(self) -> int:
        """Memory of the process, as Redis tells it."""
        lines = (line.split(":", 1) for line in self.ask("INFO", "memory").split() if ":" in line)
        return int(dict(lines)["used_memory_rss"])

    def used_s(self) -> float:
        """Seconds of processor time of the process and of the children that it has waited for."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ")[1].split()
        return sum(map(int, fields[11:15])) / TICKS

    def close(self) -> None:
        """Ends the server; the namespace is removed by whoever made it."""
        self.process.kill()
        self.process.wait()
        self.log.close()


def busy_s() -> float:
    """Seconds that the machine's cores were busy, or another machine had them."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def each_s() -> dict[str, tuple[str, float]]:
    """Name and seconds of processor time of each process there is."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, rest = path.read_text().split(" (", 1)[1].rsplit(") ", 1)
            found[path.parent.name] = (name, sum(map(int, rest.split()[11:13])) / TICKS)
    return found


@contextmanager
def foreign(server: Server, told: dict) -> Iterator[None]:
    """Tells how many cores other programs took, and which: above a tenth, a figure is worth
    little."""

    def own_s() -> float:
        of = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return server.used_s() + sum(usage.ru_utime + usage.ru_stime for usage in of)

    begun, each, busy, own = time.monotonic(), each_s(), busy_s(), own_s()
    yield
    others = busy_s() - busy - (own_s() - own)
    took = time.monotonic() - begun
    told["foreign_cores"] = round(max(0.0, others / took), 3)
    most = {}
    for pid, (name, used) in each_s().items():
        cores = round((used - each.get(pid, ("", 0.0))[1]) / took, 2)
        if cores >= LITTLE and int(pid) not in (server.process.pid, os.getpid()):
            most[name] = cores
    if told["foreign_cores"] >= LITTLE:
        told["foreign"] = most


@contextmanager
def taking(server: Server, arguments: argparse.Namespace, taken: list[dict]) -> Iterator[None]:
    """Every so often, the first time after an eighth of that."""
    end = threading.Event()
    failed: list[BaseException] = []

    def loop() -> None:
        due = time.monotonic() + arguments.every / 8
        try:
            while not end.wait(max(0.0, due - time.monotonic())):
                taken.append(server.take())
                due += arguments.every
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=loop)
    if server.way in PERIODIC:
        thread.start()
    try:
        yield
    finally:
        end.set()
        if thread.ident is not None:
            thread.join()
    if failed:
        raise failed[0]


def ycsb(out: Path, server: Server, *words: str) -> dict:
    """Runs the load generator."""
    command = ["taskset", "-c", OTHER_CORE, out / "ycsb", str(server.port), *words]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout) if ran.stdout else {}


def point(workload: str, server: Server, arguments: argparse.Namespace, out: Path) -> dict:
    """One workload in one way, once."""
    told: dict = {"way": server.way, "workload": workload}
    taken: list[dict] = []
    ramp = (workload, server.ask("ZCARD", "_indices"), str(arguments.connections))
    ycsb(out, server, *ramp, str(arguments.ramp))
    words = (workload, server.ask("ZCARD", "_indices"), str(arguments.connections))
    with foreign(server, told), taking(server, arguments, taken):
        told |= ycsb(out, server, *words, str(arguments.seconds))
    told |= {"taken": taken, "resident_bytes": server.resident_bytes()}
    if server.way in PERIODIC and not taken:
        raise RuntimeError("nothing was taken: --seconds is too short for --every")
    every = told["all"]
    print(
        f"{workload} {server.way:7}{told['throughput']:9.0f}/s  p50 {every['p50'] / 1e3:.0f}"
        f"  p99 {every['p99'] / 1e3:.0f}  p99.9 {every['p99.9'] / 1e3:.0f} us"
        f"  most {every['most'] / 1e6:.1f} ms  taken in"
        f" {[round(t.get('had_ns', t['all_ns']) / 1e6, 1) for t in taken]} ms"
        f"  others {told['foreign_cores']:.2f} cores {told.get('foreign', '')}",
        flush=True,
    )
    return told


def quiet_point(workload: str, server: Server, arguments: argparse.Namespace, out: Path) -> dict:
    """As `point`; once more when others took too much of the machine."""
    found = point(workload, server, arguments, out)
    if found["foreign_cores"] < LITTLE or arguments.once:
        return found
    again = point(workload, server, arguments, out)
    return min(found, again, key=lambda p: p["foreign_cores"])


@contextmanager
def servers(arguments: argparse.Namespace, out: Path) -> Iterator[list[Server]]:
    """One of each way, loaded. Areas have huge pages where root can mount a place for them."""
    if "hook4k" in arguments.ways.split(","):
        common.refuse_huge_pages()
    with ExitStack() as stack:
        small = stack.enter_context(common.namespace())
        huge = stack.enter_context(common.namespace(huge_pages=True)) or small
        running = []
        for way in arguments.ways.split(","):
            home = small if way == "hook4k" else huge
            server = Server(way, out, home, arguments)
            stack.callback(server.close)
            ycsb(out, server, "load", str(arguments.records), str(arguments.connections))
            print(f"{way}: {server.resident_bytes() / common.MB:.0f} MiB loaded", flush=True)
            if way in PERIODIC:
                # The first time is another: memory that was never used before.
                server.take()
                words = (str(arguments.records), str(arguments.connections), "1")
                ycsb(out, server, "A", *words)
            running.append(server)
        arguments.huge_pages = huge != small
        yield running


def compared(points: list[dict]) -> dict:
    """Medians of each workload and way, and how they are to plain's."""
    figures: dict[str, dict] = {}
    for p in points:
        of = figures.setdefault(p["workload"], {}).setdefault(p["way"], {})
        of.setdefault("throughput", []).append(p["throughput"])
        for name in ("p50", "p99", "p99.9", "most"):
            of.setdefault(f"{name}_us", []).append(p["all"][name] / 1e3)
    for ways in figures.values():
        for of in ways.values():
            of |= {name: round(statistics.median(values), 1) for name, values in of.items()}
        for of in ways.values():
            if "plain" in ways:
                for name in ("throughput", "p99_us"):
                    of[f"{name}_to_plain"] = round(of[name] / ways["plain"][name], 3)
    return figures


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--records", type=int, default=200_000, help="the paper has 900 000")
    parser.add_argument("--seconds", type=float, default=8.0, help="a point takes")
    parser.add_argument("--every", type=float, default=8.0, help="seconds from hook to hook")
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds before, not measured")
    parser.add_argument("--rounds", type=int, default=1, help="points of each workload and way")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--workloads", default="ABCFDE")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--once", action="store_true", help="measure disturbed points only once")
    parser.add_argument("--dry", action="store_true", help="write no results")
    return parser.parse_args()


def write(points: list[dict], arguments: argparse.Namespace) -> None:
    """Writes bench/results/fig10.json: these points in place of those of the same
    workloads and ways."""
    before = common.earlier("fig10").get("points", [])
    new = {(p["workload"], p["way"]) for p in points}
    points = [p for p in before if (p["workload"], p["way"]) not in new] + points
    points.sort(key=lambda p: (p["workload"], WAYS.index(p["way"])))
    names = ("records", "seconds", "every", "connections", "huge_pages")
    settings = {name: getattr(arguments, name) for name in names}
    common.write("fig10", {**settings, "compared": compared(points), "points": points})


def main() -> None:
    """Measures, and writes after each workload."""
    arguments = options()
    # Also what it starts; only the servers go to their own core.
    os.sched_setaffinity(0, {int(OTHER_CORE)})
    points: list[dict] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        out = Path(directory)
        compile_programs(out)
        with servers(arguments, out) as running:
            for turn in range(arguments.rounds):
                for server in running[turn:] + running[:turn]:
                    for workload in arguments.workloads:
                        points.append(quiet_point(workload, server, arguments, out))
                    if not arguments.dry:
                        write(points, arguments)


if __name__ == "__main__":
    main()
