"""Reduces arrays of any kind, and `Values`, in an order that depends on their length alone.

``mylib.h`` (`mylib_reduce`) describes the order.  The bits are the same on every device, for every
layout, and with any number of threads.

`core` computes the usual calls on Arrays and plain NumPy arrays.  It leaves all others to
`reduce_slowly`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from . import core
from ._convert import conversion, convert, warn_of_complex
from ._mode import in_default_mode
from ._operands import (
    NUMBERS,
    Shape,
    call_numpy,
    device_name,
    find_place,
    gpu_of,
    has_own_rules,
    integer,
    plain_array,
    reduced_axes,
)
from ._results import check_out, finish, open_out, store
from ._table import (
    MAX,
    MIN,
    OPERATIONS,
    PROD,
    REDUCTIONS,
    REPEATED,
    SUM,
    check_dtype,
    reduction_type,
)
from ._warnings import report_flags, warn

#: float32 holds all counts up to this one.
_EXACT_IN_FLOAT32 = 1 << 24


class Values:
    """Elements that are not in memory: `reduce_into` computes and reduces them in one pass.

    It has the attributes of an array that this file uses.  `_ordinal` is -1 for the CPU.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], ordinal: int) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.dtype = dtype
        self._ordinal = ordinal
        self.device = device_name(ordinal)

    def reduce_into(self, kind: int, dtype: Any, ordinal: int, out: Any) -> None:
        """Does what `core.reduce` does, and reports the floating-point flags."""
        raise NotImplementedError


def _new(x: Any, shape: Any, dtype: Any) -> Any:
    ordinal = gpu_of(x)
    if ordinal >= 0:
        return core.empty(shape, dtype, ordinal, False)
    return np.empty(shape, dtype)


def _reduce(
    name: str, x: Any, axes: Shape, kept: Shape, dtype: Any, result_dtype: Any, ordinal: int
) -> Any:
    """Returns `x`, converted to `dtype`, reduced to a new array of the shape `kept`."""
    kind = REDUCTIONS[name]
    if kind in (MIN, MAX) and builtins.any(x.shape[d] == 0 for d in axes):
        raise ValueError(
            f"{name}: no elements along axes {axes} of the shape {x.shape}, and no identity to "
            "start from"
        )
    if dtype == np.bool_:  # True is 1, and any number but 0 is True
        carrier = np.dtype(np.int64 if kind in (SUM, PROD) else np.uint8)
        x = x if x.dtype == np.bool_ else x.astype(np.bool_)
        return _reduce(name, x, axes, kept, carrier, carrier, ordinal).astype(np.bool_)
    warn_of_complex(x.dtype, dtype)
    result = _new(x, kept, result_dtype)
    if isinstance(x, Values):
        x.reduce_into(kind, dtype, ordinal, result)
    elif (flags := core.reduce(kind, dtype, ordinal, result, x)) and gpu_of(x) < 0:
        report_flags(REPEATED[name], flags)
    return result


#: Reductions of truths: for each, the reduction of 0 and 1 that computes it, its type, and its
#: result without elements.  "logical_xor" (is an odd number of elements true?) has no function.
_TRUTHS = {
    "any": (MAX, np.dtype(np.uint8), 0),
    "all": (MIN, np.dtype(np.uint8), 1),
    "count_nonzero": (SUM, np.dtype(np.int64), 0),
    "logical_xor": (SUM, np.dtype(np.int64), 0),
}

_BOOL = np.dtype(np.bool_)


def _reduce_truths(name: str, x: Any, axes: Shape, kept: Shape, ordinal: int) -> Any:
    """Returns one of `_TRUTHS` of `x` in a new array; `Values` must be bools."""
    kind, carrier, empty = _TRUTHS[name]
    result = _new(x, kept, carrier)
    if builtins.any(x.shape[d] == 0 for d in axes):
        store(result, np.full((), empty, carrier))
    elif isinstance(x, Values):
        x.reduce_into(kind, carrier, ordinal, result)
    elif x.dtype == _BOOL:
        core.reduce(kind, carrier, ordinal, result, x)
    else:
        conversion(x.dtype, _BOOL).reduce(kind, carrier, ordinal, result, (x,))
    if name == "logical_xor":
        result = result & 1
    return result if name == "count_nonzero" else result.astype(_BOOL)


