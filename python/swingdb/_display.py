"""Results as text tables and as HTML for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _plans

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A cell longer than this is cut; the whole value is in the result itself.
MAX_CELL_CHARS = 40
#: Columns beyond this are left out of a text table.
MAX_COLUMNS = 30
#: What EXPLAIN returns; its rows are shown as lines.
PLAN_COLUMNS = ["plan_type", "plan"]


def cell(value: Any) -> str:
    """One value as text on one line."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, (bytes, list, dict)) else str(value)
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def text_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]], footer: str
) -> str:
    """A box of the (name, type) ``columns`` and ``rows``, and the footer below it."""
    if not columns:
        return footer
    shown = columns[:MAX_COLUMNS]
    cells = [[cell(value) for value in row[: len(shown)]] for row in rows]
    header = [cell(name) for name, _ in shown]
    types = [kind.lower() for _, kind in shown]
    widths = [max(map(len, column)) for column in zip(header, types, *cells, strict=True)]
    numeric = [_is_number(kind) for _, kind in shown]

    def line(values: Sequence[str], *, centred: bool = False) -> str:
        parts = []
        for value, width, right in zip(values, widths, numeric, strict=True):
            aligned = (
                value.center(width)
                if centred
                else value.rjust(width)
                if right
                else value.ljust(width)
            )
            parts.append(f" {aligned} ")
        return "│" + "│".join(parts) + "│"

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    lines = [
        rule("┌", "┬", "┐"),
        line(header, centred=True),
        line(types, centred=True),
        rule("├", "┼", "┤"),
    ]
    lines += [line(row) for row in cells]
    lines.append(rule("└", "┴", "┘"))
    if len(columns) > len(shown):
        footer += f" ({len(columns) - len(shown)} more columns)"
    lines.append(footer)
    return "\n".join(lines)


def html_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]], footer: str
) -> str:
    """The same as an HTML table."""
    # Here, so that `import swingdb` does not wait for it.
    from html import escape

    head = "".join(
        f"<th>{escape(name)}<br><small>{escape(kind.lower())}</small></th>"
        for name, kind in columns
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table class="swingdb"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"<small>{escape(footer)}</small>"
    )


def text_plan(rows: Sequence[tuple[Any, ...]]) -> str:
    """Plans of EXPLAIN: what each is, then its text, line by line; those with metrics as trees."""
    picture = _plans.is_picture(rows)
    lines = []
    for kind, plan in rows:
        lines.append(str(kind))
        tree = picture and kind == _plans.WITH_METRICS
        shown = _plans.text_tree(str(plan)) if tree else str(plan).splitlines()
        lines += [f"  {line}" for line in shown]
    return "\n".join(lines)


def html_plan(rows: Sequence[tuple[Any, ...]]) -> str:
    """The same as HTML; those with metrics as nested boxes."""
    from html import escape

    if not _plans.is_picture(rows):
        return f'<pre class="swingdb">{escape(text_plan(rows))}</pre>'
    parts = []
    for kind, plan in rows:
        if kind == _plans.WITH_METRICS:
            parts.append(_plans.html_tree(str(plan)))
        else:
            parts.append(f'<pre class="swingdb">{escape(text_plan([(kind, plan)]))}</pre>')
    return "".join(parts)


def _is_number(kind: str) -> bool:
    return getattr(kind, "family", "") == "NUMBER"
