"""The element-wise operations by name.  ``scripts/make_stubs.py`` writes the stub of this file."""

from ._table import OPERATIONS

globals().update(OPERATIONS)
abs = OPERATIONS["absolute"]

__all__ = [*OPERATIONS, "abs"]
