"""Checks that dependencies point down only: between crates, and between the folders of a crate.

    python3 tools/check_layers.py [DIRECTORY]

The crates' layers are those of ARCHITECTURE.md. The memory layers must not even reach the query
engine, the asynchronous runtime or a language binding through somebody else's crate, so that they
stay small enough to be understood, and usable, alone.

Inside a crate `FOLDERS` lists the folders, lowest first: a file may use files of its own folder and
of those before it. A folder of a folder (`execute/dml`) has a place of its own; files beside such
folders are above them. Of every other crate `FOLDER_CYCLES` says how many of its folders use each
other, also through others; the files beside the folders count as one folder.

No two files may use each other, not even through others (a cycle), unless each of them gives the
reason in its `//!`, in a paragraph that begins with `**Cycle.**`. `CYCLES` says how many files of a
crate still do so without a reason. A crate that is in neither table has no cycle. Both numbers may
only fall.

Reads `cargo metadata` and the source (`rust_modules.py`); compiles nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import rust_modules

# What each crate may use of our own crates, in production.
ALLOWED: dict[str, set[str]] = {
    "swing": set(),
    "swing-malloc": {"swing"},
    "swing-tier": {"swing"},
    "swing-heap": {"swing", "swing-tier"},
    "swing-calls": {"swing"},
    "swing-preload": {"swing", "swing-calls", "swing-malloc"},
    "swing-capi": {"swing", "swing-malloc", "swing-tier", "swing-heap"},
    "libswing": {"swing-calls", "swing-capi"},
    "swingdb-common": {"swing", "swing-tier"},
    "swingdb-store": {"swingdb-common", "swing", "swing-malloc", "swing-tier"},
    "swingdb-functions": {"swingdb-common"},
    "swingdb-operators": set(),
    "swingdb-files": {"swingdb-common", "swingdb-functions"},
    "swingdb-sql": {
        "swingdb-common",
        "swingdb-store",
        "swingdb-functions",
        "swingdb-operators",
        "swingdb-files",
    },
    "swingdb": {
        "swingdb-common",
        "swingdb-store",
        "swingdb-files",
        "swingdb-sql",
        "swing",
        "swing-tier",
    },
    "swingdb-capi": {"swingdb"},
    "swingdb-adbc": {"swingdb"},
    "swingdb-generate": {"swingdb"},
    "swingdb-cli": {"swingdb", "swingdb-generate"},
    "swingdb-python": {"swingdb", "swingdb-adbc", "swing-capi"},
    "swingdb-server": {"swingdb"},
    # Programs that use the system as anybody else would: through the database's door.
    "swingdb-pipeline": {"swingdb", "swingdb-generate"},
    "swingdb-bench": {"swingdb", "swingdb-generate"},
    "swing-bulk": {"swing"},
    "swingdb-processes": {"swingdb", "swing", "swing-malloc"},
}
MEMORY_LAYERS = (
    "swing",
    "swing-malloc",
    "swing-tier",
    "swing-heap",
    "swing-calls",
    "swing-capi",
    "libswing",
    "swing-preload",
)
FORBIDDEN_BELOW = ("arrow", "parquet", "datafusion", "tokio", "pyo3", "object_store", "futures")

# For each crate that has folders: their names, lowest first.
FOLDERS: dict[str, tuple[str, ...]] = {
    "swing": (
        "model",
        "policy",
        "sys",
        "namespace",
        "memory",
        "recovery",
        "trap",
        "area",
        "reclaim",
        "publish",
        "hook",
        "write",
        "tracked",
        "live",
        "lifecycle",
    ),
    "swing-tier": (
        "units",
        "error",
        "sync",
        "process",
        "profile",
        "arena",
        "storage",
        "layout",
        "io",
        "disk",
        "log",
        "scan",
        "probe",
        "pack",
    ),
    "swingdb-store": (
        "errors",
        "codec",
        "memory",
        "segments",
        "catalog",
        "keys",
        "durable",
        "commit",
        "store",
        "txn",
        "open",
    ),
    "swingdb-cli": (
        "units",
        "failure",
        "progress",
        "home",
        "listing",
        "interrupt",
        "output",
        "args",
        "runner",
        "ui",
        "commands",
        "shell",
    ),
    "swingdb-sql": (
        "ast",
        "nodes",
        "text",
        "options",
        "scan",
        "desugar",
        "bind",
        "plan",
        "analyze",
        "optimize",
        "physical",
    ),
    "swingdb-server": (
        "token",
        "limits",
        "session",
        "registry",
        "transport",
        "options",
        "shared",
        "postgres",
        "listen",
    ),
    "swingdb": (
        "admin",
        "database",
        "session",
        "execute",
        "connection",
        "extend",
    ),
}
# How many files of a crate are in a cycle without a reason. Write the smaller number here when some
# are mended.
CYCLES: dict[str, int] = {
    "swing-capi": 4,
    "swing-heap": 5,
    "swing-malloc": 2,
    "swing-tier": 6,
}
# The same of the folders of a crate that is not in `FOLDERS`.
FOLDER_CYCLES: dict[str, int] = {}
_REASON = re.compile(r"(?m)^//! (?:\* )?\*\*Cycle\.\*\*")


def production_edges(metadata: dict) -> dict[str, set[str]]:
    """For each package id, the ids it needs outside of tests."""
    edges = {}
    for node in metadata["resolve"]["nodes"]:
        edges[node["id"]] = {
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        }
    return edges


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """All package ids that `start` needs, directly or not."""
    seen, todo = set(), [start]
    while todo:
        for following in edges[todo.pop()] - seen:
            seen.add(following)
            todo.append(following)
    return seen


def breaches(metadata: dict) -> list[str]:
    """One line for each dependency that points up or out of its layer."""
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    members = {names[member]: member for member in metadata["workspace_members"]}
    edges, found = production_edges(metadata), []
    for name, member in sorted(members.items()):
        if name not in ALLOWED:
            found.append(f"{name}: not in the table of layers (tools/check_layers.py)")
            continue
        used = {names[d] for d in edges[member]} & members.keys()
        for wrong in sorted(used - ALLOWED[name]):
            found.append(f"{name} -> {wrong}: this dependency points up")
        if name in MEMORY_LAYERS:
            everything = sorted({names[d] for d in reachable(member, edges)})
            for reached in everything:
                if reached.startswith(FORBIDDEN_BELOW):
                    found.append(f"{name} -> {reached}: the memory layers must not know it")
    return found


def folder_breaches(
    modules: dict[rust_modules.Path_, rust_modules.Module],
    graph: dict[rust_modules.Path_, dict[rust_modules.Path_, int]],
    folders: tuple[str, ...],
    root: Path,
) -> list[str]:
    """One line for each folder that is not in the table, and for each use that points up."""
    found, heights = [], {name: height for height, name in enumerate(folders)}

    def height(path: rust_modules.Path_) -> int:
        """The place of the longest folder that is in the table; files beside the folders are above
        all of them."""
        places = ("/".join(path[:length]) for length in range(len(path), 0, -1))
        return next((heights[place] for place in places if place in heights), len(folders))

    inner = {name.rpartition("/")[0] for name in folders}
    present = {
        "/".join(path[:length])
        for path, module in modules.items()
        for length in range(1, len(path) + module.is_folder)
        if "/".join(path[: length - 1]) in inner
    }
    for name in sorted(present - heights.keys()):
        found.append(f"{root.name}/src/{name}: not in the table of folders (tools/check_layers.py)")
    for path, used in sorted(graph.items()):
        for other, line in used.items():
            if height(other) > height(path):
                file = modules[path].file.relative_to(root.parent)
                found.append(f"{file}:{line}: {modules[path]} -> {modules[other]} points up")
    return found


def cycle_breaches(
    modules: dict[rust_modules.Path_, rust_modules.Module],
    graph: dict[rust_modules.Path_, dict[rust_modules.Path_, int]],
    known: int,
    crate: str,
) -> list[str]:
    """Lines about files that use each other, when they are not as many as is known."""
    groups = []
    for group in rust_modules.cycles(graph):
        texts = [modules[path].file.read_text(encoding="utf-8") for path in group]
        if not all(_REASON.search(text) for text in texts):
            groups.append(group)
    count = sum(map(len, groups))
    if count == known:
        return []
    if count < known:
        return [f"{crate}: {count} files in cycles, not {known}: write that into CYCLES"]
    names = [" ".join(str(modules[path]) for path in group) for group in groups]
    return [f"{crate}: {count} files in cycles, at most {known}: {name}" for name in names]


def folder_cycle_breaches(
    modules: dict[rust_modules.Path_, rust_modules.Module],
    graph: dict[rust_modules.Path_, dict[rust_modules.Path_, int]],
    known: int,
    crate: str,
) -> list[str]:
    """Lines about folders that use each other, when they are not as many as is known. The root of
    the crate names all folders, and is left out."""

    def folder(path: rust_modules.Path_) -> rust_modules.Path_:
        return path[:1] if len(path) > 1 or modules[path].is_folder else (".",)

    between: dict[rust_modules.Path_, dict[rust_modules.Path_, int]] = {}
    for path, used in graph.items():
        if path:
            from_here = between.setdefault(folder(path), {})
            for other, line in used.items():
                if other and folder(other) != folder(path):
                    from_here.setdefault(folder(other), line)
    for targets in list(between.values()):
        for target in targets:
            between.setdefault(target, {})
    groups = rust_modules.cycles(between)
    count = sum(map(len, groups))
    if count == known:
        return []
    if count < known:
        return [f"{crate}: {count} folders in cycles, not {known}: write that into FOLDER_CYCLES"]
    names = [" ".join(sorted("/".join(path) for path in group)) for group in groups]
    return [f"{crate}: {count} folders in cycles, at most {known}: {name}" for name in names]


def source_breaches(root: Path) -> list[str]:
    """What is wrong between the files of each crate."""
    found = []
    for folder in sorted((root / "crates").iterdir()):
        crate = folder.name
        if not (folder / "src").is_dir():
            continue
        modules = rust_modules.read(folder)
        graph = rust_modules.uses(modules)
        if crate in FOLDERS:
            found += folder_breaches(modules, graph, FOLDERS[crate], folder)
        else:
            known = FOLDER_CYCLES.get(crate, 0)
            found += folder_cycle_breaches(modules, graph, known, crate)
        found += cycle_breaches(modules, graph, CYCLES.get(crate, 0), crate)
    return found


def main(arguments: list[str]) -> int:
    """Checks the workspace; the exit status is 1 when a dependency points up."""
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    metadata = json.loads(output)
    found = breaches(metadata) + source_breaches(root)
    for line in found:
        print(line)
    print(f"layers: {len(metadata['workspace_members'])} crates, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
