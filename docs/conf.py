"""Settings of Sphinx. docs/testing.md has the command that builds the site."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
XML = ROOT / "target" / "doxygen"

with open(ROOT / "Cargo.toml", "rb") as file:
    release = tomllib.load(file)["package"]["version"]
project = "gpusched"

# autodoc imports the package, and the package loads the library.
os.environ.setdefault("GPUSCHED_LIBRARY", str(ROOT / "target/release/libgpusched.so"))
sys.path.insert(0, str(ROOT / "bindings/python"))
XML.mkdir(parents=True, exist_ok=True)
subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=True)

extensions = [
    "breathe", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["**/_*.md"]
html_theme = "furo"
html_title = f"gpusched {release}"

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

breathe_projects = {"gpusched": str(XML / "xml")}
breathe_default_project = "gpusched"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}

# The attributes of a class stand in its docstring; autodoc lists them, too.
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True, "undoc-members": True}
copybutton_selector = "div:not(.highlight-text, .highlight-output) > div.highlight > pre"
