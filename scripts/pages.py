#!/usr/bin/env python3
"""Checks the pages: README.md, those in docs, and those of the examples.

    python3 scripts/pages.py                  # copy files into the pages that show them
    python3 scripts/pages.py --check          # fail on stale copies and names, broken links, unknown
                                              # blocks, oddities without their place
    python3 scripts/pages.py --run [PAGE...]  # run the commands and the code of the pages

A block is
    sh        commands; those of a page run in one shell, in a copy of the repository
    python    a program, run after the blocks before it, in the folder of the shell
    c         declarations, compiled after the headers of include
    output    lines that the block before it prints, in this order; `...` stands for any text
    text      neither commands nor code; `mermaid` likewise
or follows `<!-- file: PATH -->` and equals that file, or `<!-- file: PATH, PART -->` and equals its
lines between `begin PART` and `end PART`. A first line `# Not run by the tests: REASON` exempts a
block. `{include}` inserts another page; `{literalinclude}` shows a file. Files that are shown are
examples or headers, which CTest compiles and runs.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from test_names import selects_a_test

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("examples/*/README.md"),
]
FILE = r"<!-- file: (?P<path>[^\s,]+)(?:, (?P<part>\w+))? -->\n"
COPY = re.compile(rf"(?P<head>{FILE}```\w+\n).*?(?P<tail>\n```)", re.S)
BLOCK = re.compile(
    rf"^(?P<file>{FILE})?```(?P<kind>{{?\w*}}?) *(?P<word>.*)\n"
    r"(?P<text>(?:.*\n)*?)```$",
    re.M,
)
KINDS = {"sh", "python", "c", "output", "text", "mermaid"}
SHOWN = ("bindings/", "examples/", "include/")
EXEMPT = "# Not run by the tests: "
MARK = "@@ block "
LIMIT_S = 600

# Replaces cargo, which would compile the sources again in another folder.
CARGO = """#!/bin/sh -eu
built={root}/target/release target=target command=$1
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ "$1" != --target-dir ] || target=$2
    shift
done
[ "$command" != run ] || {{ shift && exec "$built/gpusched" "$@"; }}
mkdir -p "$target/release"
cp "$built/libgpusched.so" "$built/gpusched" "$target/release"
"""


@dataclass
class Block:
    page: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Returns the blocks of a page that can be run, and those of the pages that it includes."""
    text, found = page.read_text(), []
    for match in BLOCK.finditer(text):
        if match["kind"] == "{include}" and (page.parent / match["word"]).name.startswith("_"):
            found += blocks(page.parent / match["word"])
        elif not match["file"] and match["kind"] in ("sh", "python", "c", "output"):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match["kind"], match["text"]))
    return found


