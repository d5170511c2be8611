"""The Rust test programs: finds what cargo built, and divides it into steps."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedule import ROOT, Step


@dataclass
class Part:
    """A share of a test program's tests, as one step.

    `words`: names of tests or modules to choose; none of them chooses the tests that no other part
    with a level in common chooses. Other fields as in `Step`.
    """

    suffix: str = ""
    words: tuple[str, ...] = ()
    minimum: int = 1
    limit: float = 1800
    levels: str = "quick full night"

    def arguments(self, parts: "list[Part]") -> list[str]:
        """Returns the arguments of the test program; `parts` are those of the program."""
        beside = (part for part in parts if {*part.levels.split()} & {*self.levels.split()})
        return [*self.words] or [word for part in beside for w in part.words for word in ("--skip", w)]


FULL = "full night"
# Programs in C and C++, most of them under valgrind.
C_PROGRAMS = ("bad_calls::", "c_programs::")
# One or two cases of each file.
FEW_GPU_CASES = (
    *("visible_numbers", "visible_names", "the_used_gpu_alone_has_a_context"),
    *("memory_is_used_again", "status_of_a_callback_ends_or_retries_its_task", "a_poisoned_context"),
    *("gpu_that_a_new_driver_does_not_know_is_retired", "shots_have_the_bits_of_the_cpu"),
    *("a_graph_in_flight_is_waited_for", "one_script"),
)
OLD_PACKAGE = (
    *("a_whole_call", "the_four_classes_", "calls_in_children_of_a_process", "survey_without_a_"),
    *("twelve_processes_at_the_same_moment", "three_of_twelve_are_killed"),
)
# The C and C++ bindings, after an edit.
SMOKE = ("c_programs::the_wrapper_works_in_cpp17", "c_programs::callbacks_may_call")
# Tests of `it` that compute for long.
SLOW = ("threads_may_call_at_once", "schedule_without_hints")
# Recorded calls that take longest, or that have siblings which differ in one argument.
LONG_CALLS = ("golden_cases::tti_homog", "golden_cases::vti_homog", "iso1_hetero_w3_mute", "iso1_multishot_mute")
# Long tests that have shorter variants.
NIGHT_NUMERICS = (
    *("thin_grids_in_layers_of_any_width", "energy_decreases_over_20000_steps"),
    *("odd_grids_with_the_other_equation", "tilted_reference"),
)

# The longest first. A program that is built but not listed runs whole.
PARTS: dict[str, list[Part]] = {
    "cuda": [Part(minimum=122, levels=FULL), Part("-few", FEW_GPU_CASES, minimum=12, levels="quick")],
    "numerics": [
        Part(minimum=58, levels=FULL),
        Part("-night", NIGHT_NUMERICS, minimum=5, levels="night"),
    ],
    "kernels": [Part(minimum=11, levels=FULL)],
    "command": [Part(minimum=105)],
    "it": [
        Part("-c-programs", C_PROGRAMS, minimum=16, levels=FULL),
        Part("-smoke", SMOKE, minimum=2, levels="quick"),
        Part("-old-package", OLD_PACKAGE, minimum=7, levels=FULL),
        Part("-slow", SLOW, minimum=2, levels=FULL),
        Part("-long-calls", LONG_CALLS, minimum=4, levels=FULL),
        Part(minimum=70),
    ],
    "fuzz": [Part(minimum=3)],
    "node": [Part(minimum=30)],
    "scheduler": [Part(minimum=88)],
    "lib": [Part(minimum=299)],
    "bin": [Part("-fuzz", ("fuzz::",), minimum=4, levels=FULL), Part(minimum=23)],
}

# Programs that other steps start.
ELSEWHERE = {"gpu": "gpu-script starts it on virtual GPUs"}


def program_name(artifact: dict[str, Any]) -> str:
    """Returns `NAME` of `tests/NAME`, `lib` or `bin`; of another package, FOLDER-`NAME`."""
    target, package = artifact["target"], Path(artifact["manifest_path"]).parent
    kind = target["kind"][0]
    name = target["name"] if kind == "test" else "bin" if kind == "bin" else "lib"
    return str(name) if package == ROOT else f"{package.name}-{name}"


def test_programs(messages: Path) -> dict[str, tuple[str, Path]]:
    """Returns path and folder of every test program in cargo's messages."""
    artifacts = (json.loads(line) for line in messages.read_text().splitlines())
    return {
        program_name(artifact): (artifact["executable"], Path(artifact["manifest_path"]).parent)
        for artifact in artifacts
        if artifact["reason"] == "compiler-artifact"
        and artifact["executable"]
        and artifact["profile"]["test"]
    }


def steps(messages: Path, level: str, wanted: set[str]) -> list[Step]:
    """Returns a step for each part of each program that cargo built.

    # Raises
    ValueError if cargo did not build one of the programs in `wanted`.
    """
    programs = test_programs(messages)
    missing = wanted - programs.keys()
    if missing:
        raise ValueError(f"cargo built no test program {', '.join(sorted(missing))}")
    order = [*PARTS, *(programs.keys() - PARTS.keys() - ELSEWHERE.keys())]
    found = []
    for name in (name for name in order if name in programs):
        path, folder = programs[name]
        parts = PARTS.get(name, [Part()])
        for part in (part for part in parts if level in part.levels.split()):
            command = shlex.join([path, *part.arguments(parts)])
            found.append(Step(f"test-{name}{part.suffix}", command, counts="libtest", folder=folder,
                              minimum=part.minimum, limit=part.limit))
    return found


def model_steps(messages: Path) -> list[Step]:
    """Returns the step that runs the unit tests which the model checker explores."""
    path, folder = test_programs(messages)["lib"]
    command = shlex.join([path, "models"])
    return [Step("models", command, counts="libtest", minimum=19, folder=folder)]
