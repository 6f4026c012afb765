"""Joins, selects from and reshapes arrays, by `Array`'s methods or NumPy's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import core
from ._array import Array
from ._convert import check_cast, convert, saturates, warn_of_complex
from ._mode import in_default_mode
from ._operands import (
    NUMBERS,
    axes_of,
    axis_or_axes,
    broadcast_shapes,
    broadcasts,
    call_numpy,
    copies,
    describe,
    find_place,
    has_own_rules,
    host_error,
    integer,
    integers,
    native,
    normalize_axes,
    overrides,
    sequence,
    sizes_of,
    type_number,
)
from ._table import ELEMENTS_TEXT, dtype_of


def _join_hosts(join: Any, arrays: list[Any], axis: Any, dtype: Any, casting: str) -> Any:
    if dtype is not None and casting == "unsafe":
        target = dtype_of(join.__name__, dtype)
        arrays = [x if has_own_rules(x) else np.asarray(x) for x in arrays]
        arrays = [
            convert(x, target) if type(x) is np.ndarray and saturates(x.dtype, target) else x
            for x in arrays
        ]
    # The functions of other libraries lack `casting`.
    how = {"dtype": dtype, "casting": None if casting == "same_kind" else casting}
    return call_numpy(join, arrays, axis, **how, operands=arrays)


def join_slowly(arrays: Any, axis: Any, is_stack: bool, dtype: Any, casting: str) -> Any:
    function: Any = np.stack if is_stack else np.concatenate
    name = function.__name__
    arrays = [core.as_array(x) for x in sequence(name, arrays)]
    if axis is not None or is_stack:
        one = axis if isinstance(axis, bool) else integer(name, "axis", axis)
        (axis,) = axes_of(name, "axis", one)
    on_gpu = [x for x in arrays if isinstance(x, Array)]
    if not on_gpu:
        return _join_hosts(function, arrays, axis, dtype, casting)
    if len(on_gpu) < len(arrays):
        raise host_error(next(x for x in arrays if not isinstance(x, Array)), on_gpu[0].device)
    find_place(name, on_gpu)
    if axis is None:
        arrays, axis = [x.ravel() for x in arrays], 0
    if not is_stack and any(x.ndim == 0 for x in arrays):
        raise ValueError("arrays without dimensions cannot be concatenated")
    (axis,) = normalize_axes(name, axis, arrays[0].ndim + is_stack)
    shapes = [x.shape for x in arrays]
    fixed = [n if is_stack else (len(n), *n[:axis], *n[axis + 1 :]) for n in shapes]
    for k, sizes in enumerate(fixed):
        if sizes != fixed[0]:
            must = "be equal" if is_stack else f"agree in all axes but {axis}"
            raise ValueError(
                f"{name}(): array 0 has shape {shapes[0]} and array {k} has {shapes[k]}: "
                f"they must {must}"
            )
    kinds = [x.dtype for x in arrays]
    target = np.result_type(*kinds) if dtype is None else dtype_of(name, dtype).newbyteorder("=")
    for kind in kinds:
        check_cast(name, kind, target, casting)
        warn_of_complex(kind, target)
    return core.join_arrays(tuple(arrays), axis, is_stack, target)


core.slow_paths["join"] = join_slowly


def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Joins arrays along an axis; if `axis` is None, flattens them first.

    `dtype` is the type of the result, to which the arrays must cast by the rule `casting`.

    >>> concatenate([[1, 2], [3]])
    array([1, 2, 3])
    """
    return core.join(arrays, axis, False, dtype, casting)