def headings(page: Path) -> list[str]:
    """Returns the anchors of a page: titles in lower case with dashes between the words."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def faults(page: Path) -> list[str]:
    """Returns what is wrong with the links, the blocks and the test commands of a page."""
    text, wrong = page.read_text(), []
    for link in re.findall(r"\]\(([^):]+)\)", text):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            wrong.append(f"links to {link}, which does not exist")
    for match in BLOCK.finditer(text):
        kind, shown = match["kind"], match["path"]
        if kind == "{literalinclude}":
            shown = os.path.relpath(page.parent / match["word"], ROOT)
        if shown and not (shown.startswith(SHOWN) and (ROOT / shown).is_file()):
            wrong.append(f"shows {shown}; accepted: a file in {' or '.join(SHOWN)}")
        if not match["file"] and not kind.startswith("{") and kind not in KINDS:
            wrong.append(f"has a block of kind '{kind}'; accepted: {', '.join(sorted(KINDS))}")
    for arguments in re.findall(r"(?:\bcargo test\b|`(?=--(?:bin|lib|test)\b))([^`\n]*)", text):
        if not selects_a_test(arguments):
            wrong.append(f"names the tests '{arguments.strip()}', which select none")
    if re.search(r"\n\n {4}\S", BLOCK.sub("", text)):
        wrong.append("has an indented block; accepted: blocks between ``` lines")
    return [f"{page.relative_to(ROOT)} {fault}" for fault in wrong]


def stale_names(page: Path) -> list[str]:
    """Returns the files `folder/{a,b}.rs` and the items `Type::name` of a page that src has not."""
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "src").rglob("*.rs")}
    wrong = []
    for name in re.findall(r"`([^`\s]+)`", page.read_text()):
        if name.endswith(".rs") and "NAME" not in name:
            head, _, rest = name.partition("{")
            parts, _, tail = rest.partition("}")
            paths = [head + part + tail for part in parts.split(",")]
            found = lambda path: (ROOT / path).is_file() or any(f.endswith(f"/{path}") for f in files)
            wrong += [f"names {path}, which does not exist" for path in paths if not found(path)]
        elif item := re.fullmatch(r"(\w+)::(\w+)", name):
            owner = re.compile(rf"\b(struct|enum|trait) {item[1]}\b|^ *impl\b[^{{]*\b{item[1]}\b", re.M)
            member = re.compile(rf"\bfn {item[2]}\b|\b{item[2]}:")
            if not any(owner.search(text) and member.search(text) for text in files.values()):
                wrong.append(f"names {name}, which does not exist")
    return [f"{page.relative_to(ROOT)} {fault}" for fault in wrong]


def unexplained_atomics(page: Path) -> list[str]:
    """Returns the atomic fields of the scheduler that the section on atomics of a page does not
    name."""
    section = page.read_text().partition("\n## Atomics\n")[2].partition("\n## ")[0]
    wrong = []
    for path in sorted((ROOT / "src/sched").rglob("*.rs")):
        code = re.split(r"#\[cfg\((?:test|loom|all\(loom)|#!\[cfg", path.read_text())[0]
        fields = re.findall(r"^    (?:pub(?:\(\w+\))? )?(\w+): [\w<\[]*Atomic\w+[>\]]*,$", code, re.M)
        wrong += [f"{path.relative_to(ROOT)}: {page.name} does not explain the atomic {name}"
                  for name in fields if not re.search(rf"\b{name}\b", section)]
    return wrong


def misplaced_oddities(page: Path) -> list[str]:
    """Returns the oddities of a page's table that are kept but have not exactly one comment in src,
    in a file that the row names, and comments with another number."""
    rows = re.findall(r"^\| (B\d+) \|(?:.*?\|){2} (.*?) \| (.*?) \|", page.read_text(), re.M)
    expected = {number: where for number, kept, where in rows if kept.startswith("yes")}
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.rs")):
        words = re.sub(r"\n *//[/!]?", "", path.read_text())
        for number in re.findall(rf"\boddity (B\d+) of docs/{page.name}", words, re.I):
            found.setdefault(number, []).append(str(path.relative_to(ROOT / "src")))
    numbers = [f"B{i + 1}" for i in range(len(rows))]
    wrong = [] if expected and [row[0] for row in rows] == numbers else ["has no table of oddities B1, B2, .."]
    for number, where in expected.items():
        places = found.pop(number, [])
        if len(places) != 1 or f"`{places[0]}`" not in where:
            wrong.append(f"keeps {number} in {where}; comments are in {', '.join(places) or 'no file'}")
    wrong += [f"does not keep {number}, of which {places[0]} says so" for number, places in found.items()]
    return [f"{page.relative_to(ROOT)} {fault}" for fault in wrong]


def copied(page: Path) -> str:
    """Returns the text of a page with fresh copies of the files that it shows."""
    return COPY.sub(lambda m: m["head"] + part(m["path"], m["part"]) + m["tail"], page.read_text())


def part(path: str, name: str | None) -> str:
    """Returns a file, or its lines between `begin NAME` and `end NAME` without their
    indentation."""
    text = (ROOT / path).read_text()
    if name is None:
        return text.rstrip("\n")
    lines = re.search(rf"\bbegin {name}\b.*\n((?:.*\n)*?).*\bend {name}\b", text)
    if lines is None:
        sys.exit(f"{path} has no lines between 'begin {name}' and 'end {name}'")
    return textwrap.dedent(lines[1]).strip("\n")


def command(block: Block) -> str:
    """Returns the shell commands that run or compile a block."""
    if block.kind == "sh":
        return block.text
    program = "python3 -"
    if block.kind == "c":
        headers = "".join(f" -include {name.name}" for name in (ROOT / "include").glob("*.h"))
        program = f"cc -fsyntax-only -Wall -Werror -I'{ROOT}/include'{headers} -xc -"
    return f"{program} <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"


def missing_lines(expected: str, output: str) -> list[str]:
    """Returns the first expected line that the output does not have after the lines before it."""
    rest = iter(line.rstrip() for line in output.splitlines())
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        if not any(re.fullmatch(pattern, other) for other in rest):
            return [line]
    return []


def run(page: Path, folder: Path, environment: dict[str, str]) -> list[str]:
    """Runs the blocks of a page; returns what went wrong."""
    script = "set -eu -o pipefail\n"
    todo: list[tuple[Block, Block | None]] = []
    for block in blocks(page):
        if block.kind == "output":
            todo[-1] = (todo[-1][0], block)
        elif block.text.startswith(EXEMPT):
            reason = block.text.splitlines()[0].removeprefix(EXEMPT)
            print(f"{block}: not run: {reason}")
        else:
            todo.append((block, None))
    for number, (block, _) in enumerate(todo):
        script += f"printf '\\n{MARK}{number}\\n'\n{command(block)}"
    ended = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
    )  # fmt: skip
    outputs = ended.stdout.split(f"\n{MARK}")[1:]
    if ended.returncode != 0:
        return [f"{todo[len(outputs) - 1][0]} ended with status {ended.returncode}:\n{outputs[-1]}"]
    wrong = []
    for (_, expected), output in zip(todo, outputs):
        if expected:
            for line in missing_lines(expected.text, output):
                wrong.append(f"{expected}: no line of the output is '{line}':\n{output}")
    if todo:
        print(f"{page.relative_to(ROOT)}: {len(todo)} blocks", flush=True)
    return wrong


def run_all(pages: list[Path]) -> list[str]:
    """Runs the blocks of all pages, one page after the other, in one copy of the repository."""
    with tempfile.TemporaryDirectory() as name:
        home, tools = Path(name), Path(name) / "tools"
        folder = home / "repository"
        ignored = shutil.ignore_patterns("target", "tests", ".git", "out", "build")
        shutil.copytree(ROOT, folder, ignore=ignored)
        tools.mkdir()
        (tools / "cargo").write_text(CARGO.format(root=f"'{ROOT}'"))
        (tools / "cargo").chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUSCHED_")}
        path = f"{tools}:{Path(sys.executable).parent}:{kept['PATH']}"
        environment = kept | {"HOME": name, "PATH": path, "XDG_RUNTIME_DIR": name}
        return [fault for page in pages for fault in run(page, folder, environment)]


def main() -> None:
    option, names = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    wrong = []
    if option == "--run":
        whole = [page for page in PAGES if not page.name.startswith("_")]
        wrong = run_all([Path(name).resolve() for name in names] or whole)
    else:
        stale = [page for page in PAGES if copied(page) != page.read_text()]
        for page in stale:
            if option == "--check":
                wrong.append(f"{page.relative_to(ROOT)} is stale; run: python3 scripts/pages.py")
            else:
                page.write_text(copied(page))
        wrong += [fault for page in PAGES for fault in faults(page)]
        for name in ("architecture.md", "glossary.md"):
            wrong += stale_names(ROOT / "docs" / name)
        wrong += unexplained_atomics(ROOT / "docs/architecture.md")
        wrong += misplaced_oddities(ROOT / "docs/legacy.md")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
