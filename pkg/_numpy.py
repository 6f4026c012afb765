"""NumPy's functions on `Array`s: what ``Array.__array_function__`` calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _creation, _elementwise, _manipulation, _namespace, _reductions
from ._array import NUMPY_FUNCTIONS, Array


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Array):
        raise TypeError("copyto(): the source is on a GPU: use pkg.asnumpy(x, out=dst)")
    if where is not True:
        raise TypeError("copyto() does not take where with arrays on a GPU")
    if hasattr(src, "dtype") and not np.can_cast(src.dtype, dst.dtype, casting=casting):  # type: ignore[arg-type]
        raise TypeError(f"cannot cast from {src.dtype} to {dst.dtype} with rule {casting!r}")
    dst[...] = src


def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    lowest, highest = (y if x is None else x for x, y in ((a_min, min), (a_max, max)))
    return _elementwise.clip(a, lowest, highest, out)


def _share(a: Any, b: Any, max_work: int | None = None) -> bool:
    both = isinstance(a, Array) and isinstance(b, Array)
    return both and a._memory is b._memory


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reductions.sum,
    np.prod: _reductions.prod,
    np.min: _reductions.min,
    np.max: _reductions.max,
    np.amin: _reductions.min,
    np.amax: _reductions.max,
    np.mean: _reductions.mean,
    np.any: _reductions.any,
    np.all: _reductions.all,
    np.count_nonzero: _reductions.count_nonzero,
    np.dot: _reductions.dot,
    np.trace: _reductions.trace,
    np.concatenate: _manipulation.concatenate,
    np.stack: _manipulation.stack,
    np.where: _manipulation.where,
    np.clip: _clip,
    np.round: lambda a, decimals=0, out=None: _elementwise.round(a, decimals, out),
    np.around: lambda a, decimals=0, out=None: _elementwise.round(a, decimals, out),
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
    np.reshape: _manipulation.reshape,
    np.transpose: _manipulation.transpose,
    np.matrix_transpose: _manipulation.matrix_transpose,
    np.moveaxis: _manipulation.moveaxis,
    np.expand_dims: _manipulation.expand_dims,
    np.squeeze: _manipulation.squeeze,
    np.flip: _manipulation.flip,
    np.broadcast_to: _manipulation.broadcast_to,
    np.ravel: lambda a: a.ravel(),
    np.copy: lambda a, order="K", subok=False: a.copy(order),
    np.copyto: _copyto,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.may_share_memory: _share,
    np.result_type: _namespace.result_type,
    np.can_cast: lambda from_, to, casting="safe": np.can_cast(from_.dtype, to, casting),
    np.array_repr: lambda arr, *args, **kwargs: repr(arr),
    np.array_str: lambda a, *args, **kwargs: str(a),
}

#: Functions that make an array like another; they have arguments of their own.
_LIKE: dict[Any, Callable[..., Any]] = {
    np.empty_like: _creation.empty_like,
    np.zeros_like: _creation.zeros_like,
    np.ones_like: _creation.ones_like,
    np.full_like: _creation.full_like,
}

#: Functions that know the argument `order`; others have C order.
_ORDERED = frozenset((np.copy, *_LIKE))

#: Arguments of NumPy's functions that mean nothing here when they have their default.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "order": ("C",),
    "subok": (True, False),
    "out": (None,),
    "casting": ("same_kind",),
    "initial": (np._NoValue,),
    "where": (np._NoValue, True),
    "keepdims": (np._NoValue,),
    "axis1": (0,),
    "axis2": (1,),
    "shape": (None,),
    "dtype": (None,),
    "copy": (None,),
}


def _with_defaults(function: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `ours`, called without the keyword arguments that mean nothing to it."""

    def is_default(name: str, x: Any) -> bool:
        if name == "order" and function in _ORDERED:
            return False
        return any(
            x is default or (type(x) is type(default) and x == default)
            for default in _DEFAULTS.get(name, ())
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **{name: x for name, x in kwargs.items() if not is_default(name, x)})

    return call


for _function, _ours in {**_FUNCTIONS, **_LIKE}.items():
    NUMPY_FUNCTIONS[_function] = _with_defaults(_function, _ours)
