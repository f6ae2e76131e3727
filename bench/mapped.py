"""Reading files larger than memory, mapped and otherwise: the experiments of "Are You Sure You Want
to Use MMAP in Your Database Management System?" (CIDR 2022).

    python bench/mapped.py random|scan [--mib 2048] [--seconds 6] [--several 4] [--dry]

Each way reads for some seconds in a memory control group of a quarter of the data: mapped with each
advice, `pread` through the page cache, this system's queues on io_uring with direct I/O, and `fio`
as the yardstick where it is installed. Once on one file, once on several. Needs root, for the
group. Nothing outside its own files is dropped from the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import common

WAYS = ("mmap-normal", "mmap-random", "mmap-sequential", "pread", "uring", "fio")
# Threads, and requests in flight of each; what a scan reads at a time. 100 random requests are in
# flight in all ways, as in the paper. A scan by blocking calls has the kernel's read-ahead besides;
# it reads all once, so that no way finds again what it has just read (fio, which keeps nothing,
# goes on).
RANDOM = {"blocking": (100, 1), "queued": (2, 50), "bytes": 4096}
SCAN = {"blocking": (8, 1), "queued": (2, 8), "bytes": 512 << 10}


def own_group(controller: str) -> str:
    """The path of this process's control group in one hierarchy; empty for the second version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") if controller else names == "":
            return path.strip("/")
    return ""


def new_group(limit: int) -> Path:
    """Makes a memory control group with this limit, in whichever version the system has."""
    name = f"swingdb-bench-{os.getpid()}"
    first = Path("/sys/fs/cgroup/memory")
    if (first / "memory.limit_in_bytes").exists() or (first / "tasks").exists():
        within = first / own_group("memory")
        group = (within if within.is_dir() else first) / name
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
        return group
    root = Path("/sys/fs/cgroup")
    if "memory" not in (root / "cgroup.controllers").read_text().split():
        raise SystemExit("the system has no memory control groups")
    (root / "cgroup.subtree_control").write_text("+memory")
    group = root / name
    group.mkdir()
    (group / "memory.max").write_text(str(limit))
    return group


@contextmanager
def limited(limit: int) -> Iterator[Path]:
    """A memory control group for a while."""
    try:
        group = new_group(limit)
    except PermissionError as error:
        raise SystemExit(f"a memory control group needs root: {error}") from error
    try:
        yield group
    finally:
        group.rmdir()


