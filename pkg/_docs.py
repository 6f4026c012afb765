"""Writes the docstrings of the operations: formula, remarks and an example."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

import numpy as np

from . import core

_ORDER = (
    "The result is bool; False where either is NaN.  Complex numbers are ordered by real, then by\n"
    "imaginary part."
)

_TRUTH = "The result is bool.  A number is true if it differs from 0; NaN is true."
_NAN_WINS = "NaN where either is NaN.  Complex numbers are ordered by real, then by imaginary part."
_NAN_LOSES = "The other one where one is NaN."
_INTEGERS_STAY = "Integers are returned unchanged."
_BITS = "Bit by bit, for integers; on bools it is the logical operation, and the result is bool."

#: name: (formula, remarks, examples that run as doctests: arguments -> result).
TEXTS: dict[str, tuple[str, str, str]] = {
    "add": (
        "a + b",
        "Integers wrap, as in NumPy; on bools it is logical_or.  Python ints are exact:\n"
        "OverflowError outside 64 bits.",
        "1, 2 -> 3\nnp.array([1.0, 2.0]), [10, 20] -> array([11., 22.])",
    ),
    "subtract": (
        "a - b",
        "Integers wrap, as in NumPy.  Not defined for two bools, as in NumPy: use bitwise_xor.",
        "[5, 6], 1 -> array([4, 5])",
    ),
    "multiply": (
        "a * b",
        "Integers wrap, as in NumPy; on bools it is logical_and.",
        "np.float32(3), np.ones(2, np.float32) -> array([3., 3.], dtype=float32)",
    ),
    "divide": (
        "a / b",
        "Integers divide as in C: truncated toward zero, and the result is an integer; an integer\n"
        "divided by zero gives 0, with NumPy's warning.  Python numbers raise ZeroDivisionError.",
        "999, 9 -> 111\nnp.array([7, -7]), 2 -> array([ 3, -3])",
    ),
    "true_divide": (
        "a / b",
        "The quotients of integers and bools are float64, as those of NumPy's divide; `divide`\n"
        "truncates them.",
        "[7, -7], 2 -> array([ 3.5, -3.5])\n1, 2 -> 0.5",
    ),
    "floor_divide": ("a // b", "The quotient, rounded down.", "[7, -7], 2 -> array([ 3, -4])"),
    "remainder": (
        "a % b",
        "The remainder of floor_divide: it has the sign of b.",
        "[7, -7], 3 -> array([1, 2])",
    ),
    "minimum": ("the smaller of a and b", _NAN_WINS, "[1, 5], [3, 2] -> array([1, 2])"),
    "maximum": ("the larger of a and b", _NAN_WINS, "[1, 5], [3, 2] -> array([3, 5])"),
    "negative": (
        "-a",
        "Integers wrap.  Not defined for bools: use invert.",
        "[1, -2] -> array([-1,  2])",
    ),
    "absolute": (
        "the absolute value of a",
        "For complex numbers it is the modulus, of the real type.",
        "[3 + 4j] -> array([5.])",
    ),
    "square": ("a * a", "Integers wrap.", "12 -> 144"),
    "sqrt": (
        "the square root of a",
        "Integers become floats.  Negative elements give NaN, with NumPy's warning; a negative\n"
        "Python number raises ValueError.",
        "[4.0, 9.0] -> array([2., 3.])\n2.25 -> 1.5",
    ),
    "equal": (
        "a == b",
        "The result is bool.  NaN is equal to nothing.",
        "1, 1.0 -> True\n[1, 2], 2 -> array([False,  True])",
    ),
    "not_equal": (
        "a != b",
        "The result is bool.  NaN is equal to nothing.",
        "[1, 2], 2 -> array([ True, False])",
    ),
    "less": ("a < b", _ORDER, "[1, 2, 3], 2 -> array([ True, False, False])"),
    "less_equal": ("a <= b", _ORDER, "[1, 2, 3], 2 -> array([ True,  True, False])"),
    "greater": ("a > b", _ORDER, "[1, 2, 3], 2 -> array([False, False,  True])"),
    "greater_equal": ("a >= b", _ORDER, "[1, 2, 3], 2 -> array([False,  True,  True])"),
    "logical_and": ("a and b", _TRUTH, "[0, 1, 2], [1, 1, 0] -> array([False,  True, False])"),
    "logical_or": ("a or b", _TRUTH, "[0, 1], 0 -> array([False,  True])"),
    "logical_xor": ("a or b, but not both", _TRUTH, "[0, 1], 1 -> array([ True, False])"),
    "logical_not": ("not a", _TRUTH, "[0, 0.5] -> array([ True, False])"),
    "bitwise_and": ("a & b", _BITS, "6, 3 -> 2\n[True, False], True -> array([ True, False])"),
    "bitwise_or": ("a | b", _BITS, "[1, 2], 4 -> array([5, 6])"),
    "bitwise_xor": ("a ^ b", _BITS, "[1, 2], 3 -> array([2, 1])"),
    "invert": ("~a", _BITS, "[0, 1] -> array([-1, -2])\n[True] -> array([False])"),
    "left_shift": (
        "a << b",
        "For integers.  A count that is negative or not below the number of bits gives 0.  Python\n"
        "ints are exact: OverflowError outside 64 bits, ValueError for a negative count.",
        "[1, 3], 4 -> array([16, 48])",
    ),
    "right_shift": (
        "a >> b",
        "For integers, rounded down.  A count that is negative or not below the number of bits\n"
        "gives 0, or -1 if a is negative.  Python ints: ValueError for a negative count.",
        "[16, -1], 3 -> array([ 2, -1])",
    ),
    "rint": (
        "a, rounded to the nearest integer",
        "Halves go to the even neighbour.  The result is a float.",
        "[0.5, 1.5, -2.6] -> array([ 0.,  2., -3.])",
    ),
    "floor": ("a, rounded down", _INTEGERS_STAY, "[1.5, -1.5] -> array([ 1., -2.])"),
    "ceil": ("a, rounded up", _INTEGERS_STAY, "[1.5, -1.5] -> array([ 2., -1.])"),
    "trunc": ("a, rounded toward zero", _INTEGERS_STAY, "[1.5, -1.5] -> array([ 1., -1.])"),
    "sign": (
        "-1, 0 or 1: the sign of a",
        "NaN for NaN.  For a complex number z it is z / abs(z), and 0 for 0.",
        "[-2.5, 0.0, 7.0] -> array([-1.,  0.,  1.])",
    ),
    "signbit": (
        "true where the sign bit of a is set",
        "The result is bool; it is True for -0.0.",
        "[1.0, -0.0] -> array([False,  True])",
    ),
    "copysign": (
        "the magnitude of a with the sign of b",
        "Integers become floats.",
        "[1.0, 2.0], -0.0 -> array([-1., -2.])",
    ),
    "nextafter": (
        "the next float after a in the direction of b",
        "b if they are equal.  Integers become floats.",
        "1.0, 2.0 -> 1.0000000000000002",
    ),
    "reciprocal": (
        "1 / a",
        "For integers an integer, truncated; 0 gives 0, with NumPy's warning.  A Python number 0\n"
        "raises ZeroDivisionError.",
        "[2.0, -4.0] -> array([ 0.5 , -0.25])",
    ),
    "positive": ("+a", "A copy.", "[1, -2] -> array([ 1, -2])"),
    "fmod": (
        "the remainder of a / b, truncated",
        "The remainder of divide: it has the sign of a.",
        "[7, -7], 3 -> array([ 1, -1])",
    ),
    "fmin": ("the smaller of a and b", _NAN_LOSES, "[1.0, float('nan')], 2.0 -> array([1., 2.])"),
    "fmax": ("the larger of a and b", _NAN_LOSES, "[1.0, float('nan')], 2.0 -> array([2., 2.])"),
    "isnan": (
        "true where a is NaN",
        "The result is bool.  A complex number is NaN if a part is.",
        "[1.0, float('nan')] -> array([False,  True])",
    ),
    "isinf": (
        "true where a is infinite",
        "The result is bool.  A complex number is infinite if a part is.",
        "[1.0, float('-inf')] -> array([False,  True])",
    ),
    "isfinite": (
        "true where a is neither infinite nor NaN",
        "The result is bool.",
        "[1.0, float('inf')] -> array([ True, False])",
    ),
    "conjugate": (
        "the complex conjugate of a",
        "Real numbers are returned unchanged.",
        "[1 + 2j] -> array([1.-2.j])",
    ),
    "real": ("the real part of a", "A new array, unlike NumPy's.", "[1 + 2j] -> array([1.])"),
    "imag": (
        "the imaginary part of a",
        "A new array; 0 for real numbers.",
        "[1 + 2j] -> array([2.])",
    ),
}

#: Remarks on all elementary functions.
_ELEMENTARY = (
    "Integers become floats.  float16 and float32 are correctly rounded, float64 is within\n"
    "{bound} units in the last place; the bits are the same on every processor and GPU.{complex}"
)
_COMPLEX_RESULTS = (
    "\nEach part of a complex result is within 1 unit in the last place; special values are those\n"
    "of C's Annex G."
)

#: Formula, bound and examples of the elementary functions.
_FUNCTIONS = {
    "sin": ("the sine of a, in radians", "1", "0.5 -> 0.479425538604203"),
    "cos": ("the cosine of a, in radians", "1", "0.5 -> 0.8775825618903728"),
    "tan": ("the tangent of a, in radians", "1", "0.5 -> 0.5463024898437905"),
    "exp": ("e to the power a", "0.55", "1.0 -> 2.718281828459045"),
    "exp2": ("2 to the power a", "0.55", "3.0 -> 8.0"),
    "arcsin": ("the angle, in radians, whose sine is a", "1", "1.0 -> 1.5707963267948966"),
    "arccos": ("the angle, in radians, whose cosine is a", "1", "1.0 -> 0.0"),
    "arctan": ("the angle, in radians, whose tangent is a", "1", "1.0 -> 0.7853981633974483"),
    "arctan2": (
        "the angle, in radians, of the point (b, a)",
        "1",
        "1.0, -1.0 -> 2.356194490192345",
    ),
    "cbrt": ("the cube root of a", "0.55", "-8.0 -> -2.0"),
    "hypot": ("the root of a * a + b * b", "1", "3.0, 4.0 -> 5.0"),
    "sinh": ("the hyperbolic sine of a", "1", "0.5 -> 0.5210953054937474"),
    "cosh": ("the hyperbolic cosine of a", "1", "0.0 -> 1.0"),
    "tanh": ("the hyperbolic tangent of a", "1", "0.5 -> 0.46211715726000974"),
    "arcsinh": ("the number whose hyperbolic sine is a", "1", "0.5 -> 0.48121182505960347"),
    "arccosh": ("the number, not negative, whose hyperbolic cosine is a", "1", "1.0 -> 0.0"),
    "arctanh": ("the number whose hyperbolic tangent is a", "1", "0.5 -> 0.5493061443340549"),
    "log": ("the natural logarithm of a", "0.55", "2.0 -> 0.6931471805599453"),
    "log2": ("the logarithm of a to base 2", "0.55", "8.0 -> 3.0"),
    "log10": ("the logarithm of a to base 10", "0.55", "1000.0 -> 3.0"),
    "log1p": ("log(1 + a), exact near 0", "0.55", "1e-20 -> 1e-20"),
    "expm1": ("exp(a) - 1, exact near 0", "0.55", "1e-20 -> 1e-20"),
    "erf": (
        "the error function of a: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to a",
        "1",
        "0.5 -> 0.5204998778130465",
    ),
    "logaddexp": (
        "log(exp(a) + exp(b)), without overflow",
        "0.75",
        "1000.0, 1000.0 -> 1000.6931471805599",
    ),
}

#: Those of complex numbers; the real part of expm1 cancels: its bound is in units of the modulus.
COMPLEX_ELEMENTARY = tuple(
    operation.__name__
    for operation in core.operations
    if operation.__name__ in _FUNCTIONS and "D->D" in operation.types
)


def _about(name: str, bound: str) -> str:
    more = _COMPLEX_RESULTS if name in COMPLEX_ELEMENTARY else ""
    return _ELEMENTARY.format(bound=bound, complex=more)


TEXTS |= {
    "power": (
        "a to the power b",
        "Integers wrap; a negative exponent of integers raises ValueError before anything is\n"
        "written (`at`, `reduce` and `accumulate` write what is before it).  float16 and float32\n"
        "are correctly rounded, float64 is within 0.67 units in the last place, and with b = 2 it\n"
        "is a * a; the bits are the same on every processor and GPU.  Each part of a complex\n"
        "result is within 1 unit in the last place of the modulus, up to abs(b * log(a)) = 2**24;\n"
        "special values are NumPy's.",
        "2.0, 0.5 -> 1.4142135623730951\n3, 4 -> 81",
    ),
    "deg2rad": ("a degrees in radians", "Integers become floats.", "180.0 -> 3.141592653589793"),
    "rad2deg": ("a radians in degrees", "Integers become floats.", "0.5 -> 28.64788975654116"),
    **{
        name: (formula, _about(name, bound), examples)
        for name, (formula, bound, examples) in _FUNCTIONS.items()
    },
}

#: The elementary functions: their float64 results are approximations with a bound.
ELEMENTARY = frozenset((*_FUNCTIONS, "deg2rad", "rad2deg", "power"))

_TEMPLATE = """{name}({inputs}, /, out=None, *, where=True, dtype=None, casting='same_kind',
order='K', subok=True, device=None)

