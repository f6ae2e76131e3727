"""Plans of EXPLAIN ANALYZE as pictures: a tree of text, and nested boxes for notebooks.

The engine writes each operator on a line, indented below the one that reads its rows, with its
metrics at the end. ``EXPLAIN ANALYZE VERBOSE`` shows them all, as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The kind of the rows of EXPLAIN ANALYZE that have operators with metrics.
WITH_METRICS = "Plan with Metrics"
_VERBOSE = "Plan with Full Metrics"
_NANOSECONDS = {"ns": 1, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
_TIME = re.compile(r"([0-9.]+)\s*(ns|µs|us|ms|s|m)")
_METRICS = ", metrics=["
#: Details of an operator are cut to this in the tree of text.
_DETAIL_CHARS = 100


@dataclass
class Node:
    """One operator."""

    name: str
    detail: str
    #: Rows that it returned, as the engine writes them; empty where it does not say.
    rows: str
    #: What its threads computed, together, as the engine writes it.
    time: str
    children: list[Node] = field(default_factory=list)

    @property
    def nanoseconds(self) -> float:
        """``time`` as a number."""
        parts = _TIME.findall(self.time)
        return sum(float(number) * _NANOSECONDS[unit] for number, unit in parts)

    def all(self) -> Iterator[Node]:
        """The node and those below it."""
        yield self
        for child in self.children:
            yield from child.all()


def is_picture(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether these rows of EXPLAIN are shown as trees."""
    kinds = [kind for kind, _ in rows]
    return WITH_METRICS in kinds and _VERBOSE not in kinds


def parse(plan: str) -> list[Node]:
    """The operators of a plan; those on top, of which there is mostly one."""
    roots: list[Node] = []
    path: list[tuple[int, Node]] = []
    begun = ""
    for part in plan.split("\n"):
        line = begun + part
        # Texts in the query may contain line breaks: the operator goes on.
        begun = line + " " if line.strip() and _METRICS not in line else ""
        if begun or not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        node = _node(line.strip())
        while path and path[-1][0] >= indent:
            path.pop()
        (path[-1][1].children if path else roots).append(node)
        path.append((indent, node))
    return roots


def _node(line: str) -> Node:
    # From the right: names in the query may contain the word.
    text, _, metrics = line.rpartition(_METRICS)
    name, _, detail = text.partition(":")
    known = dict(re.findall(r"(output_rows|elapsed_compute)=([^,\]]+)", metrics))
    rows, time = known.get("output_rows", ""), known.get("elapsed_compute", "")
    return Node(name.strip(), detail.strip(" ,"), rows, time)


def _share(node: Node, total: float) -> str:
    return f"{100 * node.nanoseconds / total:.0f} %" if node.time and total else ""


def _total(roots: Sequence[Node]) -> float:
    return sum(node.nanoseconds for root in roots for node in root.all())


def text_tree(plan: str) -> list[str]:
    """Rows, time, share of the time and operator, one operator a line."""
    roots = parse(plan)
    total = _total(roots)
    table = [("rows", "time", "share", "operator")]

    def add(node: Node, first: str, rest: str) -> None:
        detail = f": {node.detail}" if node.detail else ""
        if len(detail) > _DETAIL_CHARS:
            detail = detail[: _DETAIL_CHARS - 1] + "…"
        table.append((node.rows, node.time, _share(node, total), f"{first}{node.name}{detail}"))
        for place, child in enumerate(node.children):
            last = place == len(node.children) - 1
            add(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))

    for root in roots:
        add(root, "", "")
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    return [
        "  ".join([*(row[i].rjust(widths[i]) for i in range(3)), row[3]]).rstrip() for row in table
    ]


def html_tree(plan: str) -> str:
    """Nested boxes: an operator stands around those whose rows it reads."""
    from html import escape

    roots = parse(plan)
    total = _total(roots)

    def box(node: Node) -> str:
        share = node.nanoseconds / total if total else 0.0
        shown = [f"{node.rows} rows" if node.rows else "", node.time, _share(node, total)]
        facts = escape(" · ".join(part for part in shown if part))
        inner = "".join(box(child) for child in node.children)
        row = f'<div style="display:flex;gap:6px">{inner}</div>' if inner else ""
        return (
            '<div style="border:1px solid #8888;border-radius:4px;margin:4px 0;padding:4px 6px;'
            f'background:rgba(255,120,0,{0.4 * share:.2f});flex:1 1 0;min-width:0">'
            f"<b>{escape(node.name)}</b> <small>{facts}</small>"
            f'<div style="font-size:80%;overflow-wrap:anywhere">{escape(node.detail)}</div>'
            f"{row}</div>"
        )

    return f'<div class="swingdb-plan">{"".join(box(root) for root in roots)}</div>'
