"""Hints at English that a reader stumbles over, in comments and documents; with a ratchet.

    python3 tools/check_english.py                  what is worse than the ratchet allows
    python3 tools/check_english.py --all [PATH]     every hint, of some paths
    python3 tools/check_english.py --lower          lowers the ratchet to what is reached

A hint is not an error: a tool sees the length of a sentence, relatives that stand for nouns
("whoever looks", "what has come") and words that the field has a better one for, and not whether
a sentence is good. tools/english.json has the hints that each folder may have for 1000 words;
these numbers only go down. The exit status is 0.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RATCHET = ROOT / "tools" / "english.json"
#: Words of a sentence, above which it is long.
MAX_WORDS = 30
#: Relatives in place of a noun.
NOMINAL = re.compile(
    r"\b(?:[Ww]hoever|[Ww]hatever|(?:^|(?<=[.;:] ))(?:Who|What|That)"
    r"|(?:of|for|to|by|with|from|than|as|behind|before|beside) (?:what|who)"
    r"|one (?:who|that)|those (?:who|that)|that which)\b"
)
#: Words of no standard meaning, and what the field says.
WORDS = {
    "somebody": "a process, a thread, a reader",
    "nobody": "no process, no reader",
    "go astray": "are lost",
    "stumbles": "fails",
    "bell": "eventfd",
    "seat": "CPU affinity",
    "say so": "return an error",
    "says so": "returns an error",
    "in the place of": "instead of",
    "as it was": "unchanged",
    "anew": "again",
    "as often as": "whenever",
    "is told": "gets",
    "stands for": "means",
    "come to": "reach",
    "comes to": "reaches",
}
_WORD = re.compile(r"\b(?:" + "|".join(map(re.escape, WORDS)) + r")\b", re.IGNORECASE)
SKIPPED = {".git", ".pytest_cache", ".venv", "target", "site", "dist", "__pycache__", "pictures"}


def rust_prose(text: str) -> list[tuple[int, str]]:
    """The paragraphs of comments, with the line that each begins at."""
    found: list[tuple[int, str]] = []
    last = -1
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*//[/!]? ?(.*)$", line)
        words = match[1].strip() if match else ""
        # Tables, code and headings are no sentences.
        if not words or words.startswith(("|", "`", "#", "SAFETY")):
            last = -1
        elif last == number - 1 and not re.match(r"[-*] |\d+\. ", words):
            found[-1] = (found[-1][0], f"{found[-1][1]} {words}")
            last = number
        else:
            found.append((number, words))
            last = number
    return found


def markdown_prose(text: str) -> list[tuple[int, str]]:
    """The paragraphs of a document, without code, tables and headings."""
    blank = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m[0].count("\n"), text)
    lines = [
        "" if re.match(r"\||#|<|!\[|    ", line) else f"// {line}" for line in blank.splitlines()
    ]
    return rust_prose("\n".join(lines))


def hints(paragraph: str) -> list[str]:
    """What a reader may stumble over in one paragraph."""
    plain = re.sub(r"`[^`]*`", "x", re.sub(r"\]\([^)]*\)", "]", paragraph))
    found = []
    for sentence in re.split(r"(?<=[.:;?!])\s+(?=[A-Z*`\[])|;\s", plain):
        count = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
        if count > MAX_WORDS:
            found.append(f"{count} words in a sentence")
    found += [f"relative for a noun: {match[0]!r}" for match in NOMINAL.finditer(plain)]
    found += [f"{match[0]!r}: {WORDS[match[0].lower()]}?" for match in _WORD.finditer(plain)]
    return found


def files(under: Path) -> list[Path]:
    """The files with prose below a folder."""
    every = [under] if under.is_file() else sorted(under.rglob("*"))
    return [
        path
        for path in every
        if path.suffix in {".rs", ".md"} and not SKIPPED.intersection(path.parts)
    ]


def folder_of(path: Path) -> str:
    """What the ratchet counts together: a crate, docs, or the documents at the top."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "crates":
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "."


def counted(paths: list[Path]) -> tuple[dict[str, float], list[str]]:
    """For each folder the hints for 1000 words; and all hints as lines."""
    words: dict[str, int] = {}
    number: dict[str, int] = {}
    lines = []
    for path in paths:
        text = path.read_text(errors="replace")
        folder = folder_of(path)
        for line, paragraph in markdown_prose(text) if path.suffix == ".md" else rust_prose(text):
            found = hints(paragraph)
            words[folder] = words.get(folder, 0) + len(paragraph.split())
            number[folder] = number.get(folder, 0) + len(found)
            lines += [f"{path.relative_to(ROOT)}:{line}: {hint}" for hint in found]
    rates = {folder: 1000 * number[folder] / words[folder] for folder in words if words[folder]}
    return rates, lines


def main() -> int:
    """Prints hints, or lowers the ratchet."""
    arguments = sys.argv[1:]
    if "--all" in arguments:
        paths = [Path(name).resolve() for name in arguments if name != "--all"] or [ROOT]
        _, lines = counted([file for path in paths for file in files(path)])
        print("\n".join(lines))
        return 0
    rates, _ = counted(files(ROOT))
    ratchet = json.loads(RATCHET.read_text()) if RATCHET.exists() else {}
    if "--lower" in arguments:
        lowered = {
            # A tenth above, so that one sentence is no news.
            folder: min(ratchet.get(folder, float("inf")), round(rate * 1.1 + 0.5, 1))
            for folder, rate in sorted(rates.items())
        }
        RATCHET.write_text(json.dumps(lowered, indent=2) + "\n")
        return 0
    for folder, rate in sorted(rates.items()):
        most = ratchet.get(folder)
        if most is not None and rate > most:
            print(f"hint: {folder}: {rate:.1f} hints for 1000 words, the ratchet is at {most}")
            print(f"      python3 tools/check_english.py --all {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
