"""CMake finds CUDA, or says what is missing.  Nothing is compiled here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from installs import COMPILERS, Machine, Result, run

Configure = Callable[..., Result]


@pytest.fixture
def configure(unpacked: Path, machine: Machine, tmp_path: Path) -> Configure:
    """configure(*options, env variables) configures a build and gives the log.

    nvcc is not on the PATH and not in the usual places, unless a test puts it there.
    """

    def configure(*options: str, fails: bool = False, **variables: str | Path) -> Result:
        env = machine.env(without=["nvcc", "nvidia-smi"], **variables)
        places = (
            [] if any("PLACES" in word for word in options) else ["-DMYLIB_CUDA_PLACES=/nowhere"]
        )
        command = ["cmake", "-S", unpacked, "-B", tmp_path / "build", "-DMYLIB_BUILD_TESTS=OFF"]
        generator = ["-GNinja"] if shutil.which("ninja") else []
        return run([*command, *generator, *places, *options], env, fails=fails)

    return configure


def program(path: Path, text: str) -> Path:
    """A shell script in the place of a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# ---- Where CUDA is found, and for which architectures ----
#
# To enable CUDA takes CMake seconds: a configuration shows one of either.


def found(nvcc: Path, how: str, architectures: str, log: Result) -> bool:
    summary = (
        rf"CUDA +\d+\.\d+ \({nvcc}, found through {how}\)\n-- +architectures {architectures}, C\+\+"
    )
    return bool(re.search(summary, log.output))


def test_cuda_home_alone_and_no_gpu(configure: Configure, nvcc: Path) -> None:
    log = configure(CUDA_HOME=nvcc.parents[1])
    assert found(nvcc, "CUDA_HOME", r"all-major \(no GPU here to build for\)", log)


def test_cuda_path_alone_and_cudaarchs(configure: Configure, nvcc: Path) -> None:
    """Configuring again keeps what was found."""
    log = configure(CUDA_PATH=nvcc.parents[1], CUDAARCHS="80;90")
    assert found(nvcc, "CUDA_PATH", r"80 90 \(CUDAARCHS\)", log)
    assert found(nvcc, "CMAKE_CUDA_COMPILER", r"80 90 \(CUDAARCHS\)", configure())


def test_cudacxx_and_cmake_cuda_architectures_come_first(configure: Configure, nvcc: Path) -> None:
    log = configure(
        "-DCMAKE_CUDA_ARCHITECTURES=90-real",
        CUDACXX=nvcc,
        CUDA_HOME="/not/looked/at",
        CUDA_PATH="/nor/this",
        CUDAARCHS="80",
    )
    assert found(nvcc, "CUDACXX", r"90-real \(given\)", log)


def nvidia_smi(folder: Path, text: str) -> Path:
    """Returns a folder with nvcc's only neighbour that matters here: the driver's program."""
    program(folder / "bin" / "nvidia-smi", text)
    return folder / "bin"


def test_nvcc_on_the_path_and_one_gpu(configure: Configure, nvcc: Path, tmp_path: Path) -> None:
    folder = nvidia_smi(tmp_path, "echo 9.0")
    log = configure(prepend_path=f"{folder}{os.pathsep}{nvcc.parent}")
    assert found(nvcc, "the PATH", r"90 \(of this machine's GPU\)", log)


def test_the_newest_of_the_usual_places_and_several_gpus(
    configure: Configure, nvcc: Path, tmp_path: Path
) -> None:
    program(tmp_path / "cuda-9.2" / "bin" / "nvcc", "exit 1")
    newest = tmp_path / "cuda-13.0"
    newest.symlink_to(nvcc.parents[1])
    folder = nvidia_smi(tmp_path, "printf '8.0\\n9.0\\n8.0\\n'")
    places = f"-DMYLIB_CUDA_PLACES={tmp_path}/cuda;{tmp_path}/cuda-*"
    log = configure(places, prepend_path=folder)
    how = r"80 90 \(of this machine's GPU\)"
    assert found(newest / "bin" / "nvcc", "the usual places", how, log)


