"""Installs what the tests need: packages of the system, parts of Rust, Python packages.

    install.py packages | rust | python FOLDER

Ends with 1 if a program is missing that the tests can't do without, and prints the command that
installs it. Tests that need an optional program count themselves as skipped.
"""

import os
import shutil
import subprocess
import sys

REQUIRED = {
    "cc": "gcc",
    "c++": "g++",
    "make": "make",
    "cmake": "cmake",
    "pkg-config": "pkg-config",
    "readelf": "binutils",
}
OPTIONAL = {"gfortran": "gfortran", "valgrind": "valgrind"}
MODULES = ["numpy", "mypy"]


def absent(programs: dict[str, str]) -> list[str]:
    """Returns the packages of the programs that are not on PATH."""
    return [package for program, package in programs.items() if not shutil.which(program)]


def imports(python: str, modules: list[str]) -> bool:
    """Returns true if the interpreter exists and has the modules."""
    if not shutil.which(python):
        return False
    code = "import " + ", ".join(modules)
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def missing_packages() -> list[str]:
    """Returns the packages to install."""
    packages = absent(REQUIRED | OPTIONAL)
    if not imports(sys.executable, MODULES) and not imports(sys.executable, ["ensurepip"]):
        packages.append("python3-venv")  # Debian packs ensurepip separately.
    return packages


def install_packages() -> int:
    packages = missing_packages()
    if not packages:
        return 0
    print("installing:", *packages, flush=True)
    root = [] if os.getuid() == 0 else ["sudo", "-n"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run([*root, "apt-get", *words], check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        print(error)
    packages = missing_packages()
    if packages:
        print("missing; please run: sudo apt-get install", *packages)
    return 1 if absent(REQUIRED) else 0


def install_rust() -> int:
    for component, program in (("rustfmt", "fmt"), ("clippy", "clippy")):
        version = ["cargo", program, "--version"]
        if subprocess.run(version, stdout=subprocess.DEVNULL).returncode == 0:
            continue
        if (
            not shutil.which("rustup")
            or subprocess.run(["rustup", "component", "add", component]).returncode != 0
        ):
            print(f"missing: {component}; please run: rustup component add {component}")
            return 1
    return 0


def python_with_modules(folder: str) -> str:
    """Returns this interpreter if it has the modules, else the one in `folder`."""
    return (
        sys.executable
        if imports(sys.executable, MODULES)
        else os.path.join(folder, "bin", "python")
    )


def install_python(folder: str) -> int:
    python = python_with_modules(folder)
    if imports(python, MODULES):
        return 0
    for words in (
        [sys.executable, "-m", "venv", folder],
        [python, "-m", "pip", "install", "--disable-pip-version-check", "-q", *MODULES],
    ):
        if subprocess.run(words).returncode != 0:
            print("missing:", *MODULES)
            print("please run:", *words)
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "python":
        sys.exit(install_python(sys.argv[2]))
    sys.exit(install_packages() if sys.argv[1] == "packages" else install_rust())
