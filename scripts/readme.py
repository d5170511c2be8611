#!/usr/bin/env python3
"""Checks that the pages show the programs that the tests compile, and that their links lead somewhere.

    python3 scripts/readme.py            # copy the programs into README.md and docs
    python3 scripts/readme.py --check    # fail if a page is stale

A code block below `<!-- file: PATH -->` is that file; below `<!-- file: PATH, PART -->` it is the
lines of the file between `begin PART` and `end PART`.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SNIPPET = re.compile(r"(<!-- file: (?P<path>[^\s,]+)(, (?P<part>\w+))? -->\n```\w+\n).*?(\n```)", re.S)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^):]+)\)", page.read_text())


def leads(page: Path, link: str) -> bool:
    """To a file, and to a heading of a page, as its words in lower case with dashes between."""
    path, _, heading = link.partition("#")
    target = page.parent / path if path else page
    if not heading:
        return target.exists()
    titles = re.findall(r"^#+ (.+)$", target.read_text(), re.M) if target.is_file() else []
    return heading in (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def program(path: str, part: str | None) -> str:
    """Returns the file, or the named part of it without its indentation."""
    text = (ROOT / path).read_text()
    if part is None:
        return text.rstrip("\n")
    shown = re.search(rf"^[^\n]*\bbegin {part}\b[^\n]*\n(.*?)^[^\n]*\bend {part}\b", text, re.S | re.M)
    if shown is None:
        sys.exit(f"{path} has no lines between begin {part} and end {part}")
    return textwrap.dedent(shown[1]).strip("\n")


def main() -> None:
    pages = [README, *sorted((ROOT / "docs").glob("*.md"))]
    old = {page: page.read_text() for page in pages}
    new = {page: SNIPPET.sub(lambda m: m[1] + program(m["path"], m["part"]) + m[5], old[page]) for page in pages}
    if not SNIPPET.search(old[README]):
        sys.exit("README.md shows no file")
    gone = [f"{page.relative_to(ROOT)} links to {link}" for page in pages for link in links(page) if not leads(page, link)]
    if gone:
        sys.exit(f"broken links: {', '.join(gone)}")
    stale = [page for page in pages if new[page] != old[page]]
    if "--check" not in sys.argv[1:]:
        for page in stale:
            page.write_text(new[page])
    elif stale:
        names = ", ".join(str(page.relative_to(ROOT)) for page in stale)
        sys.exit(f"stale: {names}; repair with: python3 scripts/readme.py")


if __name__ == "__main__":
    main()
