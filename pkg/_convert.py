"""Converts elements of host arrays to another type, as the library does on every device.

Conversions of floats to integers differ from NumPy's, whose results depend on the processor: a
number out of range becomes the nearest integer of the type, and NaN the lowest, without a warning.
So NumPy must not do these, nor in the buffers of its ufuncs and iterators.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from . import core
from ._table import ELEMENTS
from ._warnings import call_for_user, warn


def warn_of_complex(source: Any, target: Any) -> None:
    if source.kind == "c" and target.kind not in "cb":
        warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
        )


def saturates(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    return source.char in "efdFD" and target.kind in "iu"


def check_cast(name: str, source: np.dtype[Any], target: np.dtype[Any], casting: str) -> None:
    if not np.can_cast(source, target, casting=casting):  # type: ignore[arg-type]
        raise TypeError(
            f"{name}(): cannot cast from {source} to {target} with casting rule {casting!r}"
        )


def in_native_order(x: Any) -> Any:
    """Returns a host array in native byte order, a copy if it is in the other one."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def convert(x: Any, dtype: Any, *, copy: bool = True) -> Any:
    """Returns ``x.astype(dtype, copy=copy)``, converted by the library."""
    if isinstance(x, core.ArrayBase):
        return x.astype(dtype, copy=copy)  # type: ignore[attr-defined]
    x, target = np.asarray(x), np.dtype(dtype)
    if not saturates(x.dtype, target):
        return call_for_user(x.astype, target, copy=copy)
    warn_of_complex(x.dtype, target)
    result = np.empty_like(x, target.newbyteorder("="))
    core.copy(result, in_native_order(x))
    return result if target.isnative else result.astype(target)


def copied(x: Any, ordinal: int, dtype: Any = None, order: str = "K") -> Any:
    result = core.empty_like(x, x.dtype if dtype is None else dtype, ordinal, order)
    core.copy(result, x)
    return result


@cache
def conversion(source: np.dtype[Any], target: np.dtype[Any]) -> core.Program:
    return core.Program([source], [], [(core.STEP_CONVERT, target, (0,))], "cast")


def array_of_number(x: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a Python float or complex number as an array, if only an array converts to a type.

    Returns anything else unchanged; an int, because it has to fit.
    """
    converts = type(x) is complex or (type(x) is float and dtype.kind in "iu")
    return np.asarray(x) if converts else x


def array_of(obj: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """Returns ``np.array(obj, dtype, copy=copy)``, converted by the library.

    Python numbers that do not fit, alone or in lists, raise NumPy's errors.
    """
    dtype = None if dtype is None else np.dtype(dtype)
    is_array = isinstance(obj, np.ndarray | np.generic)
    if is_array and dtype is not None and copy is not False and saturates(obj.dtype, dtype):
        return convert(obj, dtype)
    if is_array or dtype is None or dtype.kind not in "iu" or type(obj) is int:
        return call_for_user(np.array, obj, dtype, copy=copy)
    with np.errstate(invalid="ignore"):
        result = call_for_user(np.array, obj, dtype, copy=copy)
    floats = np.asarray(obj).real  # NumPy has warned of imaginary parts
    if saturates(floats.dtype, dtype):
        # NumPy converted Python's numbers exactly, but its own scalars as the processor does.
        is_wrong = result.astype(np.float64) != np.trunc(floats.astype(np.float64))
        np.copyto(result, convert(floats, dtype), where=is_wrong)
    return result


def array_to_move(obj: Any, dtype: Any = None) -> tuple[np.ndarray[Any, Any], np.dtype[Any]]:
    """Returns `obj` as an array that `core.copy` can copy to a GPU, and its type there."""
    # NumPy converts objects that are not arrays: it raises for numbers that do not fit.
    host = array_of(obj, None if isinstance(obj, np.ndarray) else dtype)
    target = host.dtype if dtype is None else dtype
    if target.char not in ELEMENTS or host.dtype.char not in ELEMENTS:
        host = np.asarray(host, target)  # NumPy's own error says more
    host, target = in_native_order(host), target if target.isnative else target.newbyteorder("=")
    if host.dtype.itemsize > target.itemsize:
        host = convert(host, target)  # fewer bytes over the bus
    return host, target
