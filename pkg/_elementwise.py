"""Element-wise functions of several operations, each computed in one pass over memory."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from . import core
from ._convert import convert
from ._operands import (
    NUMBERS,
    call_numpy,
    describe,
    find_place,
    has_own_rules,
    integer,
    is_number,
    native,
    plain,
    python_number,
)
from ._table import OPERATIONS
from .expressions.expression import named

_COPY = named("clip", "copy(x)")
_CLIP = named("clip", "clip(x, lowest, highest)")
_AT_LEAST = named("clip", "maximum(x, lowest)")
_AT_MOST = named("clip", "minimum(x, highest)")
_ROUND = named("round", "round(x)")
_ROUND_DIGITS = named("round", "round(x * scale) / scale")
_ROUND_TENS = named("round", "round(x / scale) * scale")

#: The largest power of ten that is a float.
_MAX_DECIMALS = 308


def _operand(name: str, x: Any) -> Any:
    if type(x) in NUMBERS or isinstance(x, core.ArrayBase):
        return x
    x = core.as_array(x)
    if isinstance(x, core.ArrayBase) or is_number(x) or has_own_rules(x):
        return x
    return native(plain(f"the operand of {name}()", x))


def _keywords(out: Any, device: str | None) -> dict[str, Any]:
    if out is device is None:
        return {}
    return {"out": out, "casting": "same_kind", "device": device}


def _bound(x: Any, bound: Any, is_lowest: bool) -> Any:
    """Returns a bound; None for a Python int that no element of an integer type exceeds."""
    dtype = getattr(x, "dtype", None)
    if type(bound) is int and isinstance(dtype, np.dtype) and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if bound <= limits.min if is_lowest else bound >= limits.max:
            return None
    return bound


def clip(
    x: Any, /, min: Any = None, max: Any = None, out: Any = None, *, device: str | None = None
) -> Any:
    """Limits elements to the interval from `min` to `max`; None sets no limit.  NaN stays.

    The result has the type to which all operands promote.  If `min` exceeds `max`, it is `max`.
    Without limits it is a copy.

    >>> clip([1, 5, 9], 2, 6)
    array([2, 5, 6])
    """
    x = _operand("clip", x)
    lowest, highest = (b if b is None else _operand("clip", b) for b in (min, max))
    if any(map(has_own_rules, (x, lowest, highest))):
        operands = [one for one in (x, lowest, highest) if one is not None]
        ordinal = find_place("clip", operands, device)
        return call_numpy(np.clip, x, lowest, highest, out=out, operands=operands, ordinal=ordinal)
    if out is ...:
        result = clip(x, lowest, highest, device=device)
        return result if isinstance(result, core.ArrayBase) else np.asarray(result)
    lowest, highest = _bound(x, lowest, True), _bound(x, highest, False)
    how = _keywords(out, device)
    if lowest is None and highest is None:
        return _COPY(x, **how)
    if highest is None:
        return _AT_LEAST(x, lowest, **how)
    if lowest is None:
        return _AT_MOST(x, highest, **how)
    return _CLIP(x, lowest, highest, **how)


def round(x: Any, /, decimals: int = 0, out: Any = None, *, device: str | None = None) -> Any:
    """Rounds to a number of decimals, halves to even, as `np.round`; negative ones mean tens.

    Elements are multiplied by the power of ten, rounded and divided by it.  Integers keep their
    type.  Complex numbers are rounded to integers only.

    >>> round([1.25, -2.5, 3.5])
    array([ 1., -2.,  4.])
    >>> round(2.675, 2)
    2.68
    >>> round([1234, 1550], -2)
    array([1200, 1600])
    """
    x, decimals = _operand("round", x), integer("round", "decimals", decimals)
    if not -(2**31) <= decimals < 2**31:  # a C int, as for NumPy
        raise OverflowError(f"round(): decimals must be an int of 32 bits, not {decimals}")
    if has_own_rules(x):
        ordinal = core.parse_device(device)
        given = (decimals,) if decimals else ()
        kinds = [x.dtype.kind if isinstance(x, np.ndarray) else "" for x in (x, out)]
        if kinds[0] == "c" and kinds[1] in tuple("biuf"):  # NumPy writes the real parts first
            raise TypeError(f"round(): out must have a complex type, not {out.dtype}")
        return call_numpy(np.round, x, *given, out=out, operands=[x], ordinal=ordinal)
    x = python_number(x) if is_number(x) else x
    kind = np.dtype(type(x)).kind if type(x) in NUMBERS else x.dtype.kind
    how = _keywords(out, device)
    if decimals == 0 or (decimals > 0 and kind in "iu"):
        return _ROUND(x, **how)
    if kind in "bc":
        advice = "; round the real and the imaginary part" if kind == "c" else ""
        raise TypeError(f"round(): decimals must be 0 for {describe(x)}{advice}")
    if type(x) is int:  # Python rounds exactly; so high a power of ten gives 0 at once
        return _ROUND(builtins.round(x, max(decimals, -x.bit_length())), **how)
    if kind in "iu":  # the largest power of ten gives 0; infinity would give NaN
        decimals = max(decimals, -_MAX_DECIMALS)
    # Rounded at each step, as NumPy's power of ten: from 10**23 on others would give other bits.
    scale = math.prod([10.0] * min(abs(decimals), _MAX_DECIMALS + 1))
    if decimals > 0:
        return _ROUND_DIGITS(x, scale, **how)
    if kind == "f":
        return _ROUND_TENS(x, scale, **how)
    tens = _ROUND_TENS(x, scale, device=device)
    result = convert(tens, x.dtype)[()]
    return result if out is None else OPERATIONS["positive"](result, out=out)