{formula}, element by element.

{more}

Parameters
----------
{inputs} : number, array_like or Array
    They broadcast against each other.  The GPU of a `pkg.Array`, or of another library's array,
    computes it; the other operands must be numbers or arrays on that GPU.
out : ndarray or Array, optional
    The array for the result; it must have the result's shape.
where, dtype, casting, order
    As for NumPy's ufuncs.
device : "cpu", "cuda", "cuda:N" or "cuda:all", optional
    The device that computes host arrays; "cuda:all" is all GPUs at once.  The results are the same.
    The default is `pkg.default_device`, else the CPU.

Returns
-------
number, ndarray or Array
    It has the broadcast shape, and NumPy's type.  If all operands are Python numbers, it is a
    Python number or bool; arrays on a GPU give an Array; pandas, xarray and Dask objects their own
    kind.

Raises
------
TypeError
    The operation is not defined for these types; supported are {types}.
ValueError
    The shapes do not broadcast, or `device` is unknown.
CudaError
    The GPU is missing, or failed.

Examples
--------
>>> import numpy as np
>>> import pkg as pcd
{examples}
"""


#: Names of types by their characters; NumPy is slow to find one.
_TYPE_NAMES = {char: np.dtype(char).name for char in "?bBhHiIlLqQefdFD"}


def document(operation: Any) -> str:
    """Returns the docstring of an operation; raises KeyError if this file has no text for it."""
    name = operation.__name__
    formula, more, examples = TEXTS[name]
    pairs = (line.split(" -> ") for line in examples.splitlines())
    # True division converts integers first; its types are those of `divide`.
    types = dict.fromkeys(_TYPE_NAMES[kinds[0]] for kinds in core.operations[operation.index].types)
    return _TEMPLATE.format(
        name=name,
        inputs="a, b" if operation.nin == 2 else "a",
        formula=formula[0].upper() + formula[1:] if formula[1:2].isalpha() else formula,
        more=more,
        types=", ".join(types),
        examples="\n".join(f">>> pcd.{name}({args})\n{result}" for args, result in pairs),
    )


#: The further arguments of operations, with values that mean the same as leaving them out.
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "out": (None,),
    "where": (True, np.True_),
    "dtype": (None,),
    "casting": ("same_kind",),
    "order": ("K", None),
    "subok": (True,),
    "device": (None,),
}


def _signature(nin: int) -> Signature:
    kinds = {"out": Parameter.POSITIONAL_OR_KEYWORD}
    return Signature(
        [Parameter(name, Parameter.POSITIONAL_ONLY) for name in "ab"[:nin]]
        + [
            Parameter(name, kinds.get(name, Parameter.KEYWORD_ONLY), default=values[0])
            for name, values in DEFAULTS.items()
        ]
    )


#: The docstrings of the methods that operations get from their ufuncs.
_METHODS = (
    """reduce(array, /, axis=0, dtype=None, out=None, keepdims=False, initial=..., where=True)

