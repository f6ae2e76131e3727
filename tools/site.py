"""Makes a site of the documents: one HTML page for each, with the index of docs beside it.

    python tools/site.py DIRECTORY

The pages are those of docs, and README, ARCHITECTURE, CONTRIBUTING and CHANGELOG. Links between
them lead to their HTML; links to other files of the repository lead to copies. A link to a page
or a heading that does not exist is an error.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
EXTENSIONS = ["tables", "fenced_code", "sane_lists", "toc", "md_in_html"]
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - SwingDB</title>
<link rel="stylesheet" href="{up}style.css">
</head>
<body>
<nav>{index}</nav>
<main>
{body}
</main>
</body>
</html>
"""
STYLE = """
body { margin: 0; display: grid; grid-template-columns: 16rem minmax(0, 1fr);
  font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; }
nav { padding: 1rem; border-right: 1px solid #d0d7de; font-size: .9rem; }
nav ul { list-style: none; padding: 0; } nav h2 { font-size: .9rem; margin: 1rem 0 .3rem; }
main { padding: 1rem 2rem; max-width: 60rem; }
a { color: #0969da; text-decoration: none; } a:hover { text-decoration: underline; }
pre { background: #f6f8fa; padding: .8rem; overflow-x: auto; }
code { font-size: .9em; background: #f6f8fa; } img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #d0d7de; padding: .3rem .6rem; text-align: left; vertical-align: top; }
@media (max-width: 50rem) { body { grid-template-columns: 1fr; } }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  pre, code { background: #161b22; } a { color: #58a6ff; } }
"""


def slug(value: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    value = re.sub(r"[^\w\- ]", "", html.unescape(re.sub(r"<[^>]+>", "", value)).lower())
    return value.strip().replace(" ", separator)


def converted(text: str) -> str:
    """Markdown as HTML."""
    # A list or table directly below a line of text is one for GitHub.
    text = re.sub(r"(?m)^((?![*\-|>#\s]|\d+\.).+)\n(?=[*-] )", r"\1\n\n", text)
    settings = {"toc": {"slugify": slug}}
    return markdown.markdown(text, extensions=EXTENSIONS, extension_configs=settings)


def index_of(text: str, up: str) -> str:
    """The navigation: headings and links of docs/README.md, without what follows a link."""
    lines = [f'<a href="{up}README.html"><strong>SwingDB</strong></a>']
    for line in text.splitlines():
        if line.startswith("## "):
            lines.append(f"<h2>{html.escape(line[3:])}</h2>")
        elif link := re.match(r"- \[(.+?)\]\((.+?)\)", line):
            target = re.sub(r"\.md$", ".html", link[2])
            target = target.removeprefix("../") if target.startswith("../") else f"docs/{target}"
            lines.append(f'<div><a href="{up}{target}">{html.escape(link[1])}</a></div>')
    return "\n".join(lines)


class Site:
    """The pages, and the files that they link to."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.pages = [ROOT / name for name in TOP] + sorted((ROOT / "docs").glob("*.md"))
        self.bodies = {page: converted(page.read_text()) for page in self.pages}
        self.wrong: list[str] = []

    def link(self, page: Path, target: str) -> str:
        """Where a link of a page leads on the site."""
        if re.match(r"\w+:", target):
            return target
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if file in self.bodies:
            if anchor and f'id="{anchor}"' not in self.bodies[file]:
                self.wrong.append(f"{page.relative_to(ROOT)}: no heading {target}")
            return re.sub(r"\.md$", ".html", path) + (f"#{anchor}" if anchor else "")
        if not file.exists():
            self.wrong.append(f"{page.relative_to(ROOT)}: {target}")
        elif file.is_file():
            copy = self.out / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        return target

    def write(self) -> None:
        """Writes all pages."""
        index = (ROOT / "docs" / "README.md").read_text()
        for page, body in self.bodies.items():
            # Of text, not of examples in code: those have no attributes.
            body = re.sub(
                r'(href|src)="([^"]+)"',
                lambda m, page=page: f'{m[1]}="{self.link(page, m[2])}"',
                body,
            )
            name = page.relative_to(ROOT)
            up = "../" * (len(name.parts) - 1)
            title = re.search(r"<h1[^>]*>(.*?)</h1>", body)
            target = (self.out / name).with_suffix(".html")
            target.parent.mkdir(parents=True, exist_ok=True)
            text = PAGE.format(
                title=re.sub(r"<[^>]+>", "", title[1]) if title else name.stem,
                up=up,
                index=index_of(index, up),
                body=body,
            )
            target.write_text(text)
        (self.out / "style.css").write_text(STYLE)
        start = '<meta http-equiv="refresh" content="0; url=README.html">\n'
        (self.out / "index.html").write_text(start)


def main() -> int:
    """Writes the site; fails when a link leads nowhere."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    site = Site(out)
    site.write()
    for line in site.wrong:
        print(line)
    print(f"{len(site.pages)} pages in {out}")
    return 1 if site.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
