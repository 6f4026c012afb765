"""The general path of the operations: devices other than the CPU, and operands that need preparing.

`pkg.core` handles plain numbers, and arrays of one type, by itself; what it does not, comes here.
NumPy's iterator prepares the operands (promotion, casting, byte order, alignment, broadcasting,
overlap), and one call of `core.map` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _interop, _out, core, ufuncs
from ._array import COMPARISONS, compares_beyond, is_number
from ._convert import convert, saturates
from ._operands import broadcast_shapes, check_ufunc, has_own_rules

#: Keyword arguments that this path understands; anything else is the ufunc's to judge.
_KNOWN = frozenset({"out", "where", "dtype", "casting", "order", "subok"})

#: Keyword arguments that mean the same as leaving them out.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "out": (None,),
    "where": (True, np.True_),
    "dtype": (None,),
    "casting": ("same_kind",),
    "order": ("K", None),
    "subok": (True,),
    "device": (None,),
}

_NUMBERS = (bool, int, float, complex)

#: From this many elements on threads pay (as in operation.c).
_LARGE = 65536


def _described(x: Any) -> str:
    """Names an operand for an error: its type, and the type of its elements."""
    kind = type(x)
    library = kind.__module__.split(".")[0] if isinstance(kind.__module__, str) else "builtins"
    name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
    dtype = np.asarray(x).dtype if type(x) in (list, tuple) else getattr(x, "dtype", None)
    is_array = isinstance(dtype, np.dtype) and not isinstance(x, np.generic)
    return f"{name} of {dtype}" if is_array else name


def explain(operation: Any, error: TypeError, args: Sequence[Any] = ()) -> TypeError:
    """Returns a TypeError that names the operands, if an operation lacks their types."""
    no_loop = type(error).__name__ == "_UFuncNoLoopError"
    if not no_loop and "not supported for the input types" not in str(error):
        # The ufunc of divide has a name of its own, lest pandas takes it for NumPy's.
        text = str(error).replace("'trunc_divide'", "'divide'")
        return error if text == str(error) else TypeError(text)
    supported = ", ".join(dict.fromkeys(np.dtype(types[0]).name for types in operation.types))
    given = " and ".join(_described(x) for x in args[: operation.nin]) or "these operands"
    better = TypeError(
        f"{operation.__name__}() is not defined for {given}; it is defined for {supported} "
        f"and what casts to them safely ({error})".replace("'trunc_divide'", "'divide'")
    )
    better.__cause__ = error
    return better


def _call_ufunc(
    operation: Any, ufunc: np.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    try:
        return ufunc(*args, **kwargs)
    except TypeError as error:
        raise explain(operation, error, args) from error.__cause__


def resolve(
    operation: Any,
    kinds: Sequence[Any],
    out: Any = None,
    dtype: Any = None,
    casting: Any = "same_kind",
    ufunc: Any = None,
    args: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """Returns the element types of the inputs and the output, as the ufunc would choose them.

    `kinds` and `out` are dtypes, or int, float or complex for a Python number; `ufunc` is the
    operation's unless given; an error names `args`, the operands.
    """
    ufunc = operation.ufunc if ufunc is None else ufunc
    signature: Any = (
        {} if dtype is None else {"signature": (None,) * ufunc.nin + (np.dtype(dtype),)}
    )
    try:
        # Numbers alone have no type to be weak against.
        if all(isinstance(kind, type) for kind in kinds):
            kinds = [np.dtype(kind) for kind in kinds]
        if casting == "equiv":  # which crashes NumPy's resolve_dtypes for a Python number
            samples = (k(1) if isinstance(k, type) else np.empty(0, k) for k in kinds)
            ufunc(*samples, out if out is None else np.empty(0, out), casting=casting, dtype=dtype)
            casting = "safe"
        dtypes: tuple[Any, ...] = ufunc.resolve_dtypes((*kinds, out), casting=casting, **signature)
        if dtypes[0] == np.bool_:  # a comparison; the library's are of int8
            dtypes = (*[np.dtype(np.int8)] * (len(dtypes) - 1), dtypes[-1])
        return dtypes
    except TypeError as error:
        raise explain(operation, error, args) from error.__cause__


def _map(operation: Any, ordinal: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Computes with one `core.map` on operands that are numbers, ndarrays or array-like."""
    out = kwargs.get("out")
    where = kwargs.get("where", True)
    casting = kwargs.get("casting", "same_kind")
    operands = [x if type(x) in _NUMBERS[1:] else np.asarray(x) for x in args]
    kinds = [type(x) if type(x) in _NUMBERS[1:] else x.dtype for x in operands]
    out_dtype = None if out is None else out.dtype
    dtypes = resolve(operation, kinds, out_dtype, kwargs.get("dtype"), casting, args=args)
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
        return _map_where(operation, ordinal, arrays, dtypes, out, where, casting)
    target = out
    if out is not None and saturates(dtypes[-1], out.dtype):
        shape = broadcast_shapes(*(x.shape for x in arrays))
        _out.check(operation.__name__, out, shape, dtypes[-1], -1, casting)
        target = np.empty_like(out, dtypes[-1])
    # NumPy's stub of nditer knows neither None nor flags per operand.
    given: Any = [target, *arrays]
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
        _out.store(out, result)
    return out


