#!/usr/bin/env python3
"""Writes the raw layers of the bindings from include/gpusched.h.

    python3 scripts/bindings.py            # write them
    python3 scripts/bindings.py --check    # list stale files; exit status 1 if any

The files are:

    bindings/python/gpusched/_abi.py       ctypes structures, callback types, prototypes
    bindings/fortran/gpusched_c.inc        bind(c) types, abstract interfaces, interfaces

The header is simple C on purpose, so a few patterns read it. Text that this script cannot parse is
an error: nothing is left out silently.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "gpusched.h"
PYTHON = ROOT / "bindings" / "python" / "gpusched" / "_abi.py"
FORTRAN = ROOT / "bindings" / "fortran" / "gpusched_c.inc"

# Macros have no type of their own. All are 32 bits wide but these.
WIDE_CONSTANTS = {"SCHED_FOREVER"}


@dataclass
class Var:
    """A field or an argument: `const float *vp`, `char uuid[64]`, `uint32_t slot`."""

    type: str
    name: str
    pointers: int = 0
    const: bool = False
    length: int | None = None


@dataclass
class Function:
    name: str
    result: Var
    arguments: list[Var]
    prototype: str


@dataclass
class Struct:
    name: str
    fields: list[Var]


@dataclass
class Header:
    constants: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    structs: list[Struct] = field(default_factory=list)
    callbacks: list[Function] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    # Structs and callbacks as they stand in the header: each after what it uses.
    types: list[Struct | Function] = field(default_factory=list)

    def is_struct(self, name: str) -> bool:
        return any(struct.name == name for struct in self.structs)


# --- reading -----------------------------------------------------------------


def read_var(text: str) -> Var:
    match = re.fullmatch(
        r"(?P<const>const )?(?:struct )?(?P<type>\w+)(?P<const2> const\b)? ?(?P<stars>\**) ?(?P<name>\w*)"
        r"(?: ?\[(?P<length>\d+)\])?",
        " ".join(text.replace("*", " * ").split()).replace("* *", "**"),
    )
    if not match:
        sys.exit(f"{HEADER.name}: cannot read {text!r}")
    return Var(
        type=match["type"],
        name=match["name"],
        pointers=len(match["stars"]),
        const=bool(match["const"] or match["const2"]),
        length=int(match["length"]) if match["length"] else None,
    )


def read_arguments(text: str) -> list[Var]:
    text = text.strip()
    return [] if text in ("", "void") else [read_var(part) for part in text.split(",")]


def read_fields(text: str) -> list[Var]:
    fields = []
    for line in filter(None, (part.strip() for part in text.split(";"))):
        names = line.split(",")
        first = read_var(names[0])
        fields.append(first)
        fields += [Var(first.type, name.strip()) for name in names[1:]]
    return fields


def read_constant(text: str) -> int:
    match = re.fullmatch(r"\(?(?:U?INT\d+_C\()?\s*(-?(?:0x[0-9a-fA-F]+|\d+))[uUlL]*\)*", text.strip())
    if not match:
        sys.exit(f"{HEADER.name}: cannot read the constant {text!r}")
    return int(match[1], 0)


def read_header(text: str) -> Header:
    header = Header()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    for name, value in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(SCHED_\w+)[ \t]+(\S[^\n]*)$", text, flags=re.M):
        header.constants[name] = read_constant(value)
    text = re.sub(r"^[ \t]*#[^\n]*$", " ", text, flags=re.M)
    text = re.sub(r'extern\s+"C"\s*\{', " ", text)

    declaration = re.compile(
        r"typedef\s+struct\s+(?P<struct>\w+)\s*\{(?P<body>[^}]*)\}\s*(?P=struct)\s*;"
        r"|typedef\s+struct\s+(?P<opaque>\w+)\s+(?P=opaque)\s*;"
        r"|typedef\s+(?P<cbres>[\w\s*]+?)\(\s*\*\s*(?P<callback>\w+)\s*\)\s*\((?P<cbargs>[^)]*)\)\s*;"
        r"|typedef\s+(?P<base>\w+)\s+(?P<alias>\w+)\s*;"
        r"|(?P<result>[\w\s*]+?[\s*])(?P<function>\w+)\s*\((?P<args>[^)]*)\)\s*;"
        r"|(?P<end>\}\s*)$"
        r"|(?P<space>\s+)",
    )
    position = 0
    while position < len(text):
        match = declaration.match(text, position)
        if not match:
            sys.exit(f"{HEADER.name}: cannot read {text[position:position + 80].strip()!r}")
        position = match.end()
        prototype = " ".join(match[0].replace("typedef ", "").replace("struct ", "").split())
        if match["struct"]:
            struct = Struct(match["struct"], read_fields(match["body"]))
            header.structs.append(struct)
            header.types.append(struct)
        elif match["opaque"]:
            header.opaque.append(match["opaque"])
        elif match["callback"]:
            callback = Function(
                match["callback"], read_var(match["cbres"].strip()), read_arguments(match["cbargs"]), prototype
            )
            header.callbacks.append(callback)
            header.types.append(callback)
        elif match["alias"]:
            header.aliases[match["alias"]] = match["base"]
        elif match["function"]:
            header.functions.append(
                Function(
                    match["function"], read_var(match["result"].strip()), read_arguments(match["args"]), prototype
                )
            )
    return header


# --- Python ------------------------------------------------------------------

CTYPES = {
    "bool": "c_bool",
    "char": "c_char",
    "int": "c_int",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
}


def ctype(var: Var, header: Header) -> str:
    base = header.aliases.get(var.type, var.type)
    callback = any(callback.name == base for callback in header.callbacks)
    if var.pointers == 0:
        name = base if callback or header.is_struct(base) else CTYPES.get(base)
        if base == "void":
            return "None"
        if name is None:
            sys.exit(f"{HEADER.name}: unknown type {base}")
        return f"{name} * {var.length}" if var.length else name
    if base == "void" or base in header.opaque:
        inner = "c_void_p"
    elif base == "char":
        inner = "c_char_p" if var.const else "POINTER(c_char)"
    else:
        inner = f"POINTER({base if header.is_struct(base) else CTYPES[base]})"
    for _ in range(var.pointers - 1):
        inner = f"POINTER({inner})"
    return inner


def hint(var: Var, header: Header) -> str:
    """Returns the type that ctypes returns when it reads the field."""
    base = header.aliases.get(var.type, var.type)
    if var.pointers:
        return {"c_void_p": "int | None", "c_char_p": "bytes | None"}.get(ctype(var, header), "Any")
    if header.is_struct(base):
        return base
    return {"float": "float", "double": "float", "bool": "bool", "char": "bytes"}.get(
        base, "int" if base in CTYPES else "Any"
    )


def python(header: Header) -> str:
    out = [
        "# Written by scripts/bindings.py from include/gpusched.h. Do not edit.",
        '"""The C ABI as ctypes sees it: nothing added, nothing left out."""',
        "",
        "from __future__ import annotations",
        "",
        "from ctypes import (",
        "    CDLL,",
        "    CFUNCTYPE,",
        "    POINTER,",
        "    Structure,",
        *[f"    {name}," for name in sorted(set(CTYPES.values()) | {"c_char_p", "c_void_p"})],
        ")",
        "from typing import Any, Callable",
        "",
        *[f"{name} = {value}" for name, value in header.constants.items()],
    ]
    for item in header.types:
        if isinstance(item, Function):
            kinds = ", ".join(ctype(var, header) for var in [item.result, *item.arguments])
            out += ["", f"# {item.prototype}", f"{item.name} = CFUNCTYPE({kinds})"]
            continue
        out += ["", "", f"class {item.name}(Structure):"]
        out += [f"    {var.name}: {hint(var, header)}" for var in item.fields]
        out += ["    _fields_ = ["]
        out += [f'        ("{var.name}", {ctype(var, header)}),' for var in item.fields]
        out += ["    ]", ""]
    out += [
        "",
        "",
        "def _bind(library: CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:",
        "    function = getattr(library, name)",
        "    function.restype = result",
        "    function.argtypes = list(arguments)",
        "    return function  # type: ignore[no-any-return]",
        "",
        "",
        "class Functions:",
        '    """The functions of a loaded library, each under its C name."""',
        "",
        "    def __init__(self, library: CDLL) -> None:",
    ]
    for function in header.functions:
        parts = [f'library, "{function.name}"', ctype(function.result, header)]
        parts += [ctype(var, header) for var in function.arguments]
        out += [f"        # {function.prototype}"]
        line = f"        self.{function.name} = _bind({', '.join(parts)})"
        if len(line) > 100:
            out += [f"        self.{function.name} = _bind("]
            out += [f"            {part}," for part in parts]
            line = "        )"
        out += [line]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(out)) + "\n"


# --- Fortran -----------------------------------------------------------------

KINDS = {
    "bool": "logical(c_bool)",
    "char": "character(kind=c_char)",
    "int": "integer(c_int)",
    "float": "real(c_float)",
    "double": "real(c_double)",
    "size_t": "integer(c_size_t)",
    "int32_t": "integer(c_int32_t)",
    "int64_t": "integer(c_int64_t)",
    "uint32_t": "integer(c_int32_t)",
    "uint64_t": "integer(c_int64_t)",
}


def kind(var: Var, header: Header) -> str:
    base = header.aliases.get(var.type, var.type)
    if var.pointers:
        return "type(c_ptr)"
    if any(callback.name == base for callback in header.callbacks):
        return "type(c_funptr)"
    return f"type({base})" if header.is_struct(base) else KINDS[base]


def initial(var: Var, header: Header) -> str:
    """Every field starts as zero, which stands for its default."""
    declared = kind(var, header)
    start = {"type(c_ptr)": "c_null_ptr", "type(c_funptr)": "c_null_funptr", "character(kind=c_char)": "c_null_char"}
    if declared in start:
        return f" = {start[declared]}"
    if declared.startswith("type("):
        return ""
    return " = 0.0" if declared.startswith("real") else " = 0"


def fortran_procedure(function: Function, header: Header, abstract: bool, indent: str) -> list[str]:
    names = [var.name or f"argument_{i}" for i, var in enumerate(function.arguments, 1)]
    word = "subroutine" if function.result.type == "void" and not function.result.pointers else "function"
    bind = "bind(c)" if abstract else f'bind(c, name="{function.name}")'
    result = "" if word == "subroutine" else " result(answer)"
    out = [f"{indent}{word} {function.name}({'' if len(names) > 3 else ', '.join(names) + ')'}"]
    if len(names) > 3:
        out[0] += " &"
        out += [f"{indent}    {name}{',' if name != names[-1] else ')'} &" for name in names]
        out += [f"{indent}    {bind}{result}"]
    else:
        out[0] += f" {bind}{result}"
    out += [f"{indent}  import"]
    for var, name in zip(function.arguments, names):
        if abstract and var.pointers == 1 and header.is_struct(var.type):
            # A callback's arguments always exist, so Fortran need not dereference a pointer.
            out += [f"{indent}  type({var.type}), intent({'in' if var.const else 'inout'}), target :: {name}"]
        else:
            out += [f"{indent}  {kind(var, header)}, value :: {name}"]
    if result:
        out += [f"{indent}  {kind(function.result, header)} :: answer"]
    return [*out, f"{indent}end {word}"]


def fortran(header: Header) -> str:
    out = [
        "! Written by scripts/bindings.py from include/gpusched.h. Do not edit.",
        "!> The C ABI as Fortran sees it: nothing added, nothing left out. Pointers are type(c_ptr);",
        "!> every field of a struct starts as zero, which means its default, but for `size`.",
        "module gpusched_c",
        "  use, intrinsic :: iso_c_binding",
        "  implicit none",
        "  public",
        "",
    ]
    taken = {function.name.upper() for function in header.functions}
    for name, value in header.constants.items():
        wide = "c_int64_t" if name in WIDE_CONSTANTS else "c_int32_t"
        # Fortran has no unsigned numbers, so its constants have the same bits.
        if wide == "c_int32_t" and 2**31 <= int(value) < 2**32:
            value = int(value) - 2**32
        # Fortran ignores case: a constant named like a function needs another name.
        name += "_BUILT" if name in taken else ""
        out += [f"  integer({wide}), parameter :: {name} = {value}_{wide}"]
    for struct in header.structs:
        out += ["", f"  type, bind(c) :: {struct.name}"]
        for var in struct.fields:
            shape = f"({var.length})" if var.length else ""
            out += [f"    {kind(var, header)} :: {var.name}{shape}{initial(var, header)}"]
        out += ["  end type"]
    out += ["", "  abstract interface"]
    for callback in header.callbacks:
        out += [*fortran_procedure(callback, header, True, "    "), ""]
    out[-1:] = ["  end interface", "", "  interface"]
    for function in header.functions:
        out += [*fortran_procedure(function, header, False, "    "), ""]
    out[-1:] = ["  end interface", "end module gpusched_c"]
    long = [line for line in out if len(line) > 132]
    if long:
        sys.exit(f"a line too long for Fortran: {long[0]}")
    return "\n".join(out) + "\n"


def main() -> None:
    header = read_header(HEADER.read_text())
    stale = []
    for path, text in ((PYTHON, python(header)), (FORTRAN, fortran(header))):
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        sys.exit(f"stale: {', '.join(stale)}; repair with: python3 scripts/bindings.py")


if __name__ == "__main__":
    main()
