"""SQL text that Python puts together: names, values, and the pieces that a caller gives.

A piece (a condition, a list of columns) goes into a larger statement. It is split into tokens
first, so that a piece can neither end the statement around it nor leave a text, a comment or a
parenthesis open, and so that parameters of several pieces can stand side by side.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Parameters = Sequence[Any] | Mapping[str, Any] | None

_TOKEN = re.compile(
    r"""
      (?P<space>   \s+ | --[^\n]*(?:\n|\Z) )
    | (?P<comment> /\* )
    | (?P<text>    [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*'
                 | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
    | (?P<quoted>  "(?:[^"]|"")*" )
    | (?P<param>   \? | \$\w+ )
    | (?P<word>    [^\W\d][\w$]* )
    | (?P<number>  \d[\w.]* )
    | (?P<open>    [(\[{] )
    | (?P<close>   [)\]}] )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}

#: What begins another clause of a statement, where it stands outside of parentheses.
_CLAUSES = frozenset("FROM WHERE GROUP HAVING ORDER LIMIT QUALIFY UNION INTERSECT INTO".split())
#: What comes before such a word where it begins no clause: IS DISTINCT FROM, WITHIN GROUP.
_NO_CLAUSE = {"FROM": "DISTINCT", "GROUP": "WITHIN"}
#: Words that begin a clause behind a value, and are names elsewhere.
_CLAUSES_OR_NAMES = frozenset("OFFSET FETCH WINDOW USING FOR EXCEPT".split())
_VALUES = ("word", "quoted", "number", "text", "close", "param")
#: What a query may begin with that can stand in parentheses.
_QUERIES = frozenset("SELECT FROM WITH VALUES TABLE PIVOT UNPIVOT".split())

_numbers = itertools.count(1)


def fresh(kind: str) -> str:
    """A name that nothing else in this process has."""
    return f"swingdb_{kind}_{next(_numbers)}"


def identifier(name: str) -> str:
    """A name as SQL, whatever characters are in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """A text, number, truth value, or list or dict of these, as SQL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    return "'" + str(value).replace("'", "''") + "'"


def table_name(name: str) -> tuple[str, str]:
    """The name of a table as SQL, and its last part: ``t``, ``schema.t``, or quoted parts."""
    part = r'[^\W\d]\w*|"(?:[^"]|"")+"'
    if re.fullmatch(rf"(?:{part})(?:\.(?:{part})){{0,2}}", name) is None:
        return identifier(name), name
    parts = [unquoted(each) for each in re.findall(part, name)]
    return ".".join(map(identifier, parts)), parts[-1]


def unquoted(name: str) -> str:
    """A name as it is, from how SQL writes it."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def unique(names: Iterable[str]) -> list[str]:
    """The names, each once: a second ``a`` is called ``a_1``."""
    kept: dict[str, str] = {}
    for name in names:
        candidate, number = name, 0
        while candidate.lower() in kept:
            number += 1
            candidate = f"{name}_{number}"
        kept[candidate.lower()] = candidate
    return list(kept.values())


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """The kinds and texts of the tokens; together they are the text again."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "every character is a token"
        kind, found = match.lastgroup or "text", match.group()
        if kind == "tag":
            kind = "text"
        if kind == "comment":
            found = _comment(text, at)
        elif kind == "other" and found in "'\"":
            raise ProgrammingError(f"{_shown(text)}: a {found} is not closed")
        yield kind, found
        at += len(found)


def _comment(text: str, start: int) -> str:
    """A comment in the style of C; others may stand in it."""
    depth, at = 0, start
    while True:
        opened, closed = text.find("/*", at), text.find("*/", at)
        if 0 <= opened < closed:
            depth, at = depth + 1, opened + 2
            continue
        if closed < 0:
            raise ProgrammingError(f"{_shown(text)}: a comment is not closed")
        depth, at = depth - 1, closed + 2
        if depth == 0:
            return text[start:at]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


def piece(text: str, what: str, *, clauses: bool = False) -> str:
    """A piece of SQL that stays within its place, or an error that says why it does not.

    ``what`` is the argument it was given as. Only with ``clauses`` may it begin another clause.
    """
    if not isinstance(text, str):
        raise ProgrammingError(f"{what} must be SQL text, not {type(text).__name__}")
    stack: list[str] = []
    before = ("", "")
    for kind, found in tokens(text):
        if kind in ("space", "comment"):
            continue
        if kind == "open":
            stack.append(_CLOSED_BY[found])
        elif kind == "close" and (not stack or stack.pop() != found):
            raise ProgrammingError(f"{what} {_shown(text)}: {found} closes nothing")
        elif found == ";":
            raise ProgrammingError(f"{what} {_shown(text)}: it holds more than one statement")
        elif kind == "word" and not stack and not clauses:
            _check_clause(found.upper(), before, what, text)
        before = (kind, found.upper())
    if not before[0]:
        raise ProgrammingError(f"{what} is empty")
    if stack:
        raise ProgrammingError(f"{what} {_shown(text)}: {stack[-1]} is missing")
    return text


def _check_clause(word: str, before: tuple[str, str], what: str, text: str) -> None:
    kind, last = before
    begins = word in _CLAUSES and _NO_CLAUSE.get(word) != last
    if word in _CLAUSES_OR_NAMES:
        begins = kind in _VALUES and last != "AS"
    if begins and last != ".":
        raise ProgrammingError(
            f"{what} {_shown(text)}: {word} does not belong there; "
            f"write it as a method of the relation, or the whole statement with con.sql()"
        )


def is_query(text: str) -> bool:
    """Whether a text is one statement that can stand in parentheses and changes nothing."""
    first, ended, depth = "", False, 0
    for kind, found in tokens(text):
        if kind in ("space", "comment"):
            continue
        if ended and found != ";":
            return False
        ended = ended or found == ";"
        depth += (kind == "open") - (kind == "close")
        if not first and found != "(":
            first = found.upper()
        if kind == "word" and depth == 0 and first == "WITH":
            # WITH ... INSERT and the like.
            if found.upper() in ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY"):
                return False
    return first in _QUERIES


def without_end(text: str) -> str:
    """A statement without the semicolons at its end."""
    kept: list[tuple[str, str]] = list(tokens(text))
    return "".join(found for _, found in kept if found != ";")


def with_parameters(text: str, params: Parameters) -> tuple[str, dict[str, Any]] | None:
    """The text with parameters of names that no other text has, and their values by these.

    None where the parameters are not all found in the text.
    """
    if not params:
        return text, {}
    by_name = hasattr(params, "keys")
    values: dict[Any, Any] = dict(params) if by_name else dict(enumerate(params, 1))
    names: dict[Any, str] = {}
    parts: list[str] = []
    marks = itertools.count(1)
    for kind, found in tokens(text):
        if kind != "param":
            parts.append(found)
            continue
        key: Any = next(marks) if found == "?" else found[1:]
        if not by_name and isinstance(key, str):
            key = int(key) if key.isdigit() else key
        if key not in values:
            return None
        parts.append("$" + names.setdefault(key, fresh("value")))
    if len(names) != len(values):
        return None
    return "".join(parts), {name: values[key] for key, name in names.items()}
