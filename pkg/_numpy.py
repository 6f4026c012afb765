"""NumPy's functions on `Array`s: what ``__array_ufunc__`` and ``__array_function__`` answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _creation, _general, _manipulation, _namespace, _out, _reductions, core
from ._array import COMPARISONS, Array, _stored, as_array, call, power
from ._convert import convert
from ._operands import broadcast_shapes, has_own_rules, own_ufuncs, refusal

_operations = {operation.__name__: operation for operation in core.operations}

#: The operation of each ufunc: NumPy's, and this package's own.  NumPy's divide is the true one.
_UFUNCS: dict[Any, tuple[Any, bool]] = {
    getattr(np, name): (operation, name == "divide") for name, operation in _operations.items()
}
_UFUNCS.update({operation.ufunc: (operation, False) for operation in core.operations})

#: The reduction that repeats each operation.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max"}


def _foreign(inputs: Iterable[Any], *others: Any) -> list[Any]:
    """Returns the operands with rules of their own; GPU memory of other libraries has none."""
    return [x for x in map(as_array, (*inputs, *others)) if has_own_rules(x)]


def operate(operation: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`operation(*inputs, **kwargs)` where an Array is among the arguments.

    The arguments come from `_general.normalized`.
    """
    others = _foreign(inputs, kwargs.get("out"), kwargs.get("where"))
    if "device" not in kwargs and any(map(own_ufuncs, others)):
        return operation.ufunc(*inputs, **kwargs)  # NumPy asks their classes
    return _computed(operation, False, inputs, kwargs)


def _computed(
    operation: Any, is_true_division: bool, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    name = operation.__name__
    for x in _foreign(inputs, kwargs.get("out"), kwargs.get("where")):
        raise refusal(f"{name}(): one operand is an Array and another", x)
    if name in COMPARISONS:
        kwargs = _general.check_comparison(operation, inputs, kwargs)
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    casting = kwargs.pop("casting", "same_kind")
    order = kwargs.pop("order", "K")
    kwargs.pop("subok", None)
    if kwargs:
        raise TypeError(f"{name}() does not take {', '.join(kwargs)} with arrays on a GPU")
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f'{name}(): order must be "C", "F", "A" or "K", not {order!r}')
    if not any(isinstance(as_array(x), Array) for x in inputs):
        for what, x in (("out", as_array(out)), ("where", where)):
            if isinstance(x, Array):
                raise TypeError(
                    f"{name}(): {what} is on {x.device}, but no operand is: "
                    "nothing is moved in silence"
                )
    if device is not None:
        ordinal = core.parse_device(device)
        for x in inputs:
            if isinstance(x, Array) and x._ordinal != ordinal:
                raise ValueError(
                    f"{name}(): an operand is on {x.device}, and device is {device!r}: "
                    "data is computed where it is; move it with to_device() first"
                )
    if dtype is not None or casting != "same_kind":
        ufunc = np.divide if is_true_division else operation.ufunc
        inputs = _cast(operation, ufunc, inputs, out, dtype, casting)
    in_place = where is True and casting == "same_kind" and out is not None
    result = call(operation.index, is_true_division, inputs, out if in_place else None)
    if in_place or result is NotImplemented:
        return result
    if where is not True:
        return _masked(name, result, where, out, casting, order)
    if out is not None:
        return _stored(name, out, result, casting)
    if order == "A":
        is_fortran = all(x._is_f_contiguous for x in inputs if isinstance(x, Array))
        order = "F" if is_fortran else "C"
    if order == "K" or result.flags[f"{order}_CONTIGUOUS"]:
        return result
    return result.copy(order)