def _map_where(
    operation: Any,
    ordinal: int,
    arrays: list[Any],
    dtypes: tuple[Any, ...],
    out: Any,
    where: Any,
    casting: Any,
) -> Any:
    """Computes the elements that `where` selects, and only those: they alone may warn."""
    mask = where if isinstance(where, np.ndarray) else np.asarray(where, np.bool_)
    if mask.dtype != np.bool_:
        raise TypeError(f"where must be an array of bool, not {mask.dtype}")
    shape = broadcast_shapes(mask.shape, *(x.shape for x in arrays))
    is_given = out is not None
    if out is None:
        out = np.empty(shape, dtypes[-1])
    else:
        _out.check(operation.__name__, out, shape, dtypes[-1], -1, casting)
        shape = out.shape
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


def _may_saturate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tells whether floats may have to be converted to integers, which NumPy's buffers must not."""
    types = (getattr(kwargs.get("out"), "dtype", None), kwargs.get("dtype"))
    return (
        kwargs.get("casting") == "unsafe"
        and any(dtype is not None and np.dtype(dtype).kind in "iu" for dtype in types)
        and all(np.can_cast(np.asarray(x).dtype, np.complex128) for x in args)
    )


# ---- Comparisons ---------------------------------------------------------------------------------


def _empty(x: Any) -> Any:
    """Returns an array without elements of the type of `x`; a Python number as it is."""
    return x if x is None or type(x) in _NUMBERS else np.empty(0, _dtype(x))


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, core.ArrayBase) else np.asarray(x).dtype


