"""Functions that make arrays: an `Array` on a GPU, a NumPy array on the CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import core
from ._array import Array, tell_dask
from ._convert import array_of, array_of_number, array_to_move, convert, copied
from ._mode import in_default_mode
from ._operands import (
    NUMBERS,
    call_numpy,
    copies,
    describe,
    has_own_rules,
    integer,
    is_scalar,
    number,
    one_device,
    order_of,
    refusal,
    sizes_of,
)
from ._table import ELEMENTS, dtype_of
from ._typing import Cpu, Gpu, Host, overload
from ._warnings import call_for_user


def _place(device: str | None) -> int:
    ordinal = one_device(device)
    if ordinal >= 0:
        core.check_device(ordinal)
    return ordinal


def _check_copy(copy: bool | None, source: object, target: object) -> None:
    if copy is False:
        raise ValueError(f"asarray(): copy=False, but from {source} to {target} takes a copy")


@overload
def asarray(
    obj: Array, dtype: Any = ..., device: None = ..., *, copy: bool | None = ...
) -> Array: ...
@overload
def asarray(
    obj: Any, dtype: Any = ..., device: Cpu | None = ..., *, copy: bool | None = ...
) -> Host: ...
@overload
def asarray(obj: Any, dtype: Any = ..., device: Gpu = ..., *, copy: bool | None = ...) -> Array: ...
@overload
def asarray(
    obj: Any, dtype: Any = ..., device: str | None = ..., *, copy: bool | None = ...
) -> Any: ...
def asarray(
    obj: Any, dtype: Any = None, device: str | None = None, *, copy: bool | None = None
) -> Any:
    """Returns `obj` as an array on a device: an `Array` on a GPU, a NumPy array on the CPU.

    `obj` is anything that NumPy accepts as an array, an `Array`, or foreign GPU memory (with
    ``__dlpack__`` or ``__cuda_array_interface__``), which is used without a copy.  If `device` is
    None, an array on a GPU stays there, and anything else goes to the default device.  If `copy` is
    true, the result is always a copy; if it is false, a needed copy raises ValueError.

    >>> asarray([1, 2, 3], dtype="float32")
    array([1., 2., 3.], dtype=float32)
    """
    tell_dask()
    if dtype is None and (copy is None or copy is True):
        result = core.asarray_new(obj, device)
        if result is not NotImplemented:
            return result.copy("K") if copy and result is obj else result
    return _asarray(obj, dtype, device, copy)


@in_default_mode
def _asarray(obj: Any, dtype: Any, device: str | None, copy: bool | None) -> Any:
    obj, copy = core.as_array(obj), copies("asarray", copy)
    dtype = None if dtype is None else dtype_of("asarray", dtype)
    if isinstance(obj, Array):
        ordinal = obj._ordinal if device is None else one_device(device)
        result: Any = obj
        if ordinal != obj._ordinal:
            _check_copy(copy, obj.device, device)
            result = obj.to_device(device or "cpu")
        if dtype is not None and dtype != result.dtype:
            _check_copy(copy, obj.dtype, dtype)
            result = result.astype(dtype)
        return result.copy("K") if copy and result is obj else result
    if has_own_rules(obj):
        raise refusal("the operand of asarray()", obj)
    ordinal = _place(device)
    if ordinal < 0:
        return array_of(obj, dtype, copy)
    _check_copy(copy, "host memory", f"cuda:{ordinal}")
    host, target = array_to_move(obj, dtype)
    return copied(host, ordinal, target)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Any:
    """Returns the elements converted to another type."""
    if copy is True and device is None:
        result = core.astype_new(x, dtype)
        if result is not NotImplemented:
            return result
    return _astype(x, dtype, copy, device)


@in_default_mode
def _astype(x: Any, dtype: Any, copy: bool, device: str | None) -> Any:
    x, dtype = core.as_array(x), dtype_of("astype", dtype)
    if has_own_rules(x):
        ordinal = -1 if device is None else core.parse_device(device)
        how = {} if copy else {"copy": False}
        return call_numpy(np.ndarray.astype, x, dtype, **how, operands=[x], ordinal=ordinal)
    if not isinstance(x, Array):
        x = np.asarray(x)
    if device is not None:
        return asarray(x, dtype, device, copy=copy or None)
    return convert(x, dtype, copy=copy)


@overload
def empty(shape: Any, dtype: Any = ..., device: Cpu | None = ..., *, order: str = ...) -> Host: ...
@overload
def empty(shape: Any, dtype: Any = ..., device: Gpu = ..., *, order: str = ...) -> Array: ...
@overload
def empty(shape: Any, dtype: Any = ..., device: str | None = ..., *, order: str = ...) -> Any: ...
def empty(shape: Any, dtype: Any = None, device: str | None = None, *, order: str = "C") -> Any:
    """Returns a new array of a shape (an int or a tuple), with uninitialised elements.

    `dtype` is float64 unless given; `order` is "C" or "F".
    """
    return _new("empty", shape, dtype, device, order)


def _new(name: str, shape: Any, dtype: Any, device: str | None, order: str) -> Any:
    """Returns a new array; zeros and ones on the CPU are NumPy's, others are uninitialised."""
    letter = order_of(name, order, "C", "CF")
    ordinal = _place(device)
    own = np.dtype(np.float64) if dtype is None else dtype_of(name, dtype)
    sizes = sizes_of(name, "shape", shape)
    if ordinal < 0:
        make: Any = {"zeros": np.zeros, "ones": np.ones}.get(name, np.empty)
        return make(sizes, own, letter)
    native = own if own.isnative else own.newbyteorder("=")
    return core.empty(sizes, native, ordinal, letter == "F")


