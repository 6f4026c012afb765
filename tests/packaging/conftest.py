"""Builds shared by the packaging tests: each is made once, from a copy of the tree."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from installs import Environment, EnvironmentMaker, Machine, Wheel, build_wheel, run

ROOT = Path(__file__).resolve().parents[2]

# Left out of the copy of the tree: what builds and tools leave behind.
LEFTOVERS = shutil.ignore_patterns(
    ".git", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis",
    "*.so", ".ipynb_checkpoints", ".venv",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.packaging)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """The nvcc of this machine."""
    candidates = [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"]
    if os.environ.get("CUDA_HOME"):
        candidates.insert(0, os.environ["CUDA_HOME"] + "/bin/nvcc")
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            return Path(candidate)
    pytest.skip("no CUDA toolkit on this machine")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree, in which nothing has been built."""
    copy = tmp_path_factory.mktemp("tree") / "pipcudemo"
    shutil.copytree(ROOT, copy, ignore=LEFTOVERS)
    for installed in ("include", "lib"):
        shutil.rmtree(copy / "pkg" / installed, ignore_errors=True)
    return copy


@pytest.fixture(scope="session")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    run(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", out, tree], machine.env()
    )
    (archive,) = out.iterdir()
    return archive


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the sdist unpacks to."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        # Python before 3.10.12 and 3.11.4 has no filters, and extractall() no argument for one.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="session")
def cpu_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Wheel:
    """From the sdist, on a machine where no CUDA toolkit can be found.

    The variables also say where a system's package goes, which changes nothing of a wheel.
    """
    folders = "-DCMAKE_INSTALL_LIBDIR=lib64 -DCMAKE_INSTALL_INCLUDEDIR=headers"
    env = machine.env(
        without=["nvcc"],
        CMAKE_ARGS=f"-DMYLIB_CUDA_PLACES=/nowhere/cuda {folders} -DMYLIB_SOVERSION=ON",
        CMAKE_BUILD_PARALLEL_LEVEL="2",
        DESTDIR=tmp_path_factory.mktemp("destdir"),
    )
    return build_wheel(sdist, tmp_path_factory.mktemp("cpu-wheel"), env)


@pytest.fixture(scope="session")
def cuda_wheel(
    sdist: Path, nvcc: Path, tmp_path_factory: pytest.TempPathFactory, machine: Machine
) -> Wheel:
    """From the sdist, with CUDA_HOME alone to say where CUDA is, for one architecture.

    Without a warning: `.ci/run` compiles for this architecture nowhere else.
    """
    env = machine.env(
        without=["nvcc"],
        CUDA_HOME=nvcc.parents[1],
        CUDAARCHS="90-real",
        MYLIB_CUDA="ON",
        CMAKE_ARGS="-DMYLIB_WERROR=ON",
    )
    return build_wheel(sdist, tmp_path_factory.mktemp("cuda-wheel"), env)


@pytest.fixture
def shallow() -> Iterator[Path]:
    """A folder as deep as those in which pip builds: so ccache knows the files that it compiles."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def prefix(unpacked: Path, tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Path:
    """libmylib alone, installed by CMake, and then moved."""
    folder = tmp_path_factory.mktemp("prefix")
    env = machine.env()
    options = ["-DMYLIB_CUDA=OFF", "-DMYLIB_BUILD_TESTS=OFF", "-DCMAKE_INSTALL_LIBDIR=lib"]
    options += ["-GNinja"] if shutil.which("ninja") else []
    # As `shallow`, which is of one test.
    with tempfile.TemporaryDirectory() as source:
        shutil.copytree(unpacked, source, dirs_exist_ok=True)
        build = Path(source, "build", "prefix")
        run(["cmake", "-S", source, "-B", build, *options], env)
        run(["cmake", "--build", build, "--parallel", "2"], env)
        run(["cmake", "--install", build, "--prefix", folder / "before"], env)
    return (folder / "before").rename(folder / "moved")


@pytest.fixture(scope="session")
def numpy_folder(tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Path:
    """NumPy, and setuptools for builds without isolation, in a folder of their own."""
    folder = tmp_path_factory.mktemp("numpy")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", folder]
    run([*command, "numpy", "setuptools>=77"], machine.env())
    return folder


@pytest.fixture(scope="session")
def environment(
    tmp_path_factory: pytest.TempPathFactory, machine: Machine, numpy_folder: Path
) -> EnvironmentMaker:
    """environment() is a fresh virtual environment, which sees NumPy unless empty=True."""

    def make(empty: bool = False) -> Environment:
        made = Environment(tmp_path_factory.mktemp("venv"), machine.env())
        if not empty:
            (made.site / "numpy_folder.pth").write_text(str(numpy_folder))
        return made

    return make


@pytest.fixture(scope="session")
def cpu_environment(environment: EnvironmentMaker, cpu_wheel: Wheel) -> Environment:
    """Has the CPU wheel installed."""
    made = environment()
    made.install("--no-deps", cpu_wheel.path)
    return made


@pytest.fixture(scope="session")
def cuda_environment(environment: EnvironmentMaker, cuda_wheel: Wheel) -> Environment:
    """Has the CUDA wheel installed."""
    made = environment()
    made.install("--no-deps", cuda_wheel.path)
    return made
