"""C programs build against an installed library and against an installed wheel; what it exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from installs import Environment, Machine, Wheel, run

EXAMPLE = "examples/c_consumer"


@pytest.fixture(params=["installed", "wheel"])
def location(request: pytest.FixtureRequest) -> tuple[Path, Path, Path]:
    """The prefix for CMake, and the folders of the header and of the library."""
    if request.param == "installed":
        prefix = request.getfixturevalue("prefix")
        return prefix, prefix / "include", prefix / "lib"
    made: Environment = request.getfixturevalue("cpu_environment")
    include, library = made.run(
        "import pkg; print(pkg.get_include(), pkg.get_library_dir())"
    ).split()
    return Path(library), Path(include), Path(library)


def check_consumer(program: Path, machine: Machine) -> None:
    output = run([program], machine.env()).output
    assert re.search(r"^ +500 +1500 +2500 +3500$", output, re.MULTILINE)
    assert "libmylib 2." in output


def test_find_package(
    location: tuple[Path, Path, Path], unpacked: Path, machine: Machine, tmp_path: Path
) -> None:
    env = machine.env()
    prefix = f"-DCMAKE_PREFIX_PATH={location[0]}"
    run(["cmake", "-S", unpacked / EXAMPLE, "-B", tmp_path, prefix], env)
    run(["cmake", "--build", tmp_path], env)
    check_consumer(tmp_path / "consumer", machine)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config(
    location: tuple[Path, Path, Path], unpacked: Path, machine: Machine, tmp_path: Path
) -> None:
    (folder,) = location[0].rglob("pkgconfig")
    env = machine.env(PKG_CONFIG_PATH=folder)
    flags = run(["pkg-config", "--cflags", "--libs", "mylib"], env).output.split()
    rpath = run(["pkg-config", "--variable=libdir", "mylib"], env).output.strip()
    source = unpacked / EXAMPLE / "consumer.c"
    run(["cc", source, *flags, f"-Wl,-rpath,{rpath}", "-o", tmp_path / "consumer"], env)
    check_consumer(tmp_path / "consumer", machine)


def test_plain_compiler_line(
    location: tuple[Path, Path, Path], unpacked: Path, machine: Machine, tmp_path: Path
) -> None:
    _, include, library = location
    source = unpacked / EXAMPLE / "consumer.c"
    flags = [f"-I{include}", f"-L{library}", "-lmylib", f"-Wl,-rpath,{library}"]
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    run(["cc", *strict, source, *flags, "-o", tmp_path / "consumer"], machine.env())
    check_consumer(tmp_path / "consumer", machine)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("2", True), ("2.0", True), ("2.0.0", True), ("2.99", False), ("1.0", False), ("3.0", False)],
)
def test_version_of_the_cmake_package(
    prefix: Path, machine: Machine, tmp_path: Path, wanted: str, found: bool
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(version LANGUAGES NONE)\n"
        f"find_package(mylib {wanted} REQUIRED)\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    log = run(command, machine.env(), fails=not found)
    if not found:
        assert "compatible with requested version" in log.words


def exported(library: Path) -> list[str]:
    command = ["nm", "-D", "--defined-only", "--format=posix", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines]


def declared(header: Path) -> set[str]:
    return set(re.findall(r"^MYLIB_API [^;(]*?\b(mylib_\w+)\(", header.read_text(), re.MULTILINE))


@pytest.mark.parametrize("made", ["cpu_environment", "cuda_environment"])
def test_only_the_interface_is_exported(made: str, request: pytest.FixtureRequest) -> None:
    package = request.getfixturevalue(made).site / "pkg"
    names = declared(package / "include" / "mylib.h")
    assert len(names) > 20
    assert set(exported(package / "libmylib.so")) == names
    (extension,) = package.glob("core*.so")
    assert exported(extension) == ["PyInit_core"]


def test_header_is_c_plus_plus_too(prefix: Path, machine: Machine, tmp_path: Path) -> None:
    source = tmp_path / "header.cpp"
    source.write_text("#include <mylib.h>\nint main() { return mylib_version() == nullptr; }\n")
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{prefix / 'include'}"]
    library = prefix / "lib"
    link = [f"-L{library}", "-lmylib", f"-Wl,-rpath,{library}", "-o", tmp_path / "header"]
    run(["c++", *flags, source, *link], machine.env())
    run([tmp_path / "header"], machine.env())


def test_cuda_library_holds_code_for_the_architecture(cuda_wheel: Wheel, nvcc: Path) -> None:
    cuobjdump = nvcc.parent / "cuobjdump"
    if not cuobjdump.exists():
        pytest.skip("this toolkit has no cuobjdump")
    folder = cuda_wheel.path.parent / "unpacked"
    shutil.unpack_archive(cuda_wheel.path, folder, "zip")
    library = folder / "pkg" / "libmylib.so"
    listing = subprocess.run([cuobjdump, "-lelf", library], capture_output=True, text=True).stdout
    assert re.findall(r"sm_(\d+)", listing) and set(re.findall(r"sm_(\d+)", listing)) == {"90"}
