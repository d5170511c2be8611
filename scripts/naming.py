#!/usr/bin/env python3
"""Compares docs/naming.md with the header, the bindings and the survey file: `naming.py --check`.

A field of the C structs and a C function have their own names in every language, or a row with
others."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRUCTS = ("config", "task_desc", "range_desc", "fd_model_desc", "fd_shot_desc")
# Fields that languages with classes and arrays do not need.
C_ALONE = re.compile(r"size|flags|reserved|run|user|drop|\w+_len|\w+_count")
SAME, NONE = "same", "–"


def text(path: str) -> str:
    return (ROOT / path).read_text()


def c_fields() -> list[str]:
    """Returns the fields of the structs that describe something."""
    header = re.sub(r"/\*.*?\*/", "", text("include/gpusched.h"), flags=re.S)
    fields: dict[str, None] = {}
    for struct in STRUCTS:
        body = re.search(rf"struct sched_{struct}_t \{{(.*?)\n\}}", header, re.S)
        assert body, struct
        names = re.findall(r"(\w+)(?:\[\w+\])?;", body[1])
        fields.update(dict.fromkeys(name for name in names if not C_ALONE.fullmatch(name)))
    return list(fields)


def cpp_names() -> set[str]:
    """Returns the words of the C++ header without accesses of the C structs."""
    source = re.sub(r"//.*", "", text("include/gpusched.hpp"))
    return set(re.findall(r"\w+", re.sub(r"\b(d|desc|c|native)\.\w+", "", source)))


def fortran_names() -> set[str]:
    """Returns components, arguments and procedures of the Fortran module."""
    source = re.sub(r"!.*", "", text("bindings/fortran/gpusched.f90"))
    return set(re.findall(r"\w+", re.sub(r"%\w+", "", source)))


def python_names() -> set[str]:
    """Returns parameters, attributes, functions and names of options of the Python package."""
    names = set()
    for path in sorted((ROOT / "bindings/python/gpusched").glob("*.py")):
        if path.name == "_abi.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
            elif isinstance(node, ast.Tuple):
                names.update(e.value for e in node.elts if isinstance(e, ast.Constant))
    return {name for name in names if isinstance(name, str)}


def survey_keys() -> set[str]:
    """Returns the keys that the survey's page describes, without their sections."""
    found = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text("docs/survey.md"), re.M)
    return {key for cell in found for key in re.findall(r"\w+", cell)}


def rows(title: str) -> list[list[str]]:
    """Returns the cells of the table under a title."""
    part = text("docs/naming.md").split(f"## {title}\n", 1)[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def quoted(cell: str) -> list[str]:
    """Returns the last word of each name in a cell: `deadline_s` of `run.deadline_s`."""
    return [re.findall(r"\w+", name.split("=")[0])[-1] for name in re.findall(r"`([^`]+)`", cell)]


def faults() -> list[str]:
    """Returns a sentence for each difference."""
    languages = {"C++": cpp_names(), "Fortran": fortran_names(), "Python": python_names()}
    keys, fields = survey_keys(), c_fields()
    header = text("include/gpusched.h")
    found = []

    def exists(language: str, names: set[str], cell: str) -> None:
        found.extend(f"{language} has no `{name}`" for name in quoted(cell) if name not in names)

    other = {name: row for row in rows("Fields") for name in quoted(row[0])}
    found += [f"C has no field `{name}`" for name in other if name not in fields]
    for field in fields:
        row = other.get(field, [field, SAME, SAME, SAME, f"`{field}`"])
        for (language, names), cell in zip(languages.items(), row[1:4]):
            exists(language, names, f"`{field}`" if cell == SAME else cell)
        if row[4] != NONE:
            exists("the survey file", keys, row[4])
    for flag, both, python, survey in rows("Flags"):
        found.extend(f"C has no flag {name}" for name in quoted(flag) if f"#define {name} " not in header)
        for language, cell in (("C++", both), ("Fortran", both), ("Python", python)):
            exists(language, languages[language], cell)
        sections = set(re.findall(r"^## `\[(\w+)\]`", text("docs/survey.md"), re.M))
        exists("the survey file", keys | sections, survey)
    methods = rows("Methods")
    renamed = {name for row in methods for name in quoted(row[0])}
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    functions = set(re.findall(r"\b(sched_\w+)\(", code))
    for function in sorted(functions - renamed):
        method = re.sub("sched_(fd_|exec_)?", "", function)
        for language, names in languages.items():
            if not names & ({method, function} if language == "Fortran" else {method}):
                found.append(f"{language} has no `{method}`")
    for function, *cells, _reason in methods:
        found.extend(f"C has no {name}" for name in quoted(function) if name not in functions)
        for (language, names), cell in zip(languages.items(), cells):
            exists(language, names, cell)
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    differences = faults()
    for difference in differences:
        print(f"docs/naming.md: {difference}")
    sys.exit(bool(differences))
