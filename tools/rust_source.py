"""A reader of Rust source just good enough for the style check.

`blank(text)` returns the text with the contents of comments and literals replaced by spaces, in
place, so that a search in the result finds code only and its positions are those of the file.
It knows nested block comments, raw strings, byte strings, characters and lifetimes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RAW_START = re.compile(r'\b(?:b|c)?r(#*)"')
_CHAR = re.compile(r"'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^\\'\n])'")
_TEST_MOD = re.compile(
    r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{"
)
_FUNCTION = re.compile(
    r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+)?(?:const\s+)?(?:async\s+)?"
    r'(?:unsafe\s+)?(?:extern\s+"[^"\n]*"\s+)?fn\s+(\w+)'
)


@dataclass(frozen=True)
class Function:
    """One function with a body: its name, its first line (from 1) and its number of lines."""

    name: str
    line: int
    lines: int


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _end_of_block_comment(text: str, start: int) -> int:
    depth, i = 0, start
    while i < len(text):
        if text.startswith("/*", i):
            depth, i = depth + 1, i + 2
        elif text.startswith("*/", i):
            depth, i = depth - 1, i + 2
            if depth == 0:
                return i
        else:
            i += 1
    return len(text)


def _end_of_string(text: str, start: int) -> int:
    """Position after the closing quote of the ordinary string that opens at `start`."""
    i = start + 1
    while i < len(text):
        if text[i] == "\\":
            i += 2
        elif text[i] == '"':
            return i + 1
        else:
            i += 1
    return len(text)


def _token_end(text: str, i: int) -> int | None:
    """Where the comment or literal that starts at `i` ends; None when none starts there."""
    if text.startswith("//", i):
        end = text.find("\n", i)
        return len(text) if end < 0 else end
    if text.startswith("/*", i):
        return _end_of_block_comment(text, i)
    if text[i] in "rbc" and (raw := _RAW_START.match(text, i)):
        close = text.find('"' + raw.group(1), raw.end())
        return len(text) if close < 0 else close + 1 + len(raw.group(1))
    if text[i] == '"':
        return _end_of_string(text, i)
    if text[i] == "'" and (char := _CHAR.match(text, i)):
        return char.end()
    return None


def blank(text: str) -> str:
    """The text with comments and literals blanked; same length, same lines."""
    out, i = [], 0
    while i < len(text):
        end = _token_end(text, i)
        if end is None:
            out.append(text[i])
            i += 1
        else:
            out.append(_spaces(text[i:end]))
            i = end
    return "".join(out)


def closing_brace(code: str, opening: int) -> int:
    """Position of the brace that closes the one at `opening` in blanked code (or the end)."""
    depth = 0
    for i in range(opening, len(code)):
        if code[i] == "{":
            depth += 1
        elif code[i] == "}":
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


def without_tests(code: str) -> str:
    """Blanked code with its `#[cfg(test)] mod ... { }` blanked as well."""
    while found := _TEST_MOD.search(code):
        end = closing_brace(code, found.end() - 1) + 1
        code = code[: found.start()] + _spaces(code[found.start() : end]) + code[end:]
    return code


def functions(code: str) -> list[Function]:
    """The functions with a body in blanked code."""
    found = []
    for match in _FUNCTION.finditer(code):
        body = re.compile(r"[{;]").search(code, match.end())
        # A semicolon inside an array type of the signature (`[u8; 4]`) is not the end of it.
        while body and body.group() == ";" and _inside_brackets(code, match.end(), body.start()):
            body = re.compile(r"[{;]").search(code, body.end())
        if body is None or body.group() == ";":
            continue
        start = code.count("\n", 0, match.start()) + 1
        end = code.count("\n", 0, closing_brace(code, body.start())) + 1
        found.append(Function(match.group(1), start, end - start + 1))
    return found


def _inside_brackets(code: str, start: int, position: int) -> bool:
    part = code[start:position]
    return part.count("[") > part.count("]")
