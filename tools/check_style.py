"""Checks the house rules that a machine can check; prints each breach and fails when there is one.

    python3 tools/check_style.py [DIRECTORY]

Rust: module documentation in every file, at most 1000 production lines a file, 70 lines a function
and 100 columns, `// SAFETY:` at every unsafe block and impl, unsafe code only where it may live, no
`unwrap()` in production paths and no `expect()` without a comment at it. Python: a docstring in
every module, the same limits. C and C++: a comment at the top of every file, the same limits.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import rust_source

MAX_FILE_LINES = 1000
MAX_FUNCTION_LINES = 70
# A test may be one long table of cases.
MAX_TEST_FUNCTION_LINES = 100
MAX_COLUMNS = 100
# How far above an unsafe block its SAFETY comment may start: a statement may precede the block.
MAX_SAFETY_DISTANCE_LINES = 12

SKIPPED = {".git", ".venv", "target", "node_modules", "dist", "__pycache__", "corpus", "artifacts"}
# The only places where unsafe code may live; everything else is safe Rust.
UNSAFE_ALLOWED = (
    "crates/swing/",
    "crates/swing-malloc/",
    "crates/swing-preload/",
    "crates/swing-tier/",
    "crates/swing-heap/",
    "crates/swing-calls/",
    "crates/swing-capi/",
    "crates/libswing/",
    "crates/swingdb-capi/src/",
    "crates/swingdb-store/src/memory/raw.rs",
    "crates/swingdb-python/src/",
)
_TEST_PATH = re.compile(
    r"(^|/)(tests?|benches|bench|fuzz|examples)(/|$)"
    r"|(^|/)(tests?|models)\.rs$|_tests?\.rs$|(^|/)test_\w+\.rs$"
)
_UNSAFE = re.compile(r"\bunsafe\s*\{|\bunsafe\s+impl\b")
_PANICKING = re.compile(r"\.(unwrap|expect)\s*\(")


def is_test(path: str) -> bool:
    """Whether a path belongs to tests, benchmarks, examples or fuzzing, not to production."""
    return bool(_TEST_PATH.search(path))


def _column_breaches(path: str, lines: list[str]) -> list[str]:
    return [
        f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_COLUMNS and "http" not in line
    ]


def _has_module_docs(text: str) -> bool:
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith(("//!", "#![doc", "/*!")):
            return True
        if stripped and not stripped.startswith(("#![", "//")):
            return False
    return False


def _has_safety_comment(lines: list[str], number: int) -> bool:
    """Whether a SAFETY comment stands at line `number` (from 1) or in the statement above it."""
    first = max(0, number - 1 - MAX_SAFETY_DISTANCE_LINES)
    for i in range(number - 1, first - 1, -1):
        if re.search(r"//+\s*SAFETY", lines[i], re.IGNORECASE):
            return True
        # Another unsafe block or the end of an item in between has a comment of its own.
        if i < number - 1 and re.match(r"\s*\}\s*$", lines[i]) and not lines[i].startswith("  "):
            return False
    return False


def _has_comment_at(lines: list[str], number: int) -> bool:
    """Whether a comment stands on line `number` or in the statement that contains it."""
    for i in range(number - 1, max(-1, number - 8), -1):
        if re.search(r"(^|\s)//", lines[i]):
            return True
        if i < number - 1 and re.search(r"[;{}]\s*$", lines[i]):
            return False
    return False


def _unsafe_breaches(path: str, code: str, lines: list[str]) -> list[str]:
    breaches = []
    for match in _UNSAFE.finditer(code):
        number = code.count("\n", 0, match.start()) + 1
        if not path.startswith(UNSAFE_ALLOWED) and not is_test(path):
            breaches.append(f"{path}:{number}: unsafe code outside the memory and foreign layers")
        if not _has_safety_comment(lines, number):
            breaches.append(f"{path}:{number}: unsafe without a `// SAFETY:` comment")
    return breaches


def _panic_breaches(path: str, production: str, lines: list[str]) -> list[str]:
    breaches = []
    for match in _PANICKING.finditer(production):
        number = production.count("\n", 0, match.start(1)) + 1
        if match.group(1) == "unwrap":
            breaches.append(f"{path}:{number}: unwrap() in a production path")
        elif not _has_comment_at(lines, number):
            breaches.append(f"{path}:{number}: expect() without a comment that proves it")
    return breaches


def rust_breaches(path: str, text: str) -> list[str]:
    """Every breach of the rules in one Rust file; `path` is relative to the repository."""
    lines = text.split("\n")
    code = rust_source.blank(text)
    production = rust_source.without_tests(code)
    breaches = _column_breaches(path, lines)
    if not _has_module_docs(text):
        breaches.append(f"{path}:1: no module documentation (//!)")
    breaches += _unsafe_breaches(path, code, lines)
    most = MAX_TEST_FUNCTION_LINES if is_test(path) else MAX_FUNCTION_LINES
    for function in rust_source.functions(code):
        if function.lines > most:
            breaches.append(
                f"{path}:{function.line}: fn {function.name} has {function.lines} lines, "
                f"at most {most}"
            )
    if is_test(path):
        return breaches
    tests_at = re.search(r"(?m)^#\[cfg\(test\)\]\s*\nmod \w+ \{", text)
    production_lines = text.count("\n", 0, tests_at.start() if tests_at else len(text))
    if production_lines > MAX_FILE_LINES:
        breaches.append(f"{path}:1: {production_lines} production lines, at most {MAX_FILE_LINES}")
    return breaches + _panic_breaches(path, production, lines)


def python_breaches(path: str, text: str) -> list[str]:
    """Every breach of the rules in one Python file."""
    breaches = _column_breaches(path, text.split("\n"))
    tree = ast.parse(text, path)
    if text.strip() and ast.get_docstring(tree) is None and not path.endswith(".pyi"):
        breaches.append(f"{path}:1: no module docstring")
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                breaches.append(
                    f"{path}:{node.lineno}: def {node.name} has {length} lines, "
                    f"at most {MAX_FUNCTION_LINES}"
                )
    return breaches


def c_breaches(path: str, text: str) -> list[str]:
    """Every breach of the rules in one file of C or C++. A function of the first column's ends at
    the next brace there."""
    lines = text.split("\n")
    breaches = _column_breaches(path, lines)
    if not text.startswith(("/*", "//")):
        breaches.append(f"{path}:1: no comment that says what the file is")
    most = MAX_TEST_FUNCTION_LINES if is_test(path) else MAX_FUNCTION_LINES
    begin = None
    for number, line in enumerate(lines, 1):
        if re.match(r"\w.*\)\s*\{$", line):
            begin = number
        elif line == "}" and begin is not None:
            if number - begin + 1 > most:
                length = number - begin + 1
                breaches.append(f"{path}:{begin}: function has {length} lines, at most {most}")
            begin = None
    return breaches


CHECKS = {
    ".rs": rust_breaches, ".py": python_breaches, ".pyi": python_breaches,
    ".c": c_breaches, ".h": c_breaches, ".cpp": c_breaches,
}


def sources(root: Path) -> list[Path]:
    """The files with program text of the repository, without what is generated or fetched."""
    return sorted(
        path
        for path in root.rglob("*")
        if path.suffix in CHECKS
        and not SKIPPED.intersection(path.relative_to(root).parts)
    )


def main(arguments: list[str]) -> int:
    """Checks the repository; the exit status is 1 when a rule is broken."""
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    breaches, files = [], sources(root)
    for file in files:
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        breaches += CHECKS[file.suffix](path, text)
    for breach in breaches:
        print(breach)
    print(f"style: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