def _cast(
    operation: Any,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    out: Any,
    dtype: Any,
    casting: Any,
) -> tuple[Any, ...]:
    """Returns the operands in the types that the ufunc would compute in; TypeError as NumPy's."""
    kinds = [
        type(x) if type(x) in (int, float, complex) else getattr(x, "dtype", np.dtype(np.bool_))
        for x in inputs
    ]
    kind = getattr(out, "dtype", None)
    dtypes = _general.resolve(operation, kinds, kind, dtype, casting, ufunc)
    return tuple(
        x.astype(to.newbyteorder("="), copy=False)
        if isinstance(x, Array)
        else convert(np.asarray(x), to)[()]
        if isinstance(x, np.generic | np.ndarray)
        else np.asarray(x, to)[()]
        for x, to in zip(inputs, dtypes, strict=False)
    )


def _masked(name: str, result: Array, where: Any, out: Any, casting: str, order: str) -> Any:
    """`result` where the mask is true, what was in `out` elsewhere."""
    mask = where if isinstance(where, Array) else np.asarray(where)
    if mask.dtype != np.bool_:
        raise TypeError(f"{name}(): where must be an array of bool, not of {mask.dtype}")
    if isinstance(mask, np.ndarray) and mask.ndim:
        raise TypeError(f"{name}(): where is in host memory, the operands are on {result.device}")
    shape = broadcast_shapes(mask.shape, result.shape)
    if out is None:
        is_fortran = order == "F" or (order in "AK" and not result._is_c_contiguous)
        out = found = core.empty(shape, result.dtype, result._ordinal, is_fortran)
    else:
        found = _out.check(name, out, shape, result.dtype, result._ordinal, casting)
    core.select(found, mask, result, found)
    return out


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``__array_ufunc__`` returns."""
    if any(map(own_ufuncs, _foreign(inputs, *kwargs.get("out", ()), kwargs.get("where")))):
        return NotImplemented
    if method == "__call__":
        if function in _UFUNCS:
            operation, is_true_division = _UFUNCS[function]
            inputs, kwargs = _general.normalized(operation, inputs, kwargs)
            return _computed(operation, is_true_division, inputs, kwargs)
        if function is np.positive:
            x, out = inputs[0], _out.unwrapped("positive", kwargs.pop("out", None))
            if kwargs or not isinstance(x, Array):
                return NotImplemented
            return x.copy("K") if out is None else _stored("positive", out, x)
        if function is np.power and not kwargs:
            return power(*inputs) if isinstance(inputs[0], Array) else NotImplemented
    elif method == "reduce" and function in _UFUNCS:
        name = _UFUNCS[function][0].__name__
        if name in _REDUCTIONS:
            return _reduced(_REDUCTIONS[name], *inputs, **kwargs)
    return NotImplemented


def _reduced(
    name: str,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    for what, is_given in (("initial", initial is not np._NoValue), ("where", where is not True)):
        if is_given:
            raise TypeError(f"{name}() does not take {what} with arrays on a GPU")
    return _reductions.reduction(name, x, axis, dtype, _out.unwrapped(name, out), keepdims)


def _trace(a: Any, offset: int = 0) -> Any:
    from ._functions import trace

    return trace(a, offset)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Array):
        raise TypeError("copyto(): the source is on a GPU: use pkg.asnumpy(x, out=dst)")
    if where is not True:
        raise TypeError("copyto() does not take where with arrays on a GPU")
    if hasattr(src, "dtype") and not np.can_cast(src.dtype, dst.dtype, casting=casting):  # type: ignore[arg-type]
        raise TypeError(f"cannot cast from {src.dtype} to {dst.dtype} with rule {casting!r}")
    dst[...] = src


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
    np.dot: _reductions.dot,
    np.trace: _trace,
    np.concatenate: _manipulation.concatenate,
    np.stack: _manipulation.stack,
    np.where: _manipulation.where,
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


def function(
    function: Any,
    types: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],  # noqa: ARG001
) -> Any:
    """What ``__array_function__`` returns."""
    known = _FUNCTIONS.get(function) or _LIKE.get(function)
    if known is None:
        return NotImplemented
    kwargs = {
        name: value
        for name, value in kwargs.items()
        if (name == "order" and function in _ORDERED)
        or not any(
            value is default or (type(value) is type(default) and value == default)
            for default in _DEFAULTS.get(name, ())
        )
    }
    return known(*args, **kwargs)
