"""The general path of the operations: devices other than the CPU, and operands that need preparing.

`pkg.core` handles plain numbers, and arrays of one type, by itself; what it does not, comes here.
NumPy's iterator prepares the operands (promotion, casting, byte order, alignment, broadcasting,
overlap), and one call of `core.map` computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _interop, core, ufuncs
from ._array import COMPARISONS
from ._convert import convert, saturates
from ._operands import broadcast_shapes, has_own_rules

#: Keyword arguments that this path understands; anything else is the ufunc's to judge.
_KNOWN = frozenset({"out", "where", "dtype", "casting", "order", "subok"})

_NUMBERS = (bool, int, float, complex)

#: From this many elements on threads pay (as in operation.c).
_LARGE = 65536


def explain(operation: Any, error: TypeError) -> TypeError:
    """A better TypeError for element types that an operation does not have; else the same."""
    no_loop = type(error).__name__ == "_UFuncNoLoopError"
    if not no_loop and "not supported for the input types" not in str(error):
        return error
    supported = ", ".join(dict.fromkeys(np.dtype(types[0]).name for types in operation.types))
    better = TypeError(
        f"{operation.__name__}() is not defined for these operands; it is defined for {supported} "
        f"and what casts to them safely ({error})"
    )
    better.__cause__ = error
    return better


def _call_ufunc(
    operation: Any, ufunc: np.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    try:
        return ufunc(*args, **kwargs)
    except TypeError as error:
        raise explain(operation, error) from error.__cause__


def resolve(
    operation: Any, kinds: list[Any], out: Any = None, dtype: Any = None, casting: str = "same_kind"
) -> tuple[Any, ...]:
    """The element types of the inputs and the output, as the ufunc would choose them.

    `kinds` and `out` are dtypes, or int, float or complex for a Python number.
    """
    signature = {} if dtype is None else {"signature": (None,) * operation.nin + (np.dtype(dtype),)}
    try:
        # Numbers alone have no type to be weak against.
        if all(isinstance(kind, type) for kind in kinds):
            kinds = [np.dtype(kind) for kind in kinds]
        dtypes: tuple[Any, ...] = operation.ufunc.resolve_dtypes(
            (*kinds, out), casting=casting, **signature
        )
        return dtypes
    except TypeError as error:
        raise explain(operation, error) from error.__cause__


def _map(operation: Any, ordinal: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Computes with one `core.map` on operands that are numbers, ndarrays or array-like."""
    out = kwargs.get("out")
    where = kwargs.get("where", True)
    casting = kwargs.get("casting", "same_kind")
    operands = [x if type(x) in _NUMBERS[1:] else np.asarray(x) for x in args]
    kinds = [type(x) if type(x) in _NUMBERS[1:] else x.dtype for x in operands]
    dtypes = resolve(
        operation, kinds, None if out is None else out.dtype, kwargs.get("dtype"), casting
    )
    # A weak number takes the resolved type here, or raises OverflowError as NumPy does.
    arrays = [
        np.asarray(x, dtype)
        if type(x) in _NUMBERS
        else convert(x, dtype)
        if saturates(x.dtype, dtype)
        else x
        for x, dtype in zip(operands, dtypes, strict=False)
    ]
    if where is not True:
        return _map_where(operation, ordinal, arrays, dtypes, out, where)
    target = out
    if out is not None and saturates(dtypes[-1], out.dtype):
        if not out.flags.writeable:
            raise ValueError("output array is read-only")
        target = np.empty_like(out, dtypes[-1])
    given: Any = [
        target,
        *arrays,
    ]  # NumPy's stub of nditer knows neither None nor flags per operand
    op_flags: Any = [
        ["writeonly", "updateifcopy", "aligned", "nbo", "allocate", "no_broadcast"],
        *([["readonly", "copy", "aligned", "nbo", "overlap_assume_elementwise"]] * len(arrays)),
    ]
    iterator = np.nditer(
        given,
        flags=["zerosize_ok", "copy_if_overlap"],
        op_flags=op_flags,
        op_dtypes=[dtypes[-1], *dtypes[:-1]],
        order=kwargs.get("order", "K"),
        casting=casting,
    )
    with iterator:
        result = iterator.operands[0]
        flags = core.map(operation.index, ordinal, result, *iterator.operands[1:])
    if flags:
        operation.report_flags(flags)
    if out is None:
        return result if result.ndim else result[()]
    if target is not out:
        out[...] = convert(result, out.dtype)
    return out


