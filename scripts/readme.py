#!/usr/bin/env python3
"""Keeps the programs that README.md shows the same as the files that the tests compile, and its links whole.

    python3 scripts/readme.py            # copy the files into README.md
    python3 scripts/readme.py --check    # say whether README.md is stale
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SNIPPET = re.compile(r"(<!-- file: (?P<path>\S+) -->\n```(?P<language>\w+)\n).*?(\n```)", re.S)


def main() -> None:
    text = README.read_text()
    fresh = SNIPPET.sub(lambda m: m[1] + (ROOT / m["path"]).read_text().rstrip("\n") + m[4], text)
    if not SNIPPET.search(text):
        sys.exit("README.md shows no file at all")
    gone = [link for link in re.findall(r"\]\(([^):]+)\)", text) if not (ROOT / link).exists()]
    if gone:
        sys.exit(f"README.md links to what is not there: {', '.join(gone)}")
    if "--check" not in sys.argv[1:]:
        README.write_text(fresh)
    elif fresh != text:
        sys.exit("README.md is stale; repair with: python3 scripts/readme.py")


if __name__ == "__main__":
    main()
