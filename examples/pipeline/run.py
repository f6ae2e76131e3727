"""Runs the pipeline: five programs that hand their data to each other as snapshots.

    python run.py --rows 20000000 --bin target/release --out demo-output

Starts the programs A to E as processes of their own, prints what they do as they do it, checks
their results by other means, then sends the same data through a pickled pipe and through a
Parquet file and prints both beside each other. Pictures, the events and the figures go to the
output directory. The databases live in a namespace of the run's own and are gone when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The four hand-overs of the paper's Figure 1: giver, taker, database, the table that crosses.
HAND_OVERS = [
    ("A", "C", "taxi", "gps"),
    ("B", "C", "reference", "weather"),
    ("C", "D", "clean", "positions"),
    ("C", "E", "clean", "positions"),
]
# What the databases take for each row that A loads, and what checks and other ways take besides
# (measured with 170 million rows).
SHARED_BYTES_PER_ROW = 82
CHECKING_BYTES_PER_ROW = 34
# What the programs take themselves.
FIXED_BYTES = 1 << 30


class Program:
    """One running stage: its process, and the events it has printed so far."""

    def __init__(self, letter: str, command: list[str], environment: dict, started_ns: int):
        self.letter, self.events, self.started_ns = letter, [], started_ns
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.errors: list[str] = []
        self.threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def _read_events(self) -> None:
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["kind"] != "write on" and not event["kind"].startswith("wait"):
                self._print(event)

    def _read_errors(self) -> None:
        self.errors.extend(self.process.stderr)

    def _print(self, event: dict) -> None:
        at = (event["end_ns"] - self.started_ns) / 1e9
        took = duration((event["end_ns"] - event["start_ns"]) / 1e9)
        hidden = {"stage", "kind", "start_ns", "end_ns"}
        facts = ", ".join(f"{k} {show(v)}" for k, v in event.items() if k not in hidden)
        if event["kind"] == "start":
            took, facts = "", f"process {self.process.pid}"
        print(f"  {at:7.2f} s  {self.letter}  {event['kind']:<22} {took:>10}  {facts}", flush=True)

    def finish(self) -> None:
        """Waits for the program's end; an error with what it said when it failed."""
        status = self.process.wait()
        for thread in self.threads:
            thread.join()
        if status != 0:
            raise DemoFailed(f"stage {self.letter} {ending(status)}\n{''.join(self.errors)}")

    def stop(self) -> None:
        """Tells a program that runs until its input closes to end, and waits for it."""
        self.process.stdin.close()
        self.finish()

    def kill(self) -> None:
        """Ends the program whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class DemoFailed(RuntimeError):
    """The pipeline cannot run, or a stage ended with an error: which, and what it said."""


def ending(status: int) -> str:
    """How a process ended, in words."""
    if status == -signal.SIGKILL:
        return "was killed: by the kernel for want of memory, when nobody else did it (see dmesg)"
    if status < 0:
        return f"was ended by signal {signal.Signals(-status).name}"
    return f"ended with status {status}:"


def duration(seconds: float) -> str:
    """A duration in the unit that suits it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def show(value: object) -> str:
    """A fact of an event: numbers of rows with their thousands apart."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def commands(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The command line of each stage."""
    binaries, seed = Path(arguments.bin), str(arguments.seed)
    return {
        "A": [str(binaries / "pipeline-load-taxi"), "--rows", str(arguments.rows), "--seed", seed],
        "B": [str(binaries / "pipeline-load-reference"), "--seed", seed],
        "C": [sys.executable, str(HERE / "combine.py")],
        "D": [sys.executable, str(HERE / "clusters.py"), "--seed", seed],
        "E": [str(binaries / "pipeline-speed")],
    }


