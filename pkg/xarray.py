"""Expressions, reductions and fingerprints of xarray's objects: ``import pkg.xarray``.

The import gives DataArrays and Datasets an attribute ``pcd``.  Results keep dimensions and
coordinates; chunks of Dask stay lazy, and Arrays stay on their GPU.

>>> import xarray as xr
>>> import pkg.xarray
>>> scene = xr.Dataset({"nir": ("x", [3.0, 5.0]), "red": ("x", [1.0, 3.0])}, {"x": [10, 20]})
>>> scene.pcd.evaluate("(nir - red) / (nir + red)").values
array([0.5 , 0.25])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from . import _reductions
from ._creation import asarray
from ._fingerprint import fingerprint as _fingerprint
from ._operands import type_number
from .expressions import Expression

_for_arrays: Any = xr.register_dataarray_accessor
_for_datasets: Any = xr.register_dataset_accessor


def _is_text(x: Any) -> bool:
    return x.dtype.kind in "OSUT"


def _elements(expression: Any) -> Expression:
    given: Any = getattr(expression, "expression", expression)  # of a fused function
    e = Expression(given) if isinstance(given, str) else given
    if not isinstance(e, Expression):
        raise TypeError(f"apply() takes an Expression or its text, not {type(e).__name__}")
    reduction = e._graph.reduction
    if reduction is not None:
        raise TypeError(
            f"the expression ends in {reduction.name}(), whose axis= has no dimensions' names: "
            f"evaluate its elements, and then call .pcd.{reduction.name}(dim)"
        )
    return e


def _take(expression: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    if not hasattr(expression, "expression"):
        return args, named
    given = inspect.signature(expression).bind_partial(*args, **named)
    given.apply_defaults()
    used = expression.expression.inputs
    return (), {name: x for name, x in given.arguments.items() if name in used}


def _lazy(e: Expression, operands: tuple[Any, ...]) -> Any:
    import dask.array

    given = [type_number(x) for x in operands]
    axes = [tuple(range(np.ndim(x)))[::-1] if hasattr(x, "dtype") else None for x in given]
    dtype = e.dtype_for(*(getattr(x, "dtype", type(x)) for x in given))
    pairs = (part for pair in zip(given, axes, strict=True) for part in pair)
    blockwise: Any = dask.array.blockwise
    return blockwise(e, max(filter(None, axes), key=len, default=()), *pairs, dtype=dtype)


def apply(
    expression: Any, *operands: Any, join: Any = "exact", keep_attrs: Any = None, **named: Any
) -> Any:
    """Computes an expression of DataArrays, Datasets and numbers, by `xarray.apply_ufunc`.

    `expression` is a text, an Expression or what `pkg.fuse` makes; operands are given by position
    or by name.  They are broadcast by the names of their dimensions.  `join` and `keep_attrs` are
    xarray's: by default coordinates that differ are an error, and attributes are those of xarray's
    arithmetic.  Arrays are computed in one pass where they are, chunks of Dask when needed.
    """
    e = _elements(expression)
    operands, named = _take(expression, operands, named)

    def compute(*arrays: Any) -> Any:
        if not any(hasattr(x, "__dask_graph__") for x in arrays):
            return e(*arrays)
        return _lazy(e, arrays)

    if keep_attrs is None:  # depends on the version, too
        kept = (xr.Variable((), 0, {"kept": 1}) + 0).attrs
        keep_attrs = "drop_conflicts" if kept else "drop"
    bound = e._bind(operands, named)
    return xr.apply_ufunc(compute, *bound, join=join, dask="allowed", keep_attrs=keep_attrs)


class _Accessor:
    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def to_device(self, device: str) -> Any:
        """Returns an object with the elements on a device: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.

        Elements that are there already are shared, not copied.  Coordinates, and a Dataset's
        variables of text and of objects, stay in host memory.
        """
        if device is None:
            raise TypeError('to_device(): device must be "cpu", "cuda" or "cuda:N", not None')

        def move(x: Any) -> Any:
            return x.copy(data=asarray(x.data, device=device))

        if isinstance(self._obj, xr.Dataset):
            return self._obj.map(lambda x: x if _is_text(x) else move(x), keep_attrs=True)
        return move(self._obj)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdims: bool) -> Any:
        return self._obj.reduce(function, dim, keepdims=keepdims)

    def sum(self, dim: Any = None, keepdims: bool = False) -> Any:
        """Sums over dimensions, None for all, in the order of `pkg.sum`."""
        return self._reduce(_reductions.sum, dim, keepdims)

    def prod(self, dim: Any = None, keepdims: bool = False) -> Any:
        """Multiplies over dimensions, None for all, in the order of `pkg.prod`."""
        return self._reduce(_reductions.prod, dim, keepdims)

    def min(self, dim: Any = None, keepdims: bool = False) -> Any:
        """Returns minima over dimensions, None for all; NaN if an element is."""
        return self._reduce(_reductions.min, dim, keepdims)

    def max(self, dim: Any = None, keepdims: bool = False) -> Any:
        """Returns maxima over dimensions, None for all; NaN if an element is."""
        return self._reduce(_reductions.max, dim, keepdims)

    def mean(self, dim: Any = None, keepdims: bool = False) -> Any:
        """Returns means over dimensions, None for all, summed in the order of `pkg.sum`."""
        return self._reduce(_reductions.mean, dim, keepdims)


@_for_arrays("pcd")
class DataArrayAccessor(_Accessor):
    """``x.pcd`` of a DataArray."""

    def evaluate(self, expression: Any, **named: Any) -> Any:
        """Evaluates an expression; the one name without a value is the DataArray.

        ``x.pcd.evaluate("(x - low) / (high - low)", low=2, high=3)``; see `apply`.
        """
        e, (_, named) = _elements(expression), _take(expression, (), named)
        free = [name for name in e.inputs if name not in named]
        if len(free) != 1:
            raise TypeError(
                f"one name of the expression must stand for the DataArray, and the others be "
                f"given; not given: {', '.join(free) or 'none'}"
            )
        return apply(e, **{free[0]: self._obj}, **named)

    def fingerprint(self) -> str:
        """Returns `pkg.fingerprint` of the elements; TypeError for chunks of Dask."""
        return _fingerprint(self._obj.data)


@_for_datasets("pcd")
class DatasetAccessor(_Accessor):
    """``x.pcd`` of a Dataset.

    Reductions leave out variables of text and of objects that have a reduced dimension.
    """

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdims: bool) -> Any:
        def reduce(x: Any, **options: Any) -> Any:
            return x if _is_text(x) else function(x, **options)

        # `numeric_only` leaves text to `reduce` only where no dimension of it is reduced.
        return self._obj.reduce(reduce, dim, keepdims=keepdims, numeric_only=True)

    def evaluate(self, expression: Any, **named: Any) -> Any:
        """Evaluates an expression of the Dataset's variables, and of `named`; see `apply`."""
        e = _elements(expression)
        variables = {name: self._obj[name] for name in e.inputs if name in self._obj}
        _, given = _take(expression, (), {**variables, **named})
        missing = [name for name in e.inputs if name not in given]
        if missing:
            raise KeyError(
                f"the expression uses {', '.join(missing)}; the Dataset has "
                f"{', '.join(map(str, self._obj.variables))}"
            )
        return apply(e, **given)
