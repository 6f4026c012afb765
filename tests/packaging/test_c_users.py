"""C programs build against an installed library and against an installed wheel; what it exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from installs import Environment, Machine, Wheel, run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "c_consumer"


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


def test_find_package(location: tuple[Path, Path, Path], machine: Machine, tmp_path: Path) -> None:
    env = machine.env()
    prefix = f"-DCMAKE_PREFIX_PATH={location[0]}"
    run(["cmake", "-S", EXAMPLE, "-B", tmp_path, prefix], env)
    run(["cmake", "--build", tmp_path], env)
    check_consumer(tmp_path / "consumer", machine)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config(location: tuple[Path, Path, Path], machine: Machine, tmp_path: Path) -> None:
    (folder,) = location[0].rglob("pkgconfig")
    env = machine.env(PKG_CONFIG_PATH=folder)
    flags = run(["pkg-config", "--cflags", "--libs", "mylib"], env).output.split()
    rpath = run(["pkg-config", "--variable=libdir", "mylib"], env).output.strip()
    source = EXAMPLE / "consumer.c"
    run(["cc", source, *flags, f"-Wl,-rpath,{rpath}", "-o", tmp_path / "consumer"], env)
    check_consumer(tmp_path / "consumer", machine)


def test_plain_compiler_line(
    location: tuple[Path, Path, Path], machine: Machine, tmp_path: Path
) -> None:
    _, include, library = location
    source = EXAMPLE / "consumer.c"
    flags = [f"-I{include}", f"-L{library}", "-lmylib", f"-Wl,-rpath,{library}"]
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    run(["cc", *strict, source, *flags, "-o", tmp_path / "consumer"], machine.env())
    check_consumer(tmp_path / "consumer", machine)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("2", True),
        ("2.0", True),
        ("2.0.0", True),
        ("2.99", False),
        ("1.0", False),
        ("3.0", False),
        ("1.0...3", True),
        ("2.1...3", False),
        ("2 COMPONENTS cuda", False),
    ],
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
        reason = "no component cuda" if "cuda" in wanted else "compatible with requested version"
        assert reason in log.words


def test_names_of_the_shared_library(prefix: Path) -> None:
    """A program asks for the major version; the name without one is for the linker."""
    names = {path.name: path.is_symlink() for path in (prefix / "lib").glob("libmylib*")}
    assert names == {"libmylib.so": True, "libmylib.so.2": True, "libmylib.so.2.0.0": False}
    command = ["readelf", "--dynamic", "--wide", prefix / "lib" / "libmylib.so"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Library soname: [libmylib.so.2]" in shown


_OF_ANOTHER_PROJECT = """\
cmake_minimum_required(VERSION 3.24)
project(other LANGUAGES C)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_UNITY_BUILD ON)
include(FetchContent)
FetchContent_Declare(mylib SOURCE_DIR "{source}")
FetchContent_MakeAvailable(mylib)
add_executable(consumer "{example}/consumer.c")
target_link_libraries(consumer PRIVATE mylib::mylib)
install(TARGETS consumer)
file(WRITE own.c "int own;")
add_library(own own.c)
get_target_property(type own TYPE)
message(STATUS "its own library is a ${{type}}")
"""


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_fetch_content(
    kind: str, unpacked: Path, shallow: Path, machine: Machine, tmp_path: Path
) -> None:
    """As part of another project the library is built, and not installed with it; what that project
    builds stays as it is."""
    env = machine.env()
    shutil.copytree(unpacked, shallow, dirs_exist_ok=True)
    (tmp_path / "CMakeLists.txt").write_text(
        _OF_ANOTHER_PROJECT.format(source=shallow, example=EXAMPLE)
    )
    build = shallow / "build" / kind
    options = ["-DMYLIB_CUDA=OFF", *(["-DBUILD_SHARED_LIBS=OFF"] if kind == "static" else [])]
    options += ["-DMYLIB_COMPILER_KNOWS_LEVELS=OFF"]  # one level of the kernels: a minute less
    options += ["-GNinja"] if shutil.which("ninja") else []
    log = run(["cmake", "-S", tmp_path, "-B", build, *options], env)
    assert "its own library is a STATIC_LIBRARY" in log.output
    assert "CMAKE_BUILD_TYPE:STRING=\n" in (build / "CMakeCache.txt").read_text()
    run(["cmake", "--build", build, "--parallel", "2"], env)
    check_consumer(build / "consumer", machine)
    run(["cmake", "--install", build, "--prefix", tmp_path / "prefix"], env)
    found = [path for path in (tmp_path / "prefix").rglob("*") if path.is_file()]
    assert [path.name for path in found] == ["consumer"]
    run(["cmake", "-S", tmp_path, "-B", build, "-DMYLIB_INSTALL=ON"], env)
    run(["cmake", "--build", build, "--parallel", "2"], env)
    run(["cmake", "--install", build, "--prefix", tmp_path / "asked"], env)
    names = {path.name for path in (tmp_path / "asked").rglob("*") if path.is_file()}
    library = "libmylib.so.2.0.0" if kind == "shared" else "libmylib.a"
    assert {"consumer", "mylib.h", "mylib.pc", "mylibConfig.cmake", library} <= names


def test_static_library(unpacked: Path, shallow: Path, machine: Machine, tmp_path: Path) -> None:
    """Programs link it by CMake and by pkg-config, and need no file of ours to run."""
    env = machine.env()
    shutil.copytree(unpacked, shallow, dirs_exist_ok=True)
    build, static = shallow / "build" / "static", tmp_path / "static"
    options = ["-DMYLIB_CUDA=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_INSTALL_LIBDIR=lib"]
    options += ["-GNinja"] if shutil.which("ninja") else []
    run(["cmake", "-S", shallow, "-B", build, *options], env)
    run(["cmake", "--build", build, "--parallel", "2"], env)
    run([build / "libcalc" / "tests" / "test_mylib"], env)
    run(["cmake", "--install", build, "--prefix", static], env)
    assert [path.name for path in (static / "lib").glob("libmylib*")] == ["libmylib.a"]
    example = tmp_path / "example"
    run(["cmake", "-S", EXAMPLE, "-B", example, f"-DCMAKE_PREFIX_PATH={static}"], env)
    run(["cmake", "--build", example], env)
    programs = [example / "consumer"]
    if shutil.which("pkg-config"):
        env = machine.env(PKG_CONFIG_PATH=static / "lib" / "pkgconfig")
        flags = run(["pkg-config", "--cflags", "--libs", "mylib"], env).output.split()
        source = EXAMPLE / "consumer.c"
        run(["cc", source, *flags, "-o", tmp_path / "consumer"], env)
        programs.append(tmp_path / "consumer")
    shutil.rmtree(static)
    for program in programs:
        check_consumer(program, machine)


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
