"""The C files of the extension stand on floors: each includes, and so calls, only lower ones.

`pkg/core.c` lists them.  An extension calls only declared functions, so the headers tell.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "pkg"

# The first comment of core.c names itself, and the others from the lowest floor to the highest.
_CORE, *FLOORS = re.findall(r"(\w+)\.c\b", (FOLDER / "core.c").read_text().partition("*/")[0])
FLOORS.append(_CORE)


def code(path: Path) -> str:
    """The text of a file without its comments."""
    return re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)


def declared(name: str) -> set[str]:
    """The functions and variables that the header of a file declares."""
    text = re.sub(r"\{[^{}]*\}", " ", code(FOLDER / f"{name}.h"))
    text = re.sub(r"\{[^{}]*\}", " ", text)
    functions = re.findall(
        r"^(?!static|typedef|#)\w[\w \*]*?\b(\w+)\([^;{}]*\);", text, re.MULTILINE
    )
    variables = re.findall(
        r"^extern [\w ]*?\**(\w+(?:\[\])?(?:, \w+(?:\[\])?)*);", text, re.MULTILINE
    )
    listed = {name.removesuffix("[]") for names in variables for name in names.split(", ")}
    return {*functions, *listed}


def test_every_file_has_a_floor() -> None:
    assert len(FLOORS) == len(set(FLOORS))
    assert set(FLOORS) == {path.stem for path in FOLDER.glob("*.c")}
    assert {path.stem for path in FOLDER.glob("*.h")} <= set(FLOORS)


@pytest.mark.parametrize("name", FLOORS)
def test_a_file_includes_only_what_is_below(name: str) -> None:
    for path in FOLDER.glob(f"{name}.[ch]"):
        included = re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.MULTILINE)
        above = [other for other in included if FLOORS.index(other) > FLOORS.index(name)]
        assert not above, f"{path.name} includes what is above it: {above}"


@pytest.mark.parametrize("name", FLOORS[:-1])
def test_a_header_declares_only_what_its_file_defines(name: str) -> None:
    """Otherwise a file could call upwards without an include."""
    assert declared(name), f"{name}.h declares nothing: the pattern here is wrong"
    text = code(FOLDER / f"{name}.c")
    missing = [
        found
        for found in sorted(declared(name))
        if not re.search(
            rf"^(?!static|extern)\w[^;={{}}]*\b{found}\b[^;]*[={{;]", text, re.MULTILINE
        )
    ]
    assert not missing, f"{name}.h declares what {name}.c does not define: {missing}"


@pytest.mark.parametrize("name", FLOORS)
def test_a_source_declares_nothing_of_another_file(name: str) -> None:
    text = code(FOLDER / f"{name}.c")
    assert not re.findall(r"^extern\b.*", text, re.MULTILINE)
    # A function that is not static, declared but not defined here.
    declarations = re.findall(
        r"^(?!static|typedef|extern|return)\w[\w \*]*?\b(\w+)\([^;{}()]*\);", text, re.MULTILINE
    )
    assert not declarations
