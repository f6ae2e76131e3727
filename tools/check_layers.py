"""Checks that dependencies between the crates point down only; fails when one points up.

    python3 tools/check_layers.py [DIRECTORY]

The layers are those of ARCHITECTURE.md. The memory layers must not even reach the query engine, the
asynchronous runtime or a language binding through somebody else's crate, so that they stay small
enough to be understood, and usable, alone. Reads `cargo metadata`; compiles nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# What each crate may use of our own crates, in production.
ALLOWED: dict[str, set[str]] = {
    "swing": set(),
    "swing-malloc": {"swing"},
    "swing-tier": {"swing"},
    "swing-heap": {"swing-tier"},
    "swing-calls": {"swing"},
    "swing-preload": {"swing", "swing-calls", "swing-malloc"},
    "swing-capi": {"swing", "swing-malloc", "swing-tier", "swing-heap"},
    "libswing": {"swing-calls", "swing-capi"},
    "swingdb": {"swing", "swing-malloc", "swing-tier"},
    "swingdb-cli": {"swingdb"},
    "swingdb-python": {"swingdb", "swing-capi"},
    # Programs that use the system as anybody else would: through the database's door.
    "swingdb-pipeline": {"swingdb"},
    "swingdb-bench": {"swingdb", "swing", "swing-malloc"},
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


def main(arguments: list[str]) -> int:
    """Checks the workspace; the exit status is 1 when a dependency points up."""
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    metadata = json.loads(output)
    found = breaches(metadata)
    for line in found:
        print(line)
    print(f"layers: {len(metadata['workspace_members'])} crates, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
