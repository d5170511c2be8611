"""The table of steps. Earlier steps of the table start earlier."""

import re
import sys
from shlex import quote

import binaries
from install import python_with_modules
from schedule import ALL, HALF, ROOT, Step

LEVELS = ("quick", "full", "night")
FULL = "full night"
TARGET = ROOT / "target" / "ctests"
LOGS = TARGET / "logs"
VENV = quote(str(TARGET / "venv"))
BUILD = quote(str(TARGET / "cmake"))
GPU = quote(str(TARGET / "gpu"))
RUNNER = "ctests/runner"
THIS_PYTHON = quote(sys.executable)
JSON = "--message-format=json-render-diagnostics"
HOUR = 3600.0

# The test programs of `quick` have debug assertions; `full` tests the library and the command that
# users get.
QUICK = "--lib --bin gpusched --test it --test scheduler --test cuda"
QUICK_PROGRAMS = {"lib", "bin", "it", "scheduler", "cuda"}
PROGRAMS = {*("it", "scheduler", "cuda", "numerics", "command", "fuzz", "kernels", "no_allocation", "node")}
# Flags of unit tests, whose dependencies are those of the release build. They follow `--`, because
# RUSTFLAGS would make cargo build all dependencies again.
CHECKED = "-C debug-assertions=on -C overflow-checks=on -C lto=off -C codegen-units=24"


def soname() -> str:
    """Returns the name that programs look for at run time; CMake builds the library with it."""
    version = re.search(r'^version = "(0\.\d+|\d+)', (ROOT / "Cargo.toml").read_text(), re.M)
    assert version, "Cargo.toml has a version"
    return f"libgpusched.so.{version[1]}"


def install_steps(level: str) -> list[Step]:
    """Downloads, beside the first compilation."""
    install = f"{THIS_PYTHON} -B {RUNNER}/install.py"
    kernels = f"{THIS_PYTHON} kernels/generate.py"
    return [
        Step("packages", f"{install} packages {level}", FULL, cores=0),
        Step("rust-parts", f"{install} rust", cores=0),
        Step("python-packages", f"{install} python {VENV}", FULL, cores=0, needs=("packages",)),
        # Assembling for every architecture takes two CPU minutes, and changes with the text only.
        Step("kernels", f"{kernels} --compare", "full", cores=0),
        Step("kernels-assembled", f"{kernels} --check-all", "night", cores=0),
    ]


def build_steps(level: str, jobs: int) -> list[Step]:
    """Compiles the library, the command and the tests."""
    if level == "quick":
        messages = LOGS / "cargo.json"
        return [Step("build", f"cargo test --locked --no-run {JSON} {QUICK}", cores=ALL, limit=HOUR,
                     output=messages.name, expands=lambda: binaries.steps(messages, level, QUICK_PROGRAMS))]
    release = f"cargo build --release --locked {JSON} --workspace --lib --bins --test '*'"
    unit = f"cargo rustc --locked -j{jobs} --profile bench {JSON}"
    return [
        Step("build", release, cores=ALL, limit=HOUR, output="release.json", exclusive="cargo",
             expands=lambda: binaries.steps(LOGS / "release.json", level, PROGRAMS)),
        Step("build-lib", f"{unit} --lib -- {CHECKED} -C opt-level=1", cores=HALF, needs=("build",),
             output="lib.json", exclusive="cargo",
             expands=lambda: binaries.steps(LOGS / "lib.json", level, {"lib"})),
        Step("build-bin", f"{unit} --bin gpusched -- {CHECKED} -C opt-level=1", cores=HALF,
             needs=("build",), output="bin.json", exclusive="cargo",
             expands=lambda: binaries.steps(LOGS / "bin.json", level, {"bin"})),
        Step("build-models", f"{unit} --lib -- {CHECKED} -C opt-level=0 --cfg loom", cores=HALF,
             needs=("build",), output="models.json", exclusive="cargo",
             expands=lambda: binaries.model_steps(LOGS / "models.json")),
    ]


def cmake_steps(python: str, jobs: int) -> list[Step]:
    """The CMake project: programs in four languages, and consumers of the installed library."""
    # A test, too: libraries that only tests need change the features of others.
    configure = (
        f"cmake --fresh -S . -B {BUILD} -DPython3_EXECUTABLE={python}"
        f" -DGPUSCHED_CARGO_TARGET_DIR={quote(str(ROOT / 'target'))}"
        " '-DGPUSCHED_CARGO_FLAGS=--features default --test no_allocation'"
    )
    ctest = f"ctest --test-dir {BUILD} --output-on-failure -j2"
    return [
        Step("cmake-configure", configure, FULL, needs=("packages", "python-packages")),
        Step("cmake-build", f"cmake --build {BUILD} -j{jobs}", FULL,
             needs=("cmake-configure", "build"), exclusive="cargo"),
        # A consumer builds the library, so it would wait for another step of cargo.
        Step("ctest", f"{ctest} -LE gpu", FULL, needs=("cmake-build",), exclusive="cargo", counts="ctest",
             minimum=50),
        # kernel_python: CuPy needs a real GPU.
        Step("ctest-gpu", f"{ctest} -L gpu", "night", needs=("cmake-build",), counts="ctest"),
    ]