def forget(files: list[Path]) -> None:
    """Takes the files out of the page cache, and nothing else."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def fill(directory: Path, mib: int, count: int) -> list[Path]:
    """Files of random bytes, `mib` all together."""
    block = os.urandom(16 * common.MB)
    files = []
    for index in range(count):
        path = directory / f"data-{count}-{index}"
        with path.open("wb") as file:
            for _ in range(0, mib // count, 16):
                # Each block differs, so that no device stores it once.
                file.write(os.urandom(4096) + block[4096:])
        files.append(path)
        forget([path])
    return files


def by_ours(program: Path, group: Path, way: str, pattern: dict, seconds: int, files: list) -> dict:
    """One way of `read_ways`, in the control group."""
    threads, depth = pattern["queued" if way == "uring" else "blocking"]
    words = [way, pattern["name"], seconds, threads, depth, pattern["bytes"], *files]
    ran = subprocess.run(
        [program, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )
    return json.loads(ran.stdout)


def by_fio(group: Path, pattern: dict, seconds: int, files: list) -> dict | None:
    """The same by fio, with direct I/O; None when it is not installed."""
    if shutil.which("fio") is None:
        return None
    jobs, depth = pattern["queued"]
    total = sum(path.stat().st_size for path in files)
    with tempfile.TemporaryDirectory() as out:
        command = [
            "fio", "--readonly", "--direct=1", "--ioengine=io_uring", "--fixedbufs",
            "--registerfiles", "--time_based",
            f"--runtime={seconds}", f"--iodepth={depth}",
            f"--bs={pattern['bytes']}", "--group_reporting", "--output-format=json",
            f"--rw={'randread' if pattern['name'] == 'random' else 'read'}",
            f"--write_bw_log={out}/fio", "--log_avg_msec=100", "--per_job_logs=0",
        ]
        part = total // jobs // pattern["bytes"] * pattern["bytes"]
        for job in range(jobs):
            # Each job its own part of a scan, as our threads.
            own = files if len(files) == 1 or pattern["name"] == "random" else files[job::jobs]
            command += [f"--name=job{job}", f"--filename={':'.join(map(str, own))}"]
            if pattern["name"] == "scan" and len(files) == 1:
                command += [f"--offset={job * part}", f"--size={part}"]
        before = shootdowns()
        ran = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=out,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
        )
        shot = shootdowns() - before
        bins = [0] * (seconds * 10)
        for line in (Path(out) / "fio_bw.log").read_text().splitlines():
            ms, kib_per_s = (int(word) for word in line.split(",")[:2])
            if ms // 100 < len(bins):
                bins[ms // 100] += kib_per_s * 1024 // 10
    job = json.loads(ran.stdout)["jobs"][0]
    read, taken = job["read"], job["read"]["runtime"] / 1000
    waits = read["clat_ns"]["percentile"]
    return {
        "way": "fio", "random": pattern["name"] == "random", "threads": jobs, "depth": depth,
        "request_bytes": pattern["bytes"], "files": len(files), "seconds": taken,
        "bytes": read["io_bytes"], "user_s": job["usr_cpu"] / 100 * taken * jobs,
        "system_s": job["sys_cpu"] / 100 * taken * jobs, "major_faults": job["majf"],
        "p50_us": waits["50.000000"] / 1e3, "p99_us": waits["99.000000"] / 1e3,
        "p999_us": waits["99.900000"] / 1e3, "most_us": read["clat_ns"]["max"] / 1e3,
        "bin_ms": 100, "bin_bytes": bins, "tlb_shootdowns": [round(shot / seconds)] * seconds,
    }


def shootdowns() -> int:
    """TLB shootdowns of the machine so far."""
    for line in Path("/proc/interrupts").read_text().splitlines():
        if line.strip().startswith("TLB:"):
            return sum(int(word) for word in line.split() if word.isdigit())
    return 0


def longest_stall(run: dict) -> float:
    """The longest time in milliseconds in which nothing at all was read, in steps of a bin."""
    longest = now = 0
    for count in run["bin_bytes"]:
        now = 0 if count else now + 1
        longest = max(longest, now)
    return longest * run["bin_ms"]


def measure(arguments: argparse.Namespace, pattern: dict, directory: Path) -> list[dict]:
    """All ways on one file, then on several."""
    program = Path(arguments.bin) / "examples/read_ways"
    runs = []
    for count in (1, arguments.several):
        files = fill(directory, arguments.mib, count)
        # A host's cache may hold what was just written: each way reads after one that read all.
        with limited(arguments.mib * common.MB // 4) as group:
            by_ours(program, group, "uring", {"name": "scan", **SCAN}, 60, files)
        for way in WAYS:
            forget(files)
            with limited(arguments.mib * common.MB // 4) as group:
                if way == "fio":
                    run = by_fio(group, pattern, arguments.seconds, files)
                else:
                    run = by_ours(program, group, way, pattern, arguments.seconds, files)
                forget(files)
            if run is None:
                print("fio is not installed: left out")
                continue
            run["stall_ms"] = longest_stall(run)
            rate = run["bytes"] / run["seconds"] / 1e6
            cores = (run["user_s"] + run["system_s"]) / run["seconds"]
            shot = statistics.mean(run["tlb_shootdowns"] or [0])
            print(f"{pattern['name']}, {count} file(s), {way}: {rate:.1f} MB/s, {cores:.2f} cores, "
                  f"most {run['most_us'] / 1e3:.0f} ms, {shot:.0f} shootdowns/s")
            runs.append(run)
        for path in files:
            path.unlink()
    return runs


def main() -> None:
    """Measures and writes bench/results/mapped-random.json or mapped-scan.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", choices=("random", "scan"))
    parser.add_argument("--bin", default=str(common.ROOT / "target/release"))
    parser.add_argument("--dir", default=None, help="on the disk to read from; default: --bin")
    parser.add_argument("--mib", type=int, default=0,
                        help="how much data; the memory is a quarter (2048, scans 3072)")
    parser.add_argument("--seconds", type=int, default=6, help="for each way")
    parser.add_argument("--several", type=int, default=4, help="number of files")
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("a memory control group needs root")
    arguments.mib = arguments.mib or (2048 if arguments.pattern == "random" else 3072)
    pattern = {"name": arguments.pattern, **(RANDOM if arguments.pattern == "random" else SCAN)}
    within = arguments.dir or arguments.bin
    with tempfile.TemporaryDirectory(prefix="swingdb-mapped-", dir=within) as directory:
        runs = measure(arguments, pattern, Path(directory))
        disk = common.disk(Path(within))
    if not arguments.dry:
        figures = {"mib": arguments.mib, "memory_mib": arguments.mib // 4, "disk": disk}
        common.write(f"mapped-{arguments.pattern}", {**figures, "runs": runs})


if __name__ == "__main__":
    main()
