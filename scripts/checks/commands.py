"""The commands that the checks run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOBS = ("--parallel", str(os.cpu_count() or 1))

#: `make check` runs everything at full length; `.ci/run` does not.
IS_WHOLE = os.environ.get("MYLIB_TEST_ALL") == "1"


def execute(
    *command: str | Path, cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command with these environment variables; standard output has the errors too."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def run(*command: str | Path, status: int = 0, cwd: Path = ROOT, **variables: str) -> str:
    """Returns what the command says.  The test fails, and shows it, on another exit status."""
    done = execute(*command, cwd=cwd, **variables)
    if done.returncode != status:
        text = f"{' '.join(map(str, command))} ended with {done.returncode}"
        pytest.fail(f"{text}\n{done.stdout[-20000:]}", pytrace=False)
    return done.stdout
