"""A file of the package that imports from a higher floor: the house becomes one circle again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pkg"


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imported(name: str) -> Iterator[str]:
    """Yields the modules that a file imports, also in functions and for type checkers alone."""
    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parts if node.level else []), *(node.module or "").split(".")])
            base = base.rstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield whole if whole in FILES or whole == "pkg.core" else base


IMPORTS = {name: {one for one in _imported(name) if one in FILES} - {name} for name in FILES}


def _reachable(name: str) -> set[str]:
    found: set[str] = set()
    work = [name]
    while work:
        new = IMPORTS[work.pop()] - found
        found |= new
        work += new
    return found


def test_no_circles() -> None:
    circle = [name for name in FILES if name in _reachable(name)]
    assert not circle, f"these files import each other in a circle: {', '.join(circle)}"


@pytest.mark.parametrize("name", FILES)
def test_no_import_within_a_function(name: str) -> None:
    """A package that is optional, or slow to import, may be imported where it is used."""
    inside = [
        one
        for function in ast.walk(ast.parse(FILES[name].read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in [ast.unparse(node)]
    ]
    ours = [one for one in inside if re.match(r"from \.|(from|import) pkg\b", one)]
    assert not ours, f"{name}: {'; '.join(ours)}"


def _drawn() -> list[set[str]]:
    """Returns the floors that CONTRIBUTING.md draws, from the lowest to the highest."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(r"```floors\n(.*?)```", text, re.DOTALL)
    assert found, "CONTRIBUTING.md has no block of floors"
    return [set(line.split()) for line in reversed(found[1].strip().splitlines())]


def test_floors_are_as_drawn() -> None:
    """Every file stands on one floor, and imports from lower ones."""
    floors = _drawn()
    floor = {
        f"pkg.{name}" if name != "__init__" else "pkg": k
        for k, names in enumerate(floors)
        for name in names
    }
    assert sum(map(len, floors)) == len(floor), "a file stands on two floors"
    assert floor.keys() == FILES.keys(), floor.keys() ^ FILES.keys()
    upwards = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in sorted(others)
        if floor[other] >= floor[name]
    ]
    assert not upwards, "; ".join(upwards)
