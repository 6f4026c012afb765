"""Reductions, in an order that depends on the length alone; for `Array` and NumPy arrays.

The order is written down in ``mylib.h`` (`mylib_reduce`).  The bits are the same on every device,
for every layout, and with any number of threads.

The usual calls on an Array or a plain NumPy array are made in `core`, whose functions return
NotImplemented for all others; those go to `reduction`.
"""

from __future__ import annotations

import math
import operator
import warnings
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
from ._convert import convert, warn_of_complex
from ._mode import in_default_mode
from ._operands import call_numpy, has_own_rules
from ._tracing import Traced

Shape = tuple[int, ...]

_SUM, _PROD, _MIN, _MAX = range(4)

#: The reductions that are one call of the library, by their numbers there.
KINDS = {"sum": _SUM, "prod": _PROD, "min": _MIN, "max": _MAX}
_SUPPORTED = frozenset("?bhilqBHILQefdFD")

_OPERATIONS = {operation.__name__: operation for operation in core.operations}

#: The operation that each reduction repeats.
_REPEATED = {"sum": "add", "mean": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}

#: The largest count such that float32 holds it and all smaller ones.
_EXACT_IN_FLOAT32 = 1 << 24


class Values:
    """Elements that are not in memory: what an expression gives, computed as it is reduced.

    Has what the functions here ask of an array.  `_ordinal` is -1 for host arrays.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], ordinal: int) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.dtype = dtype
        self._ordinal = ordinal
        self.device = f"cuda:{ordinal}"

    def reduce(self, kind: int, dtype: Any, ordinal: int, out: Any) -> None:
        """As `core.reduce`, but that it reports the flags itself."""
        raise NotImplementedError


# ---- Types ---------------------------------------------------------------------------------------


def _supported(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type in native byte order; TypeError if the library does not have it."""
    if dtype.char not in _SUPPORTED:
        raise TypeError(
            f"{name}: elements of type {dtype} are not supported; supported are bool, int8 to "
            "int64, uint8 to uint64, float16 to float64, complex64 and complex128"
        )
    native: np.dtype[Any] = dtype.newbyteorder("=")
    return native


def _operand(name: str, x: Any) -> Any:
    """Returns `x` as an Array or a NumPy array in native byte order, of a supported type."""
    x = as_array(x)
    if isinstance(x, Array | Values):
        return x
    x = np.asarray(x).view()  # whose shape no other thread sets
    dtype = _supported(name, x.dtype)
    return x if x.dtype.isnative else x.astype(dtype)


def _carrying_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of a sum or product of elements of a type."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _mean_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def result_type(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of the reduction `name` of elements of a type."""
    if name in ("sum", "prod"):
        return _carrying_type(dtype)
    return _mean_type(dtype) if name == "mean" else dtype


def _chosen_type(name: str, x: Any, dtype: Any, target: Any) -> np.dtype[Any]:
    """Returns the type that a reduction is computed in, which NumPy lets an output choose too."""
    if dtype is not None:
        return _supported(name, np.dtype(dtype))
    if target is None:
        return result_type(name, x.dtype)
    if name == "mean" and (x.dtype.kind in "biu" or x.dtype == np.float16):
        return np.dtype(np.float32 if x.dtype == np.float16 else np.float64)
    ufunc: Any = getattr(np, _REPEATED[name])
    types = (target.dtype, x.dtype, None)
    return _supported(name, ufunc.resolve_dtypes(types, reduction=True, casting="unsafe")[1])


# ---- The way of a reduction ----------------------------------------------------------------------


def _gpu(x: Any) -> int:
    """Returns the GPU that the elements are on; -1 in host memory."""
    return x._ordinal if isinstance(x, Array | Values) else -1


def _new(x: Any, shape: Any, dtype: Any) -> Any:
    ordinal = _gpu(x)
    if ordinal >= 0:
        return core.empty(shape, dtype, ordinal, False)
    return np.empty(shape, dtype)


def _reduced_axes(name: str, axis: Any, x: Any) -> Shape:
    if axis is None:
        return tuple(range(x.ndim))
    if isinstance(axis, bool | np.bool_):
        raise TypeError(f"{name}(): axis must be an int or a tuple of ints, not {axis}")
    if x.ndim == 0 and name != "mean" and hasattr(axis, "__index__"):
        axis = () if operator.index(axis) in (0, -1) else axis  # which NumPy allows
    return _normalized_axes(name, axis, x.ndim)


def _shapes(x: Any, axes: Shape, keepdims: bool) -> tuple[Shape, Shape]:
    """Returns the shape with size 1 where it is reduced, and the shape of the result."""
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    shape = kept if keepdims else tuple(n for d, n in enumerate(x.shape) if d not in axes)
    return kept, shape


def _reduce(
    name: str, x: Any, axes: Shape, kept: Shape, dtype: Any, result_dtype: Any, ordinal: int
) -> Any:
    """Returns `x`, converted to `dtype`, reduced to a new array of the shape `kept`."""
    kind = KINDS[name]
    if kind in (_MIN, _MAX) and any(x.shape[d] == 0 for d in axes):
        raise ValueError(
            f"{name}: no elements along axes {axes} of the shape {x.shape}, and no identity to "
            "start from"
        )
    if dtype == np.bool_:  # True is 1, and any number but 0 is True
        carrier = np.dtype(np.int64 if kind in (_SUM, _PROD) else np.uint8)
        x = x if x.dtype == np.bool_ else x.astype(np.bool_)
        return _reduce(name, x, axes, kept, carrier, carrier, ordinal).astype(np.bool_)
    warn_of_complex(x.dtype, dtype)
    result = _new(x, kept, result_dtype)
    if isinstance(x, Values):
        x.reduce(kind, dtype, ordinal, result)
    elif (flags := core.reduce(kind, dtype, ordinal, result, x)) and _gpu(x) < 0:
        _OPERATIONS[_REPEATED[name]].report_flags(flags)
    return result


