"""Importing from a tree that is not built, or not for this Python: the error says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pkg as pcd

PACKAGE = Path(pcd.__file__).parent
CORE = Path(pcd.core.__file__)
LIBRARY = Path(pcd.get_library_dir(), "libmylib.so")

#: An editable installation finds the modules that the tree lacks; Python runs this after it.
_NO_EDITABLE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in finder.__module__]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree in which nothing has been built."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "setup.py").touch()
    (tmp_path / "sitecustomize.py").write_text(_NO_EDITABLE)
    for path in PACKAGE.glob("*.py"):
        shutil.copy(path, tmp_path / "pkg")
    return tmp_path


def said(tree: Path, *command: str) -> str:
    """Returns Python's words when it starts in the tree, imports the package, and fails."""
    done = subprocess.run(
        [sys.executable, *(command or ("-c", "import pkg"))],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines and "ImportError: " in lines[-1], done.stderr
    return lines[-1].partition("ImportError: ")[2]


def put_core(tree: Path, name: str = CORE.name) -> None:
    shutil.copy(CORE, tree / "pkg" / name)


def put_library(tree: Path, content: Path) -> None:
    shutil.copy(content, tree / "pkg" / "libmylib.so")


def other_python(tree: Path) -> None:
    put_core(tree, "core.cpython-39-x86_64-linux-gnu.so")


def text_for_a_library(tree: Path) -> None:
    put_core(tree)
    put_library(tree, Path(__file__))


def older_library(tree: Path) -> None:
    """A library that lacks the functions of the extension: here another library altogether."""
    put_core(tree)
    put_library(tree, CORE)


def truncated_core(tree: Path) -> None:
    put_core(tree)
    put_library(tree, LIBRARY)
    os.truncate(tree / "pkg" / CORE.name, 10)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda tree: None, "the extension is missing"),
        (other_python, "another Python only (core.cpython-39-x86_64-linux-gnu.so)"),
        (put_core, "libmylib.so is missing"),
        (text_for_a_library, "libmylib.so: "),
        (older_library, "mylib_"),
        (truncated_core, "the dynamic linker says: "),
    ],
)
def test_an_unbuilt_tree(prepare: object, reason: str, tree: Path) -> None:
    assert callable(prepare)
    prepare(tree)
    text = said(tree)
    assert reason in text and f"{tree / 'pkg'} is a source tree" in text
    assert f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}" in text
    for command in ("'pip install .'", "'pip install --editable .'", "'make test'"):
        assert command in text
    assert text in said(tree, "-m", "pkg")


def test_an_installed_package(tree: Path) -> None:
    """Without setup.py beside it there is no tree to build."""
    (tree / "setup.py").unlink()
    text = said(tree)
    assert "the extension is missing" in text and "source tree" not in text
    assert "pip install --force-reinstall --no-cache-dir ./pipcudemo-VERSION.tar.gz" in text


def test_what_the_extension_itself_raises_is_kept(tree: Path) -> None:
    """For example NumPy's text for a NumPy that is too old."""
    put_core(tree)
    put_library(tree, LIBRARY)
    code = "import numpy._core._multiarray_umath as m; del m._ARRAY_API; import pkg"
    assert said(tree, "-c", code) == "numpy._core.multiarray failed to import"
