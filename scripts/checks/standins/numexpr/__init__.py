"""Stands for numexpr while its own tests run: `pkg.numexpr`, and numexpr's tests.

NUMEXPR_FOLDER names the folder of the installed numexpr.
"""

import os
from typing import Any

from pkg.numexpr import *  # noqa: F403

__path__.append(os.environ["NUMEXPR_FOLDER"])  # noqa: F405  every package has it


class _Missing:
    """Stands for what `pkg.numexpr` lacks; tests that use it fail."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError("pkg.numexpr has no E")


E = _Missing()


def disassemble(*args: Any) -> Any:
    raise AssertionError("pkg.numexpr has no programs of numexpr's")


def print_versions() -> None:
    """Called when numexpr's tests begin."""
