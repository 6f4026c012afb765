"""Writes the docstrings of the operations: what each computes, with an example."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

import numpy as np

_ORDER = (
    "The result is bool; False where either is NaN.  Complex numbers are ordered by real, then by\n"
    "imaginary part."
)

_TRUTH = "The result is bool.  A number is true if it differs from 0; NaN is true."
_BITS = "Bit by bit, of integers; of bools it is the logical operation, and gives bool."

#: name: (what it computes, more about it, an example that runs as a doctest).
TEXTS: dict[str, tuple[str, str, str]] = {
    "add": (
        "a + b",
        "Integers wrap, as in NumPy; of bools it is logical_or.  Python ints are exact:\n"
        "OverflowError outside 64 bits.",
        ">>> pcd.add(1, 2)\n3\n>>> pcd.add(np.array([1.0, 2.0]), [10, 20])\narray([11., 22.])",
    ),
    "subtract": (
        "a - b",
        "Integers wrap, as in NumPy.  Not of bools alone, as in NumPy: use bitwise_xor.",
        ">>> pcd.subtract([5, 6], 1)\narray([4, 5])",
    ),
    "multiply": (
        "a * b",
        "Integers wrap, as in NumPy; of bools it is logical_and.",
        ">>> pcd.multiply(np.float32(3), np.ones(2, np.float32))\narray([3., 3.], dtype=float32)",
    ),
    "divide": (
        "a / b",
        "Integers divide as in C: truncated toward zero, and the result is an integer; an integer\n"
        "divided by zero gives 0, and NumPy's warning.  Python numbers raise ZeroDivisionError.",
        ">>> pcd.divide(999, 9)\n111\n>>> pcd.divide(np.array([7, -7]), 2)\narray([ 3, -3])",
    ),
    "floor_divide": (
        "a // b",
        "The quotient, rounded down.",
        ">>> pcd.floor_divide([7, -7], 2)\narray([ 3, -4])",
    ),
    "remainder": (
        "a % b",
        "The remainder of floor_divide: it has the sign of b.",
        ">>> pcd.remainder([7, -7], 3)\narray([1, 2])",
    ),
    "minimum": (
        "the smaller of a and b",
        "NaN where either is NaN.  Complex numbers are ordered by real, then by imaginary part.",
        ">>> pcd.minimum([1, 5], [3, 2])\narray([1, 2])",
    ),
    "maximum": (
        "the larger of a and b",
        "NaN where either is NaN.  Complex numbers are ordered by real, then by imaginary part.",
        ">>> pcd.maximum([1, 5], [3, 2])\narray([3, 5])",
    ),
    "negative": (
        "-a",
        "Integers wrap.  Not of bools: use invert.",
        ">>> pcd.negative([1, -2])\narray([-1,  2])",
    ),
    "absolute": (
        "|a|",
        "Of complex numbers the modulus, of the real type.",
        ">>> pcd.absolute([3 + 4j])\narray([5.])",
    ),
    "square": ("a * a", "Integers wrap.", ">>> pcd.square(12)\n144"),
    "sqrt": (
        "the square root of a",
        "Integers become floats.  NaN, and NumPy's warning, for negative elements; ValueError for\n"
        "a negative Python number.",
        ">>> pcd.sqrt([4.0, 9.0])\narray([2., 3.])\n>>> pcd.sqrt(2.25)\n1.5",
    ),
    "equal": (
        "a == b",
        "The result is bool.  NaN is equal to nothing.",
        ">>> pcd.equal(1, 1.0)\nTrue\n>>> pcd.equal([1, 2], 2)\narray([False,  True])",
    ),
    "not_equal": (
        "a != b",
        "The result is bool.  NaN is equal to nothing.",
        ">>> pcd.not_equal([1, 2], 2)\narray([ True, False])",
    ),
    "less": ("a < b", _ORDER, ">>> pcd.less([1, 2, 3], 2)\narray([ True, False, False])"),
    "less_equal": (
        "a <= b",
        _ORDER,
        ">>> pcd.less_equal([1, 2, 3], 2)\narray([ True,  True, False])",
    ),
    "greater": ("a > b", _ORDER, ">>> pcd.greater([1, 2, 3], 2)\narray([False, False,  True])"),
    "greater_equal": (
        "a >= b",
        _ORDER,
        ">>> pcd.greater_equal([1, 2, 3], 2)\narray([False,  True,  True])",
    ),
    "logical_and": (
        "a and b",
        _TRUTH,
        ">>> pcd.logical_and([0, 1, 2], [1, 1, 0])\narray([False,  True, False])",
    ),
    "logical_or": ("a or b", _TRUTH, ">>> pcd.logical_or([0, 1], 0)\narray([False,  True])"),
    "logical_xor": (
        "a or b, but not both",
        _TRUTH,
        ">>> pcd.logical_xor([0, 1], 1)\narray([ True, False])",
    ),
    "logical_not": ("not a", _TRUTH, ">>> pcd.logical_not([0, 0.5])\narray([ True, False])"),
    "bitwise_and": (
        "a & b",
        _BITS,
        ">>> pcd.bitwise_and(6, 3)\n2\n>>> pcd.bitwise_and([True, False], True)\n"
        "array([ True, False])",
    ),
    "bitwise_or": ("a | b", _BITS, ">>> pcd.bitwise_or([1, 2], 4)\narray([5, 6])"),
    "bitwise_xor": ("a ^ b", _BITS, ">>> pcd.bitwise_xor([1, 2], 3)\narray([2, 1])"),
    "invert": (
        "~a",
        _BITS,
        ">>> pcd.invert([0, 1])\narray([-1, -2])\n>>> pcd.invert([True])\narray([False])",
    ),
    "left_shift": (
        "a << b",
        "Of integers.  A count that is negative or not below the number of bits gives 0.  Python\n"
        "ints are exact: OverflowError outside 64 bits, ValueError for a negative count.",
        ">>> pcd.left_shift([1, 3], 4)\narray([16, 48])",
    ),
    "right_shift": (
        "a >> b",
        "Of integers, rounded down.  A count that is negative or not below the number of bits\n"
        "gives 0, or -1 where a is negative.  Python ints: ValueError for a negative count.",
        ">>> pcd.right_shift([16, -1], 3)\narray([ 2, -1])",
    ),
}

_TEMPLATE = """{name}({inputs}, /, out=None, *, where=True, dtype=None, casting='same_kind',
order='K', subok=True, device=None)

