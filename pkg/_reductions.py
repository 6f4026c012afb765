"""Reductions, in an order that depends on the length alone; for `Array` and NumPy arrays.

The order is written down in ``mylib.h`` (`mylib_reduce`).  The bits are the same on every device,
for every layout, and with any number of threads.

The usual calls on an Array are made in `core`, whose functions say NotImplemented to all others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _out, core
from ._array import (
    Array,
    _is_scalar,
    _normalized_axes,
    _refuse_host,
    _refuse_other_device,
    as_array,
)
from ._convert import convert
from ._mode import in_default_mode
from ._tracing import Traced

_SUM, _PROD, _MIN, _MAX = range(4)

#: The reductions that are one call of the library, by their numbers there.
KINDS = {"sum": _SUM, "prod": _PROD, "min": _MIN, "max": _MAX}
_SUPPORTED = frozenset("?bhilqBHILQefdFD")


class Values:
    """Elements that are not in memory: what an expression gives, computed as it is reduced.

    Has what the functions here ask of an array.  `_ordinal` is -1 for host arrays.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.dtype = dtype
        self._ordinal = ordinal
        self.device = f"cuda:{ordinal}"

    def reduce(self, kind: int, dtype: Any, ordinal: int, out: Any) -> None:
        """As `core.reduce`, but that it reports the flags itself."""
        raise NotImplementedError


def _operand(name: str, x: Any) -> Any:
    """`x` as an Array or a NumPy array in native byte order, of a type that the library has."""
    x = as_array(x)
    if isinstance(x, Array | Values):
        return x
    x = np.asarray(x)
    if x.dtype.char not in _SUPPORTED:
        raise TypeError(
            f"{name}: elements of type {x.dtype} are not supported; supported are bool, int8 to "
            "int64, uint8 to uint64, float16 to float64, complex64 and complex128"
        )
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _carrying_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a sum or product of elements of a type."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def result_type(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the reduction `name` of elements of a type."""
    if name in ("sum", "prod"):
        return _carrying_type(dtype)
    return _mean_type(dtype) if name == "mean" else dtype


def _mean_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _new(x: Any, shape: Any, dtype: Any) -> Any:
    ordinal = _gpu(x)
    if ordinal >= 0:
        return core.empty(shape, dtype, ordinal, False)
    return np.empty(shape, dtype)


def _gpu(x: Any) -> int:
    """The GPU that the elements are on; -1 in host memory."""
    return x._ordinal if isinstance(x, Array | Values) else -1


def _reduce(
    name: str,
    kind: int,
    x: Any,
    axis: Any,
    dtype: Any,
    result_dtype: Any,
    out: Any,
    keepdims: bool,
    device: str | None,
) -> Any:
    """Reduces `x`, converted to `dtype`, to a result of `result_dtype`."""
    ordinal = core.parse_device(device)
    on_gpu = _gpu(x) >= 0
    if on_gpu:
        _refuse_other_device(name, x, device)
    kept: tuple[int, ...]
    shape: tuple[int, ...]
    if axis is None and not keepdims:
        kept = shape = ()
        is_empty = x.size == 0
    else:
        sizes = x.shape
        axes = tuple(range(x.ndim)) if axis is None else _normalized_axes(axis, x.ndim)
        if len(axes) == 1:
            before, after = sizes[: axes[0]], sizes[axes[0] + 1 :]
            kept, shape = (*before, 1, *after), before + after
        else:
            kept = tuple(1 if d in axes else n for d, n in enumerate(sizes))
            shape = tuple(n for d, n in enumerate(sizes) if d not in axes)
        if keepdims:
            shape = kept
        is_empty = x.size == 0 and 0 not in shape
    if is_empty and kind in (_MIN, _MAX):
        raise ValueError(f"{name}: no elements along axis {axis}, and no identity to start from")
    result = _new(x, kept, result_dtype)
    if isinstance(x, Values):
        x.reduce(kind, dtype, ordinal, result)
    elif (flags := core.reduce(kind, dtype, ordinal, result, x)) and not on_gpu:
        operations = {_SUM: "add", _PROD: "multiply", _MIN: "minimum", _MAX: "maximum"}
        _operation(operations[kind]).report_flags(flags)
    return _finished(name, result if shape == kept else result.reshape(shape), out)


def _finished(name: str, result: Any, out: Any) -> Any:
    if out is None:
        return result[()] if isinstance(result, np.ndarray) else result
    found = _out.check(name, out, result.shape, result.dtype, _gpu(result), exact=True)
    _out.store(found, result)
    return out


def _operation(name: str) -> Any:
    return next(operation for operation in core.operations if operation.__name__ == name)


