"""The examples run.  (The C consumer is built by the tests in packaging/.)"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import cases
import pytest

import pkg as pcd

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, cwd=EXAMPLES.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    tested = {
        "cluster.py",
        "demo.py",
        "race.py",
        "ctypes_add.py",
        "quickstart.ipynb",
        "c_consumer",
        "torch_tensors.py",
    }
    there = {path.name for path in EXAMPLES.iterdir() if path.name[0] not in "_."}
    assert there == tested


@cases.each_device()
def test_demo(device: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    shown = _run(EXAMPLES / "demo.py", "--device", device, "--output", picture)
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    place = "the CPU" if device == "cpu" else pcd.config()["gpus"][0]["name"]
    assert place in shown


def test_race() -> None:
    """All contenders have the same fingerprint."""
    pytest.importorskip("matplotlib")
    shown = _run(EXAMPLES / "race.py", "--cells", "600k")
    lines = [line.split() for line in shown.splitlines() if " MiB   " in line]
    assert [line[0] for line in lines] == ["NumPy", "pkg,", "pkg"][: 2 + (pcd.device_count() > 0)]
    assert len({line[-1] for line in lines}) == 1 and len(lines[0][-1]) == 32
    assert shown.endswith("one fingerprint: the same bits from all\n")


def test_cluster() -> None:
    """Two workers, whose memory is smaller than the data; one is killed in the middle."""
    for library in ("distributed", "zarr"):
        pytest.importorskip(library)
    sizes = ["--memory", "280MiB", "--rows", "6144", "--columns", "6400"]
    shown = _run(EXAMPLES / "cluster.py", "--kill", "--workers", "2", *sizes)
    for text in ("300 MiB\nmore than a worker's memory", "2 workers, on", "killed worker tcp"):
        assert text in shown, shown
    assert shown.endswith("the same bits\n")


def test_ctypes() -> None:
    assert _run(EXAMPLES / "ctypes_add.py")


def test_torch_tensors() -> None:
    pytest.importorskip("torch")
    assert "1000 products of type Exact" in _run(EXAMPLES / "torch_tensors.py")


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_ctypes_uses_the_library_itself() -> None:
    """The example uses the C interface: the package only locates the library."""
    text = (EXAMPLES / "ctypes_add.py").read_text()
    assert "ctypes" in _imports(EXAMPLES / "ctypes_add.py") and "mylib_map" in text
    assert "pcd.add" not in text and "pkg.add" not in text


def test_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": EXAMPLES}}
    ).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
