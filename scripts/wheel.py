"""Adds the library and the command to the wheel; pyproject.toml names it as a hook of hatchling.

cargo compiles both for glibc 2.17, the oldest that Rust supports, and zig links them. If
$GPUSCHED_BUILT is a folder where cargo has built them, such as target/release, they are taken from
there. Such a wheel has the tag linux_*: it needs the glibc of the machine that built it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GLIBC = "2.17"
ZIG = ["cargo-zigbuild==0.24.0", "ziglang==0.17.1"]
BUILT = os.environ.get("GPUSCHED_BUILT")


def compile_for_old_glibc(root: Path) -> Path:
    """Returns the folder of the library and the command."""
    missing = [program for program in ("cargo", "gcc") if not shutil.which(program)]
    if missing:
        raise RuntimeError(f"not on PATH: {', '.join(missing)}; the wheel is compiled with Rust and gcc")
    target = f"{platform.machine()}-unknown-linux-gnu"
    # zig links its own unwinder into the library, and the unwinding of a C++ exception or of
    # pthread_exit, which begins in the system's libgcc_s, would crash there. libgcc_s itself needs
    # the glibc of this machine; the symbols that are taken from it have old versions.
    unwinder = subprocess.check_output(["gcc", "-print-file-name=libgcc_s.so.1"], text=True).strip()
    flags = [f"-Clink-arg={unwinder}", "-Clink-arg=-Wl,--allow-shlib-undefined"]
    soname = re.search(r"libgpusched\.so\.[\d.]+", (root / "bindings/python/gpusched/_library.py").read_text())
    assert soname
    environment = {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_ZIGBUILD_PYTHON_PATH": sys.executable,  # `python -m ziglang`
        "GPUSCHED_SONAME": soname[0],
    }
    build = ["cargo", "zigbuild", "--release", "--locked", "--lib", "--bin", "gpusched"]
    where = ["--target", f"{target}.{GLIBC}", "--target-dir", "target"]
    subprocess.run(build + where, check=True, cwd=root, env=os.environ | environment)
    return root / "target" / target / "release"


class Wheel(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        return [] if BUILT else ZIG

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        built = Path(BUILT) if BUILT else compile_for_old_glibc(root)
        system = "linux" if BUILT else f"manylinux_{GLIBC.replace('.', '_')}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}_{platform.machine()}"
        build_data["force_include"][str(built / "libgpusched.so")] = "gpusched/libgpusched.so"
        build_data["shared_scripts"][str(built / "gpusched")] = "gpusched"