@pytest.mark.parametrize(
    ("text", "architectures", "words"),
    [
        # PTX of the newest architecture that nvcc knows serves it.
        pytest.param("echo 99.9", r"\d+ \(of this machine's GPU\)", "", id="newer-than-nvcc"),
        pytest.param(
            "echo 3.5", "all-major .*", "compute capability 3.5: the library needs", id="too-old"
        ),
        pytest.param(
            "echo NVIDIA-SMI has failed because 9.9; exit 9", "all-major .*", "", id="no-driver"
        ),
    ],
)
def test_gpus_that_nvcc_does_not_know(
    configure: Configure, nvcc: Path, tmp_path: Path, text: str, architectures: str, words: str
) -> None:
    log = configure(CUDACXX=nvcc, prepend_path=nvidia_smi(tmp_path, text))
    assert found(nvcc, "CUDACXX", architectures, log) and words in log.words


def test_cuda_12_builds_for_no_gpus_without_dp4a(
    configure: Configure, nvcc: Path, tmp_path: Path
) -> None:
    version = "echo Cuda compilation tools, release 12.4"
    old = program(tmp_path / "old", f'case "$*" in *--version*) {version};; *) {nvcc} "$@";; esac')
    log = configure(fails=True, CUDACXX=old, prepend_path=nvidia_smi(tmp_path, "exit 9"))
    assert "Unsupported gpu architecture 'compute_70'" in log.words


def test_default_usual_places(unpacked: Path) -> None:
    text = (unpacked / "libcalc" / "cmake" / "MylibCuda.cmake").read_text()
    assert '"/usr/local/cuda;/usr/local/cuda-*;/opt/cuda"' in text


@pytest.mark.parametrize("variable", ["CUDACXX", "CUDA_HOME", "CUDA_PATH"])
def test_a_wrong_variable_is_an_error_that_names_it(configure: Configure, variable: str) -> None:
    log = configure(fails=True, **{variable: "/not/there"})
    assert f"{variable} is set to '/not/there'" in log.words
    assert "MYLIB_CUDA=OFF" in log.words


@pytest.mark.parametrize("name", ["it's", "a,b"])
def test_folders_in_which_nvcc_finds_no_headers(
    configure: Configure, nvcc: Path, tmp_path: Path, name: str
) -> None:
    build = str(tmp_path / name)
    log = configure("-B", build, fails=True, CUDA_HOME=nvcc.parents[1])
    assert "nvcc finds no headers in a folder whose path holds" in log.words
    assert "MYLIB_CUDA=OFF" in log.words
    configure("-B", build, "-DMYLIB_CUDA=OFF")


def test_off_looks_at_no_variable(configure: Configure) -> None:
    log = configure("-DMYLIB_CUDA=OFF", CUDA_HOME="/not/there")
    assert "off (MYLIB_CUDA=OFF)" in log.output


def test_auto_without_a_toolkit_builds_for_the_cpu(configure: Configure) -> None:
    log = configure()
    assert "not found: the library is built for the CPU alone" in log.output


def test_on_without_a_toolkit_is_an_error_with_the_remedy(configure: Configure) -> None:
    log = configure("-DMYLIB_CUDA=ON", fails=True)
    for text in ("no CUDA toolkit was found", "CUDACXX", "CUDA_PATH", "/nowhere", "set CUDA_HOME"):
        assert text in log.words


def test_nonsense_for_an_option(configure: Configure) -> None:
    log = configure("-DMYLIB_CUDA=perhaps", fails=True)
    assert "it must be AUTO, ON or OFF" in log.words


# ---- Failures and their remedies ----


def test_no_c_compiler(unpacked: Path, machine: Machine, tmp_path: Path) -> None:
    env = machine.env(without=[*COMPILERS, *gcc_by_version(), "nvcc"])
    log = run(["cmake", "-S", unpacked, "-B", tmp_path], env, fails=True)
    assert "No C compiler was found" in log.words
    assert "apt install build-essential" in log.words and "set CC" in log.words


def gcc_by_version() -> list[str]:
    return [f"{name}-{number}" for name in ("gcc", "clang") for number in range(9, 25)]


@pytest.mark.parametrize("variable", ["NVCC_CCBIN", "CUDAHOSTCXX"])
def test_host_compiler_too_new_for_nvcc(
    configure: Configure, nvcc: Path, tmp_path: Path, variable: str
) -> None:
    """A real nvcc, and a g++ that claims to be of version 99."""
    new = program(tmp_path / "g++", 'exec /usr/bin/env g++ -U__GNUC__ -D__GNUC__=99 "$@"')
    log = configure(fails=True, CUDACXX=nvcc, **{variable: new})
    assert re.search(r"The C\+\+ compiler is not one that nvcc \d+\.\d+ supports", log.words)
    assert str(new) in log.words
    assert "Set NVCC_CCBIN (or CUDAHOSTCXX) to an older one" in log.words


