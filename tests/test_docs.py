"""The examples in the docstrings and in README.md run, and show what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import cases
import pytest

import pkg as pcd

ROOT = Path(__file__).resolve().parents[1]

MODULES = [
    f"pkg.{path.stem}" for path in sorted((ROOT / "pkg").glob("*.py")) if path.stem != "__main__"
]

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _run(examples: doctest.DocTest) -> int:
    """Runs the examples; the number of them."""
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


@pytest.mark.parametrize("operation", pcd.core.operations, ids=lambda op: op.__name__)
def test_docstrings_of_operations(operation: Any) -> None:
    examples = doctest.DocTestParser().get_doctest(
        operation.__doc__, {}, operation.__name__, None, 0
    )
    assert _run(examples) >= 3, "an import of each, and an example"


@pytest.mark.parametrize(
    "name",
    [
        "vector_add",
        "vector_subtract",
        "vector_multiply",
        "vector_divide",
        "trace",
        "fib",
        "helloworld",
        "evaluate",
        "fuse",
    ],
)
def test_functions_have_examples(name: str) -> None:
    function = getattr(pcd, name)
    finder = doctest.DocTestFinder()
    assert (
        sum(len(found.examples) for found in finder.find(function, globs=function.__globals__)) > 0
    )


def _readme_blocks() -> list[tuple[int, str, bool, bool]]:
    """Of each block of README.md that is Python: line, code, if a session, if it needs a GPU."""
    text = (ROOT / "README.md").read_text()
    return [
        (text[: found.start()].count("\n") + 2, found[3], found[1] == "pycon", "gpu" in found[2])
        for found in re.finditer(
            r"^```(python|pycon)\b([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        )
    ]


@cases.each_device()
def test_readme(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks run, in order, as a reader would type them; those for a GPU where there is one.

    Sessions show what they say.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    ran = 0
    for line, code, is_session, needs_gpu in _readme_blocks():
        if needs_gpu and device == "cpu":
            continue
        if is_session:
            parser = doctest.DocTestParser()
            _run(parser.get_doctest(code, names, "README.md", "README.md", line - 1))
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line - 1) + code, "README.md", "exec"), names)
        ran += 1
    assert ran >= 3 and any(needs_gpu for *_, needs_gpu in _readme_blocks())


def test_nothing_recommends_the_name_alone() -> None:
    """The package index has another project, an older one, of this name."""
    by_name = re.compile(r"pip3? install[^`'\"\n]*\bpipcudemo\b(?!-\d|-%s)")
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for pattern in ("*", "pkg/*", "libcalc/**/*", "examples/**/*", "benchmarks/**/*")
        for path in ROOT.glob(pattern)
        if path.is_file() and path.suffix not in (".so", ".pyc", ".png")
        for found in by_name.finditer(path.read_text(errors="replace"))
    ]
    assert by_name.search("pip install -U pipcudemo") and not told
    version = pcd.__version__
    assert f"pip install ./pipcudemo-{version}.tar.gz" in (ROOT / "README.md").read_text()


def test_texts_and_operations_agree() -> None:
    """No text for an operation that is not there, and none without."""
    from pkg._docs import TEXTS

    assert set(TEXTS) == set(pcd.operations)


def test_the_stub_of_the_operations_is_current() -> None:
    """An operation that was added or renamed, which type checkers would not know."""
    path = ROOT / "scripts" / "make_stubs.py"
    spec = importlib.util.spec_from_file_location("make_stubs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub(), "run python scripts/make_stubs.py"
