"""Writes the reference pages: functions, settings, commands, Python calls (`make reference`).

    python tools/reference.py [--check]

The product says what there is. Functions and settings come from SHOW FUNCTIONS, SHOW ALL and SET,
with the texts of tools/reference/*.txt: a function or setting without a text is an error, and so
is a text of one that does not exist. What examples give is computed. Commands come from the
command line's `--help`, Python calls from signatures and docstrings. `--check` writes nothing and
fails when a committed page is stale.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "tools" / "reference"
NOTE = "<!-- Written by `make reference`; change tools/reference/{name}.txt instead. -->"
#: What the functions of a section's examples are called on.
ROWS = "CREATE TABLE t AS SELECT x FROM (VALUES (1), (2), (3), (4)) AS v(x)"


@dataclass
class Entry:
    """One function or setting: the fields of its line."""

    names: list[str]
    fields: list[str]


@dataclass
class Section:
    """A heading, the text below it, and its entries."""

    title: str
    text: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


def _fields(line: str) -> list[str]:
    # `||` is an empty field; operators with bars do not occur outside of backquotes.
    return [part.strip() for part in line.split("|")]


def _names_of_call(call: str) -> str:
    return re.split(r"[(\[ ]", call, maxsplit=1)[0]


def function_entry(line: str) -> Entry:
    """`call -> result | other names | description | example`."""
    head, others, description, example = _fields(line)
    call, result = (part.strip() for part in head.split(" -> "))
    others_of = [name.strip() for name in others.split(",") if name.strip()]
    return Entry(
        [_names_of_call(call), *others_of],
        [call, result, ", ".join(f"`{name}`" for name in others_of), description, example],
    )


def setting_entry(line: str) -> Entry:
    """`name | type | default | description`."""
    name, kind, default, description = _fields(line)
    return Entry([name], [kind, default, description])


def sections(text: str, entry) -> list[Section]:
    """The sections of a file of texts; the first has no title and is the page's introduction."""
    found = [Section("")]
    for line in text.splitlines():
        if line.startswith("## "):
            found.append(Section(line[3:]))
        elif line.startswith("#"):
            continue
        elif not line.strip():
            # Between paragraphs of the introduction only.
            if len(found) == 1 and found[0].text:
                found[0].text.append("")
        elif " | " in line or "||" in line:
            found[-1].entries.append(entry(line))
        else:
            found[-1].text.append(line)
    return found


def _compare(what: str, texts: set[str], product: set[str]) -> None:
    wrong = [f"{what} without a text: {name}" for name in sorted(product - texts)]
    wrong += [f"text without a {what}: {name}" for name in sorted(texts - product)]
    if wrong:
        raise SystemExit("\n".join(wrong))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _answer(con, example: str, on_rows: bool) -> tuple[str, str]:
    """What an example gives, as text, and its type."""
    query = example if example.startswith("SELECT ") else f"SELECT {example}"
    if on_rows and query != example:
        query += " FROM t"
    try:
        text = f"SELECT CAST(r AS VARCHAR), typeof(r) FROM ({query}) AS q(r) LIMIT 1"
        ((value, kind),) = con.sql(text).fetchall()
    except Exception as error:
        raise SystemExit(f"{example}: {error}") from error
    if value is not None and re.fullmatch(r"-?\d+\.\d{12,}", value):
        # The last digits depend on the machine's mathematical library.
        value = f"{float(value):.12g}"
    return ("NULL" if value is None else value), kind


#: Results that say exactly one type; others are words.
_TYPE = re.compile(r"[A-Z_ ]+(?:\[\])?")


