"""The version is kept in Cargo.toml; whatever repeats it has to agree."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def version(path: str, pattern: str = r'^version = "(.*)"') -> str:
    match = re.search(pattern, (ROOT / path).read_text(), re.M)
    return match[1] if match else "none"


home = version("Cargo.toml")
others = {
    "bindings/python/pyproject.toml": version("bindings/python/pyproject.toml"),
    "CHANGELOG.md": version("CHANGELOG.md", r"^## \[(\d\S*)\]"),
}
wrong = [f"{path} says {said}, Cargo.toml says {home}" for path, said in others.items() if said != home]
sys.exit("\n".join(wrong) or 0)
