"""Stores results in `out`, for calls of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core
from ._convert import convert, warn_of_complex
from ._operands import Shape, broadcasts, device_name, gpu_of, has_own_rules, place_error, refusal


def unwrap_out(name: str, out: Any) -> Any:
    """Returns the array in `out`, which NumPy's ufuncs also take as a tuple of one."""
    if not isinstance(out, tuple):
        return out
    if len(out) != 1:
        raise ValueError(f"{name}(): out must be one array, not a tuple of {len(out)}")
    if out[0] is ...:
        raise TypeError(f"{name}(): must use `...` as `out=...` and not per-operand/in a tuple")
    return out[0]


def open_out(name: str, out: Any) -> Any:
    found = core.as_array(out)
    if not isinstance(found, core.ArrayBase):
        if has_own_rules(out):
            raise refusal(f"out of {name}()", out)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"{name}(): out must be an array, not {type(out).__qualname__}")
    if found._is_readonly if isinstance(found, core.ArrayBase) else not found.flags.writeable:
        raise ValueError(f"{name}(): out is read-only")
    return found


def _check_place(name: str, found: Any, ordinal: int) -> None:
    place = gpu_of(found)
    if place == ordinal:
        return
    if place >= 0 and ordinal >= 0:
        where = f"the operands are on {device_name(ordinal)} and out is on {found.device}"
        raise place_error(name, where)
    here, there = ("in host memory" if one < 0 else f"on cuda:{one}" for one in (ordinal, place))
    raise TypeError(
        f"{name}(): out must be an array where the operands are: they are {here} and out is "
        f"{there}, and nothing is moved in silence"
    )


def check_out(
    name: str,
    out: Any,
    shape: Shape,
    dtype: Any,
    ordinal: int,
    casting: Any = "same_kind",
    *,
    exact: bool = False,
) -> Any:
    """Returns the array in `out`, if a result of a shape and type may be stored in it; else raises.

    `ordinal` is the GPU that holds the result, -1 for host memory.  The result may broadcast into
    `out`, unless `exact`, as for NumPy's reductions.  A GPU writes the elements in undefined order,
    so that an Array must not overlap itself.
    """
    found = open_out(name, out)
    _check_place(name, found, ordinal)
    if not np.can_cast(dtype, found.dtype, casting=casting):
        raise TypeError(
            f"{name}(): cannot cast the result from {dtype} to out's {found.dtype} with casting "
            f"rule {casting!r}"
        )
    if found.shape != shape and (exact or not broadcasts(shape, found.shape)):
        raise ValueError(
            f"{name}(): out has shape {found.shape}, but the result has {shape}"
            + ("" if exact else ", which does not broadcast into it")
        )
    if ordinal >= 0 and core.overlaps_itself(found):
        raise ValueError(f"{name}(): out overlaps itself: several of its elements share memory")
    warn_of_complex(dtype, found.dtype)
    return found


def store(found: Any, result: Any) -> None:
    """Copies a result into an array that `check_out` gave."""
    if isinstance(found, core.ArrayBase):
        core.copy(found, result)
        return
    result = np.asarray(result)
    if found.dtype.kind not in "cb":
        result = result.real  # `check_out` has warned
    np.copyto(found, convert(result, found.dtype, copy=False), casting="unsafe")


def finish(name: str, result: Any, out: Any, casting: Any = "same_kind", **how: Any) -> Any:
    """Checks `out`, stores a result in it and returns it; returns the result if `out` is None.

    A host array without axes becomes a scalar.
    """
    if out is None:
        return result[()] if isinstance(result, np.ndarray) else result
    found = check_out(name, out, result.shape, result.dtype, gpu_of(result), casting, **how)
    store(found, result)
    return out