def _converted(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if isinstance(x, Array) else convert(np.asarray(x), dtype)


def _quotient(total: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """Returns total / count in a type, complex numbers divided in complex128 as NumPy does."""
    if count == 0:
        warnings.warn("mean of an empty array", RuntimeWarning, stacklevel=6)
    with np.errstate(all="ignore"):
        if dtype.kind == "f" and count <= _EXACT_IN_FLOAT32:
            return total / dtype.type(count)
        return _converted(total / np.float64(count), dtype)


_host_mean = in_default_mode(_quotient)


@in_default_mode
def reduction(
    name: str, x: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, device: str | None = None
) -> Any:
    """Returns the reduction `name` of anything that the functions here take."""
    if isinstance(x, Traced):
        return x._reduced(name, axis, dtype, out, keepdims)
    ordinal = core.parse_device(device)
    x = as_array(x)
    if has_own_rules(x):
        given = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims or None}
        return call_numpy(getattr(np, name), x, **given, operands=[x], ordinal=ordinal)
    x = _operand(name, x)
    if _gpu(x) >= 0:
        _refuse_other_device(name, x, device)
    axes = _reduced_axes(name, axis, x)
    kept, shape = _shapes(x, axes, keepdims)
    chosen = _chosen_type(name, x, dtype, None if out is None else _out.target(name, out))
    target = out
    if out is not None:
        target = _out.check(name, out, shape, chosen, _gpu(x), exact=True)
    if name == "mean":
        result = _mean(x, axes, kept, chosen, target, ordinal).reshape(shape)
    else:
        result = _reduce(name, x, axes, kept, chosen, chosen, ordinal).reshape(shape)
    if target is None:
        return result[()] if isinstance(result, np.ndarray) else result
    _out.store(target, result)
    return out


def _mean(x: Any, axes: Shape, kept: Shape, dtype: np.dtype[Any], target: Any, ordinal: int) -> Any:
    """Returns the mean, computed in a type."""
    count = math.prod(x.shape[d] for d in axes)
    carrier = np.dtype(np.float32) if dtype == np.float16 else dtype
    total = _reduce("sum", x, axes, kept, dtype, carrier, ordinal)
    if target is None:
        return _converted(_quotient(total, count, carrier), dtype)
    # NumPy rounds the sum to the type of the output, and divides there.
    own = target.dtype.newbyteorder("=")
    return _quotient(_converted(total, own), count, own)


# ---- The functions -------------------------------------------------------------------------------


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
    if dtype is None and out is None and device is None:
        result = core.reduce_new(_SUM, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    return reduction("sum", x, axis, dtype, out, keepdims, device)


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
    if dtype is None and out is None and device is None:
        result = core.reduce_new(_PROD, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    return reduction("prod", x, axis, dtype, out, keepdims, device)


def _extremum(
    name: str, kind: int, x: Any, axis: Any, out: Any, keepdims: bool, device: str | None
) -> Any:
    if out is None and device is None:
        result = core.reduce_new(kind, x, axis, keepdims)
        if result is not NotImplemented:
            return result
    return reduction(name, x, axis, None, out, keepdims, device)


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
    if type(x) in (Array, np.ndarray) and dtype is None and out is None and device is None:
        own, is_host = x.dtype, type(x) is np.ndarray
        carriers = "fd" if is_host else "fdD"  # carry their own sums
        if own.char in carriers and x.size <= _EXACT_IN_FLOAT32:
            total = core.reduce_new(_SUM, x, axis, keepdims)
            if total is not NotImplemented:
                count = x.size // total.size
                return _host_mean(total, count, own) if is_host else total / own.type(count)
    return reduction("mean", x, axis, dtype, out, keepdims, device)


def _finished(name: str, result: Any, out: Any) -> Any:
    if out is None:
        return result[()] if isinstance(result, np.ndarray) else result
    found = _out.check(name, out, result.shape, result.dtype, _gpu(result), exact=True)
    _out.store(found, result)
    return out


def dot(a: Any, b: Any, out: Any = None, *, device: str | None = None) -> Any:
    """The sum of the products of two vectors of one length; or of one with a number.

    Products and their sum are computed in the promoted type of the two (float16 in float32,
    integers in 64 bits and wrapped); the order is that of `sum`.

    >>> dot([1, 2, 3], [4, 5, 6])
    np.int64(32)
    """
    if out is None and device is None:
        result = core.dot_new(a, b)
        if result is not NotImplemented:
            return result
    a, b = as_array(a), as_array(b)
    ordinal = core.parse_device(device)
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
    elif has_own_rules(a) or has_own_rules(b):
        return call_numpy(np.dot, a, b, out=out, operands=[a, b], ordinal=ordinal)
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
    if on_gpu and device is not None and ordinal != a._ordinal:
        raise ValueError(f"dot: the arrays are on {a.device}, and device is {device!r}")
    result = _new(a, (), dtype)
    flags = core.dot(dtype, ordinal, result, a, b)
    if flags and not on_gpu:
        _OPERATIONS["add"].report_flags(flags)
    return _finished("dot", result, out)