def run_stages(arguments: argparse.Namespace, environment: dict) -> dict[str, Program]:
    """Starts all five at once and waits until C, D and E are done; then A may stop."""
    started_ns = time.time_ns()
    programs: dict[str, Program] = {}
    failed: list[Program] = []
    try:
        for letter, command in commands(arguments).items():
            programs[letter] = Program(letter, command, environment, started_ns)
        watcher = threading.Thread(target=_stop_on_failure, args=(programs, failed), daemon=True)
        watcher.start()
        for letter in "BCDE":
            programs[letter].finish()
        programs["A"].stop()
        watcher.join()
    except BaseException:
        # The others were ended because of the first that failed: what it said is what counts.
        first = sorted(failed, key=lambda program: program.process.returncode == -signal.SIGKILL)
        for program in programs.values():
            program.kill()
        if first:
            first[0].finish()
        raise
    return programs


def _stop_on_failure(programs: dict[str, Program], failed: list[Program]) -> None:
    """When one stage fails, those that wait for it would wait long: end them all. The first that
    failed goes into `failed`."""
    while any(p.process.poll() is None for p in programs.values()):
        failed.extend(p for p in programs.values() if p.process.poll() not in (None, 0))
        if failed:
            for program in programs.values():
                program.kill()
            return
        time.sleep(0.05)


def want_of_memory(rows: int, available: int, shared: int) -> str | None:
    """What to say when so much memory, so much of it shared, is too little for so many rows: better
    now than when the kernel ends one of the programs half-way."""
    need = rows * (SHARED_BYTES_PER_ROW + CHECKING_BYTES_PER_ROW) + FIXED_BYTES
    need_shared = rows * SHARED_BYTES_PER_ROW
    if need <= available and need_shared <= shared:
        return None
    most = min(
        (available - FIXED_BYTES) // (SHARED_BYTES_PER_ROW + CHECKING_BYTES_PER_ROW),
        shared // SHARED_BYTES_PER_ROW,
    )
    return (
        f"{rows:,} rows need {need / 1e9:.1f} GB of memory, {need_shared / 1e9:.1f} GB of them in "
        f"/dev/shm; there are {available / 1e9:.1f} GB, and {shared / 1e9:.1f} GB in /dev/shm: "
        f"enough for --rows {max(0, most) // 100_000 * 100_000} (make demo ROWS=...)"
    )


def memory_here() -> tuple[int, int]:
    """Bytes that programs can have now, and bytes that are free in /dev/shm."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    shared = os.statvfs("/dev/shm")
    return available << 10, shared.f_bavail * shared.f_frsize


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000, help="GPS rows that A loads")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--bin", default="target/release", help="where the Rust stages were built")
    parser.add_argument("--out", default="demo-output", help="where pictures and figures go")
    parser.add_argument("--no-baseline", action="store_true", help="skip the pipe and the file")
    return parser.parse_args(arguments)


def main(arguments: argparse.Namespace) -> int:
    """Runs everything in a namespace of its own; 0 when all checks hold."""
    if refusal := want_of_memory(arguments.rows, *memory_here()):
        raise DemoFailed(refusal)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    home = tempfile.mkdtemp(prefix=f"swingdb-demo-{os.getpid()}-", dir="/dev/shm")
    os.environ["SWINGDB_HOME"] = home
    # One thread a product of matrices: the clustering has threads of its own.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        print(f"Five programs, {arguments.rows:,} taxi positions, {os.cpu_count()} cores\n")
        programs = run_stages(arguments, dict(os.environ))
        events = sorted((e for p in programs.values() for e in p.events), key=lambda e: e["end_ns"])
        (out / "events.json").write_text(json.dumps(events, indent=1))
        # Imported late: these take snapshots themselves, in the namespace set above.
        import baseline
        import pictures
        import verify

        failures = verify.check_everything(events, arguments)
        measured = [] if arguments.no_baseline else baseline.measure(HAND_OVERS, home)
        (out / "hand-overs.json").write_text(json.dumps(measured, indent=1))
        baseline.print_table(HAND_OVERS, measured, events)
        for picture in pictures.draw(events, measured, out):
            print(f"  picture: {picture}")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"\nThe run took {time.monotonic() - begun:.0f} s; {failures} checks failed.")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(parse(sys.argv[1:])))
    except DemoFailed as failure:
        sys.exit(f"\nerror: {failure}")
