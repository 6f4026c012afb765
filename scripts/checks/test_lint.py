"""Formatting, static analysis and types."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import IS_WHOLE, ROOT, execute, run

FOLDERS = ("libcalc", "pkg", "examples", "benchmarks")
C_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp")

# For clang-tidy: its analyzer reads each function by itself, those of headers too, which otherwise
# it sees when it follows calls.
SHALLOW = [
    f"--extra-arg={word}"
    for option in ("-analyzer-config", "mode=shallow", "-analyzer-opt-analyze-headers")
    for word in ("-Xclang", option)
]


def complaints(*command: str | Path) -> str:
    """Returns the output of a command, nothing if it succeeds."""
    done = execute(*command)
    return f"{' '.join(map(str, command))}\n{done.stdout[-20000:]}" if done.returncode else ""


def sources(*suffixes: str) -> list[Path]:
    """The C files of the project; not what an editable install copied into the package."""
    found = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes and ROOT / "pkg" / "include" not in path.parents
    ]
    assert found
    return found


def python_tool(name: str) -> Path:
    """A program that was installed beside this Python."""
    return Path(sysconfig.get_path("scripts")) / name


def test_c_is_formatted() -> None:
    run(python_tool("clang-format"), "--dry-run", "-Werror", *sources(*C_SUFFIXES))


def test_lines_have_at_most_100_columns() -> None:
    """clang-format leaves long comments alone."""
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
        for path in sources(*C_SUFFIXES)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > 100
    ]
    assert not long, "\n".join(long)


@pytest.fixture(scope="session")
def compile_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a compile_commands.json for the library without CUDA."""
    build = tmp_path_factory.mktemp("tidy")
    run(
        "cmake", "-S", ROOT, "-B", build, "-DMYLIB_CUDA=OFF", "-DMYLIB_BUILD_TESTS=OFF",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    )  # fmt: skip
    # clang-tidy refuses flags that only gcc has.  Levels share their source, and no branch of it is
    # of v2 alone.
    commands = build / "compile_commands.json"
    only_gcc = r" -f(?:vect-cost-model=\w+|ipa-cp-clone|no-tree-pre|web|(?:sched|rename)\S+)"
    entries = json.loads(re.sub(only_gcc, "", commands.read_text()))
    entries = [x for x in entries if not re.search(r"-DMYLIB_LEVEL=v2\b", x["command"])]
    commands.write_text(json.dumps(entries))
    return build


def library_sources() -> list[Path]:
    """Returns the files that are compiled without CUDA."""
    folder = ROOT / "libcalc" / "src"
    return [
        *sorted(folder.glob("*.c")),
        *sorted(folder.glob("cpu/*.c")),
        folder / "cuda" / "none.c",
    ]


def static_analysis(files: Sequence[Path], compile_commands: Path, flags: Sequence[str]) -> None:
    """clang-tidy, or cppcheck where there is no clang-tidy."""
    tidy = shutil.which("clang-tidy")
    if tidy:
        # One file at a time: clang-tidy 14 reports a va_list that is fine when it is given several.
        arguments = ["--", *flags] if flags else ["-p", compile_commands]

        def read(file: Path) -> str:
            # In depth, the analyzer takes over a minute for each level of this file: more than for
            # all others.
            depth = [] if IS_WHOLE or file.name != "elementary.c" else SHALLOW
            return complaints(tidy, "--quiet", *depth, file, *arguments)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(read, files)
            failed = "\n".join(text for text in found if text)
        if failed:
            pytest.fail(failed, pytrace=False)
        return
    cppcheck = shutil.which("cppcheck")
    assert cppcheck, "neither clang-tidy nor cppcheck is on the PATH"
    run(
        cppcheck, "--quiet", "--error-exitcode=1", "--enable=warning,performance,portability",
        "--inline-suppr", "--std=c11", *[f for f in flags if f.startswith("-I")],
        f"-I{ROOT / 'libcalc' / 'include'}", *files,
    )  # fmt: skip


def test_static_analysis_of_the_library(compile_commands: Path) -> None:
    static_analysis(library_sources(), compile_commands, [])


def extension_flags() -> list[str]:
    import numpy as np

    folders = [ROOT / "libcalc" / "include", sysconfig.get_path("include"), np.get_include()]
    return ["-std=c11", f"-I{folders[0]}", *(f"-isystem{folder}" for folder in folders[1:])]


def test_static_analysis_of_the_extension(compile_commands: Path) -> None:
    files = sorted((ROOT / "pkg").glob("*.c"))
    static_analysis(files, compile_commands, extension_flags())


def test_extension_compiles_without_warnings() -> None:
    compiler = os.environ.get("CC", "cc")
    flags = ["-fsyntax-only", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
    for source in sorted((ROOT / "pkg").glob("*.c")):
        run(compiler, *flags, *extension_flags(), source)


def test_ruff() -> None:
    run(python_tool("ruff"), "check", ".")


def test_python_is_formatted() -> None:
    run(python_tool("ruff"), "format", "--check", ".")


def test_mypy() -> None:
    run(sys.executable, "-m", "mypy", "pkg", "scripts/checks/typed.py")


def test_stubs_match_the_modules(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    # The library is not a module, and the names of the ufuncs come from its table; __all__ is
    # computed; stubtest takes an alias of literals for a class; decorators hide the signatures of
    # the others.
    names = (
        r"(_operations\.)?__all__",
        "_typing.Cpu",
        "_typing.Gpu",
        "_typing.overload",
        "ufuncs.*",
        "libmylib",
        "_fingerprint._expressions",
        "_creation.astype",
        "_manipulation.where",
        "_numpy._bind",
        "_operands._masked_functions",
        "_convert.conversion",
        "_warnings._call_at",
        "numexpr._check_text",
    )
    allowed.write_text("".join(f"pkg.{name}\n" for name in names))
    run(python_tool("stubtest"), "pkg", "--allowlist", allowed, "--ignore-unused-allowlist")
