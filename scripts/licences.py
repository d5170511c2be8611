#!/usr/bin/env python3
"""Writes THIRD-PARTY-LICENSES: the notices of the crates that the library and the command contain.

    python3 scripts/licences.py            # write it
    python3 scripts/licences.py --check    # say whether it is stale; exit status 1 if it is

It covers the Linux build for x86-64 with all features. The texts are those in the sources of the
crates, which cargo keeps. Where a crate offers the MIT licence among others, that one is taken.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "THIRD-PARTY-LICENSES"
TARGET = "x86_64-unknown-linux-gnu"
NOTICE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.I)
INTRODUCTION = """\
The library and the command of gpusched contain the Rust standard library and the crates below. This
file lists each with its licence. Written by scripts/licences.py; not to be edited.
"""


def linked_crates() -> list[dict[str, Any]]:
    """Returns the crates that are linked: dependencies, without procedural macros and their own."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={TARGET}"]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found: set[str] = set()
    open_ids = [metadata["resolve"]["root"]]
    while open_ids:
        one = open_ids.pop()
        if one in found or any("proc-macro" in target["kind"] for target in packages[one]["targets"]):
            continue
        found.add(one)
        open_ids += [dependency["pkg"] for dependency in nodes[one]["deps"]
                     if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    found.remove(metadata["resolve"]["root"])
    assert not any(" AND " in packages[one]["license"] for one in found), "a crate has two licences"
    return sorted((packages[one] for one in found), key=lambda crate: (crate["name"], crate["version"]))


def mit(holder: str) -> str:
    return re.sub(r"Copyright .*", f"Copyright (c) {holder}", (ROOT / "LICENSE-MIT").read_text())


def notices(crate: dict[str, Any]) -> list[str]:
    """Returns the texts of a crate's licence."""
    folder = Path(crate["manifest_path"]).parent
    files = sorted(path for path in folder.rglob("*") if path.is_file() and NOTICE.match(path.name))
    if any("MIT" in path.name for path in files):
        files = [path for path in files if "MIT" in path.name or path.parent != folder]
    texts = [path.read_text().strip() for path in files if path.suffix != ".rs"]
    # Some packages contain a link to a file outside in place of the text.
    texts = [text for text in texts if len(text) > 100]
    if not texts and crate["license"] == "MIT":
        texts = [mit(", ".join(crate["authors"]))]
    assert texts, f"{crate['name']} has no licence text"
    return texts


def contents() -> str:
    users: dict[str, list[str]] = {mit("The Rust Project contributors").strip(): ["Rust standard library"]}
    for crate in linked_crates():
        for text in notices(crate):
            users.setdefault(text.strip(), []).append(f"{crate['name']} {crate['version']}: {crate['license']}")
    line = "\n" + "-" * 80 + "\n"
    return "".join([INTRODUCTION, *(f"{line}{chr(10).join(names)}\n\n{text}\n" for text, names in users.items())])


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        OUT.write_text(contents())
    elif not OUT.exists() or OUT.read_text() != contents():
        sys.exit(f"stale: {OUT.name}; repair with: python3 scripts/licences.py")
