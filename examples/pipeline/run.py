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
MAX_STOP_S = 30.0


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
            raise RuntimeError(f"stage {self.letter} ended with {status}:\n{''.join(self.errors)}")

    def stop(self) -> None:
        """Tells a program that runs until its input closes to end, and waits for it."""
        self.process.stdin.close()
        self.finish()

    def kill(self) -> None:
        """Ends the program whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


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
    try:
        for letter, command in commands(arguments).items():
            programs[letter] = Program(letter, command, environment, started_ns)
        watcher = threading.Thread(target=_stop_on_failure, args=(programs,), daemon=True)
        watcher.start()
        for letter in "BCDE":
            programs[letter].finish()
        programs["A"].stop()
        watcher.join()
    except BaseException:
        for program in programs.values():
            program.kill()
        for program in programs.values():
            # Those that were ended because of it have the status of a kill.
            if program.process.returncode not in (0, -signal.SIGKILL):
                program.finish()
        raise
    return programs


def _stop_on_failure(programs: dict[str, Program]) -> None:
    """When one stage fails, those that wait for it would wait long: end them all."""
    while any(p.process.poll() is None for p in programs.values()):
        if any(p.process.poll() not in (None, 0) for p in programs.values()):
            for program in programs.values():
                program.kill()
            return
        time.sleep(0.05)


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
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    home = tempfile.mkdtemp(prefix="swingdb-demo-", dir="/dev/shm")
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
    sys.exit(main(parse(sys.argv[1:])))
