"""The library's operations, element types and reductions, from the lists in `core`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core

OPERATIONS = {operation.__name__: operation for operation in (*core.operations, core.true_divide)}

#: Further names of operations: NumPy's, the array API's and numexpr's.
ALIASES = {
    "abs": "absolute",
    **{f"a{name}": f"arc{name}" for name in "cos cosh sin sinh tan tan2 tanh".split()},
    **{f"bitwise_{name}": name for name in ("invert", "left_shift", "right_shift")},
    "bitwise_not": "invert",
    "conj": "conjugate",
    "degrees": "rad2deg",
    "mod": "remainder",
    "pow": "power",
    "radians": "deg2rad",
    "trunc_divide": "divide",
}

#: The operations whose result is bool: comparisons, and logic.
PREDICATES = frozenset(
    name
    for name, operation in OPERATIONS.items()
    if all(types[-1] == "?" for types in operation.types)
)

#: The operations that use only the truth of their two operands.
LOGIC = frozenset({"logical_and", "logical_or", "logical_xor"})

#: NumPy's characters of the element types; int64 and uint64 have two each: "q", "l"; "Q", "L".
ELEMENTS = frozenset(core.type_chars)

#: The element types by name.
DTYPES = {dtype.name: dtype for dtype in core.dtypes}

ELEMENTS_TEXT = core.supported_types

#: The ufuncs that compute each operation.  NumPy's divide is the operator /, ours truncates; its
#: degrees and radians are ufuncs of their own; it has no erf.
UFUNCS: dict[Any, str] = {
    **{getattr(np, name): name for name in OPERATIONS if hasattr(np, name)},
    **{operation.ufunc: name for name, operation in OPERATIONS.items()},
    np.degrees: "rad2deg",
    np.radians: "deg2rad",
}

# ---- Reductions ----

#: The library's reductions, with their numbers.
REDUCTIONS = {name: number for number, (name, _) in enumerate(core.reductions)}

SUM, PROD, MIN, MAX = (REDUCTIONS[name] for name in ("sum", "prod", "min", "max"))

#: The reductions of truths, with the numbers of the library's that they use.  "logical_xor" (is an
#: odd number of elements true?) has no function.
TRUTHS = {"any": MAX, "all": MIN, "count_nonzero": SUM, "logical_xor": SUM}

#: The operation that each reduction repeats.
REPEATED = {"mean": "add", **{name: operation.__name__ for name, operation in core.reductions}}

#: The reduction that repeats each operation.
REDUCTION_OF = {
    **{operation.__name__: name for name, operation in core.reductions},
    **{"logical_or": "any", "logical_and": "all", "logical_xor": "logical_xor"},
}


def dtype_of(name: str, dtype: Any) -> np.dtype[Any]:
    try:
        is_class = isinstance(dtype, type(np.dtype))
        result: np.dtype[Any] = np.dtype(dtype() if is_class else dtype)
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
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def reduction_type(
    name: str, dtype: np.dtype[Any], given: Any = None, out: Any = None
) -> np.dtype[Any]:
    """Returns the type in which the reduction `name` of a type computes, which is the result's.

    `given`, or the type of an output, `out`, may choose it.
    """
    if name in TRUTHS:
        return np.dtype(np.bool_ if name in ("any", "all") else np.int64)
    if given is not None:
        return check_dtype(name, dtype_of(name, given))
    if name == "mean" and dtype.kind in "biu":
        return np.dtype(np.float64)
    if name == "mean" and out is not None and dtype == np.float16:
        return np.dtype(np.float32)
    if out is not None:
        ufunc: Any = getattr(np, REPEATED[name])
        chosen = ufunc.resolve_dtypes((out, dtype, None), reduction=True, casting="unsafe")[1]
        return check_dtype(name, chosen)
    if name in ("sum", "prod") and dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return dtype
