#!/usr/bin/env python3
"""Prints the lines of standard input, each the arguments of a `cargo test`, that select no test.

Ends with 1 if it prints one. Reads the names from the sources, so nothing is built.
"""

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WITH_VALUE = {"--features", "--package", "--profile", "--target-dir", "-p"}


@cache
def tests(target: str) -> list[str]:
    """Returns the paths of the tests of a target, such as `--lib`, `--test it`, `--bin NAME`."""
    kind, _, name = target.partition(" ")
    folder = {"--lib": "src", "--bin": f"src/bin/{name}"}.get(kind, f"tests/{name}")
    files = [ROOT / f"{folder}.rs", *sorted((ROOT / folder).rglob("*.rs"))]
    paths = []
    for file in files:
        parts = file.relative_to(ROOT / folder).with_suffix("").parts if file != files[0] else ()
        if file.is_file() and not (kind == "--lib" and parts[0] == "bin"):
            modules = [part for part in parts if part not in ("mod", "main", "lib")]
            paths += ["::".join([*modules, test]) for test in tests_of(file.read_text())]
    return paths


def tests_of(text: str) -> list[str]:
    """Returns the names of the tests of a file, each after the modules that the file has it in."""
    names, modules, is_test = [], [], False
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        if module := re.match(r" *(?:pub(?:\(\w+\))? )?mod (\w+) \{", line):
            modules[depth:] = [module[1]]
        elif function := re.match(r" *(?:unsafe )?fn (\$?\w+)", line):
            if is_test and not function[1].startswith("$"):
                names.append("::".join([*modules[:depth], function[1]]))
            is_test = False
        elif line.strip() == "#[test]":
            is_test = True
    # Macros: `cases! { NAME ... }`, whose other words do no harm, and `case!(MODULE::NAME, ...)`.
    for block in re.findall(r"^cases! \{\n(.*?)^\}", text, re.M | re.S):
        names += re.findall(r"\w+", re.sub(r'"[^"]*"', "", block))
    return names + re.findall(r"\b(?:case|faulty)!\((\w+::\w+)", text)


def all_targets() -> list[str]:
    """Returns the targets whose tests a plain `cargo test` runs."""
    folders = [path.parent.name for path in sorted(ROOT.glob("tests/*/main.rs"))]
    files = [path.stem for path in sorted(ROOT.glob("tests/*.rs"))]
    return ["--lib", "--bin gpusched", *(f"--test {name}" for name in folders + files)]


def selects_a_test(arguments: str) -> bool:
    """Returns false if a filter among arguments of `cargo test` is in no test's path, or a target
    does not exist."""
    words, targets, filters = iter(arguments.split()), [], []
    for word in words:
        if word == "--":
            break
        if word in ("--test", "--bin"):
            targets.append(f"{word} {next(words)}")
        elif word == "--lib":
            targets.append(word)
        elif word in WITH_VALUE:
            next(words)
        elif not word.startswith("-"):
            filters.append(word)
    if not set(targets) <= set(all_targets()):
        return False
    paths = [path for target in targets or all_targets() for path in tests(target)]
    return all(any(name in path for path in paths) for name in filters)


def main() -> None:
    wrong = [line for line in map(str.strip, sys.stdin) if line and not selects_a_test(line)]
    if wrong:
        sys.exit("\n".join(f"NO SUCH TEST: {line}" for line in wrong))


if __name__ == "__main__":
    main()
