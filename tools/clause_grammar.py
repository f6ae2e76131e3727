"""Which parts of the parser's syntax tree the clause checks decide about.

`swingdb-sql`'s `text/clauses` refuses every clause that no later stage implements. The compiler
checks that a pattern without `..` names all fields of its node. It does not find a node that no
pattern takes apart: `ForeignKey(_)` lets all its fields through. This module reads the parser's
types from its source, and our patterns from ours, and finds such nodes.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import rust_source

#: Nodes that the walk over the tree visits, wherever they stand.
VISITED = {"Statement", "Query", "Select", "TableFactor", "Expr"}


@dataclass
class Node:
    """A struct, or a variant of an enum: its fields and their types."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass
class Grammar:
    """The types of the syntax tree."""

    #: Structs by name, and variants as `Enum::Variant`.
    nodes: dict[str, Node] = field(default_factory=dict)
    #: For each type its nodes: itself, or its variants.
    types: dict[str, list[Node]] = field(default_factory=dict)

    def types_in(self, text: str) -> list[str]:
        """The types of the tree that the text of a type names."""
        return [word for word in re.findall(r"\w+", text) if word in self.types]

    def has_parts(self, name: str) -> bool:
        """Whether a type has fields, or variants with fields."""
        return any(node.fields for node in self.types[name])