def _example(con, entry: Entry, on_rows: bool) -> str:
    """The example and what it gives, as a cell of a table; its type and all names are tried."""
    _, result, _, _, example = entry.fields
    if not example:
        return ""
    value, kind = _answer(con, example, on_rows)
    is_whole = example.startswith((f"{entry.names[0]}(", "SELECT list("))
    of = kind.removesuffix("[]") if example.startswith("SELECT ") else kind
    is_same = of == result or result in {"STRUCT", "STRUCT[]", "MAP"} and of.startswith(result[:3])
    if _TYPE.fullmatch(result) and is_whole and value != "NULL" and not is_same:
        raise SystemExit(f"{example} is a {kind}, not a {result}")
    for name in entry.names[1:]:
        other = re.sub(rf"\b{entry.names[0]}\(", f"{name}(", example)
        if other != example and _answer(con, other, on_rows) != (value, kind):
            raise SystemExit(f"{other} differs from {example}")
    # Of a window function, the call is of interest, not the query around it.
    shown = re.sub(r"^SELECT .*?\(SELECT (.*) AS d FROM t\)$", r"\1", example)
    return f"`{_cell(shown.removeprefix('SELECT '))}` → `{_cell(value)}`"


def functions_page(con) -> str:
    """The text of docs/functions.md."""
    found = sections((TEXTS / "functions.txt").read_text(), function_entry)
    texts = {name for section in found for entry in section.entries for name in entry.names}
    product = {name for name, _ in con.sql("SHOW FUNCTIONS").fetchall()}
    # SQL's own words for some calls.
    spoken = {"extract", "if", "current_date", "current_time", "current_timestamp"}
    _compare("function", texts - spoken, product - spoken)
    con.execute(ROWS)
    lines = ["# Functions", "", NOTE.format(name="functions"), ""]
    lines += found[0].text
    for section in found[1:]:
        lines += [f"## {section.title}", "", *section.text, *([""] if section.text else [])]
        lines += ["| function | result | description | example |", "|---|---|---|---|"]
        for entry in section.entries:
            call, result, others, description, _ = entry.fields
            also = f"<br>also {others}" if others else ""
            shown = _example(con, entry, section.title == "Aggregates")
            lines.append(f"| `{_cell(call)}`{also} | {result} | {_cell(description)} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def _settable(con, name: str, value: str) -> bool:
    """Whether SET takes this setting: those that answers depend on are fixed."""
    try:
        con.execute(f"SET {name} = '{value}'")
    except Exception as error:  # noqa: BLE001 - the text tells refusals apart
        return "so it is fixed" not in str(error)
    return True


def settings_page(con) -> str:
    """The text of docs/settings.md."""
    found = sections((TEXTS / "settings.txt").read_text(), setting_entry)
    values = dict(con.sql("SHOW ALL").fetchall())
    texts = {name for section in found for entry in section.entries for name in entry.names}
    # Locking comes last: nothing can be set after it.
    order = sorted(values, key=lambda name: name == "lock_configuration")
    _compare("setting", texts, {name for name in order if _settable(con, name, values[name])})
    lines = ["# Settings", "", NOTE.format(name="settings"), ""]
    lines += found[0].text
    for section in found[1:]:
        lines += [f"## {section.title}", "", *section.text, *([""] if section.text else [])]
        lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
        for entry in section.entries:
            kind, default, description = entry.fields
            default = default or f"`{_cell(values[entry.names[0]])}`"
            lines.append(f"| `{entry.names[0]}` | {kind} | {default} | {_cell(description)} |")
        lines.append("")
    return "\n".join(lines)


def _help(*words: str) -> str:
    binary = os.environ["SWINGDB_BIN"]
    ended = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in ended.stdout.strip().splitlines())


def commands_page() -> str:
    """The text of docs/commands.md."""
    own = _help()
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", own, re.MULTILINE)
    if listed is None:
        raise SystemExit("swingdb --help lists no commands")
    commands = [line.split()[0] for line in listed[1].splitlines()]
    lines = ["# Commands", "", "<!-- Written by `make reference` from `swingdb --help`. -->", ""]
    lines += ["What `--help` says. [The command line](cli.md) says what each is good for.", ""]
    for name in ["", *(name for name in commands if name != "help")]:
        title = f"swingdb {name}".strip()
        lines += [f"## {title}", "", "```text", _help(name) if name else own, "```", ""]
    return "\n".join(lines)


def _signature(member) -> str:
    try:
        text = str(inspect.signature(member))
    except (TypeError, ValueError):
        return "(...)"
    # Defaults that are objects have addresses; types of the package need no path.
    text = re.sub(r"<[^>]* at 0x[0-9a-f]+>", "...", text)
    text = re.sub(r"\b(?:swingdb|collections\.abc|typing|_internal)\.(?:_?\w+\.)*", "", text)
    text = re.sub(r"\(self(?:, )?", "(", text)
    text = text.replace("_datetime.", "datetime.")
    # Annotations are texts.
    return re.sub(r"(: |-> )(['\"])(.*?)\2(?=[,)= ]|$)", r"\1\3", text)


