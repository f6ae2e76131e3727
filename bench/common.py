"""What the benchmarks share: namespaces of their own, running the jobs, writing results.

Every benchmark writes `bench/results/<name>.json`: the figures, the raw times they come from, the
machine, and the command. `bench/report.py` makes the tables of docs/benchmarks.md from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where results go; tests of the benchmarks want them elsewhere.
RESULTS = Path(os.environ.get("BENCH_RESULTS", ROOT / "bench" / "results"))
MB, GB = 1 << 20, 1 << 30
SIZES = {"1 MB": MB, "1 GB": GB, "8 GB": 8 * GB}


def machine() -> dict:
    """What the figures were measured on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / GB, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def disk(directory: Path) -> dict:
    """What block device a directory lies on, as far as the kernel tells."""
    number = os.stat(directory).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if not (device / "queue").is_dir():
        device = device.parent
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    around = [m for m in mounts if directory.resolve().is_relative_to(m[1])]
    facts = {"device": device.name, "file_system": max(around, key=lambda m: len(m[1]))[2]}
    for name in ("model", "../device/model", "queue/scheduler", "queue/rotational"):
        path = device / ("device/model" if name == "../device/model" else name)
        if path.is_file():
            facts[path.name] = path.read_text().strip()
    driver = device / "device" / "driver"
    if driver.exists():
        facts["driver"] = driver.resolve().name
    return facts


def parse(
    description: str, more: Callable[[argparse.ArgumentParser], object] | None = None
) -> argparse.Namespace:
    """The command line of a benchmark; `more` adds what only this one has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where it was built")
    parser.add_argument("--max-bytes", type=int, default=8 * GB, help="no database above this size")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H")
    if more:
        more(parser)
    return parser.parse_args()


def sizes(arguments: argparse.Namespace) -> dict[str, int]:
    """The sizes to measure at: those of SIZES that are allowed."""
    return {name: size for name, size in SIZES.items() if size <= arguments.max_bytes}


def has_huge_pages(mount_point: str) -> bool:
    """Whether a file system that is mounted there gives huge pages."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return any("huge=" in mount[3] for mount in mounts if mount[1] == mount_point)


def refuse_huge_pages() -> None:
    """Ends the program where a namespace cannot have pages of 4 KiB."""
    if has_huge_pages("/dev/shm"):
        raise SystemExit("/dev/shm has huge pages: mount -o remount,huge=never /dev/shm")


@contextmanager
def namespace(huge_pages: bool = False) -> Iterator[Path | None]:
    """A namespace of the benchmark's own; `SWINGDB_HOME` names it. With `huge_pages` it lies on a
    file system mounted for them, which takes root: None when that cannot be."""
    directory = Path(tempfile.mkdtemp(prefix="swingdb-bench-", dir="/dev/shm"))
    mounted = False
    try:
        if huge_pages:
            options = f"mode=0700,huge=advise,size={20 * GB}"
            command = ["mount", "-t", "tmpfs", "-o", options, "swingdb-bench", str(directory)]
            mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
            if not mounted:
                yield None
                return
        os.environ["SWINGDB_HOME"] = str(directory)
        yield directory
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(directory)], check=False)
        shutil.rmtree(directory, ignore_errors=True)


def job(arguments: argparse.Namespace, *words: str) -> dict:
    """Runs one job of `swingdb-bench` in a process of its own; what it printed."""
    program = Path(arguments.bin) / "swingdb-bench"
    output = subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.strip().split("\n")[-1])


def generate_tpch(arguments: argparse.Namespace, name: str) -> None:
    """Makes and shares the database `name` with the eight tables of TPC-H."""
    program = Path(arguments.bin) / "swingdb"
    words = ["generate", "tpch", name, "--scale", f"{arguments.scale:g}"]
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)


def python_job(code: str, *words: str) -> dict:
    """Runs Python code in a process of its own; what it printed."""
    command = [sys.executable, "-c", code, *words]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.strip().split("\n")[-1])


def summary(values: list[float]) -> dict:
    """Median, quartiles and extremes."""
    ordered = sorted(values)
    quarters = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "median": statistics.median(ordered),
        "quarter": quarters[0],
        "three_quarters": quarters[2],
        "least": ordered[0],
        "most": ordered[-1],
        "count": len(ordered),
    }


def circumstances() -> dict:
    """Where and when: results of other circumstances are not mixed with new ones."""
    return {"measured": time.strftime("%Y-%m-%d"), "machine": machine()}


def earlier(name: str) -> dict:
    """The results of one benchmark so far, if they were measured here and today; else none."""
    path = RESULTS / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    if all(record.get(key) == value for key, value in circumstances().items()):
        return record
    if record:
        print(f"{path.name} is of another day or machine: it begins anew")
    return {}


def write(name: str, figures: dict, indent: int | None = 1) -> None:
    """Writes the results of one benchmark."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "command": f"make bench-{name}",
        **circumstances(),
        **figures,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=indent) + "\n")
    print(f"results: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
