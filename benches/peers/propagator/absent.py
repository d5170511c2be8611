"""Stand-ins for the CUDA libraries that torch's wheel loads on import and never calls on a CPU.

PyPI has torch for Linux with CUDA only, which depends on gigabytes of libraries. The loader only
needs libraries that define the names against which torch was linked. So this script compiles a
library for each with `cc`, of functions that return 1, into a folder for LD_LIBRARY_PATH.
"""

import re
import subprocess
from pathlib import Path

SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp|cudart)\.)")


def told(*command: object) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def make(libraries: Path, to: Path) -> None:
    """Writes stand-ins for all libraries that those in a folder need and that neither it nor the
    system has."""
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
        # Any library may define a name without a version, so each stand-in defines all of them.
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