def _map_where(
    operation: Any, ordinal: int, arrays: list[Any], dtypes: tuple[Any, ...], out: Any, where: Any
) -> Any:
    """Computes the elements that `where` selects, and only those: they alone may warn."""
    mask = where if isinstance(where, np.ndarray) else np.asarray(where, np.bool_)
    if mask.dtype != np.bool_:
        raise TypeError(f"where must be an array of bool, not {mask.dtype}")
    shape = broadcast_shapes(mask.shape, *(x.shape for x in arrays))
    is_given = out is not None
    if out is None:
        out = np.empty(shape, dtypes[-1])
    elif out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, but the broadcast shape is {shape}")
    mask = np.broadcast_to(mask, shape)
    selected = [
        np.ascontiguousarray(np.broadcast_to(x, shape)[mask], dtype)
        for x, dtype in zip(arrays, dtypes, strict=False)
    ]
    result = np.empty(np.count_nonzero(mask), dtypes[-1])
    flags = core.map(operation.index, ordinal, result, *selected)
    out[mask] = convert(result, out.dtype, copy=False)
    if flags:
        operation.report_flags(flags)
    return out if is_given or out.ndim else out[()]


def _gives_integers(kwargs: dict[str, Any]) -> bool:
    """Tells whether floats may have to be converted to integers, which NumPy's buffers must not."""
    types = (getattr(kwargs.get("out"), "dtype", None), kwargs.get("dtype"))
    return any(dtype is not None and np.dtype(dtype).kind in "iu" for dtype in types)


def _is_beyond(args: tuple[Any, ...]) -> bool:
    """Whether a Python int is compared with integers of a type that cannot hold it."""
    for x, other in zip(args, args[1::-1], strict=False):
        if type(x) is int and not isinstance(other, core.ArrayBase):
            dtype = np.asarray(other).dtype if isinstance(other, list | tuple) else None
            dtype = getattr(other, "dtype", dtype)
            if isinstance(dtype, np.dtype) and dtype.kind in "iu":
                info = np.iinfo(dtype)
                return not info.min <= x <= info.max
    return False


def call(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`operation(*args, **kwargs)`, when `pkg.core` leaves it to Python."""
    if operation.__name__ in COMPARISONS and _is_beyond(args):
        # The answer is known, and NumPy knows it.
        return getattr(np, operation.__name__)(
            *args, **{name: x for name, x in kwargs.items() if name != "device"}
        )
    return _call(operation, args, kwargs)


def _call(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = _interop.call(operation, args, kwargs)
    if result is not NotImplemented:
        return result
    if any(isinstance(x, core.ArrayBase) for x in (*args, kwargs.get("out"))):
        from . import _numpy

        result = _numpy.operate(operation, args, kwargs)
        if result is NotImplemented:
            given = ", ".join(type(x).__name__ for x in args)
            raise TypeError(f"{operation.__name__}() is not defined for operands {given}")
        return result
    ordinal = core.parse_device(kwargs.pop("device", None))
    nin = operation.nin
    if len(args) == nin + 1 and "out" not in kwargs:
        args, kwargs = args[:nin], {**kwargs, "out": args[nin]}
    out = kwargs.get("out")
    if isinstance(out, tuple) and len(out) == 1:
        out = kwargs["out"] = out[0]
    if out is None:
        kwargs.pop("out", None)
    regular = (
        len(args) == nin
        and kwargs.keys() <= _KNOWN
        and (out is None or type(out) is np.ndarray)
        and not any(has_own_rules(x) for x in (*args, kwargs.get("where", True)))
    )
    if ordinal < 0:
        if regular and kwargs.get("casting") == "unsafe" and _gives_integers(kwargs):
            return _map(operation, ordinal, args, kwargs)
        if not kwargs and len(args) == nin and all(type(x) in _NUMBERS for x in args):
            return operation(*args)
        # One type, and only the layout in the way of threads; NumPy converts in small pieces, which
        # is better than the whole copies made here.
        if regular and kwargs.keys() <= {"out"}:
            arrays = [x for x in args if type(x) is np.ndarray]
            kinds = {x.dtype for x in arrays}
            others = [x for x in args if type(x) is not np.ndarray and type(x) not in _NUMBERS]
            if len(kinds) == 1 and not others and max(x.size for x in arrays) >= _LARGE:
                return _map(operation, ordinal, args, kwargs)
        return _call_ufunc(operation, operation.ufunc, args, kwargs)
    # Lazy operands (Dask, and xarray over it) may be computed elsewhere, where the device is.
    if not any(getattr(x, "__dask_graph__", None) for x in args):
        core.check_device(ordinal)
    if regular:
        return _map(operation, ordinal, args, kwargs)
    return _call_ufunc(operation, ufuncs.on_device(operation, ordinal), args, kwargs)


core.set_hooks(call, explain)
