"""Which module of a Rust crate uses which other one, read from the source.

`read(crate)` finds the modules of a crate, one a file; `uses(modules)` says for each module which
others it uses, with the line of the first use. Four things count as a use:

* a path that begins with `crate`, `super` or `self`, or with a module declared in the file;
* a name that comes through a re-export (`pub use`): it counts as one of the module that defines it;
* a call of a method that another file than the one of its type defines: `state.publish()` uses the
  file with that `impl`, also where no `use` says so; a method without `pub` only counts in the
  modules below that file, which alone can call it;
* nothing else. Tests (`#[cfg(test)]`) and re-exports themselves are no uses.

This is a reader of text, not a compiler: a method whose name several files define is not followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import rust_source

_USE = re.compile(r"(?m)^[ \t]*(pub(?:\([^)]*\))?[ \t]+)?use[ \t\n]+([^;]+);")
_TEST_USE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?use\s[^;]+;")
_TEST_FILE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
_DECLARED = re.compile(r"\bmod\s+(\w+)\s*;")
_PATH = re.compile(r"(?<![\w:.])((?:crate|super|self|\w+)(?:\s*::\s*\w+)+)")
_TYPE = re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)")
_IMPL = re.compile(r"(?m)^impl\b")
_METHOD = re.compile(r"\bfn\s+(\w+)")
_VISIBLE_METHOD = re.compile(r"\bpub(?:\([^)]*\))?\s+(?:(?:const|async|unsafe)\s+)*fn\s+(\w+)")
_CALL = re.compile(r"(?:\.|\b([A-Z]\w*)\s*::\s*)(\w+)\s*(?:::\s*<[^;(]*>\s*)?\(")

# How many re-exports a name is followed through.
_MAX_STEPS = 16

Path_ = tuple[str, ...]


@dataclass
class Module:
    """One file: its path in the crate (`()` is the root), its code without comments and tests, the
    names it imports or re-exports with where these lead, and the lines of its re-exports."""

    path: Path_
    file: Path
    code: str
    is_folder: bool
    names: dict[str, Path_] = field(default_factory=dict)
    imported: list[tuple[Path_, int]] = field(default_factory=list)

    def __str__(self) -> str:
        return "::".join(self.path) or "crate"


def read(crate: Path) -> dict[Path_, Module]:
    """The modules of the crate in folder `crate`, by their paths; files of tests are left out."""
    source, modules, tests = crate / "src", {}, set()
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        is_folder = path[-1] == "mod" or path in {("lib",), ("main",)}
        path = path[:-1] if is_folder else path
        code = rust_source.blank(file.read_text(encoding="utf-8"))
        tests |= {(*path, name) for name in _TEST_FILE.findall(code)}
        code = rust_source.without_tests(code)
        code = _TEST_USE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)
        modules[path] = Module(path, file, code, is_folder)
    kept = {p: m for p, m in modules.items() if not any(p[: len(t)] == t for t in tests)}
    for module in kept.values():
        _read_names(module)
    return kept


def _leaves(tree: str, prefix: Path_ = ()) -> list[tuple[Path_, str]]:
    """The paths of a `use` tree, each with the name it gets."""
    tree = tree.strip()
    if tree.endswith("}"):
        head, _, rest = tree.partition("{")
        inner = prefix + tuple(part.strip() for part in head.split("::") if part.strip())
        return [leaf for part in _split(rest[:-1]) for leaf in _leaves(part, inner)]
    name, _, alias = re.sub(r"\s+", " ", tree).partition(" as ")
    path = prefix + tuple(part.strip() for part in name.split("::") if part.strip())
    if path and path[-1] == "self":
        path = path[:-1]
    return [(path, alias.strip() or path[-1])] if path else []


def _split(text: str) -> list[str]:
    """The parts of a list, at the commas outside of inner braces."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


def _absolute(module: Module, path: Path_) -> Path_ | None:
    """A path as one from the crate's root; None when it leads out of the crate."""
    here = module.path
    declared = set(_DECLARED.findall(module.code))
    if path[0] == "crate":
        return path[1:]
    if path[0] == "self":
        return here + path[1:]
    if path[0] == "super":
        while path and path[0] == "super":
            here, path = here[:-1], path[1:]
        return here + path
    return here + path if path[0] in declared else None


