"""The NumPy ufuncs of the operations: real `numpy.ufunc` objects, so that NumPy's protocols work.

NumPy pickles a ufunc by its name in this module.  `add`, ... compute on the CPU; `add_cuda0`, ...
on a GPU, for operands with rules of their own (pandas, xarray, Dask, subclasses of ndarray).
`divide` and `power` have other names: pandas replaces ufuncs of these names by operators.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from . import core

_operations = {
    operation.ufunc.__name__: operation for operation in (*core.operations, core.true_divide)
}
globals().update({name: operation.ufunc for name, operation in _operations.items()})

__all__ = list(_operations)


def __getattr__(name: str) -> np.ufunc:
    found = re.fullmatch(r"(\w+)_cuda(\d{1,4}|all)", name)
    if found is None or found[1] not in _operations:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    ordinal = core.ALL_GPUS if found[2] == "all" else int(found[2])
    operation = _operations[found[1]]
    ufunc = core.make_ufunc(operation.index, operation.is_true_division, ordinal, name)
    kept: np.ufunc = globals().setdefault(name, ufunc)  # another thread may have been first
    return kept


def on_device(operation: Any, ordinal: int) -> np.ufunc:
    name = f"{operation.ufunc.__name__}_cuda{'all' if ordinal == core.ALL_GPUS else ordinal}"
    known: np.ufunc | None = globals().get(name)
    return known if known is not None else __getattr__(name)


@cache
def named(operation: Any, ordinal: int) -> np.ufunc:
    """Returns a ufunc that has the operation's name in warnings, for plain operands only."""
    if ordinal == -1:
        own: np.ufunc = operation.named_ufunc
        return own
    how = operation.index, operation.is_true_division
    return core.make_ufunc(*how, ordinal, operation.__name__)