@overload
def full(
    shape: Any, fill_value: Any, dtype: Any = ..., device: Cpu | None = ..., *, order: str = ...
) -> Host: ...
@overload
def full(
    shape: Any, fill_value: Any, dtype: Any = ..., device: Gpu = ..., *, order: str = ...
) -> Array: ...
@overload
def full(
    shape: Any, fill_value: Any, dtype: Any = ..., device: str | None = ..., *, order: str = ...
) -> Any: ...
def full(
    shape: Any, fill_value: Any, dtype: Any = None, device: str | None = None, *, order: str = "C"
) -> Any:
    """Returns a new array filled with `fill_value`, a number; `dtype` is its type unless given.

    >>> full(3, 7)
    array([7, 7, 7])
    """
    return core.fill("full", shape, fill_value, dtype, device, order)


def fill_slowly(
    name: str, shape: Any, fill_value: Any, dtype: Any, device: str | None, order: str
) -> Any:
    if type(fill_value) not in NUMBERS:
        if has_own_rules(fill_value):
            raise refusal(f"the fill_value of {name}()", fill_value)
        shape_of_value = np.shape(fill_value)
        if shape_of_value:
            raise ValueError(
                f"{name}(): fill_value must be a number, not an array of shape {shape_of_value}"
            )
    if dtype is None:
        dtype = getattr(fill_value, "dtype", None) or np.asarray(fill_value).dtype
    result = _new(name, shape, dtype, device, order)
    is_filled = name != "full" and isinstance(result, np.ndarray)
    return result if is_filled else _filled(result, fill_value)


core.slow_paths["fill"] = fill_slowly


def _filled(result: Any, fill_value: Any) -> Any:
    if isinstance(result, np.ndarray) and result.dtype.char not in ELEMENTS:
        np.copyto(result, fill_value, casting="unsafe")
        return result
    fill_value = array_of_number(fill_value, result.dtype)
    if isinstance(result, np.ndarray):
        result[...] = array_of(fill_value, result.dtype)
    elif type(fill_value) in NUMBERS:
        core.copy(result, array_of(fill_value, result.dtype))
    else:  # an integer of NumPy's, alone, would have to fit
        result.fill(np.asarray(fill_value) if isinstance(fill_value, np.integer) else fill_value)
    return result


@overload
def zeros(shape: Any, dtype: Any = ..., device: Cpu | None = ..., *, order: str = ...) -> Host: ...
@overload
def zeros(shape: Any, dtype: Any = ..., device: Gpu = ..., *, order: str = ...) -> Array: ...
@overload
def zeros(shape: Any, dtype: Any = ..., device: str | None = ..., *, order: str = ...) -> Any: ...
def zeros(shape: Any, dtype: Any = None, device: str | None = None, *, order: str = "C") -> Any:
    """Returns a new array of zeros; `dtype` is float64 unless given."""
    return core.fill("zeros", shape, 0, float if dtype is None else dtype, device, order)


