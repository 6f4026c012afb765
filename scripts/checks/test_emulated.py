"""Tests arrays on a GPU without one: in a build with two GPUs that the CPU emulates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from commands import IS_WHOLE, JOBS, ROOT, run

# All builds are in folders of build/, as that of `make test` is: ccache knows files by their paths
# relative to the folder of the build.
BUILD = ROOT / "build" / "emulated"
LIBRARY = BUILD / "lib"

#: What runs at the same time: the operations in all layouts, and all else about GPUs.
SHARES = {
    "operations": ["-k", "array", "test_layouts.py", "test_ops.py"],
    "arrays": [
        "-m", "gpu", "-k", "not every_length and not large and not large_layouts",
        *sorted(path.name for path in (ROOT / "tests").glob("test_array_*.py")),
        "test_docs.py", "test_expression_use.py", "test_expressions.py", "test_fuse.py",
        "test_gpu.py", "test_interop.py", "test_overlap.py", "test_promotion.py",
        "test_protocols.py", "test_specials.py", "test_streams.py", "test_threads.py",
    ],
}  # fmt: skip


def _built() -> None:
    """The package in a folder of its own; the one in the tree, and its build, stay as they are."""
    shutil.rmtree(LIBRARY, ignore_errors=True)
    run(
        sys.executable, "setup.py", "--quiet", "build", f"--build-base={BUILD}",
        f"--build-lib={LIBRARY}", f"--build-temp={BUILD}",
        CMAKE_ARGS="-DMYLIB_EMULATED_GPUS=2 -DMYLIB_WERROR=ON",
    )  # fmt: skip


def _cuda_headers() -> Path:
    """The include directory of a CUDA toolkit; without one the test is skipped."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    headers = Path(nvcc).resolve().parents[1] / "include"
    if not (headers / "cuda_fp16.h").exists():
        pytest.skip("no CUDA toolkit on this machine")
    return headers


def _run_c_tests(name: str, options: list[str], tests: list[str], **variables: str) -> None:
    """Builds the library in build/ with options for CMake, and runs some of its tests."""
    folder = ROOT / "build" / f"emulated-{name}"
    run("cmake", "-S", ROOT, "-B", folder, "-DMYLIB_WERROR=ON", *options)
    run("cmake", "--build", folder, *JOBS, "--target", *(f"test_{name}" for name in tests))
    run(
        "ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", *JOBS,
        "-R", f"^({'|'.join(tests)})$", MYLIB_REQUIRE_GPU="1", **variables,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["statements", "fused", "kernels"])
def test_programs_on_emulated_gpus(way: str) -> None:
    """Sanitizers watch how programs are split and launched, and the kernels.

    A fifth of the random programs, or a fifteenth, others in each run: these builds are slow.
    """
    fused = "OFF" if way == "statements" else "ON"
    options = [
        "-DCMAKE_BUILD_TYPE=Debug", "-DMYLIB_EMULATED_GPUS=1", f"-DMYLIB_CUDA_FUSED={fused}",
        "-DMYLIB_SANITIZE=address;undefined",
        # One level of the CPU's kernels: `asan` runs all, and here GPUs are compared with them.
        "-DMYLIB_COMPILER_KNOWS_LEVELS=OFF",
    ]  # fmt: skip
    tests = ["gpu_program", "gpu_empty"]
    if way == "kernels":
        options.append(f"-DMYLIB_EMULATED_KERNELS={_cuda_headers()}")
        tests.append("gpu_bits")
    _run_c_tests(way, options, tests, MYLIB_TEST_SHORT="1" if IS_WHOLE else "2")
    if way == "kernels":  # any strides: threads that wait for each other are slow here
        folder = ROOT / "build" / f"emulated-{way}"
        run("cmake", "--build", folder, *JOBS, "--target", "test_gpu_strides")
        run(folder / "libcalc" / "tests" / "test_gpu_strides", "--quick", MYLIB_REQUIRE_GPU="1")


def test_failures_on_emulated_gpus() -> None:
    """Each call of the CUDA runtime fails in turn; memory and streams of other owners; and all
    random programs, without sanitizers."""
    options = ["-DMYLIB_EMULATED_GPUS=2"]
    tests = ["cuda_faults", "errors", "gpu_places", "gpu_program"]
    _run_c_tests("faults", options, tests, MYLIB_TEST_LONG="1" if IS_WHOLE else "0")


def test_arrays_on_emulated_gpus() -> None:
    _built()
    variables = {
        **os.environ, "PYTHONPATH": str(LIBRARY), "MYLIB_REQUIRE_GPU": "1", "OMP_NUM_THREADS": "2",
        "MYLIB_TEST_ALL": os.environ.get("MYLIB_TEST_ALL", "0"),  # a sample, though -k picks
    }  # fmt: skip
    running = {}
    for name, words in SHARES.items():
        arguments = [str(ROOT / "tests" / x) if x.endswith(".py") else x for x in words]
        # Not `python -m pytest`, and elsewhere, so that the tree's own package is not found.
        running[name] = subprocess.Popen(
            [str(Path(sysconfig.get_path("scripts")) / "pytest"), "-c",
             str(ROOT / ".pytest.ini"), "-p", "no:cacheprovider", *arguments],
            cwd=BUILD,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
    failed = []
    for name, process in running.items():
        output, _ = process.communicate(timeout=1800)
        if process.returncode != 0 or "GPUs: emulated GPU, emulated GPU" not in output:
            failed.append(f"{name}\n{output[-20000:]}")
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