{formula}, element by element.

{more}

Parameters
----------
{inputs} : number or array_like
    Broadcast against each other.  Python numbers alone give a Python number or bool.
out : ndarray, optional
    Where the result goes; of the shape of the result.
where, dtype, casting, order
    As for NumPy's ufuncs.
device : "cpu", "cuda" or "cuda:N", optional
    Where to compute; the results are the same.  Otherwise the `pkg.default_device`, else the CPU.

Returns
-------
A Python number, a NumPy scalar or an ndarray of the broadcast shape, of the type that NumPy gives;
pandas, xarray and Dask objects come back as their own kind.

Raises
------
TypeError
    The operation is not defined for these types; supported are {types}.
ValueError
    The shapes do not broadcast, or `device` is unknown.
CudaError
    The GPU is not there, or failed.

Examples
--------
>>> import numpy as np
>>> import pkg as pcd
{example}
"""


def document(operation: Any) -> str:
    """Returns the docstring of an operation; raises KeyError if this file has no text for it."""
    formula, more, example = TEXTS[operation.__name__]
    types = [np.dtype(kinds[0]).name for kinds in operation.types]
    return _TEMPLATE.format(
        name=operation.__name__,
        inputs="a, b" if operation.nin == 2 else "a",
        formula=formula[0].upper() + formula[1:] if formula[1:2].isalpha() else formula,
        more=more,
        types=", ".join(types),
        example=example,
    )


def _signature(nin: int) -> Signature:
    options = {
        "where": True,
        "dtype": None,
        "casting": "same_kind",
        "order": "K",
        "subok": True,
        "device": None,
    }
    return Signature(
        [Parameter(name, Parameter.POSITIONAL_ONLY) for name in "ab"[:nin]]
        + [Parameter("out", Parameter.POSITIONAL_OR_KEYWORD, default=None)]
        + [Parameter(name, Parameter.KEYWORD_ONLY, default=x) for name, x in options.items()]
    )


#: How operations of one and of two inputs are called.
SIGNATURES = {nin: _signature(nin) for nin in (1, 2)}
