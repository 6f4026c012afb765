"""The operations, element types and reductions that the library has, as `core` lists them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core

OPERATIONS = {operation.__name__: operation for operation in core.operations}

#: The operations whose result is bool.
COMPARISONS = frozenset(
    name
    for name, operation in OPERATIONS.items()
    if all(types.endswith("?") for types in operation.types)
)

_LOOPS = {types[0] for operation in core.operations for types in operation.types}

#: The element types, as NumPy's characters: "q" and "Q" are int64 and uint64, as "l" and "L" are.
ELEMENTS = frozenset((*_LOOPS, "q", "Q"))

#: The element types by name, in the order in which the library counts them.
DTYPES = {
    np.dtype(char).name: np.dtype(char) for char in sorted(_LOOPS, key="?bhilBHILefdFD".index)
}

ELEMENTS_TEXT = "bool, int8 to int64, uint8 to uint64, float16 to float64, complex64 and complex128"

#: The ufuncs that compute each operation.  NumPy's divide is the operator /, ours truncates.
UFUNCS: dict[Any, str] = {
    **{getattr(np, name): name for name in OPERATIONS},
    **{operation.ufunc: name for name, operation in OPERATIONS.items()},
    np.divide: "true_divide",
}

# ---- Reductions ----------------------------------------------------------------------------------

SUM, PROD, MIN, MAX = range(4)

#: The reductions that the library has, by their numbers there.
REDUCTIONS = {"sum": SUM, "prod": PROD, "min": MIN, "max": MAX}

#: The operation that each reduction repeats.
REPEATED = {"sum": "add", "mean": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}

#: The reduction that repeats each operation.
REDUCTION_OF = {operation: name for name, operation in REPEATED.items() if name != "mean"}


def reduction_type(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the element type that the reduction `name` gives for elements of a type."""
    if name in ("sum", "prod") and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return np.dtype(np.float64) if name == "mean" and dtype.kind in "biu" else dtype


def dtype_of(name: str, dtype: Any) -> np.dtype[Any]:
    """Returns the argument `dtype` of a function as NumPy's type."""
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"{name}(): dtype must be an element type, such as 'float32' or int, not {dtype!r}"
        ) from None
    return result


def check_dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns a type in native byte order.  Raises TypeError if the library does not have it."""
    if dtype.char not in ELEMENTS:
        raise TypeError(
            f"{name}(): elements of {dtype} are not supported; supported are {ELEMENTS_TEXT}"
        )
    result: np.dtype[Any] = dtype.newbyteorder("=")
    return result
