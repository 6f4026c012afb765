"""Runs the C tests that use a GPU under compute-sanitizer: memcheck, then initcheck.

Usage: compute_sanitizer.py BUILD_FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_sanitizer() -> str | None:
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [f"{folder}/bin" for folder in folders if folder]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(places)
    )


def gpu_tests(build: Path) -> list[tuple[str, list[str]]]:
    """The names and the command lines of the tests that ctest knows as needing a GPU, and more."""
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tests = []
    for test in json.loads(listing)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        if "gpu" in properties.get("LABELS", []):
            tests.append((test["name"], [*test["command"], "--quick"]))
        elif test["name"] == "mylib":
            tests.append(("mylib", [*test["command"], "--device", "cuda"]))
    return tests


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the GPU tests under compute-sanitizer.")
    parser.add_argument("build", type=Path, help="a CMake build with tests")
    tests = gpu_tests(parser.parse_args().build)
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer was not found: it is part of the CUDA toolkit (CUDA_HOME)")
        return 1
    if not tests:
        print("ctest knows no test that needs a GPU")
        return 1
    environment = {**os.environ, "MYLIB_REQUIRE_GPU": "1"}
    failed = 0
    for tool in ("memcheck", "initcheck"):
        for name, command in tests:
            # The tests provoke errors of the CUDA API; those are no findings.
            line = [sanitizer, "--tool", tool, "--report-api-errors", "no"]
            line += ["--error-exitcode", "99", *command]
            done = subprocess.run(line, env=environment, capture_output=True, text=True)
            print(f"{tool} {name}: {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
            if done.returncode != 0:
                print(done.stdout[-4000:], done.stderr[-4000:])
                failed += 1
    print(f"{2 * len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
