"""Runs the C tests that use a GPU under compute-sanitizer: memcheck, initcheck, racecheck.

Usage: compute_sanitizer.py BUILD_FOLDER [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("memcheck", "initcheck", "racecheck")


@dataclass
class Test:
    name: str
    command: list[str]
    is_serial: bool  # it takes all GPU memory, and others would run out


def find_sanitizer() -> str | None:
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [f"{folder}/bin" for folder in folders if folder]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(places)
    )


def gpu_tests(build: Path) -> list[Test]:
    """The tests that ctest knows as needing a GPU, and the standalone program."""
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tests = []
    for test in json.loads(listing)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        is_serial = bool(properties.get("RUN_SERIAL", False))
        if "gpu" in properties.get("LABELS", []):
            tests.append(Test(test["name"], [*test["command"], "--quick"], is_serial))
        elif test["name"] == "mylib":
            tests.append(Test("mylib", [*test["command"], "--device", "cuda"], is_serial))
    return tests


def check(sanitizer: str, tool: str, test: Test) -> bool:
    # The tests provoke errors of the CUDA API, which are not findings.
    line = [sanitizer, "--tool", tool, "--report-api-errors", "no"]
    line += ["--error-exitcode", "99", *test.command]
    environment = {**os.environ, "MYLIB_REQUIRE_GPU": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    text = f"{tool} {test.name}: {'ok' if done.returncode == 0 else 'FAILED'}"
    if done.returncode != 0:
        text += f"\n{done.stdout[-4000:]} {done.stderr[-4000:]}"
    print(text, flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the GPU tests under compute-sanitizer.")
    parser.add_argument("build", type=Path, help="a CMake build with tests")
    parser.add_argument("--jobs", type=int, default=1, help="so many tests at a time")
    options = parser.parse_args()
    tests = gpu_tests(options.build)
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer was not found: it is part of the CUDA toolkit (CUDA_HOME)")
        return 1
    if not tests:
        print("ctest knows no test that needs a GPU")
        return 1
    results = []
    for is_serial in (False, True):
        runs = [(tool, test) for tool in TOOLS for test in tests if test.is_serial == is_serial]
        with ThreadPoolExecutor(1 if is_serial else options.jobs) as pool:
            results += list(pool.map(lambda run: check(sanitizer, *run), runs))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
