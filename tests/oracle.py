"""The one oracle: NumPy, and what differs from NumPy by design.

- `divide` of integers truncates toward zero, as in C.
- `divide` and `imag` of bools are those of int8.
- Complex multiply, divide and square are the textbook formulas in real arithmetic, to the bit;
  COMPLEX_ULPS bounds how far they and the complex absolute and sqrt are from exact results.
- Elementary functions are near those of NumPy's long double; test_elementary.py tests their bits.
  Of complex results it is each part; signs beside a NaN are open, as in C's Annex G.
- NumPy has no erf: it is the C library's.
- The reciprocal of an integer 0 is 0, as its quotients are.
- Where both operands of minimum, maximum, fmin, fmax and nextafter are zeros, the sign of the
  result is open: NumPy's depends on the processor and its version.
- NaN is NaN, whatever its sign and payload; for fmin and fmax a signaling one too, for which
  NumPy's loops differ among themselves.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pkg._docs import COMPLEX_ELEMENTARY, ELEMENTARY

Array = np.ndarray[Any, Any]

#: Units in the last place between an elementary function and the rounded value of a wider type.
ELEMENTARY_ULPS = 2.0

# ---- Expected results ----


def _truncating_divide(a: Array, b: Array) -> Array:
    """C's quotient; 0 for a division by zero, and MIN / -1 wraps to MIN."""
    floor = np.floor_divide(a, b)
    is_inexact = np.multiply(floor, b) != a
    return np.where(b == 0, 0, floor + (is_inexact & ((a < 0) != (b < 0)))).astype(floor.dtype)


def _parts(a: Array) -> tuple[Array, Array]:
    return np.array(a.real), np.array(a.imag)


def _join(re: Array, im: Array) -> Array:
    result = np.empty(re.shape, np.result_type(re, np.complex64))
    result.real, result.imag = re, im
    return result


def _complex_multiply(a: Array, b: Array) -> Array:
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    return _join(ar * br - ai * bi, ar * bi + ai * br)


def _complex_divide(a: Array, b: Array) -> Array:
    """R. L. Smith's method (1962), which NumPy uses as well."""
    result = np.empty(a.shape, a.dtype)
    by_real = np.abs(b.real) >= np.abs(b.imag)
    is_zero = (b.real == 0) & (b.imag == 0)
    for mask, swap in ((by_real & ~is_zero, False), (~by_real & ~is_zero, True)):
        (ar, ai), (br, bi) = _parts(a[mask]), _parts(b[mask])
        if swap:
            ar, ai, br, bi = ai, ar, bi, br
        ratio = bi / br
        scale = br.dtype.type(1) / (br + bi * ratio)
        im = ar * ratio - ai if swap else ai - ar * ratio
        result[mask] = _join((ar + ai * ratio) * scale, im * scale)
    (ar, ai), (br, _) = _parts(a[is_zero]), _parts(b[is_zero])
    result[is_zero] = _join(ar / np.abs(br), ai / np.abs(br))
    return result


def _complex_expm1(z: Array) -> Array:
    """e^z - 1, where NumPy's does not follow Annex G beside infinities and NaNs."""
    w, half = np.exp(z), np.sin(z.imag / 2)
    re = np.where(np.isfinite(z), np.expm1(z.real) * np.cos(z.imag) - 2 * half * half, w.real - 1)
    return _join(re, w.imag)


def _complex_log1p(z: Array) -> Array:
    """log(1 + z); NumPy's cancels near 0.  u is |1 + z|^2 - 1."""
    w = np.log(_join(z.real + 1, z.imag))
    x, y = _parts(z)
    u = 2 * x + (x * x + y * y)
    return _join(np.where(np.abs(u) < 0.5, np.log1p(u) / 2, w.real), w.imag)


_COMPLEX_FUNCTIONS: dict[str, Any] = {"expm1": _complex_expm1, "log1p": _complex_log1p}


def _native(x: Any) -> Any:
    """Python's numbers stay weak; of arrays, byte order and layout are forgotten."""
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int | float | complex) and not isinstance(x, np.generic):
        return x
    x = np.array(x)
    return x.astype(x.dtype.newbyteorder("="))


def _erf(x: Any) -> Array:
    """erf in the type in which NumPy computes functions."""
    x = np.asarray(x)
    dtype = np.cbrt(x.reshape(-1)[:0]).dtype
    return np.array([math.erf(v) for v in x.reshape(-1).tolist()], dtype).reshape(x.shape)


def function(name: str) -> Any:
    """Returns NumPy's function of that name, or what stands in for it."""
    return _erf if name == "erf" else getattr(np, name)


