"""The C tests on another processor: cross-compiled for aarch64, and run by qemu."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest
from commands import IS_WHOLE, JOBS, ROOT, run

BUILD = ROOT / "build" / "aarch64"
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
LIBRARIES = Path("/usr/aarch64-linux-gnu")

# The other builds run in full what repeats here, with random cases: a fifteenth of these, or a
# fifth.  qemu stands for the processor.
VARIABLES = {"MYLIB_TEST_SHORT": "1" if IS_WHOLE else "2", "MYLIB_TEST_EMULATED_CPU": "1"}


def test_aarch64() -> None:
    if platform.machine() == "aarch64":
        pytest.skip("this machine is of that kind: the other checks are about it")
    for tool in (COMPILER, EMULATOR):
        if not shutil.which(tool):
            pytest.skip(
                f"no {tool} on this machine (Debian, Ubuntu: apt install gcc-aarch64-linux-gnu"
                " libc6-dev-arm64-cross qemu-user)"
            )
    run(
        "cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={COMPILER}",
        f"-DCMAKE_CROSSCOMPILING_EMULATOR={EMULATOR};-L;{LIBRARIES}",
        "-DMYLIB_CUDA=OFF", "-DMYLIB_WERROR=ON",
    )  # fmt: skip
    run("cmake", "--build", BUILD, *JOBS)
    output = run(
        "ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error", *JOBS, **VARIABLES,
    )  # fmt: skip
    assert "100% tests passed" in output