def _read_names(module: Module) -> None:
    for found in _USE.finditer(module.code):
        line = module.code.count("\n", 0, found.start(2)) + 1
        for path, name in _leaves(found.group(2)):
            target = _absolute(module, path)
            if target is None:
                continue
            module.names[name] = target
            # What is handed on is no use of it.
            if not found.group(1):
                module.imported.append((target, line))
    module.code = _USE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), module.code)


def _resolve(modules: dict[Path_, Module], path: Path_, steps: int = _MAX_STEPS) -> Path_ | None:
    """The module that a path leads to, through re-exports."""
    for length in range(len(path), -1, -1):
        module = modules.get(path[:length])
        if module is None:
            continue
        rest = path[length:]
        if rest and rest[0] in module.names and steps:
            onward = module.names[rest[0]] + rest[1:]
            if onward != path:
                return _resolve(modules, onward, steps - 1)
        return module.path
    return None


def _blocks(code: str) -> list[tuple[str, int, int]]:
    """The inherent `impl` blocks: the type's name, where the block begins and ends."""
    blocks = []
    for found in _IMPL.finditer(code):
        opening = code.find("{", found.end())
        if opening < 0:
            continue
        head = code[found.end() : opening]
        if re.search(r"\bfor\b", re.sub(r"for\s*<", "<", head)):
            continue
        head = re.sub(r"^\s*<[^{]*?>\s*(?=[A-Za-z])", "", head)
        name = re.match(r"\s*(?:\w+\s*::\s*)*(\w+)", head)
        if name:
            blocks.append((name.group(1), opening, rust_source.closing_brace(code, opening)))
    return blocks


def _scattered(modules: dict[Path_, Module]) -> dict[str, tuple[Path_, bool]]:
    """Methods that stand in another file than their type, and whose name only one file defines:
    the file, and whether other modules can call the method."""
    types: dict[str, set[Path_]] = {}
    for module in modules.values():
        for name in _TYPE.findall(module.code):
            types.setdefault(name, set()).add(module.path)
    defined: dict[str, set[Path_]] = {}
    apart: dict[str, tuple[Path_, bool]] = {}
    for module in modules.values():
        for name in _METHOD.findall(module.code):
            defined.setdefault(name, set()).add(module.path)
        for name, begin, end in _blocks(module.code):
            if types.get(name) and module.path not in types[name]:
                block = module.code[begin:end]
                visible = set(_VISIBLE_METHOD.findall(block))
                for method in _METHOD.findall(block):
                    apart[method] = (module.path, method in visible)
    return {name: found for name, found in apart.items() if len(defined[name]) == 1}


def uses(modules: dict[Path_, Module]) -> dict[Path_, dict[Path_, int]]:
    """For each module the others it uses, with the line of the first use."""
    scattered = _scattered(modules)
    graph: dict[Path_, dict[Path_, int]] = {}
    for module in modules.values():
        found = list(module.imported)
        for match in _PATH.finditer(module.code):
            line = module.code.count("\n", 0, match.start()) + 1
            target = _absolute(module, tuple(re.split(r"\s*::\s*", match.group(1))))
            if target is not None:
                found.append((target, line))
        for match in _CALL.finditer(module.code):
            if match.group(2) in scattered:
                target, is_visible = scattered[match.group(2)]
                if is_visible or module.path[: len(target)] == target:
                    line = module.code.count("\n", 0, match.start()) + 1
                    found.append((target, line))
        used: dict[Path_, int] = {}
        for target, line in sorted(found, key=lambda pair: pair[1]):
            to = _resolve(modules, target)
            if to is not None and to != module.path:
                used.setdefault(to, line)
        graph[module.path] = used
    return graph


def cycles(graph: dict[Path_, dict[Path_, int]]) -> list[list[Path_]]:
    """The groups of modules that all reach each other, those of one module left out (Tarjan)."""
    index: dict[Path_, int] = {}
    low: dict[Path_, int] = {}
    stack: list[Path_] = []
    groups: list[list[Path_]] = []

    def visit(start: Path_) -> None:
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, edges = work[-1]
            for other in edges:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(group) > 1:
                        groups.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return groups
