#!/usr/bin/env python3
"""Makes kernels/ptx/*.ptx from kernels/*.cu, and checks that every GPU that is claimed can run it.

    python3 kernels/generate.py            # compile, write
    python3 kernels/generate.py --compare  # compile, compare
    python3 kernels/generate.py --check    # compile, compare; assemble for every architecture; a table
    python3 kernels/generate.py --check-all    # with every assembler that knows the architecture, not only the newest

No toolkit and no GPU are needed, only Linux on x86-64: the compiler is NVRTC 11.8, the last that knows Kepler, and
the assemblers are three generations of ptxas, from NVIDIA's wheels on PyPI, pinned by hash and kept in
target/cuda. The same source gives the same PTX, byte for byte, anywhere.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KERNELS = Path(__file__).resolve().parent
CACHE = KERNELS.parent / "target/cuda"

# Of each text: its source, the oldest GPU, and the oldest PTX that says all we need. Drivers from 470 on, the last for Kepler,
# load 6.0.
TEXTS = {
    "field": ("field", 35, "6.0"),
    "acoustic1_one_pass": ("acoustic1_one_pass", 35, "6.0"),
    "acoustic2_one_pass": ("acoustic2_one_pass", 35, "6.0"),
    "tti": ("tti", 35, "6.0"),
    "tti_old": ("tti_old", 35, "6.0"),
    "vti_one_pass": ("vti_one_pass", 35, "6.0"),
}
OPTIONS = ["--std=c++14", "--fmad=false", "--ftz=true"]
HEADERS = [
    "grid.cuh",
    "centred.cuh",
    "tile.cuh",
    "activity.cuh",
    "layer.cuh",
    "tilted.cuh",
    "tilted_stages.cuh",
    "one_pass.cuh",
    "one_pass_cells.cuh",
    "one_pass_march.cuh",
]

COMPILER = "nvidia-cuda-nvrtc-cu11==11.8.89"
WHEELS = {  # what: (sha256, files wanted)
    COMPILER: (
        "a8d02f3cba345be56b1ffc3e74d8f61f02bb758dd31b0f20e12277a5a244f756",
        ["nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.11.8", "nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2"],
    ),
    "nvidia-cuda-nvcc-cu11==11.8.89": (
        "f8e1e995166c884f2f5bf94975d7abb89175363b8712f7f81cd38d0df1b2cd85",
        ["nvidia/cuda_nvcc/bin/ptxas"],
    ),
    "nvidia-cuda-nvcc-cu12==12.9.86": (
        "5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
        ["nvidia/cuda_nvcc/bin/ptxas"],
    ),
    "nvidia-cuda-nvcc==13.5.37": (
        "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
        ["nvidia/cu13/bin/ptxas"],
    ),
}
ASSEMBLERS = {  # what: architectures
    "nvidia-cuda-nvcc-cu11==11.8.89": [35, 37, 50, 52, 60, 61, 70, 75, 80, 86, 89, 90],
    "nvidia-cuda-nvcc-cu12==12.9.86": [50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120, 121],
    "nvidia-cuda-nvcc==13.5.37": [75, 80, 86, 89, 90, 100, 103, 110, 120, 121],
}
# Registers a thread of a march, at most. A multiprocessor has 65536; a block's plane is in shared memory, of which every GPU
# has 48 KiB. Other kernels take at most SMALL registers and no shared memory.
REGISTERS = {
    "acoustic1_one_pass_4x2": 176,
    "acoustic1_one_pass_4x2_16_bit": 176,
    "acoustic2_one_pass_4x2": 128,
    "acoustic2_one_pass_4x2_16_bit": 128,
    "acoustic2_one_pass_layers": 72,
    "tti_fluxes_4x2": 200,
    "tti_4x2": 255,
    "tti_old_fluxes_4x2": 200,
    "tti_old_4x2": 255,
    "vti_one_pass_4x2": 192,
    "vti_one_pass_4x2_16_bit": 176,
}
SMALL = 32
SHARED = dict.fromkeys(REGISTERS, 32 << 10)


def main() -> None:
    option = " ".join(sys.argv[1:])
    if option not in ("", "--compare", "--check", "--check-all"):
        sys.exit(__doc__)
    for name in TEXTS:
        fresh, path = compiled(name), KERNELS / "ptx" / f"{name}.ptx"
        if not option:
            path.parent.mkdir(exist_ok=True)
            path.write_text(fresh)
        elif not path.exists() or path.read_text() != fresh:
            sys.exit(f"{path} is stale: its source has changed; run: python3 kernels/generate.py")
    assembles = option in ("--check", "--check-all")
    if assembles and not all([assembled(name, option == "--check-all") for name in TEXTS]):
        sys.exit("kernels exceed their budget of registers, shared memory or spills: see 'over budget' "
                 "above; accepted: `REGISTERS`, `SHARED`")


def fetched(what: str) -> list[Path]:
    """The wanted files of a wheel, downloaded once."""
    digest, wanted = WHEELS[what]
    folder = CACHE / what.replace("==", "-")
    files = [folder / name for name in wanted]
    if all(file.exists() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{what} --hash=sha256:{digest}\n")
    platform = ["--platform=manylinux2014_x86_64", "--platform=manylinux2010_x86_64", "--only-binary=:all:"]
    command = [pip(), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    if subprocess.run([*command, *platform, "-d", folder, "-r", pinned]).returncode != 0:
        sys.exit(f"{what} could not be downloaded from the package index; kernels/generate.py needs it")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in wanted:
            Path(archive.extract(name, folder)).chmod(0o755)
    wheel.unlink()
    return files


def pip() -> str:
    """A Python that has pip: this one, or one of our own."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return sys.executable
    own = CACHE / "venv/bin/python"
    if not own.exists():
        venv.create(CACHE / "venv", with_pip=True)
    return str(own)


