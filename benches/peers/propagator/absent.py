"""Stand-ins for the CUDA libraries that torch's wheel loads when it is imported and never calls on a CPU.

torch for Linux comes from PyPI with CUDA only, and wants some gigabytes of libraries beside it. The loader asks of
them no more than to be there with the names that torch was linked against; so a library is made for each, of
functions that answer 1. They are compiled with `cc`, into a folder for LD_LIBRARY_PATH.
"""

import re
import subprocess
from pathlib import Path

SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp|cudart)\.)")


def told(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def make(libraries: Path, to: Path) -> None:
    """For all that the libraries in a folder need and neither hold nor the system has."""
    own = {path.name for path in libraries.glob("*.so*")}
    needed: set[str] = set()
    symbols: set[str] = set()
    defined: set[str] = set()
    for path in libraries.glob("*.so*"):
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", told("readelf", "-d", path)))
        symbols |= set(told("nm", "-D", "--undefined-only", "--with-symbol-versions", "-j", path).split())
        defined |= {name.split("@")[0] for name in told("nm", "-D", "--defined-only", "-j", path).split()}
    absent = {name for name in needed - own if not SYSTEM.match(name)}
    versioned = {name: [] for name in absent}
    bare = []
    for symbol in symbols:
        name, _, version = symbol.partition("@")
        if version in versioned:
            versioned[version].append(name)
        elif not version and name not in defined and re.match(r"cu|nccl", name):
            bare.append(name)
    to.mkdir(parents=True, exist_ok=True)
    for library in absent:
        # Names without a version may come from any library: each has them all.
        names = sorted({*versioned[library], *bare})
        code = to / f"{library}.c"
        code.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
        script = to / f"{library}.map"
        script.write_text(f"{library} {{ global: *; }};\n")
        version = [f"-Wl,--version-script={script}"] if versioned[library] else []
        command = ["cc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{library}", *version, code, "-o", to / library]
        subprocess.run([str(word) for word in command], check=True)
        code.unlink()
        script.unlink()