def check_comparison(operation: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the keywords of a comparison without `casting`, if NumPy's comparison allows it.

    The types that a comparison is computed in are not always NumPy's, and NumPy compares bool and
    Python ints under any rule.  So NumPy judges, on arrays without elements.
    """
    if "casting" not in kwargs:
        return kwargs
    checked = {name: x for name, x in kwargs.items() if name in ("dtype", "casting", "signature")}
    operands = [_empty(x) for x in args]
    getattr(np, operation.__name__)(*operands, out=_empty(kwargs.get("out")), **checked)
    return {name: x for name, x in kwargs.items() if name != "casting"}


def known_answer(operation: Any, args: Sequence[Any]) -> bool | None:
    """Returns the answer of a comparison if the numbers in it tell, without the arrays.

    That is a comparison of two Python numbers, or of integers with a Python int beyond their type.
    """
    name = operation.__name__
    if name not in COMPARISONS:
        return None
    if all(map(is_number, args)):
        return bool(operation(*args))
    for k, number in enumerate(args):
        if type(number) is not int:
            continue
        dtype = _dtype(args[1 - k])
        if dtype.kind in "iub":
            info = np.iinfo(np.int64 if dtype.kind == "b" else dtype)
            if not info.min <= number <= info.max:
                return compares_beyond(name, number, k == 0)
    return None


def _fill(operation: Any, answer: bool, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Returns what a comparison of host arrays gives whose answer is `answer` everywhere."""
    out, where = kwargs.get("out"), kwargs.get("where", True)
    mask = where if isinstance(where, np.ndarray) else np.asarray(where, np.bool_)
    if mask.dtype != np.bool_:
        raise TypeError(f"where must be an array of bool, not {mask.dtype}")
    shape = broadcast_shapes(mask.shape, *(np.shape(x) for x in args))
    if out is None:
        result = np.empty(shape, np.bool_)
    else:
        result = _out.check(operation.__name__, out, shape, np.dtype(np.bool_), -1)
    np.copyto(result, answer, casting="unsafe", where=mask)
    return result if out is not None or result.ndim else result[()]


# ---- Calls ---------------------------------------------------------------------------------------


def _is_default(name: str, x: Any) -> bool:
    """Returns whether a keyword argument means the same as leaving it out."""
    return any(
        x is default or (type(x) is str and x == default) for default in _DEFAULTS.get(name, ())
    )


def normalized(
    operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the inputs, and the keyword arguments, `out` among them, without the defaults."""
    name, nin = operation.__name__, operation.nin
    kwargs = dict(kwargs)
    if len(args) == nin + 1:
        if kwargs.get("out") is not None:
            raise TypeError(f"{name}() got out by position and by name")
        if args[nin] is ...:
            raise TypeError("out=... is only allowed as a keyword argument.")
        args, kwargs["out"] = args[:nin], args[nin]
    if len(args) != nin:
        raise TypeError(f"{name}() takes {nin} operand{'s' * (nin > 1)} and out, not {len(args)}")
    if "out" in kwargs:
        kwargs["out"] = _out.unwrapped(name, kwargs["out"])
    signature = kwargs.get("signature")
    if type(signature) is tuple and len(signature) == nin + 1 and not any(signature[:nin]):
        kwargs["dtype"] = kwargs.pop("signature")[nin]
    kwargs = {name: x for name, x in kwargs.items() if not _is_default(name, x)}
    if name in COMPARISONS and "dtype" in kwargs and np.dtype(kwargs["dtype"]) == np.bool_:
        del kwargs["dtype"]  # theirs in any case
    return args, kwargs


def call(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`operation(*args, **kwargs)`, when `pkg.core` leaves it to Python."""
    args, kwargs = normalized(operation, args, kwargs)
    result = _interop.call(operation, args, kwargs)
    if result is not NotImplemented:
        return result
    arrays = (*args, kwargs.get("out"), kwargs.get("where"))
    if any(isinstance(x, core.ArrayBase) for x in arrays):
        from . import _numpy

        result = _numpy.operate(operation, args, kwargs)
        if result is NotImplemented:
            given = " and ".join(_described(x) for x in args)
            raise TypeError(f"{operation.__name__}() is not defined for {given}")
        return result
    if kwargs.keys() <= {"device"} and all(map(is_number, args)):
        return operation(*args, **kwargs)
    ordinal = core.parse_device(kwargs.pop("device", None))
    # Lazy operands (Dask, and xarray over it) may be computed elsewhere, where the device is.
    if ordinal >= 0 and not any(getattr(x, "__dask_graph__", None) for x in args):
        core.check_device(ordinal)
    out = kwargs.get("out")
    if any(has_own_rules(x) for x in arrays):
        return _call_with_rules(operation, ordinal, args, kwargs)
    if operation.__name__ in COMPARISONS:
        kwargs = check_comparison(operation, args, kwargs)
        if "dtype" not in kwargs and kwargs.keys() <= _KNOWN:
            answer = known_answer(operation, args)
            if answer is not None:
                return _fill(operation, answer, args, kwargs)
    is_regular = kwargs.keys() <= _KNOWN and (out is None or isinstance(out, np.ndarray))
    if ordinal < 0:
        if is_regular and _may_saturate(args, kwargs):
            return _map(operation, ordinal, args, kwargs)
        # One type, and only the layout in the way of threads; NumPy converts in small pieces, which
        # is better than the whole copies made here.
        if is_regular and kwargs.keys() <= {"out"}:
            hosts = [x for x in args if type(x) is np.ndarray]
            others = [x for x in args if type(x) is not np.ndarray and type(x) not in _NUMBERS]
            is_one_type = len({x.dtype for x in hosts}) == 1 and not others
            if is_one_type and max(x.size for x in hosts) >= _LARGE:
                return _map(operation, ordinal, args, kwargs)
        return _call_ufunc(operation, operation.ufunc, args, kwargs)
    if is_regular:
        return _map(operation, ordinal, args, kwargs)
    return _call_ufunc(operation, ufuncs.on_device(operation, ordinal), args, kwargs)


def _call_with_rules(
    operation: Any, ordinal: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """As `call`, where an argument has rules of its own: by a ufunc, which knows them."""
    check_ufunc(operation.__name__, args, kwargs.get("out"), kwargs.get("where", True))
    ufunc = operation.ufunc if ordinal < 0 else ufuncs.on_device(operation, ordinal)
    try:
        return _call_ufunc(operation, ufunc, args, kwargs)
    except OverflowError:
        # Integers and a number beyond their type: NumPy knows the answer, but crashes with `where`.
        if operation.__name__ not in COMPARISONS or "where" in kwargs:
            raise
        return getattr(np, operation.__name__)(*args, **kwargs)


core.set_hooks(call, explain)
