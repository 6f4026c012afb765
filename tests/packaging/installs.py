"""Commands, environments and wheels for the packaging tests."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

# Programs that a test may take away.
COMPILERS = ("cc", "gcc", "clang", "icx", "c99", "c89", "tcc")
CMAKE_TOOLS = ("cmake", "ninja", "make", "gmake")

# Variables that would change a build; each test starts without them.
BUILD_VARIABLES = ("CC", "CXX", "CFLAGS", "CPATH", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "PYTHONPATH")
BUILD_PREFIXES = ("CMAKE_", "CUDA", "MYLIB_", "NVCC_")


@dataclass
class Result:
    """A command that ran: its exit status, and its standard output and error as one text."""

    status: int
    output: str

    @property
    def words(self) -> str:
        """The output with single spaces for all white space: CMake breaks lines."""
        return " ".join(self.output.split())


def run(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    cwd: Path | None = None,
    fails: bool = False,
) -> Result:
    """Runs a command; its success, or with fails=True its failure, is asserted."""
    done = subprocess.run(
        [str(word) for word in command],
        env=dict(env),
        cwd=cwd or "/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    if (done.returncode != 0) != fails:
        pytest.fail(
            f"{command} ended with {done.returncode}:\n{done.stdout[-8000:]}", pytrace=False
        )
    return Result(done.returncode, done.stdout)


class Machine:
    """Makes environments in which some programs are not on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: dict[tuple[str, ...], str] = {}

    def env(self, *, without: Sequence[str] = (), **variables: str | Path) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in BUILD_VARIABLES and not name.startswith(BUILD_PREFIXES)
        }
        env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        env["PATH"] = self.path(tuple(without))
        prepend = variables.pop("prepend_path", None)
        if prepend:
            env["PATH"] = f"{prepend}{os.pathsep}{env['PATH']}"
        env.update({name: str(value) for name, value in variables.items()})
        return env

    def path(self, without: tuple[str, ...]) -> str:
        """The PATH; folders with one of the programs are replaced by links to the rest."""
        if without not in self.paths:
            folders = []
            for number, folder in enumerate(os.environ["PATH"].split(os.pathsep)):
                if any(Path(folder, program).exists() for program in without):
                    shadow = self.folder / f"path{len(self.paths)}-{number}"
                    shadow.mkdir()
                    for entry in Path(folder).iterdir():
                        if entry.name not in without:
                            (shadow / entry.name).symlink_to(entry)
                    folder = str(shadow)
                folders.append(folder)
            self.paths[without] = os.pathsep.join(folders)
        return self.paths[without]


@dataclass
class Wheel:
    path: Path
    log: Result


def build_wheel(source: Path, out: Path, env: Mapping[str, str]) -> Wheel:
    """Builds a wheel with the packages of this environment."""
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation"]
    log = run([*command, "--no-cache-dir", "-w", out, source], env)
    (wheel,) = out.glob("*.whl")
    return Wheel(wheel, log)


class Environment:
    """A virtual environment without pip: pip is this environment's own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        venv.create(folder, symlinks=True)
        self.env = env
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")

    def install(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Result:
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "-v"]
        return run([*command, *arguments], env or self.env)

    def run(self, code: str) -> str:
        """Returns the text that a program prints there."""
        return run([self.python, "-c", code], self.env).output.strip()


EnvironmentMaker = Callable[..., Environment]