def test_headers_of_another_toolkit(configure: Configure, nvcc: Path, tmp_path: Path) -> None:
    """A real nvcc, and headers of another version that come first."""
    header = tmp_path / "include" / "cuda_runtime.h"
    header.parent.mkdir()
    header.write_text("#define CUDART_VERSION 12010\n")
    log = configure(fails=True, CUDACXX=nvcc, CUDAFLAGS=f"-I{header.parent}")
    assert "The CUDA compiler and the CUDA headers are of different versions" in log.words
    assert f"{header}, version 12010" in log.words
    assert "CUDAFLAGS" in log.words and "point CUDA_HOME to it" in log.words


def fake_nvcc(folder: Path, release: str, says: str) -> Path:
    """An nvcc of that release which compiles nothing, and says why."""
    return program(
        folder / "nvcc",
        f"""case "$*" in
*--version*) echo "Cuda compilation tools, release {release}, V{release}.1";;
*) echo '{says}' >&2; exit 1;;
esac""",
    )


@pytest.mark.parametrize(
    ("release", "says", "expected"),
    [
        pytest.param("11.8", "", "CUDA 12 or newer is needed", id="too-old"),
        pytest.param(
            "12.4",
            "probe.cu:1:10: fatal error: cuda_runtime.h: No such file or directory",
            "install its development files (NVIDIA's packages: cuda-cudart-dev-12-4",
            id="no-headers",
        ),
        pytest.param(
            "12.4",
            "/usr/bin/ld: cannot find -lcudart_static: No such file or directory",
            "install its development files (NVIDIA's packages: cuda-cudart-dev-12-4",
            id="no-runtime",
        ),
        pytest.param(
            "12.4",
            "nvcc fatal   : Failed to preprocess host compiler properties.",
            "check that a c++ compiler is installed (debian, ubuntu: apt install g++)",
            id="no-host-compiler",
        ),
        pytest.param("12.4", "the moon is full", "what nvcc said: the moon is full", id="other"),
    ],
)
def test_a_toolkit_that_does_not_work(
    configure: Configure, tmp_path: Path, release: str, says: str, expected: str
) -> None:
    nvcc = fake_nvcc(tmp_path / "bin", release, says)
    log = configure(fails=True, CUDACXX=nvcc)
    assert expected.lower() in log.words.lower()
    assert str(nvcc) in log.words
    assert "Or set MYLIB_CUDA=OFF to build without CUDA" in log.words


def test_a_program_that_is_no_nvcc(configure: Configure, tmp_path: Path) -> None:
    wrong = program(tmp_path / "nvcc", "echo hello")
    log = configure(fails=True, CUDACXX=wrong)
    assert f"{wrong} --version failed (0); it is no working nvcc: hello" in log.words


def test_fast_math_is_refused(configure: Configure) -> None:
    log = configure(fails=True, CFLAGS="-O2 -ffast-math")
    assert "The flags contain -ffast-math, which changes results" in log.words
    for flag in (
        "-DCMAKE_C_FLAGS_RELEASE=-O3 -funsafe-math-optimizations",
        "-DCMAKE_C_FLAGS_RELEASE=-ffp-model=fast",
        "-DCMAKE_C_FLAGS_RELEASE=-fsingle-precision-constant",
        "-DCMAKE_C_FLAGS_RELEASE=-fno-honor-nans",
        "-DCMAKE_C_FLAGS_RELEASE=-mfpmath=387",
        "-DCMAKE_C_FLAGS_RELEASE=-mfpmath=sse,387",
        "-DCMAKE_SHARED_LINKER_FLAGS=-Ofast",
        "-DCMAKE_CUDA_FLAGS=--use_fast_math",
    ):
        log = configure("--fresh", flag, fails=True)
        assert f"The flags contain {flag[flag.rindex('=-') + 1 :].split(' ')[-1]}" in log.words
    others = "-DCMAKE_CUDA_FLAGS=--Ofast-compile=mid -Xcompiler=-fno-fast-math"
    configure("--fresh", others, "-DCMAKE_C_FLAGS=-mfpmath=sse", "-DMYLIB_CUDA=OFF")


def test_presets_exist(tree: Path, machine: Machine) -> None:
    log = run(["cmake", "--list-presets"], machine.env(), cwd=tree).output
    assert re.findall(r'^ +"(\S+)"', log, re.MULTILINE) == [
        "release",
        "debug",
        "asan",
        "tsan",
        "no-cuda",
    ]