def _sentence(member) -> str:
    """The first paragraph of a docstring, its markup as that of Markdown."""
    text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return "" if text.startswith("Alias for field") else text.replace("``", "`")


def _is_own(of: type, name: str) -> bool:
    """Whether the package defines this member, not Python."""
    return any(name in vars(base) for base in of.__mro__ if base.__module__.startswith("swingdb"))


def _members(of: type) -> list[tuple[str, str]]:
    """The public methods and properties of a class: call and text."""
    fields = set(getattr(of, "_fields", ()))
    found = []
    for name, member in sorted(inspect.getmembers(of)):
        if name.startswith("_") or not _is_own(of, name) or inspect.isclass(member):
            continue
        is_method = callable(member) and not inspect.isdatadescriptor(member)
        if is_method or name in fields or inspect.isdatadescriptor(member):
            found.append((name + (_signature(member) if is_method else ""), _sentence(member)))
    return found


#: The modules that users import, and what of each the page shows.
MODULES = ("swingdb", "swingdb.memory", "swingdb.aio", "swingdb.adbc", "swingdb.errors")


def python_page() -> str:
    """The text of docs/python-calls.md."""
    lines = ["# Python calls", "", "<!-- Written by `make reference` from the docstrings. -->", ""]
    lines += [
        "Every public call of the package. [The Python package](python.md) explains them with",
        "examples; `help(swingdb.connect)` shows the whole text of one.",
        "",
    ]
    wrong = []
    for path in MODULES:
        module = importlib.import_module(path)
        names = [name for name in module.__all__ if not name.startswith("__")]
        if path != "swingdb.errors":
            names = [name for name in names if not name.endswith(("Error", "Warning"))]
        members = [(name, getattr(module, name)) for name in sorted(names, key=str.lower)]
        calls = [(n, m) for n, m in members if callable(m) and not inspect.isclass(m)]
        classes = [(n, m) for n, m in members if inspect.isclass(m)]
        classes = [(n, m) for n, m in classes if m.__module__.startswith("swingdb")]
        lines += [f"## {path}", "", "| call | what it does |", "|---|---|"]
        for name, call in calls:
            lines.append(f"| `{_cell(name + _signature(call))}` | {_cell(_sentence(call))} |")
            if not _sentence(call):
                wrong.append(f"{path}.{name} has no docstring")
        if not calls:
            lines = lines[:-2]
        for name, kind in classes:
            if issubclass(kind, Exception):
                lines.append(f"- `{name}`: {_sentence(kind)}")
                continue
            lines += ["", f"### {path}.{name}", "", _sentence(kind), ""]
            found = _members(kind)
            if found and not any(text for _, text in found):
                lines.append("Fields: " + ", ".join(f"`{call}`" for call, _ in found) + ".")
                continue
            if found:
                lines += ["| member | what it is |", "|---|---|"]
            for call, text in found:
                lines.append(f"| `{_cell(call)}` | {_cell(text)} |")
                if "(" in call and not text:
                    wrong.append(f"{path}.{name}.{call} has no docstring")
        lines.append("")
    if wrong:
        raise SystemExit("\n".join(wrong))
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """The reference pages and their texts, made by the product."""
    import swingdb

    docs = ROOT / "docs"
    return {
        docs / "functions.md": functions_page(swingdb.connect()),
        docs / "settings.md": settings_page(swingdb.connect()),
        docs / "commands.md": commands_page(),
        docs / "python-calls.md": python_page(),
    }


def main() -> int:
    """Writes the pages, or compares them with the committed ones."""
    with tempfile.TemporaryDirectory(prefix="swingdb-reference-", dir="/dev/shm") as home:
        os.environ["SWINGDB_HOME"] = home
        made = pages()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale; run: make reference")
        return 1 if stale else 0
    for path in stale:
        path.write_text(made[path])
        print(f"{path.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
