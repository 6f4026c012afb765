"""The documentation is built without a warning, lacks no public name, and needs no network."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import sys
import zlib
from pathlib import Path

import pytest
from commands import ROOT, run

import pkg as pcd
import pkg.numexpr

HEADER = ROOT / "libcalc" / "include" / "mylib.h"

missing = [
    name
    for name in "sphinx furo myst_nb numpydoc ipykernel matplotlib xarray".split()
    if importlib.util.find_spec(name) is None
]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("documentation")
    run(
        sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going",
        "--jobs", "auto", "-d", folder / "doctrees", ROOT / "docs", folder / "html",
        PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path]),
    )  # fmt: skip
    return folder / "html"


@pytest.fixture(scope="module")
def documented(site: Path) -> set[str]:
    """The names that have an entry in a reference, as ``py:pkg.add`` and ``c:mylib_map``."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(packed).decode().splitlines()
    return {f"{kind.partition(':')[0]}:{name}" for name, kind, *_ in map(str.split, lines)}


def test_every_public_name_has_a_reference(documented: set[str]) -> None:
    names = {f"py:pkg.{name}" for name in pcd.__all__}
    names |= {f"py:pkg.numexpr.{name}" for name in pcd.numexpr.__all__}
    assert names - documented == set()


def test_every_declaration_of_the_header_has_a_reference(documented: set[str]) -> None:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    names = set(re.findall(r"\bmylib_\w+|\bMYLIB_\w+", text)) - {"MYLIB_H", "MYLIB_API"}
    assert len(names) > 150 and {f"c:{name}" for name in names} - documented == set()


def test_every_comment_of_the_header_is_shown(site: Path) -> None:
    """A list or a quote that is parsed wrongly would lose words."""
    page = re.sub(r"<[^>]+>", " ", (site / "reference" / "c.html").read_text())
    shown = " ".join(re.findall(r"\w+", html.unescape(page)))
    for comment in re.findall(r"/\*(.*?)\*/", HEADER.read_text(), re.DOTALL):
        if not comment.lstrip().startswith("MYLIB_H"):
            words = " ".join(re.findall(r"\w+", comment))
            assert words in shown, comment


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^>]*>")
    pages = sorted(site.rglob("*.html"))
    found = [f"{page}: {tag[0]}" for page in pages for tag in loaded.finditer(page.read_text())]
    assert len(pages) > 20 and not found
