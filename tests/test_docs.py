"""The examples in the docstrings, in README.md and in docs/ run, and show what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import cases
import pytest

import pkg as pcd

ROOT = Path(__file__).resolve().parents[1]

MODULES = [
    f"pkg.{path.stem}"
    for path in sorted((ROOT / "pkg").glob("*.py"))
    if path.stem != "__main__"
    and (path.stem != "xarray" or importlib.util.find_spec("xarray") is not None)
]

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _run(examples: doctest.DocTest) -> int:
    """Runs the examples; returns their number."""
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(examples, out=report.write)
    assert runner.failures == 0, report.getvalue()
    return len(examples.examples)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_of_modules(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".__init__"))
    for examples in doctest.DocTestFinder().find(module):
        _run(examples)


@pytest.mark.parametrize(
    "operation", (*pcd.core.operations, pcd.true_divide), ids=lambda op: op.__name__
)
def test_docstrings_of_operations(operation: Any) -> None:
    examples = doctest.DocTestParser().get_doctest(
        operation.__doc__, {}, operation.__name__, None, 0
    )
    assert _run(examples) >= 3, "an import of each, and an example"


@pytest.mark.parametrize(
    "name",
    [
        *["vector_add", "vector_subtract", "vector_multiply", "vector_divide", "trace", "fib"],
        *["helloworld", "evaluate", "fuse"],
    ],
)
def test_functions_have_examples(name: str) -> None:
    function = getattr(pcd, name)
    finder = doctest.DocTestFinder()
    assert (
        sum(len(found.examples) for found in finder.find(function, globs=function.__globals__)) > 0
    )


class Block(NamedTuple):
    """A block of a page that runs: ```LANGUAGE WORDS, CODE, ```.

    The words say what the block needs: gpu, gpus (two), real (a GPU that is not emulated), and
    libraries.
    """

    line: int
    language: str
    words: list[str]
    code: str

    def can_run(self, device: str) -> bool:
        """Tells whether the block's needs are met: a GPU, and the libraries that its words name."""
        gpus = 0 if device == "cpu" else pcd.device_count()
        is_real = gpus > 0 and pcd.config()["gpus"][0]["name"] != "emulated GPU"
        there = {"gpu": gpus > 0, "gpus": gpus > 1, "real": is_real}
        return all(
            there[word] if word in there else importlib.util.find_spec(word) is not None
            for word in self.words
        )


def _blocks(page: Path) -> list[Block]:
    text = page.read_text()
    blocks = re.finditer(r"^```(python|pycon|sh run|c run)\b([^\n]*)\n(.*?)^```", text, re.M | re.S)
    return [
        Block(text[: found.start()].count("\n") + 2, found[1], found[2].split(), found[3])
        for found in blocks
    ]


PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if _blocks(page)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.filterwarnings("ignore::DeprecationWarning:numba")  # when it is imported
@cases.each_device()
def test_pages(page: Path, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run, in order, as a reader would type them, in an empty folder.

    Sessions show what they say.  Blocks that need a GPU or a library run where it is.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    names: dict[str, Any] = {}
    name = str(page.relative_to(ROOT))
    for line, language, _, code in (block for block in _blocks(page) if block.can_run(device)):
        if language == "pycon":
            _run(doctest.DocTestParser().get_doctest(code, names, name, name, line - 1))
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line - 1) + code, name, "exec"), names)
        else:
            if language == "c run":
                Path("program.c").write_text(code)
                code = (
                    f"cc -std=c11 -Wall -Wextra -Werror program.c -I{pcd.get_include()}"
                    f" -L{pcd.get_library_dir()} -lmylib -Wl,-rpath,{pcd.get_library_dir()}"
                    " -o program && ./program"
                )
            done = subprocess.run(["sh", "-ec", code], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{name}:{line}: {done.stdout}{done.stderr}"


def test_every_block_is_known() -> None:
    """A misspelt language or word would leave a block out."""
    languages = {"c", "cmake", "sh", "py", "python", "pycon", "text", ""}
    libraries = {"cupy", "dask", "h5py", "jax", "numba", "pandas", "torch", "xarray", "zarr"}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        fences = re.findall(r"^```(?!\{)(\S*)[^\n]*\n.*?^```", page.read_text(), re.M | re.S)
        assert set(fences) <= languages, page
        for block in _blocks(page):
            assert set(block.words) <= libraries | {"gpu", "gpus", "real"}, f"{page}:{block.line}"


def test_uv_builds_again_when_a_variable_changes() -> None:
    """uv knows the variables that change a build: those of install.md, and those that find CUDA."""
    page, settings = ROOT / "docs" / "install.md", (ROOT / "pyproject.toml").read_text()
    variables = set(re.findall(r"^\| `([A-Z_]+)[=`]", page.read_text(), re.M))
    variables |= {"CUDACXX", "CUDA_HOME", "CUDA_PATH"}
    known = set(re.findall(r'env = "(\w+)"', settings))
    assert variables - known == {"CMAKE_BUILD_PARALLEL_LEVEL"} and known <= variables


def test_nothing_recommends_the_name_alone() -> None:
    """The package index has an older project of the same name."""
    by_name = re.compile(r"pip3? install[^`'\"\n]*\bpipcudemo\b(?!-\d|-%s)")
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for pattern in ("*", "pkg/*", "libcalc/**/*", "examples/**/*", "benchmarks/**/*")
        for path in ROOT.glob(pattern)
        if path.is_file() and path.suffix not in (".so", ".pyc", ".png")
        for found in by_name.finditer(path.read_text(errors="replace"))
    ]
    assert by_name.search("pip install -U pipcudemo") and not told
    pages = [(ROOT / "README.md").read_text(), (ROOT / "docs" / "install.md").read_text()]
    for page in pages:
        assert f"pip install ./pipcudemo-{pcd.__version__}.tar.gz" in page
        assert set(re.findall(r"pipcudemo-([\d.]+)\.tar", page)) == {pcd.__version__}


def test_readme_is_short_and_its_links_are_absolute() -> None:
    """The package index shows the page alone: there a link to a file of the repository is dead."""
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 200
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all(link.startswith("https://") for link in links)


def test_texts_and_operations_agree() -> None:
    """Every operation has a text, and every text an operation."""
    from pkg._docs import TEXTS

    assert set(TEXTS) == {*pcd.operations, "true_divide"}


def test_the_stub_of_the_operations_is_current() -> None:
    """Type checkers would not know an operation that was added or renamed."""
    path = ROOT / "scripts" / "make_stubs.py"
    spec = importlib.util.spec_from_file_location("make_stubs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub(), "run python scripts/make_stubs.py"
