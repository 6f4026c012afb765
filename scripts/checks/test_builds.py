"""Builds that `make test` lacks: other compilers' checks, sanitizers, all GPUs, no GPU."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from pathlib import Path

import pytest
from commands import IS_WHOLE, JOBS, ROOT, execute, run

# The folder of `make`; reused when that was with warnings as errors, for all major architectures
# or those of `.ci/run`.
MADE = ROOT / "build" / "c"


def fails(*command: str | Path) -> str:
    """Returns the output of a command that must fail."""
    done = execute(*command)
    assert done.returncode != 0, done.stdout[-20000:]
    return done.stdout


def one_level(flags: str = "") -> list[str]:
    """Options for code of one level, with further flags for C: of v3, where that runs.

    `.ci/run` builds so: `make test` and the wheels have all levels, and `make check` has them here.
    """
    cpu = Path("/proc/cpuinfo")
    runs_v3 = platform.machine() == "x86_64" and cpu.exists() and " avx2 " in cpu.read_text()
    if not IS_WHOLE and runs_v3:
        return [f"-DCMAKE_C_FLAGS={flags} -march=x86-64-v3", "-DMYLIB_COMPILER_KNOWS_LEVELS=OFF"]
    return [f"-DCMAKE_C_FLAGS={flags}", "-UMYLIB_COMPILER_KNOWS_LEVELS"]


# The least coverage of the library without CUDA by the C tests, in per cent: just below theirs.
COVERAGE = ("--lines", "93", "--branches", "90")


@pytest.mark.parametrize("preset", ["no-cuda", "debug", "asan", "tsan"])
def test_preset(preset: str) -> None:
    """The preset's build, without a warning, passes the C tests, which run enough of the code."""
    # The debug build measures how much: -Og leaves lines what they are.
    is_measured = preset == "debug" and shutil.which("gcov") is not None
    options = one_level("--coverage -Og" if is_measured else "")
    which: list[str] = []
    if preset == "no-cuda":
        # Without CUDA the kernels are those that `make test` has tested; other files differ.
        which = ["-R", "^(mylib|options|errors|copy|convert|scalar|flags)$"]
        options = one_level("-fno-trapping-math")  # which must change nothing
    if is_measured:
        options.append("-DMYLIB_CUDA=OFF")
    run("cmake", "--preset", preset, *options)
    run("cmake", "--build", "--preset", preset, *JOBS)
    build = ROOT / "build" / preset
    for old in build.rglob("*.gcda"):
        old.unlink()
    # A fifth of the random cases: these builds are slow, and `make test` runs all.
    tests = ["ctest", "--preset", preset, "--no-tests=error", *which, *JOBS]
    output = run(*tests, MYLIB_TEST_SHORT="1")
    assert "100% tests passed" in output
    if is_measured:
        run(sys.executable, "scripts/coverage.py", build, *COVERAGE)


def test_clang_builds_without_warnings() -> None:
    if not shutil.which("clang"):
        pytest.skip("no clang on this machine")
    build = ROOT / "build" / "clang"
    options = ["-DCMAKE_C_COMPILER=clang", "-DMYLIB_CUDA=OFF", "-DMYLIB_WERROR=ON"]
    run("cmake", "-S", ".", "-B", build, *options, *one_level())
    run("cmake", "--build", build, *JOBS)
    tests = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", *JOBS]
    run(*tests, MYLIB_TEST_SHORT="1")


def cache(build: Path) -> dict[str, str]:
    file = build / "CMakeCache.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    entries = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("//")]
    return {name.split(":")[0]: value for name, value in entries}


def test_cuda_for_all_major_architectures(tmp_path: Path) -> None:
    """Compiles and links without a warning, also statically, into a program in C.

    `.ci/run` compiles for three that have all branches: two there, and one in the wheel.
    """
    found = cache(MADE)
    wanted = {"CMAKE_CUDA_ARCHITECTURES": "all-major", "MYLIB_WERROR": "ON"}
    build = MADE
    is_of_ci = found.get("CMAKE_CUDA_ARCHITECTURES", "").startswith("75;")
    if is_of_ci and not IS_WHOLE:
        wanted["CMAKE_CUDA_ARCHITECTURES"] = found["CMAKE_CUDA_ARCHITECTURES"]
    if any(found.get(name) != value for name, value in wanted.items()):
        build = ROOT / "build" / "all-major"
        options = [f"-D{name}={value}" for name, value in wanted.items()]
        log = run("cmake", "-S", ".", "-B", build, "-DMYLIB_BUILD_TESTS=OFF", *options)
        if "CUDA         not found" in log:
            pytest.skip("no CUDA toolkit on this machine")
    run("cmake", "--build", build, "--target", "mylib", *JOBS)
    assert (build / "libcalc" / "libmylib.so").exists()
    folders = (build / "libcalc" / "CMakeFiles").glob("mylib*.dir")
    objects = [path for folder in folders for path in folder.rglob("*.o")]
    runtime = Path(cache(build)["CUDA_cudart_static_LIBRARY"])
    flags = ["-Ilibcalc/include", "-o", str(tmp_path / "consumer")]
    needs = ["-ldl", "-lrt", "-pthread", "-lm"]  # as mylib.pc of a static library says
    run("cc", "examples/c_consumer/consumer.c", *flags, *objects, runtime, *needs)
    assert "libmylib 2." in run(tmp_path / "consumer")