def compiled(name: str) -> str:
    """A text of PTX, with the hash of its source."""
    of, oldest, isa = TEXTS[name]
    builtins, library = fetched(COMPILER)
    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(library))
    source = (KERNELS / f"{of}.cu").read_bytes()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def text(get_size: str, get: str) -> str:
        getattr(nvrtc, get_size)(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, get)(program, buffer)
        return buffer.value.decode()

    wanted = headers_of(source)
    texts = [(KERNELS / header).read_bytes() for header in wanted]
    headers = (ctypes.c_char_p * len(wanted))(*texts)
    names = (ctypes.c_char_p * len(wanted))(*map(str.encode, wanted))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, f"{of}.cu".encode(), len(wanted), headers, names)
    flags = [f"--gpu-architecture=compute_{oldest}", *OPTIONS]
    options = (ctypes.c_char_p * len(flags))(*map(str.encode, flags))
    status = nvrtc.nvrtcCompileProgram(program, len(flags), options)
    log = text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog").strip()
    if log:
        print(log, file=sys.stderr)
    if status != 0:
        sys.exit(f"kernels/{of}.cu does not compile for sm_{oldest}")
    body = text("nvrtcGetPTXSize", "nvrtcGetPTX")
    # ptxas holds the text to the version that it names, so an older one is safe if it assembles.
    _, rest = re.split(r"(?m)^\.version .*$", body, maxsplit=1)
    return (
        f"// Made from kernels/{of}.cu by kernels/generate.py. Do not edit.\n"
        f"// compiler: {COMPILER} {' '.join(flags)}\n"
        f"// sha256 of the source: {hashlib.sha256(b''.join([source, *texts])).hexdigest()}\n"
        f".version {isa}{rest.rstrip()}\n"
    )


def headers_of(text: bytes) -> list[str]:
    """The headers that a text includes, and those that these include."""
    direct = [header for header in HEADERS if f'#include "{header}"'.encode() in text]
    wanted = set(direct).union(*(headers_of((KERNELS / header).read_bytes()) for header in direct))
    return [header for header in HEADERS if header in wanted]


def assembled(name: str, every: bool) -> bool:
    """Prints the resources of each kernel on each architecture; returns whether all are within
    budget."""
    good = True
    print(f"{'ptxas':6} {'gpu':7} {'kernel':30} {'registers':>9} {'shared':>7} {'spilled':>7} {'stack':>6}")
    # Downloaded one after the other, run as many at a time as there are processors.
    newest = {arch: what for what, architectures in ASSEMBLERS.items() for arch in architectures}
    oldest = TEXTS[name][1]
    pairs = [(what, arch) for what, architectures in ASSEMBLERS.items() for arch in architectures if arch >= oldest]
    runs = [(what, fetched(what)[0], arch) for what, arch in pairs if every or newest[arch] == what]

    def report(run: tuple[str, Path, int]) -> str:
        what, ptxas, architecture = run
        command = [ptxas, "-v", "-arch", f"sm_{architecture}", KERNELS / "ptx" / f"{name}.ptx", "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True)
        text = done.stdout + done.stderr
        if done.returncode != 0:
            sys.exit(f"{what} refuses it for sm_{architecture}:\n{text}")
        return text

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(report, runs))
    for (what, _, architecture), text in zip(runs, reports):
        kernels = re.split(r"Compiling entry function '", text)[1:]
        for kernel in kernels:
            entry = kernel[: kernel.index("'")]
            registers = number(r"Used (\d+) registers", kernel)
            shared = number(r"(\d+) bytes smem", kernel)
            stack = number(r"(\d+) bytes stack frame", kernel)
            spilled = number(r"(\d+) bytes spill stores", kernel) + number(r"(\d+) bytes spill loads", kernel)
            fits = registers <= REGISTERS.get(entry, SMALL) and shared <= SHARED.get(entry, 0) and stack == spilled == 0
            good = good and fits
            version = what.split("==")[1].rpartition(".")[0]
            print(
                f"{version:6} sm_{architecture:<4} {entry:30} {registers:9} {shared:7} {spilled:7} {stack:6}"
                + ("" if fits else "  over budget")
            )
        if not kernels:
            sys.exit(f"{what} reports nothing:\n{text}")
    return good


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