def python_steps(level: str, python: str) -> list[Step]:
    """The Python package, with the library of the Rust tests."""
    profile = "debug" if level == "quick" else "release"
    library = {"GPUSCHED_LIBRARY": str(ROOT / "target" / profile / "deps/libgpusched.so"),
               "PYTHONPATH": str(ROOT / "bindings/python"), "GPUSCHED_DEVICES": "cpu"}
    cache = quote(str(TARGET / "mypy"))
    # kernel.py imports CuPy.
    examples = " ".join(f"examples/python/{name}.py" for name in (
        "callbacks", "first", "loop", "shot_loop", "survey"))
    checked = f"bindings/python/gpusched ctests/runner examples/mpi/shots.py examples/dask/ssh.py {examples}"
    return [
        Step("python-smoke", f"{THIS_PYTHON} -m unittest discover -v -s ctests/python"
             " -p test_without_numpy.py", "quick", needs=("build",), counts="unittest", minimum=2,
             environment=library),
        Step("python", f"{python} -m unittest discover -v -s ctests/python", FULL,
             needs=("build", "python-packages"), counts="unittest", minimum=116,
             environment=library),
        Step("kills", f"{python} ctests/night/kills", "night", needs=("build", "python-packages"),
             exclusive="cargo"),
        Step("python-types", f"{python} -m mypy --strict --cache-dir {cache} {checked}", FULL,
             needs=("python-packages",)),
    ]


def wheel_steps(jobs: int) -> list[Step]:
    """The Python wheel. For an old glibc the library is compiled a second time."""
    test = f"{THIS_PYTHON} ctests/packaging/wheel {quote(str(TARGET / 'wheel'))}"
    needs = ("packages", "build")
    return [
        Step("wheel", test, "full", needs=needs,
             environment={"GPUSCHED_BUILT": str(ROOT / "target/release")}),
        Step("wheel-old-glibc", test, "night", cores=HALF, needs=needs, limit=HOUR,
             environment={"CARGO_BUILD_JOBS": str(jobs)}),
    ]


def check_steps() -> list[Step]:
    """Checks of sources and of generated files."""
    return [
        Step("format", "cargo fmt --all --check", needs=("rust-parts",)),
        Step("bindings-fresh", f"{THIS_PYTHON} scripts/bindings.py --check"),
        Step("names-agree", f"{THIS_PYTHON} scripts/naming.py --check"),
        Step("licences-fresh", f"{THIS_PYTHON} scripts/licences.py --check", needs=("build",)),
        Step("pages-fresh", f"{THIS_PYTHON} scripts/pages.py --check"),
        Step("versions-agree", f"{THIS_PYTHON} ctests/python/versions.py"),
        Step("mutations-apply", "ctests/night/mutations.sh --check", FULL),
        Step("runner", f"{THIS_PYTHON} -m unittest discover -v -s {RUNNER}", counts="unittest", minimum=7),
    ]


def night_steps() -> list[Step]:
    """Further steps of `night`."""
    needs = ("build",)
    return [
        Step("storms", "cargo test --locked --test scheduler stress", "night", needs=needs,
             exclusive="cargo", counts="libtest", limit=2 * HOUR,
             environment={"GPUSCHED_TEST_STRESS": "1000,5000"}),
        # Debug assertions, overflow checks, and the planner's invariants after each step.
        Step("debug", "cargo test --locked --test it --test scheduler --test cuda --test command --test node",
             "night", needs=needs, exclusive="cargo", counts="libtest", limit=2 * HOUR),
        # The tasks wait longer than they compute.
        Step("slurm", "ctests/night/slurm", "night", needs=(*needs, "packages")),
        Step("asan", "ctests/night/asan.sh 50", "night", cores=ALL, needs=needs, limit=2 * HOUR),
        Step("tsan", "ctests/night/tsan.sh", "night", cores=ALL, needs=needs, counts="libtest",
             minimum=84, limit=2 * HOUR),
        Step("mutations", "ctests/night/mutations.sh", "night", cores=ALL, needs=needs, limit=12 * HOUR),
        Step("mutants", f"{THIS_PYTHON} ctests/night/mutants", "night", cores=ALL, needs=needs,
             limit=6 * HOUR),
    ]


def steps(level: str, jobs: int) -> list[Step]:
    """Returns the steps of a level. `jobs` is half the number of cores, the value of HALF."""
    python = quote(python_with_modules(str(TARGET / "venv")))
    needs = ("build",)
    drills = f"{THIS_PYTHON} ctests/night/drills --count {1000 if level == 'night' else 20}"
    clippy = f"cargo clippy --release --locked -j{jobs} --workspace --all-targets -- -D warnings"
    table = [
        *install_steps(level),
        *build_steps(level, jobs),
        *cmake_steps(python, jobs),
        *check_steps(),
        Step("drills", drills, FULL, needs=needs, exclusive="cargo", limit=4 * HOUR),
        Step("clippy", clippy, FULL, cores=HALF, limit=HOUR, needs=("build", "rust-parts"),
             exclusive="cargo"),
        Step("gpu-script", f"ctests/night/gpu-script {GPU}", FULL, needs=needs, exclusive="cargo"),
        # The quickstart, which README runs, keeps all cores busy.
        Step("pages", f"{python} scripts/pages.py --run", FULL, cores=HALF,
             needs=("build", "python-packages")),
        Step("site", f"{python} -m sphinx -qE -W --keep-going docs target/site", FULL,
             needs=("build", "python-packages")),
        *python_steps(level, python),
        *wheel_steps(jobs),
        *night_steps(),
    ]
    return [step for step in table if level in step.levels.split()]