def _float_of(name: str, operands: Any) -> Any:
    """The type in which NumPy computes an elementary function: of integers it depends on each."""
    samples = (x.reshape(-1)[:0] if isinstance(x, np.ndarray) else x for x in operands)
    return np.result_type(function(name)(*samples))


def expected(name: str, *operands: Any) -> Any:
    """Returns the result of the operation `name` for NumPy arrays and Python numbers among them."""
    operands = tuple(_native(x) for x in operands)
    dtype = np.result_type(*operands)
    if name in ("divide", "imag") and dtype == np.bool_:
        dtype = np.dtype(np.int8)
    if name == "divide" and dtype.kind in "iu":
        return _truncating_divide(*np.broadcast_arrays(*(np.asarray(x, dtype) for x in operands)))
    if name == "power" and dtype.kind in "biu":
        return np.power(*operands)
    if name in ELEMENTARY:
        if dtype.kind == "c" and name not in (*COMPLEX_ELEMENTARY, "power"):
            raise TypeError(f"{name} is not defined for complex numbers")
        narrow = _float_of(name, operands)
        widest = np.clongdouble if narrow.kind == "c" else np.longdouble
        wide = (np.asarray(x, narrow).astype(widest) for x in operands)
        own = _COMPLEX_FUNCTIONS.get(name) if narrow.kind == "c" else None
        return np.asarray((own or function(name))(*wide), narrow)
    if name == "imag":
        return np.imag(np.asarray(operands[0], dtype))
    if name in ("fmin", "fmax"):
        for x in operands:
            if isinstance(x, np.ndarray) and x.dtype.kind == "f":
                x[np.isnan(x)] = np.nan
    if name == "reciprocal" and dtype.kind in "iu":
        return _truncating_divide(np.ones((), dtype), *operands)
    if dtype.kind == "c" and name in ("multiply", "divide", "square"):
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype) for x in operands))
        if name == "divide":
            return _complex_divide(*arrays)
        return _complex_multiply(arrays[0], arrays[-1])
    return np.asarray(getattr(np, name)(*operands))


def expected_number(name: str, *numbers: Any) -> Any:
    """Returns an operation's result for Python numbers, by Python; with Python's exceptions."""
    if name in COMPARISONS:
        return COMPARISONS[name](*numbers)
    if all(isinstance(x, int) for x in numbers) and name in _PYTHON_INT:
        if any(not -(2**63) <= x < 2**63 for x in numbers):
            raise OverflowError
        a, b = (*numbers, 0)[:2]
        result = _PYTHON_INT[name](a, b)
        if name in LOGIC or name in ("isnan", "isinf", "isfinite"):
            return result
        result = int(result)
        if not -(2**63) <= result < 2**63:
            raise OverflowError
        return result
    a, b = (*numbers, 0)[:2]
    if name in ELEMENTARY:
        with np.errstate(all="ignore"):
            result = float(expected(name, *(np.float64(x) for x in numbers)))
        if math.isnan(result) and not any(map(math.isnan, numbers)):
            raise ValueError
        if (
            math.isinf(result)
            and (name.startswith(("log", "arctanh")) or (name == "power" and a == 0))
            and all(map(math.isfinite, numbers))
        ):
            raise ValueError
        return _finite(result, *numbers)
    return _PYTHON_FLOAT[name](float(a), float(b))


def _truncate(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _integer_power(a: int, b: int) -> int:
    if b < 0:
        raise ValueError
    return int(a**b) if abs(a) < 2 or b < 64 else 2**64


COMPARISONS: dict[str, Any] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}

LOGIC: dict[str, Any] = {
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
    "logical_not": lambda a, b: not a,
}

_PYTHON_INT: dict[str, Any] = {
    **COMPARISONS,
    **LOGIC,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": lambda a, b: ~a,
    "left_shift": lambda a, b: a << min(b, 200),
    "right_shift": operator.rshift,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _truncate,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "minimum": min,
    "maximum": max,
    "negative": lambda a, b: -a,
    "absolute": lambda a, b: abs(a),
    "square": lambda a, b: a * a,
    **dict.fromkeys(("floor", "ceil", "trunc", "positive", "conjugate", "real"), lambda a, b: a),
    "imag": lambda a, b: 0 * a,
    "isnan": lambda a, b: a != a,
    "isinf": lambda a, b: abs(a) == math.inf,
    "isfinite": lambda a, b: abs(a) < math.inf,
    "sign": lambda a, b: (a > 0) - (a < 0),
    "reciprocal": lambda a, b: _truncate(1, a),
    "fmod": lambda a, b: a - b * _truncate(a, b),
    "fmin": min,
    "fmax": max,
    "power": _integer_power,
}

