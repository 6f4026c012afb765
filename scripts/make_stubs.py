"""Writes ``pkg/_operations.pyi``: the names of the operations, for type checkers.

The operations are rows of the library's table; run this in a built tree after you add one.
"""

from __future__ import annotations

from pathlib import Path

from pkg._table import ALIASES, OPERATIONS

STUB = Path(__file__).resolve().parents[1] / "pkg" / "_operations.pyi"


def stub() -> str:
    """Returns the text of the stub."""
    names = [*OPERATIONS, *ALIASES]
    lines = [
        '"""Written by scripts/make_stubs.py: do not edit."""',
        "",
        "from typing import Final",
        "",
        "from .core import Operation",
        "",
        *(f"{name}: Final[Operation]" for name in names),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub())