def sum(  # noqa: A001  NumPy's name
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """The sum over all axes, or some (an int or a tuple).

    Integers are added up in 64 bits, signed or unsigned as the elements; other types in their own,
    float16 in float32 and rounded once; or all in `dtype`.  At least as accurate as ``numpy.sum``,
    with the same bits on every device.

    >>> sum([[1, 2], [3, 4]], axis=0)
    array([4, 6])
    """
    if type(x) is Array and dtype is None and out is None and device is None:
        result = core.reduce_new(_SUM, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    if isinstance(x, Traced):
        return x._reduced("sum", axis, dtype, out, keepdims)
    x = _operand("sum", x)
    chosen = _carrying_type(x.dtype) if dtype is None else np.dtype(dtype)
    return _reduce("sum", _SUM, x, axis, chosen, chosen, out, keepdims, device)


def prod(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """The product over all axes, or some; types and order as for `sum`.

    >>> prod([1, 2, 3, 4])
    np.int64(24)
    """
    if type(x) is Array and dtype is None and out is None and device is None:
        result = core.reduce_new(_PROD, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    if isinstance(x, Traced):
        return x._reduced("prod", axis, dtype, out, keepdims)
    x = _operand("prod", x)
    chosen = _carrying_type(x.dtype) if dtype is None else np.dtype(dtype)
    return _reduce("prod", _PROD, x, axis, chosen, chosen, out, keepdims, device)


def _extremum(
    name: str, kind: int, x: Any, axis: Any, out: Any, keepdims: bool, device: str | None
) -> Any:
    if type(x) is Array and out is None and device is None:
        result = core.reduce_new(kind, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    if isinstance(x, Traced):
        return x._reduced(name, axis, None, out, keepdims)
    x = _operand(name, x)
    if x.dtype == np.bool_:
        small = _reduce(name, kind, x, axis, np.uint8, np.uint8, None, keepdims, device)
        return _finished(name, small.astype(np.bool_), out)
    return _reduce(name, kind, x, axis, x.dtype, x.dtype, out, keepdims, device)


def min(  # noqa: A001  NumPy's name
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """The least element over all axes, or some; NaN if there is one.  ValueError without elements.

    >>> min([3, 1, 2])
    np.int64(1)
    """
    return _extremum("min", _MIN, x, axis, out, keepdims, device)


def max(  # noqa: A001  NumPy's name
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """The greatest element over all axes, or some; NaN if there is one.

    >>> max([3, 1, 2])
    np.int64(3)
    """
    return _extremum("max", _MAX, x, axis, out, keepdims, device)


@in_default_mode
def _quotient(total: Any, count: int, carrier: np.dtype[Any], dtype: np.dtype[Any]) -> Any:
    """A mean from its sum, divided in the type that carried it."""
    with np.errstate(all="ignore"):
        result = total / carrier.type(count) if carrier.kind in "fc" else total / count
    if result.dtype == dtype:
        return result
    on_gpu = isinstance(result, Array)
    return result.astype(dtype) if on_gpu else convert(np.asarray(result), dtype)[()]


def mean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """The arithmetic mean over all axes, or some: the `sum`, divided by the number of elements.

    Integers are averaged in float64, float16 in float32; or all in `dtype`.  NaN, with a
    RuntimeWarning, without elements.

    >>> mean([1, 2, 4])
    np.float64(2.3333333333333335)
    """
    if type(x) is Array and dtype is None and out is None and device is None:
        own = x.dtype
        if own.char in "fdFD":  # which carry their own sums
            total = core.reduce_new(_SUM, x, axis, keepdims)
            if total is not NotImplemented:
                return _quotient(total, x.size // total.size, own, own)
    if isinstance(x, Traced):
        return x._reduced("mean", axis, dtype, out, keepdims)
    x = _operand("mean", x)
    chosen = _mean_type(x.dtype) if dtype is None else np.dtype(dtype)
    carrier = np.dtype(np.float32) if chosen == np.float16 else chosen
    axes = tuple(range(x.ndim)) if axis is None else _normalized_axes(axis, x.ndim)
    count = 1
    for d in axes:
        count *= x.shape[d]
    if count == 0:
        import warnings

        warnings.warn("mean of an empty array", RuntimeWarning, stacklevel=2)
    total = _reduce("mean", _SUM, x, axis, chosen, carrier, None, keepdims, device)
    result = _quotient(total, count, carrier, chosen)
    if isinstance(result, np.generic):
        return result if out is None else _finished("mean", np.asarray(result), out)
    return _finished("mean", result, out)


def dot(a: Any, b: Any, out: Any = None, *, device: str | None = None) -> Any:
    """The sum of the products of two vectors of one length; or of one with a number.

    Products and their sum are computed in the promoted type of the two (float16 in float32,
    integers in 64 bits and wrapped); the order is that of `sum`.

    >>> dot([1, 2, 3], [4, 5, 6])
    np.int64(32)
    """
    if type(a) is Array and out is None and device is None:
        result = core.dot_new(a, b)
        if result is not NotImplemented:
            return result
    a, b = as_array(a), as_array(b)
    on_gpu = isinstance(a, Array) or isinstance(b, Array)
    if on_gpu:
        found = a if isinstance(a, Array) else b
        for x in (a, b):
            if not isinstance(x, Array) and not _is_scalar(x):
                raise _refuse_host(x, found.device)
            if isinstance(x, Array) and x._ordinal != found._ordinal:
                raise ValueError(
                    f"dot: a is on {a.device} and b is on {b.device}: move one of them with "
                    "to_device() first"
                )
    else:
        a, b = _operand("dot", a), _operand("dot", b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return _finished("dot", a * b if on_gpu else np.asarray(a * b), out)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"dot: the arrays must have one dimension; their shapes are {a.shape} and {b.shape}"
        )
    if a.shape != b.shape:
        raise ValueError(f"dot: a has {a.size} elements and b has {b.size}: they must be equal")
    dtype = a.dtype if a.dtype is b.dtype else np.result_type(a.dtype, b.dtype)
    if dtype == np.bool_:
        dtype = np.dtype(np.int8)
    ordinal = core.parse_device(device)
    if on_gpu and device is not None and ordinal != a._ordinal:
        raise ValueError(f"dot: the arrays are on {a.device}, and device is {device!r}")
    result = _new(a, (), dtype)
    flags = core.dot(dtype, ordinal, result, a, b)
    if flags and not on_gpu:
        _operation("add").report_flags(flags)
    return _finished("dot", result, out)