_PYTHON_FLOAT: dict[str, Any] = {
    **_PYTHON_INT,
    "divide": lambda a, b: a / b,
    "minimum": lambda a, b: math.nan if a != a or b != b else min(a, b),
    "maximum": lambda a, b: math.nan if a != a or b != b else max(a, b),
    "sqrt": lambda a, b: math.sqrt(a),
    "rint": lambda a, b: float(np.rint(a)),
    "floor": lambda a, b: float(np.floor(a)),
    "ceil": lambda a, b: float(np.ceil(a)),
    "trunc": lambda a, b: float(np.trunc(a)),
    "sign": lambda a, b: a if a != a else float((a > 0) - (a < 0)),
    "signbit": lambda a, b: math.copysign(1, a) < 0,
    "copysign": math.copysign,
    "nextafter": lambda a, b: _finite(math.nextafter(a, b), a, b),
    "reciprocal": lambda a, b: _finite(1 / a, a),
    "imag": lambda a, b: 0.0,
    "fmod": math.fmod,
    "fmin": lambda a, b: b if a != a else a if b != b else min(a, b),
    "fmax": lambda a, b: b if a != a else a if b != b else max(a, b),
}


def _finite(result: float, *numbers: float) -> float:
    if math.isinf(result) and all(map(math.isfinite, numbers)):
        raise OverflowError
    return result


def ordered_fold(combine: Any, terms: Array) -> Any:
    """The terms of one dimension, at least one, combined in the order that mylib.h fixes."""
    blocks = []
    for start in range(0, terms.size, 2048):
        block = terms[start : start + 2048]
        lanes = block[:256].copy()
        for row in range(256, block.size, 256):
            part = block[row : row + 256]
            lanes[: part.size] = combine(lanes[: part.size], part)
        half = 128
        while half:
            upper = lanes[half : 2 * half].copy()
            lanes = lanes[:half].copy()
            lanes[: upper.size] = combine(lanes[: upper.size], upper)
            half //= 2
        blocks.append(lanes[0])
    while len(blocks) > 1:
        pairs = [combine(blocks[i], blocks[i + 1]) for i in range(0, len(blocks) - 1, 2)]
        blocks = pairs + blocks[len(pairs) * 2 :]
    return blocks[0]


def ordered_sum(terms: Array) -> Any:
    """The sum of one dimension in the order that mylib.h fixes, in the type of the terms."""
    carrier = np.float32 if terms.dtype == np.float16 else terms.dtype
    terms = terms.astype(carrier)
    if terms.size == 0:
        return carrier(0) if carrier is np.float32 else carrier.type(0)
    return ordered_fold(np.add, terms)


def exact_sum(terms: Array) -> Any:
    """The sum of one dimension of finite floats, rounded once to float64 (complex: each part)."""
    if terms.dtype.kind == "c":
        return complex(math.fsum(terms.real.tolist()), math.fsum(terms.imag.tolist()))
    return math.fsum(terms.astype(np.float64).tolist())


# ---- Comparison ----


def _bits(parts: Array) -> Array:
    return parts.view(f"u{parts.itemsize}")


def _as_parts(array: Array) -> Array:
    """One dimension of native elements; a further dimension of two for complex."""
    flat = np.array(array, order="C").reshape(-1)
    flat = flat.astype(flat.dtype.newbyteorder("="))
    return flat.view(f"f{flat.itemsize // 2}").reshape(-1, 2) if flat.dtype.kind == "c" else flat


def differences(actual: Array, wanted: Array, *, name: str = "") -> Array:
    """A mask over the elements, in C order: where the bits differ and may not."""
    if name in ELEMENTARY and actual.dtype.kind in "fc":
        is_complex = np.asarray(wanted).dtype.kind == "c"
        beyond = _complex_beyond_ulps if is_complex else beyond_ulps
        return beyond(actual, wanted, ELEMENTARY_ULPS, of_modulus=name in ("expm1", "power"))
    a, w = _as_parts(actual), _as_parts(wanted)
    differ = _bits(a) != _bits(w)
    if a.dtype.kind == "f":
        differ &= ~(np.isnan(a) & np.isnan(w))
        if name in ("minimum", "maximum", "fmin", "fmax", "nextafter"):
            differ &= ~((a == 0) & (w == 0))
    return differ.any(axis=1) if differ.ndim == 2 else differ


def _ulps(wanted: Array) -> Array:
    return np.spacing(np.maximum(np.abs(wanted), np.finfo(wanted.dtype).tiny))