def test_what_is_not_implemented_does_not_build(tmp_path: Path) -> None:
    """A row without a meaning, or a call of a missing function, does not build."""
    tree, build = tmp_path / "tree", tmp_path / "build"
    tree.mkdir()
    shutil.copy(ROOT / "CMakeLists.txt", tree)
    shutil.copytree(ROOT / "libcalc", tree / "libcalc")
    table = tree / "libcalc" / "src" / "table.c"
    table.write_text(
        table.read_text() + "int mylib_absent(void);\nint mylib_calls_it(void);\n"
        "MYLIB_API int mylib_calls_it(void) { return mylib_absent(); }\n"
    )
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DMYLIB_CUDA=OFF", "-DMYLIB_BUILD_TESTS=OFF"]
    options.append("-DMYLIB_COMPILER_KNOWS_LEVELS=OFF")  # one is enough
    run("cmake", "-S", tree, "-B", build, *options)
    log = fails("cmake", "--build", build, *JOBS)
    assert re.search(r"undefined (reference|symbol).*mylib_absent", log)

    ops = tree / "libcalc" / "src" / "ops.h"
    row = "    ROW(UNARY, square, ALL) "
    assert row in ops.read_text()
    ops.write_text(ops.read_text().replace(row, row.replace("square", "cube")))
    log = fails("cmake", "--build", build, "--target", "mylib_kernels_generic")
    assert re.search(r"error: .*cube_i8", log)


on_x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="only x86-64 has levels"
)


@on_x86
@pytest.mark.parametrize("flag", ["-mavx2", "-mavx512f"])
def test_single_extensions(flag: str) -> None:
    """A user's flags for instructions that are not a whole level build, and keep the bits."""
    build = ROOT / "build" / flag[2:]
    options = [f"-DCMAKE_C_FLAGS={flag}", "-DMYLIB_CUDA=OFF", "-DMYLIB_COMPILER_KNOWS_LEVELS=OFF"]
    # AVX-512 brings fused multiply-adds, which the vectorizer must not use; AVX2 brings intrinsics.
    kind = "Debug" if flag == "-mavx2" and not IS_WHOLE else "Release"
    options += [f"-DCMAKE_BUILD_TYPE={kind}", "-DCMAKE_C_FLAGS_DEBUG=-Og"]
    run("cmake", "-S", ".", "-B", build, *options)
    run("cmake", "--build", build, "--target", "mylib", "test_bits", "test_flags", *JOBS)
    if f" {flag[2:]} " in Path("/proc/cpuinfo").read_text():
        run("ctest", "--test-dir", build, "--output-on-failure", "-R", "^(bits|flags)$")


@on_x86
def test_kernels_are_vector_code(tmp_path: Path) -> None:
    """The check accepts the kernels, and notices scalar code: level generic's in v3's place."""
    build = ROOT / "build" / "vectorized"
    run("cmake", "-S", ".", "-B", build, "-DMYLIB_CUDA=OFF", "-DMYLIB_BUILD_TESTS=OFF")
    run("cmake", "--build", build, "--target", "mylib", *JOBS)
    command = [sys.executable, "scripts/check_vectorized.py"]
    run(*command, build)
    objects = Path("libcalc", "CMakeFiles")
    for unit in ("kernels", "functions"):
        scalar = build / objects / f"mylib_{unit}_generic.dir"
        shutil.copytree(scalar, tmp_path / objects / f"mylib_{unit}_v3.dir")
    output = run(*command, tmp_path, "--level", "v3", status=1)
    assert "v3: add_kernel_f64 has 0 loops in ymm, not 3" in output
    assert "v3: exp_loop_f64 has 0 loops in ymm, not 1" in output
