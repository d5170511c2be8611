#!/usr/bin/env python3
"""Keeps the programs that README.md shows the same as the files that the tests compile, and all pages' links whole.

    python3 scripts/readme.py            # copy the files into README.md
    python3 scripts/readme.py --check    # say whether README.md is stale
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SNIPPET = re.compile(r"(<!-- file: (?P<path>\S+) -->\n```(?P<language>\w+)\n).*?(\n```)", re.S)


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


def main() -> None:
    text = README.read_text()
    fresh = SNIPPET.sub(lambda m: m[1] + (ROOT / m["path"]).read_text().rstrip("\n") + m[4], text)
    if not SNIPPET.search(text):
        sys.exit("README.md shows no file at all")
    pages = [README, *sorted((ROOT / "docs").glob("*.md"))]
    gone = [f"{page.relative_to(ROOT)} links to {link}" for page in pages for link in links(page) if not leads(page, link)]
    if gone:
        sys.exit(f"what is not there: {', '.join(gone)}")
    if "--check" not in sys.argv[1:]:
        README.write_text(fresh)
    elif fresh != text:
        sys.exit("README.md is stale; repair with: python3 scripts/readme.py")


if __name__ == "__main__":
    main()
