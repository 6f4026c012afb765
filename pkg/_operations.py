"""The element-wise operations by name.  ``scripts/make_stubs.py`` writes the stub of this file."""

from ._table import OPERATIONS

globals().update(OPERATIONS)
abs = OPERATIONS["absolute"]  # noqa: A001  the array API standard's name

__all__ = [*OPERATIONS, "abs"]
