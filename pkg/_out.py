"""The one check of `out`: what it may be, where, of which shape and type, and how it is filled.

Operations, expressions and reductions call `check` before they compute, and `store` when they
cannot write to `out` directly.  The rules are those of NumPy's ufuncs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _interop, core
from ._convert import convert, warn_of_complex
from ._operands import has_own_rules, refusal

Shape = tuple[int, ...]


def unwrapped(name: str, out: Any) -> Any:
    """Returns the array in `out`, which NumPy's ufuncs also take as a tuple of one."""
    if not isinstance(out, tuple):
        return out
    if len(out) != 1:
        raise ValueError(f"{name}(): out must be one array, not a tuple of {len(out)}")
    if out[0] is ...:
        raise TypeError(f"{name}(): must use `...` as `out=...` and not per-operand/in a tuple")
    return out[0]


def target(name: str, out: Any) -> Any:
    """Returns `out` as a NumPy array, or as an Array also if it is foreign GPU memory.

    Raises TypeError if it is neither or has rules of its own, and ValueError if it is read-only.
    """
    found = out
    if not isinstance(out, np.ndarray | core.ArrayBase):
        found = _interop.from_foreign(out)
    if not isinstance(found, core.ArrayBase) and has_own_rules(out):
        raise refusal(f"out of {name}()", out)
    if isinstance(found, core.ArrayBase):
        is_readonly = found._is_readonly
    elif isinstance(found, np.ndarray):
        is_readonly = not found.flags.writeable
    else:
        raise TypeError(f"{name}(): out must be an array, not {type(out).__qualname__}")
    if is_readonly:
        raise ValueError(f"{name}(): out is read-only")
    return found


def _check_place(name: str, found: Any, ordinal: int) -> None:
    place = found._ordinal if isinstance(found, core.ArrayBase) else -1
    if place == ordinal:
        return
    if place >= 0 and ordinal >= 0:
        raise ValueError(
            f"{name}(): the operands are on cuda:{ordinal} and out is on {found.device}: "
            "move one of them with to_device() first"
        )
    here, there = ("in host memory" if one < 0 else f"on cuda:{one}" for one in (ordinal, place))
    raise TypeError(
        f"{name}(): out must be an array where the operands are: they are {here} and out is "
        f"{there}, and nothing is moved in silence"
    )


def broadcasts(shape: Shape, wide: Shape) -> bool:
    """Returns whether an array of one shape broadcasts to another."""
    missing = len(wide) - len(shape)
    return missing >= 0 and all(n in (1, w) for n, w in zip(shape, wide[missing:], strict=True))


def check(
    name: str,
    out: Any,
    shape: Shape,
    dtype: Any,
    ordinal: int,
    casting: Any = "same_kind",
    *,
    exact: bool = False,
) -> Any:
    """Returns the array in `out`, if a result of a shape and type may be stored in it.

    `ordinal` is the GPU that the result is on, -1 for host memory.  The result may broadcast into
    `out`, unless `exact`: then `out` must have its shape, as NumPy's reductions want it.  Raises
    TypeError for what is no array, for one in another kind of memory, and for types that `casting`
    does not allow; ValueError for a read-only array, another GPU, and a wrong shape; and ValueError
    for an Array that overlaps itself, because a GPU writes its elements in no order.
    """
    found = target(name, out)
    _check_place(name, found, ordinal)
    if found.shape != shape and (exact or not broadcasts(shape, found.shape)):
        raise ValueError(
            f"{name}(): out has shape {found.shape}, but the result has {shape}"
            + ("" if exact else ", which does not broadcast into it")
        )
    if not np.can_cast(dtype, found.dtype, casting=casting):
        raise TypeError(
            f"{name}(): cannot cast the result from {dtype} to out's {found.dtype} with casting "
            f"rule {casting!r}"
        )
    if ordinal >= 0 and overlaps_itself(found):
        raise ValueError(f"{name}(): out overlaps itself: several of its elements share memory")
    warn_of_complex(dtype, found.dtype)
    return found


def overlaps_itself(array: Any) -> bool:
    """Returns whether elements of an array share memory.

    Also true for a few layouts without overlap that no slicing makes.
    """
    steps = sorted(
        (abs(stride), n) for stride, n in zip(array.strides, array.shape, strict=True) if n != 1
    )
    reach = array.itemsize
    if any(n == 0 for _, n in steps):
        return False
    for stride, n in steps:
        if stride < reach:
            return True
        reach += stride * (n - 1)
    return False


def store(found: Any, result: Any) -> None:
    """Copies a result into an array that `check` has passed; broadcasts and converts it."""
    if isinstance(found, core.ArrayBase):
        core.copy(found, result)
        return
    result = np.asarray(result)
    if found.dtype.kind not in "cb":
        result = result.real  # `check` has warned
    np.copyto(found, convert(result, found.dtype, copy=False), casting="unsafe")
