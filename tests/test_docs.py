"""The examples in the docstrings and in README.md run, and show what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import pkg as pcd

ROOT = Path(__file__).resolve().parents[1]

MODULES = [f"pkg.{path.stem}" for path in sorted((ROOT / "pkg").glob("*.py")) if path.stem != "__main__"]

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
    examples = doctest.DocTestParser().get_doctest(operation.__doc__, {}, operation.__name__, None, 0)
    assert _run(examples) >= 3, "an import of each, and an example"


@pytest.mark.parametrize(
    "name",
    ["vector_add", "vector_subtract", "vector_multiply", "vector_divide", "trace", "fib", "helloworld"],
)
def test_functions_have_examples(name: str) -> None:
    function = getattr(pcd, name)
    finder = doctest.DocTestFinder()
    assert sum(len(found.examples) for found in finder.find(function, globs=function.__globals__)) > 0


def _readme_blocks() -> list[Any]:
    """Each ```python block of README.md; marked gpu when it uses one."""
    text = (ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else ""
    params = []
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: found.start()].count("\n") + 1
        needs_gpu = re.search(r"\bcuda\b|vector_add_cuda", found[1]) is not None
        marks = [pytest.mark.gpu] if needs_gpu else []
        params.append(pytest.param(found[1], id=f"line {line}", marks=marks))
    return params


@pytest.mark.parametrize("block", _readme_blocks())
def test_readme(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block by itself: a session with >>> shows what it says, other code runs."""
    import numpy as np

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"np": np, "pcd": pcd}
    if ">>>" in block:
        assert _run(doctest.DocTestParser().get_doctest(block, names, "README.md", None, 0)) > 0
        return
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, "README.md", "exec"), names)


def test_texts_and_operations_agree() -> None:
    """No text for an operation that is not there, and none without."""
    from pkg._docs import TEXTS

    assert set(TEXTS) == set(pcd.operations)