@overload
def ones(shape: Any, dtype: Any = ..., device: Cpu | None = ..., *, order: str = ...) -> Host: ...
@overload
def ones(shape: Any, dtype: Any = ..., device: Gpu = ..., *, order: str = ...) -> Array: ...
@overload
def ones(shape: Any, dtype: Any = ..., device: str | None = ..., *, order: str = ...) -> Any: ...
def ones(shape: Any, dtype: Any = None, device: str | None = None, *, order: str = "C") -> Any:
    """Returns a new array of ones; `dtype` is float64 unless given."""
    return core.fill("ones", shape, 1, float if dtype is None else dtype, device, order)


def _like(
    function: Any, x: Any, shape: Any, dtype: Any, device: str | None, order: str, *value: Any
) -> Any:
    """Returns an array like `x`, as NumPy's `function` does, filled with `value` if given."""
    x = core.as_array(x)
    if has_own_rules(x):
        return call_numpy(
            function,
            x,
            *(value if function is np.full_like else ()),
            dtype=dtype,
            order=None if order == "K" else order,
            shape=shape,
            operands=[x],
            ordinal=-1 if device is None else core.parse_device(device),
        )
    if has_own_rules(value):
        raise refusal(f"the fill_value of {function.__name__}()", value[0])
    if isinstance(x, Array):
        device = x.device if device is None else device
    else:
        x = np.asarray(x)
        device = "cpu" if device is None else device
    shape = x.shape if shape is None else sizes_of(function.__name__, "shape", shape)
    dtype = x.dtype if dtype is None else dtype_of(function.__name__, dtype)
    ordinal = _place(device)
    result: Any
    if isinstance(x, np.ndarray) and ordinal < 0:
        make: Any = np.empty_like if function is np.full_like else function
        result = make(x, dtype, order, shape=shape)
        value = value if function is np.full_like else ()
    else:
        order = order_of(function.__name__, order)
        result = core.empty_like(x, dtype, ordinal, order, shape)
    return _filled(result, value[0]) if value else result


def empty_like(
    x: Any, dtype: Any = None, device: str | None = None, *, shape: Any = None, order: str = "K"
) -> Any:
    """Returns a new array of the shape, type, order and device of `x`, uninitialised."""
    return _like(np.empty_like, x, shape, dtype, device, order)


@in_default_mode
def full_like(
    x: Any,
    fill_value: Any,
    dtype: Any = None,
    device: str | None = None,
    *,
    shape: Any = None,
    order: str = "K",
) -> Any:
    """Returns a new array of the shape, type, order and device of `x`, filled with a number."""
    return _like(np.full_like, x, shape, dtype, device, order, fill_value)


def zeros_like(
    x: Any, dtype: Any = None, device: str | None = None, *, shape: Any = None, order: str = "K"
) -> Any:
    """Returns a new array of zeros, of the shape, type, order and device of `x`."""
    return _like(np.zeros_like, x, shape, dtype, device, order, 0)


def ones_like(
    x: Any, dtype: Any = None, device: str | None = None, *, shape: Any = None, order: str = "K"
) -> Any:
    """Returns a new array of ones, of the shape, type, order and device of `x`."""
    return _like(np.ones_like, x, shape, dtype, device, order, 1)


def _element(x: Any, dtype: Any) -> Any:
    """Returns a number as an element of a type; OverflowError if an integer type cannot hold it."""
    if dtype.kind in "iu":
        return np.asarray(int(x), dtype)
    return np.asarray(x).astype(dtype)


def _count_steps(start: Any, stop: Any, step: Any) -> int:
    distance = stop - start
    with np.errstate(all="ignore"):
        steps = float(distance / step)
    if not -(2**63) <= steps < 2**63:
        raise ValueError(
            f"arange(): {steps} steps of {step} from {start} to {stop}: expected fewer than 2**63"
        )
    if steps == 0 and distance != 0:  # the quotient underflowed
        return 0 if math.copysign(1, steps) < 0 else 1
    return max(math.ceil(steps), 0)


