"""Reduces arrays of any kind, and `Values`, in an order that depends on their length alone.

``mylib.h`` (`mylib_reduce`) describes the order.  `core` computes the usual calls on Arrays and
plain NumPy arrays, and leaves all others to `reduce_slowly`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import core
from ._convert import conversion, convert, warn_of_complex
from ._mode import in_default_mode
from ._operands import (
    NUMBERS,
    Shape,
    call_numpy,
    check_vectors,
    device_name,
    find_place,
    flag,
    gpu_of,
    has_own_rules,
    integer,
    plain_array,
    reduced_axes,
)
from ._results import check_out, finish, open_out, store
from ._table import MAX, MIN, OPERATIONS, PROD, REDUCTIONS, SUM, TRUTHS, reduction_type
from ._warnings import warn

#: float32 holds all counts up to this one.
_EXACT_IN_FLOAT32 = 1 << 24

_BOOL = np.dtype(np.bool_)

#: The number of the library's reduction that each reduction uses.
_NUMBERS = {**REDUCTIONS, **TRUTHS, "mean": SUM}


class Values:
    """The values of a program, computed as they are reduced, with attributes as of an array."""

    def __init__(
        self, program: core.Program, inputs: tuple[Any, ...], shape: Shape, ordinal: int
    ) -> None:
        self.program, self.inputs = program, inputs
        self.shape, self.ndim, self.dtype = shape, len(shape), program.dtype
        self._ordinal, self.device = ordinal, device_name(ordinal)


def _truths(x: Any) -> Any:
    """Returns the truths of the elements of an array; `Values` are bools already."""
    return x if x.dtype == _BOOL else Values(conversion(x.dtype, _BOOL), (x,), x.shape, gpu_of(x))


def _reduce(
    number: int, terms: Sequence[Any], axes: Shape, keepdims: bool, dtype: Any, ordinal: int
) -> Any:
    """Returns an array, `Values` or the products of two arrays, converted to `dtype` and reduced.

    The result is new; it is a scalar if it has no axes and is in host memory.
    """
    if dtype == _BOOL:  # True is 1, and any number but 0 is True
        carrier = np.dtype(np.int64 if number in (SUM, PROD) else np.uint8)
        truths = [_truths(x) for x in terms]
        return _reduce(number, truths, axes, keepdims, carrier, ordinal).astype(_BOOL)
    x = terms[0]
    if isinstance(x, Values):
        return x.program.reduce(number, dtype, ordinal, axes, keepdims, x.inputs)
    return core.reduce(number, dtype, ordinal, axes, keepdims, *terms)


def _compute(
    name: str, x: Any, axes: Shape, keepdims: bool, dtype: Any, target: Any, ordinal: int
) -> Any:
    """Returns the reduction `name` of `x`, computed in a type, for an output or None."""
    x = _truths(x) if name in TRUTHS else x
    warn_of_complex(x.dtype, dtype)
    number, count = _NUMBERS[name], math.prod(x.shape[d] for d in axes)
    if count == 0 and number in (MIN, MAX):
        if name not in TRUTHS:
            raise ValueError(
                f"{name}: no elements along axes {axes} of the shape {x.shape}, and no identity to "
                "start from"
            )
        number = SUM if number == MAX else PROD  # whose identities are 0 and 1
    if name != "mean":
        result = _reduce(number, [x], axes, keepdims, dtype, ordinal)
        return (result & 1).astype(_BOOL) if name == "logical_xor" else result
    carrier = np.dtype(np.float32) if dtype == np.float16 else dtype
    total = _reduce(number, [x], axes, keepdims, carrier, ordinal)
    if target is None:
        return convert(_divide(total, count, carrier), dtype, copy=False)
    # NumPy rounds the sum to the type of the output, and divides in that type.
    own = target.dtype.newbyteorder("=")
    return _divide(convert(total, own, copy=False), count, own)


def _divide(total: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """Returns total / count in a type; divides complex numbers in complex128, as NumPy does."""
    if count == 0:
        warn("mean of an empty array", RuntimeWarning)
    with np.errstate(all="ignore"):
        if dtype.kind == "f" and count <= _EXACT_IN_FLOAT32:
            return total / dtype.type(count)
        return convert(total / np.float64(count), dtype, copy=False)


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
    x = core.as_array(x)
    ordinal = find_place(name, [x], device)
    if has_own_rules(x):
        given = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims or None}
        return call_numpy(getattr(np, name), x, **given, operands=[x], ordinal=ordinal)
    keepdims = flag(name, "keepdims", keepdims)
    x = x if isinstance(x, Values) else plain_array(name, x)
    axes = reduced_axes(name, axis, x.ndim)
    out_type = None if out is None else open_out(name, out).dtype
    chosen, target = reduction_type(name, x.dtype, dtype, out_type), None
    if out is not None:
        shape = tuple(
            1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes
        )
        casting = "unsafe" if name in TRUTHS else "same_kind"
        target = check_out(name, out, shape, chosen, gpu_of(x), casting, exact=True)
    result = _compute(name, x, axes, keepdims, chosen, target, ordinal)
    if target is None:
        return result[()] if isinstance(result, np.ndarray) else result
    store(target, result)
    return out


# ---- The functions ----


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
    a, b = core.as_array(a), core.as_array(b)
    ordinal = find_place("dot", (a, b), device)
    on_gpu = gpu_of(a) >= 0 or gpu_of(b) >= 0
    if not on_gpu:
        if has_own_rules(a) or has_own_rules(b):
            return call_numpy(np.dot, a, b, out=out, operands=[a, b], ordinal=ordinal)
        a, b = plain_array("dot", a), plain_array("dot", b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        a, b = (np.asarray(x) if type(x) in NUMBERS else x for x in (a, b))  # no number is weak
        product = OPERATIONS["multiply"](a, b, device=device_name(ordinal))
        return finish("dot", product if on_gpu else np.asarray(product), out, exact=True)
    check_vectors("dot", a, b)
    dtype = np.result_type(a.dtype, b.dtype)
    return finish("dot", _reduce(SUM, (a, b), (0,), False, dtype, ordinal), out, exact=True)


def trace(matrix: Any, offset: int = 0, *, device: str | None = None) -> Any:
    """Returns the sum of a diagonal of a two-dimensional array, which need not be square.

    `offset` counts diagonals upwards from the main one.  Types, order and accuracy are those of
    `sum`.  Raises ValueError if `matrix` is not two-dimensional.

    >>> import numpy as np
    >>> trace(np.arange(9).reshape(3, 3))
    np.int64(12)
    """
    return core.trace(matrix, offset, device)


def trace_slowly(matrix: Any, offset: Any, device: str | None) -> Any:
    offset = integer("trace", "offset", offset)
    array = core.as_array(matrix)
    ordinal = find_place("trace", [array], device)
    if not has_own_rules(array):
        array = plain_array("trace", array)
    elif getattr(array, "ndim", 2) == 2:
        return call_numpy(np.trace, array, offset, operands=[array], ordinal=ordinal)
    if array.ndim != 2:
        raise ValueError(
            f"trace: the array must have two dimensions, not {array.ndim} "
            f"(its shape is {array.shape})"
        )
    rows, columns = array.shape
    offset = builtins.max(-rows, builtins.min(offset, columns))
    if isinstance(array, core.ArrayBase):
        diagonal: Any = core.view(array, np.ndarray.diagonal, offset)
    else:
        diagonal = array.diagonal(offset)
    return core.reduce_any(SUM, diagonal, None, False, None, None, device)


def _reduce_any(
    number: int, x: Any, axis: Any, keepdims: bool, dtype: Any, out: Any, device: str | None
) -> Any:
    name = (*REDUCTIONS, "any", "all", "count_nonzero", "mean")[number]
    return reduce_slowly(name, x, axis, dtype, out, keepdims, device)


core.slow_paths.update(reduce=_reduce_any, dot=dot_slowly, trace=trace_slowly)