def _convert(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if gpu_of(x) >= 0 else convert(np.asarray(x), dtype)


def _divide(total: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """Returns total / count in a type; divides complex numbers in complex128, as NumPy does."""
    if count == 0:
        warn("mean of an empty array", RuntimeWarning)
    with np.errstate(all="ignore"):
        if dtype.kind == "f" and count <= _EXACT_IN_FLOAT32:
            return total / dtype.type(count)
        return _convert(total / np.float64(count), dtype)


@in_default_mode
def reduce_slowly(
    name: str,
    x: Any,
    axis: Any,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    device: str | None = None,
) -> Any:
    """Returns the reduction `name` of `x`: an array of any kind, or `Values`."""
    x = core.as_array(x)
    if has_own_rules(x):
        given = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims or None}
        ordinal = core.parse_device(device)
        return call_numpy(getattr(np, name), x, **given, operands=[x], ordinal=ordinal)
    if not isinstance(keepdims, np.bool_):
        keepdims = bool(integer(name, "keepdims", keepdims))
    ordinal = find_place(name, [x], device)
    x = x if isinstance(x, Values) else plain_array(name, x)
    axes = reduced_axes(name, axis, x.ndim)
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    shape = kept if keepdims else tuple(n for d, n in enumerate(x.shape) if d not in axes)
    if name in _TRUTHS:
        result = _reduce_truths(name, x, axes, kept, ordinal).reshape(shape)
        return finish(name, result, out, "unsafe", exact=True)
    out_type = None if out is None else open_out(name, out).dtype
    chosen, target = reduction_type(name, x.dtype, dtype, out_type), out
    if out is not None:
        target = check_out(name, out, shape, chosen, gpu_of(x), exact=True)
    if name == "mean":
        result = _mean(x, axes, kept, chosen, target, ordinal).reshape(shape)
    else:
        result = _reduce(name, x, axes, kept, chosen, chosen, ordinal).reshape(shape)
    if target is None:
        return result[()] if isinstance(result, np.ndarray) else result
    store(target, result)
    return out


def _mean(x: Any, axes: Shape, kept: Shape, dtype: np.dtype[Any], target: Any, ordinal: int) -> Any:
    """Returns the mean, computed in a type."""
    count = math.prod(x.shape[d] for d in axes)
    carrier = np.dtype(np.float32) if dtype == np.float16 else dtype
    total = _reduce("sum", x, axes, kept, dtype, carrier, ordinal)
    if target is None:
        return _convert(_divide(total, count, carrier), dtype)
    # NumPy rounds the sum to the type of the output, and divides in that type.
    own = target.dtype.newbyteorder("=")
    return _divide(_convert(total, own), count, own)


# ---- The functions -------------------------------------------------------------------------------


def sum(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """Returns the sum over all axes, or some (an int or a tuple).

    Integers are summed in 64 bits, signed or unsigned like the elements; other types in their own,
    float16 in float32 and rounded once; `dtype` chooses another type.  At least as accurate as
    ``numpy.sum``, with the same bits on every device.

    >>> sum([[1, 2], [3, 4]], axis=0)
    array([4, 6])
    """
    return core.reduce_any(SUM, x, axis, keepdims, dtype, out, device)


def prod(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """Returns the product over all axes, or some; types and order are those of `sum`.

    >>> prod([1, 2, 3, 4])
    np.int64(24)
    """
    return core.reduce_any(PROD, x, axis, keepdims, dtype, out, device)


def min(
    x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, device: str | None = None
) -> Any:
    """Returns the least element over all axes, or some; NaN if any element is NaN.

    Raises ValueError without elements.

    >>> min([3, 1, 2])
    np.int64(1)
    """
    return core.reduce_any(MIN, x, axis, keepdims, None, out, device)


def max(
    x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, device: str | None = None
) -> Any:
    """Returns the greatest element over all axes, or some; NaN if any element is NaN.

    >>> max([3, 1, 2])
    np.int64(3)
    """
    return core.reduce_any(MAX, x, axis, keepdims, None, out, device)


def any(
    x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, device: str | None = None
) -> Any:
    """Tells whether any element over all axes, or some, is true: differs from 0, or is NaN.

    >>> any([[0, 1], [0, 0]], axis=1)
    array([ True, False])
    """
    return core.reduce_any(core.ANY, x, axis, keepdims, None, out, device)


def all(
    x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, device: str | None = None
) -> Any:
    """Tells whether all elements over all axes, or some, are true: differ from 0, or are NaN.

    >>> all([[0, 1], [2, 3]], axis=1)
    array([False,  True])
    """
    return core.reduce_any(core.ALL, x, axis, keepdims, None, out, device)


def count_nonzero(
    x: Any, axis: Any = None, *, keepdims: bool = False, device: str | None = None
) -> Any:
    """Counts the elements over all axes, or some, that differ from 0 or are NaN.

    >>> count_nonzero([1, 0, 2])
    np.int64(2)
    """
    return core.reduce_any(core.COUNT_NONZERO, x, axis, keepdims, None, None, device)


def mean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """Returns the mean over all axes, or some: the `sum`, divided by the number of elements.

    Integers are averaged in float64, float16 in float32; `dtype` chooses another type.  Without
    elements it is NaN, with a RuntimeWarning.

    >>> mean([1, 2, 4])
    np.float64(2.3333333333333335)
    """
    return core.reduce_any(core.MEAN, x, axis, keepdims, dtype, out, device)


def dot(a: Any, b: Any, out: Any = None, *, device: str | None = None) -> Any:
    """Returns the sum of the products of two vectors of one length, or a product with a number.

    Products and their sum have the promoted type of the two, in which integers wrap (float16 is
    carried in float32); for bools it tells whether any product is true.  The order is that of
    `sum`.

    >>> dot([1, 2, 3], [4, 5, 6])
    np.int64(32)
    """
    return core.dot(a, b, out, device)


def dot_slowly(a: Any, b: Any, out: Any, device: str | None) -> Any:
    """Computes `dot` where `core` leaves it to Python."""
    a, b = core.as_array(a), core.as_array(b)
    on_gpu = isinstance(a, core.ArrayBase) or isinstance(b, core.ArrayBase)
    if not on_gpu and (has_own_rules(a) or has_own_rules(b)):
        ordinal = core.parse_device(device)
        return call_numpy(np.dot, a, b, out=out, operands=[a, b], ordinal=ordinal)
    ordinal = find_place("dot", (a, b), device)
    if not on_gpu:
        a, b = plain_array("dot", a), plain_array("dot", b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        a, b = (np.asarray(x) if type(x) in NUMBERS else x for x in (a, b))  # no number is weak
        product = OPERATIONS["multiply"](a, b, device=device_name(ordinal))
        return finish("dot", product if on_gpu else np.asarray(product), out, exact=True)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"dot: the arrays must have one dimension; their shapes are {a.shape} and {b.shape}"
        )
    if a.shape != b.shape:
        raise ValueError(f"dot: a has {a.size} elements and b has {b.size}: they must be equal")
    dtype = a.dtype if a.dtype is b.dtype else np.result_type(a.dtype, b.dtype)
    carrier = np.dtype(np.int64) if dtype == np.bool_ else dtype  # counts the true products
    result = _new(a, (), carrier)
    flags = core.reduce(SUM, carrier, ordinal, result, a, b)
    if flags and not on_gpu:
        report_flags("add", flags)
    if dtype == np.bool_:
        result = result.astype(np.bool_)
    return finish("dot", result, out, exact=True)


def trace(matrix: Any, offset: int = 0, *, device: str | None = None) -> Any:
    """Returns the sum of a diagonal of a two-dimensional array, which need not be square.

    `offset` counts diagonals upwards from the main one.  Integers are summed in 64 bits, signed or
    unsigned like the elements; other types in their own.  The order of a floating-point sum depends
    on its length alone, so the bits are the same on every device; it is at least as accurate as
    ``numpy.trace``.  Raises ValueError if `matrix` is not two-dimensional.

    >>> import numpy as np
    >>> trace(np.arange(9).reshape(3, 3))
    np.int64(12)
    """
    offset = integer("trace", "offset", offset)
    array: Any = matrix
    if type(matrix) is np.ndarray:
        array = matrix.view()  # whose shape no other thread sets
    else:
        array = core.as_array(matrix)
        ordinal = find_place("trace", [array], device)
        if has_own_rules(array):
            if getattr(array, "ndim", 2) == 2:
                return call_numpy(np.trace, array, offset, operands=[array], ordinal=ordinal)
        elif not isinstance(array, core.ArrayBase):
            array = np.asarray(array)
    if array.ndim != 2:
        raise ValueError(
            f"trace: the array must have two dimensions, not {array.ndim} "
            f"(its shape is {array.shape})"
        )
    check_dtype("trace", array.dtype)
    rows, columns = array.shape
    offset = builtins.max(-rows, builtins.min(offset, columns))
    if isinstance(array, core.ArrayBase):
        diagonal: Any = core.view(array, np.ndarray.diagonal, offset)
    else:
        diagonal = array.diagonal(offset)
    return core.reduce_any(SUM, diagonal, None, False, None, None, device)


core.slow_paths.update(reduce=reduce_slowly, dot=dot_slowly)