def parser_source(root: Path) -> Path:
    """The folder of the parser's syntax tree, of the version that Cargo.lock names."""
    command = ["cargo", "metadata", "--format-version", "1", "--offline", "--locked"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    packages = json.loads(found.stdout)["packages"]
    paths = [Path(p["manifest_path"]) for p in packages if p["name"] == "sqlparser"]
    if len(paths) != 1:
        raise ValueError(f"{len(paths)} versions of the parser")
    return paths[0].parent / "src" / "ast"


def closing(text: str, opening: int) -> int:
    """The place of the bracket that closes the one at `opening`."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    stack = []
    for at in range(opening, len(text)):
        char = text[at]
        if char in pairs:
            stack.append(pairs[char])
        elif stack and char == stack[-1]:
            stack.pop()
            if not stack:
                return at
    raise ValueError("a bracket that is not closed")


def parts(text: str, separator: str = ",") -> list[str]:
    """The text between separators outside of brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        arrow = char == ">" and text[at - 1] in "-="
        if char in "{([<":
            depth += 1
        elif char in "})]>" and not arrow:
            depth -= 1
        elif char == separator and depth == 0:
            found.append(text[start:at])
            start = at + 1
    found.append(text[start:])
    return [part.strip() for part in found if part.strip()]


def without_attributes(text: str) -> str:
    while (start := text.find("#[")) >= 0:
        text = text[:start] + text[closing(text, start + 1) + 1 :]
    return text


def fields_of(body: str, bracket: str) -> dict[str, str]:
    """The fields of a struct or variant; those without names are called by their number."""
    if bracket == "(":
        types = [re.sub(r"^pub(\([^)]*\))?\s+", "", part) for part in parts(body)]
        return {str(number): text for number, text in enumerate(types)}
    fields = {}
    for part in parts(body):
        name, _, text = part.partition(":")
        fields[re.sub(r"^pub(\([^)]*\))?\s+|r#", "", name.strip()).strip()] = text.strip()
    return fields


def read_grammar(folder: Path) -> Grammar:
    grammar = Grammar()
    for path in sorted(folder.rglob("*.rs")):
        text = without_attributes(rust_source.blank(path.read_text()))
        for match in re.finditer(r"\bpub (struct|enum) (\w+)(?:<[^{(;]*>)?\s*([{(;])", text):
            kind, name, bracket = match.groups()
            if bracket == ";":
                grammar.types[name] = [Node(name)]
                continue
            body = text[match.end() : closing(text, match.end() - 1)]
            if kind == "struct":
                node = Node(name, fields_of(body, bracket))
                grammar.types[name] = [node]
                grammar.nodes[name] = node
                continue
            grammar.types[name] = []
            for part in parts(body):
                variant = re.match(r"(\w+)\s*([{(])?", part)
                node = Node(f"{name}::{variant[1]}")
                if variant[2]:
                    inner = part[variant.end() : closing(part, variant.end() - 1)]
                    node.fields = fields_of(inner, variant[2])
                grammar.types[name].append(node)
                grammar.nodes[node.name] = node
    return grammar


@dataclass
class Pattern:
    """What our code says of the fields of one node."""

    node: str
    place: str
    #: For each field the name that it gets; its own where it is compared; none where it is passed
    #: over with `_`.
    fields: dict[str, str] = field(default_factory=dict)
    #: Fields that must be empty.
    refused: set[str] = field(default_factory=set)
    has_rest: bool = False


def pattern(node: Node, place: str, body: str, bracket: str) -> Pattern:
    found = Pattern(node.name, place)
    if bracket == "(":
        for number, part in enumerate(parts(body)):
            found.has_rest |= part == ".."
            found.fields[str(number)] = "" if part == "_" else part
        return found
    sections = parts(body, ";")
    if len(sections) > 1 or ";" in body:
        # all_fields!: what is honoured; what must match a pattern; lists that must be empty.
        honoured, *refused = body.split(";")
        found.fields = dict.fromkeys(parts(honoured), "")
        for name in re.findall(r"(\w+)\s*:", " ".join(refused)):
            found.fields[name] = name
            found.refused.add(name)
        return found
    for part in parts(body):
        name, colon, inner = part.partition(":")
        name = name.strip().removeprefix("r#")
        if part.startswith(".."):
            found.has_rest = True
        else:
            found.fields[name] = "" if colon and inner.strip() == "_" else name
    return found


def read_patterns(grammar: Grammar, path: Path) -> tuple[list[Pattern], str]:
    """The patterns of a file, and its text without comments."""
    text = rust_source.blank(path.read_text())
    for name, short in re.findall(r"\buse (\w+) as (\w+);", text):
        text = re.sub(rf"\b{short}::", f"{name}::", text)
    text = re.sub(r"(?m)^use [^;]*;", "", text)
    found = []
    for match in re.finditer(r"\b(\w+(?:::\w+)?)\s*([{(])", text):
        node = grammar.nodes.get(match[1])
        if node is None or not node.fields:
            continue
        body = text[match.end() : closing(text, match.end() - 1)]
        line = text.count("\n", 0, match.start()) + 1
        found.append(pattern(node, f"{path.name}:{line}", body, match[2]))
    return found, text


def is_refused(name: str, text: str) -> bool:
    """Whether a bound field is compared with nothing, as the clauses that are refused are."""
    tests = [
        rf"\b{name}\.is_(some|none)\(\)", rf"!{name}\.is_empty\(\)", rf"\b{name}\.first\(\)",
        rf"\*{name} !=",
    ]
    return any(re.search(test, text) for test in tests)


def undecided(grammar: Grammar, files: list[Path], leaves: set[str]) -> dict[str, str]:
    """The fields through which parts of the tree pass unread, and what passes there.

    `leaves` are types whose parts the reader of the type decides about.
    """
    read = [read_patterns(grammar, path) for path in files]
    text = "\n".join(text for _, text in read)
    patterns = [one for found, _ in read for one in found]
    taken_apart = {one.node.partition("::")[0] for one in patterns}
    whole = {one.node for one in patterns if not one.has_rest}
    bound = {(one.node, name) for one in patterns for name, local in one.fields.items() if local}
    refused = {(one.node, name) for one in patterns for name in one.refused}
    found = {}
    for one in patterns:
        if one.has_rest and one.node not in whole:
            found[f"{one.node} .."] = f"{one.place}: no pattern names all fields"
        node = grammar.nodes[one.node]
        for name in node.fields.keys() & one.fields.keys():
            if (one.node, name) in refused:
                continue
            for inner in grammar.types_in(node.fields[name]):
                if inner in VISITED or inner in leaves or not grammar.has_parts(inner):
                    continue
                local = re.escape(one.fields[name] or name)
                decided = inner in taken_apart or is_refused(local, text)
                if not ((one.node, name) in bound and decided):
                    found.setdefault(f"{one.node}.{name}", f"{one.place}: {inner}")
    return found
