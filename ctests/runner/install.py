"""Installs what the tests need: packages of the system, parts of Rust, Python packages.

    install.py packages LEVEL | rust | python FOLDER

Ends with 1 if a program is missing that the tests can't do without, and prints the command that
installs it. Tests that need an optional program count themselves as skipped.
"""

import os
import shlex
import shutil
import subprocess
import sys
from typing import Iterable

# Programs and the packages that contain them.
REQUIRED = {
    "cc": "gcc", "c++": "g++", "make": "make", "cmake": "cmake", "pkg-config": "pkg-config",
    "readelf": "binutils", "doxygen": "doxygen",
}  # fmt: skip
OPTIONAL = {"gfortran": "gfortran", "valgrind": "valgrind", "mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev"}
# Where systemd runs, the packages would start servers of this machine.
if not os.path.exists("/run/systemd/system"):
    OPTIONAL["/usr/sbin/sshd"] = "openssh-server"
    if sys.argv[1:] == ["packages", "night"]:
        OPTIONAL |= {"/usr/sbin/slurmctld": "slurm-wlm", "/usr/sbin/munged": "munge"}
# Modules and the packages that contain them. A warning fails the documentation: fixed versions.
MODULES = {
    "numpy": "numpy", "mypy": "mypy", "distributed": "distributed", "asyncssh": "asyncssh", "mpi4py": "mpi4py",
    "sphinx": "sphinx==9.0.4",
    "myst_parser": "myst-parser==5.2.0", "breathe": "breathe==5.1.0",
    "furo": "furo==2025.12.19", "sphinx_copybutton": "sphinx-copybutton==0.5.2",
    "sphinxcontrib.mermaid": "sphinxcontrib-mermaid==2.1.1",
}  # fmt: skip


def succeeds(*words: str) -> bool:
    """Returns true if the program exists and ends with 0."""
    return bool(shutil.which(words[0])) and subprocess.run(words).returncode == 0


def absent(programs: dict[str, str]) -> list[str]:
    """Returns the packages of the programs that are not on PATH."""
    return [package for program, package in programs.items() if not shutil.which(program)]


def imports(python: str, modules: Iterable[str]) -> bool:
    """Returns true if the interpreter exists and has the modules."""
    words = [python, "-c", "import " + ", ".join(modules)]
    return bool(shutil.which(python)) and not subprocess.run(words, stderr=subprocess.DEVNULL).returncode


def missing_packages() -> list[str]:
    """Returns the packages to install."""
    packages = absent(REQUIRED | OPTIONAL)
    if not imports(sys.executable, ["ensurepip"]):
        packages.append("python3-venv")  # Debian packs ensurepip separately.
    return packages


def install_packages() -> bool:
    packages = missing_packages()
    if not packages:
        return True
    print("installing:", *packages, flush=True)
    root = [] if os.getuid() == 0 else ["sudo", "-n"]
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if not (succeeds(*root, "apt-get", "update") and succeeds(*root, *install)):
        print("missing; please run: sudo apt-get install", *missing_packages())
    return not absent(REQUIRED)


def install_rust() -> bool:
    for component, program in (("rustfmt", "fmt"), ("clippy", "clippy")):
        add = ("rustup", "component", "add", component)
        if not (succeeds("cargo", program, "--version") or succeeds(*add)):
            print("missing; please run:", *add)
            return False
    return True


def python_with_modules(folder: str) -> str:
    """Returns this interpreter if it has the modules, else the one in `folder`."""
    own = imports(sys.executable, MODULES)
    return sys.executable if own else os.path.join(folder, "bin", "python")


def install_python(folder: str) -> bool:
    python = python_with_modules(folder)
    if imports(python, MODULES):
        return True
    environment = (sys.executable, "-m", "venv", folder)
    modules = (python, "-m", "pip", "install", "--disable-pip-version-check", "-q", *MODULES.values())
    if not (succeeds(*environment) and succeeds(*modules)):
        print("missing:", *MODULES.values())
        print("please run:", shlex.join(environment), "&&", shlex.join(modules))
        return False
    return True


if __name__ == "__main__":
    chosen = {"packages": install_packages, "rust": install_rust}
    done = install_python(sys.argv[2]) if sys.argv[1] == "python" else chosen[sys.argv[1]]()
    sys.exit(0 if done else 1)
