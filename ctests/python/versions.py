"""The version is kept in Cargo.toml; whatever repeats it has to agree."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def version(path: str, pattern: str = r'^version = "(.*)"') -> str:
    match = re.search(pattern, (ROOT / path).read_text(), re.M)
    return match[1] if match else "none"


home = version("Cargo.toml")
major, minor = home.split(".")[:2]
# Before 1.0 each minor version has an ABI of its own.
abi = f"0.{minor}" if major == "0" else major
said = [
    ("CHANGELOG.md", version("CHANGELOG.md", r"^## \[(\d\S*)\]"), home),
    ("NAMES of the Python package", version("bindings/python/gpusched/_library.py", r"^NAMES = .*so\.([\d.]*)"), abi),
]
if major == "0":
    number = version("include/gpusched.h", r"^#define SCHED_ABI_VERSION (\d+)")
    said.append(("SCHED_ABI_VERSION", number, minor))
wrong = [f"{place} says {there}, Cargo.toml's version makes it {due}" for place, there, due in said if there != due]
sys.exit("\n".join(wrong) or 0)
