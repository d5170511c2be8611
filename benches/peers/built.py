"""Builds a part of this library in release mode."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def built(*target: str) -> list[Path]:
    """Builds a target, such as `--lib`; returns the files that cargo reports for gpusched, wherever
    CARGO_TARGET_DIR or a configuration puts them."""
    command = ["cargo", "build", "--release", "--message-format", "json-render-diagnostics", *target]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    messages = [message for line in lines if (message := json.loads(line))["reason"] == "compiler-artifact"]
    return [Path(name) for message in messages if message["target"]["name"] == "gpusched"
            for name in message["filenames"]]