def stack(
    arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Joins arrays of one shape along a new axis; `dtype` and `casting` are `concatenate`'s.

    >>> stack([[1, 2], [3, 4]], axis=1)
    array([[1, 3],
           [2, 4]])
    """
    return core.join(arrays, axis, True, dtype, casting)


def where(condition: Any, x: Any, y: Any, /) -> Any:
    """Returns elements of `x` where `condition` differs from 0, else of `y`; all three broadcast.

    The result has the type to which `x` and `y` promote.

    >>> where([True, False], 1, 2)
    array([1, 2])
    """
    result = core.where_arrays(condition, x, y)
    return _where(condition, x, y) if result is NotImplemented else result


@in_default_mode
def _where(condition: Any, x: Any, y: Any) -> Any:
    operands = [native(type_number(core.as_array(a))) for a in (condition, x, y)]
    for number, other in (operands[1:], operands[:0:-1]):
        dtype: Any = np.dtype(np.int64) if type(other) in (bool, int) else None
        dtype = other.dtype if isinstance(other, np.ndarray | np.generic) else dtype
        if type(number) is int and dtype is not None and dtype.kind in "iu":
            np.asarray(number, dtype)  # or OverflowError: NumPy's function wraps it
    if not any(isinstance(a, Array) for a in operands):
        return call_numpy(np.where, condition, x, y, operands=operands)
    find_place("where", operands)
    broadcast_shapes(*[np.shape(a) for a in operands])
    if all(type(a) in NUMBERS for a in operands[1:]):  # two numbers beside each other are not weak
        operands[1:] = [np.asarray(a)[()] for a in operands[1:]]
    result = core.where_arrays(*operands)
    if result is NotImplemented:
        raise TypeError(
            f"where() is not defined for {' and '.join(map(describe, operands))}: arrays on a GPU "
            f"have elements of {ELEMENTS_TEXT}"
        )
    return result


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """Returns the elements, in C order, in another shape; see `Array.reshape`."""
    x, copy = core.as_array(x), copies("reshape", copy)
    if isinstance(x, Array):
        return x.reshape(shape, copy=copy)
    shape = integers("reshape", "shape", shape)
    if has_own_rules(x):
        return call_numpy(np.reshape, x, shape, copy=copy, operands=[x])
    x = np.asarray(x)
    if copy:
        return x.copy().reshape(shape)
    result = x.reshape(shape)
    if copy is False and x.size and not np.may_share_memory(result, x):
        raise ValueError("reshape(): copy=False, but elements at these strides need a copy")
    return result


def transpose(x: Any, /, axes: Any = None) -> Any:
    """Returns a view with the axes in another order, by default reversed."""
    x = core.as_array(x)
    axes = axes if axes is None else axes_of("transpose", "axes", axes)
    if isinstance(x, Array):
        return x.transpose(axes)
    return call_numpy(np.transpose, x, *(() if axes is None else (axes,)), operands=[x])


def permute_dims(x: Any, /, axes: Any) -> Any:
    """Returns a view with the axes in another order, for None reversed."""
    return transpose(x, None if axes is None else axes_of("permute_dims", "axes", axes))


def matrix_transpose(x: Any, /) -> Any:
    """Returns a view with the last two axes exchanged."""
    x = core.as_array(x)
    if isinstance(x, Array):
        return x.mT
    if has_own_rules(x):  # Dask has no matrix_transpose()
        return call_numpy(np.swapaxes, x, -1, -2, operands=[x])
    return np.matrix_transpose(x)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Returns a view with some axes moved to other positions; the others keep their order."""
    x = core.as_array(x)
    source = axes_of("moveaxis", "source", source)
    destination = axes_of("moveaxis", "destination", destination)
    if not isinstance(x, Array):
        return call_numpy(np.moveaxis, x, source, destination, operands=[x])
    return core.view(x, np.moveaxis, source, destination)


def expand_dims(x: Any, /, axis: Any) -> Any:
    """Returns a view with new axes of size 1."""
    x = core.as_array(x)
    axes = axes_of("expand_dims", "axis", axis)
    if not isinstance(x, Array):
        return call_numpy(np.expand_dims, x, axes, operands=[x])
    return core.view(x, np.expand_dims, axes)


def squeeze(x: Any, /, axis: Any = None) -> Any:
    """Returns a view without axes of size 1."""
    x = core.as_array(x)
    if isinstance(x, Array):
        return x.squeeze(axis)
    return call_numpy(np.squeeze, x, axis=axis_or_axes("squeeze", axis), operands=[x])


def flip(x: Any, /, axis: Any = None) -> Any:
    """Returns a view in reverse order along all axes, or those in `axis`."""
    x = core.as_array(x)
    axis = axis if axis is None else axes_of("flip", "axis", axis)
    if not isinstance(x, Array):
        return call_numpy(np.flip, x, axis=axis, operands=[x])
    axes = range(x.ndim) if axis is None else normalize_axes("flip", axis, x.ndim)
    # Not np.flip, which reads the element of an array without axes.
    return x[tuple(slice(None, None, -1 if d in axes else 1) for d in range(x.ndim))]


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Returns `x` broadcast to a shape, as a read-only view."""
    x = core.as_array(x)
    shape = sizes_of("broadcast_to", "shape", shape)
    if not isinstance(x, Array):
        # A quantity keeps its unit only with subok; masked arrays do not take that argument.
        subok = True if overrides(x) and isinstance(x, np.ndarray) else None
        return call_numpy(np.broadcast_to, x, shape, subok=subok, operands=[x])
    if not broadcasts(x.shape, shape):
        raise ValueError(
            f"broadcast_to(): an array of shape {x.shape} does not broadcast to {shape}"
        )
    return core.broadcast_to(x, shape)