def beyond_ulps(actual: Array, wanted: Array, ulps: float, *, of_modulus: bool = False) -> Array:
    """A mask: where a part of an element differs in kind (NaN, infinite) or by more than `ulps`."""
    return _parts_beyond(_as_parts(actual), _as_parts(wanted), ulps, of_modulus)


def _complex_beyond_ulps(
    actual: Array, wanted: Array, ulps: float, *, of_modulus: bool = False
) -> Array:
    """The same of a function of complex numbers: Annex G leaves open signs beside a NaN."""
    a, w = _as_parts(actual), _as_parts(wanted)
    beside_nan = np.isnan(w)[:, ::-1]
    a, w = (np.where(beside_nan, np.abs(x), x) for x in (a, w))
    return _parts_beyond(a, w, ulps, of_modulus)


def _parts_beyond(a: Array, w: Array, ulps: float, of_modulus: bool) -> Array:
    same = (_bits(a) == _bits(w)) | (np.isnan(a) & np.isnan(w))
    finite = np.isfinite(a) & np.isfinite(w)
    size = np.abs(w)
    if of_modulus and w.ndim == 2:
        size = np.maximum(size, np.where(np.isfinite(size), size, 0)[:, ::-1])
    with np.errstate(all="ignore"):
        near = np.abs(a - w) <= ulps * _ulps(size)
    differ = ~(same | (finite & near))
    return differ.any(axis=1) if differ.ndim == 2 else differ


def _describe(array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return repr(array)
    text = f"{array.dtype.str}{list(array.shape)} strides {list(array.strides)}"
    return text + ("" if array.flags.aligned else " unaligned")


def _hex(value: Any) -> str:
    return np.asarray(value).tobytes()[::-1].hex()


def fail(case: Any, mask: Array, actual: Array, wanted: Array, inputs: Any, note: str) -> None:
    """Raises AssertionError that tells the case, the arrays and the first element of `mask`."""
    flat = int(np.flatnonzero(mask)[0])
    shape = np.shape(actual)
    index = tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()
    given = []
    for x in inputs:
        try:
            given.append(np.broadcast_to(x, shape)[index])
        except ValueError:  # not an element-wise input
            given.append("?")
    got, want = np.asarray(actual)[index], np.asarray(wanted)[index]
    raise AssertionError(
        f"{case}{': ' + note if note else ''}: {int(mask.sum())} of {mask.size} elements differ; "
        f"the first is [{', '.join(map(str, index))}]: {got!r} ({_hex(got)}), expected {want!r} "
        f"({_hex(want)}), of {given!r}\n  result {_describe(actual)}"
        + "".join(f"\n  input {_describe(x)}" for x in inputs)
    )


def assert_same(
    actual: Any,
    wanted: Any,
    case: Any = "",
    inputs: Any = (),
    note: str = "",
    name: str | None = None,
) -> None:
    """The same type of elements, shape and bits, but for what the oracle leaves open."""
    actual, wanted = np.asanyarray(actual), np.asanyarray(wanted)
    native = actual.dtype.newbyteorder("=")
    assert native == wanted.dtype, f"{case} {note}: {actual.dtype}, expected {wanted.dtype}"
    assert actual.shape == wanted.shape, f"{case} {note}: {actual.shape}, expected {wanted.shape}"
    name = getattr(case, "name", "") if name is None else name
    mask = differences(actual, wanted, name=name)
    if mask.any():
        fail(case, mask, actual, wanted, inputs, note)


#: How far complex results may be from exact ones: units in the last place of each part (absolute,
#: sqrt), or of the modulus of the result (divide) or of the product of moduli (multiply, square).
COMPLEX_ULPS = {
    "absolute": 1.0,
    "sqrt": 4.0,
    "sign": 2.0,
    "multiply": 2.0,
    "square": 2.0,
    "divide": 8.0,
    "reciprocal": 8.0,
    **dict.fromkeys(COMPLEX_ELEMENTARY, 1.0),
}


def check(case: Any, actual: Any, inputs: Any, note: str = "") -> None:
    """That `actual` is what `case` is to give for `inputs`."""
    wanted = expected(case.name, *inputs)
    if case.dtype.kind == "c" and case.name in ("absolute", "sqrt", "sign"):
        actual = np.asanyarray(actual)
        assert actual.dtype.newbyteorder("=") == wanted.dtype and actual.shape == wanted.shape
        mask = beyond_ulps(actual, wanted, 2 * COMPLEX_ULPS[case.name])
        if mask.any():
            fail(case, mask, actual, wanted, inputs, note)
    else:
        assert_same(actual, wanted, case, inputs, note)