@in_default_mode
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, device: str | None = None
) -> Any:
    """Returns the numbers from `start` (or 0) up to, but not including, `stop`, `step` apart.

    >>> arange(2, 9, 3)
    array([2, 5, 8])
    """
    step = 1 if step is None else step
    given = {"start": start, "stop": start if stop is None else stop, "step": step}
    for name, x in given.items():
        if type(x) not in NUMBERS:
            if has_own_rules(x):
                raise refusal(f"the {name} of arange()", x)
            number("arange", name, x)
    dtype = None if dtype is None else dtype_of("arange", dtype)
    ordinal = _place(device)
    if ordinal < 0:
        ends: Any = (0, start) if stop is None else (start, stop)
        return call_for_user(np.arange, *ends, step, dtype)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ZeroDivisionError("arange(): step is 0")
    for name, x in given.items():
        own = np.asarray(x).dtype
        if own.char not in ELEMENTS or own.kind == "c":
            raise TypeError(f"arange(): {name} must be a real number of 64 bits at most, not {x!r}")
    # NumPy's search begins with int64.
    kind = np.result_type(np.int64, np.asarray(start), np.asarray(stop), np.asarray(step))
    target = (kind if dtype is None else dtype).newbyteorder("=")
    if target == np.bool_:  # two elements at most, or NumPy's TypeError
        return copied(call_for_user(np.arange, start, stop, step, target), ordinal)
    if target.kind not in "iufc":
        raise TypeError(f"arange(): dtype must be numeric, not {target}")
    count = _count_steps(start, stop, step)
    out = core.empty((count,), target, ordinal, False)
    if count == 0:
        return out
    # As in NumPy, the step is the difference of the first two elements, in the type.
    carrier = np.dtype(np.float32) if target == np.float16 else target
    with np.errstate(all="ignore"):
        first = _element(start, target).astype(carrier)
        second = _element(start + step, target).astype(carrier) if count > 1 else first
        delta = np.asarray(second - first, carrier)
        is_exact = np.isfinite(delta) and first + delta == second
    if carrier == target:
        core.arange(out, first, delta)
    else:
        wide = core.empty((count,), carrier, ordinal, False)
        core.arange(wide, first, delta)
        core.copy(out, wide)
    if not is_exact:
        out[:1], out[1:2] = first, second
    return out


def _check_end(what: str, x: Any, ordinal: int) -> None:
    kind = "V" if isinstance(x, Array) or x is None else np.asarray(x).dtype.kind
    if type(x) is int and kind == "O":
        raise OverflowError(f"linspace(): {what} must have 64 bits at most; use a float")
    if kind in "SUV" or (ordinal >= 0 and not (is_scalar(x) and kind in "biufc")):
        raise TypeError(f"linspace(): {what} must be a number, not {describe(x)}")


@in_default_mode
def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    device: str | None = None,
) -> Any:
    """Returns `num` numbers evenly spaced from `start` to `stop`, which is the last by default.

    >>> linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    (num,) = sizes_of("linspace", "num", integer("linspace", "num", num))
    dtype = None if dtype is None else dtype_of("linspace", dtype)
    ordinal = _place(device)
    ends = (start, stop)
    if has_own_rules(ends):
        more: Any = {"operands": ends, "ordinal": ordinal}
        return call_numpy(np.linspace, *ends, num, endpoint, dtype=dtype, **more)
    for what, x in (("start", start), ("stop", stop)):
        _check_end(what, x, ordinal)
    if ordinal < 0:
        if dtype is None or dtype.kind not in "iu":
            return np.linspace(start, stop, num, endpoint, dtype=dtype)
        return convert(np.floor(np.linspace(start, stop, num, endpoint)), dtype)
    # Use NumPy's types and order of operations, so that the bits are NumPy's.
    carrier = np.result_type(start, stop, float(num))
    intervals = num - 1 if endpoint else num
    result: Any = arange(num, dtype=carrier, device=f"cuda:{ordinal}")
    with np.errstate(all="ignore"):
        first, last = (np.asarray(x).astype(carrier)[()] for x in ends)
        delta = last - first
        step = delta / intervals if intervals > 0 else delta
    result = result / intervals * delta if step == 0 and intervals > 0 else result * step
    result = result + first
    if endpoint and num > 1:
        result[-1] = last
    if dtype is None:
        return result
    return (np.floor(result) if dtype.kind in "iu" else result).astype(dtype, copy=False)