Combines the elements along one axis, several, or all (None) by the operation.

``add.reduce`` sums them, floats in an order that depends on their number only.  `pkg.sum` and the
other reductions do the same with all threads, and take `device`.  An Array is reduced on its GPU if
the package has that reduction; all else is computed on the CPU.
""",
    """accumulate(array, /, axis=0, dtype=None, out=None)

Combines the elements along an axis from left to right, and returns all intermediate results.

``add.accumulate`` gives the running sums.  Computes on the CPU.
""",
    """reduceat(array, /, indices, axis=0, dtype=None, out=None)

Reduces slices of an axis: each begins at one of the indices and ends before the next.

Computes on the CPU.
""",
    """outer(a, b, /, **keywords)

Computes the operation for each pair of an element of `a` and an element of `b`.

The result has the shape ``a.shape + b.shape``.  Computes on the CPU.
""",
    """at(a, indices, b=None, /)

Computes the operation in place for the elements of `a` at some indices, one after the other.

An index that occurs twice counts twice.  Computes on the CPU.
""",
)

METHODS = {
    name: f"{text}\nThe arguments are those of `numpy.ufunc.{name}`.\n"
    for text in _METHODS
    for name in [text.partition("(")[0]]
}


#: The signatures of operations of one and of two inputs.
SIGNATURES = {nin: _signature(nin) for nin in (1, 2)}
