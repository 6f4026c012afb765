"""The element-wise operations by name.  ``scripts/make_stubs.py`` writes the stub of this file."""

from ._table import ALIASES, OPERATIONS

globals().update(OPERATIONS)
globals().update({alias: OPERATIONS[name] for alias, name in ALIASES.items()})

__all__ = [*OPERATIONS, *ALIASES]
