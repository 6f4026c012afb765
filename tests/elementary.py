"""The oracle of the elementary functions: MPFR and MPC by way of gmpy2.

FUNCTIONS lists each function with its true value, the bound of its error in float64, and its
arguments.  float16 and float32 are correctly rounded.  COMPLEX_FUNCTIONS has the true values of
complex numbers, whose parts are within 1 ulp.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np

from pkg._docs import COMPLEX_ELEMENTARY

Array = np.ndarray[Any, Any]
Arguments = Callable[[np.random.Generator, int, "np.dtype[Any]"], tuple[Array, ...]]

# So wide that only the second rounding, to the element type, matters.
WIDE = gmpy2.context(precision=300, emin=-(1 << 40), emax=1 << 40)

# Digits of the significand, and the exponent of the least subnormal number.
DIGITS = {"float16": 11, "float32": 24, "float64": 53}
LAST_EXPONENT = {"float16": -24, "float32": -149, "float64": -1074}
CONTEXTS = {
    "float16": gmpy2.context(precision=11, emin=-23, emax=16, subnormalize=True),
    "float32": gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True),
    "float64": gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True),
}


@dataclass(frozen=True)
class Function:
    """True value of a function of mpfr numbers, ulps of its error in float64, its arguments."""

    oracle: Callable[..., Any]
    bound: float
    arguments: Arguments


# ---- Arguments ----


def any_bits(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> Array:
    """Numbers evenly from all binades, with infinities, NaNs, zeros and subnormal numbers."""
    nbytes = n * dtype.itemsize
    numbers = np.frombuffer(rng.bytes(nbytes), dtype).copy()
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype)
    tiny = np.finfo(dtype).smallest_subnormal * np.array([1, -1, 3], dtype)
    few = np.concatenate([specials, tiny, [np.finfo(dtype).max, np.finfo(dtype).tiny]])
    numbers[: min(n, len(few))] = few[:n].astype(dtype)
    return numbers


def within(low: float, high: float) -> Arguments:
    """Numbers between two bounds, evenly and by binades, and of all binades."""

    def draw(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        even = rng.uniform(low, high, n)
        small = rng.choice([low, high], n) * np.exp2(-rng.uniform(0, 60, n))
        drawn = np.where(rng.random(n) < 0.5, even, small)
        with np.errstate(over="ignore"):
            numbers = drawn.astype(dtype)
        return (np.where(rng.random(n) < 0.25, any_bits(rng, n, dtype), numbers),)

    return draw


def near(points: Sequence[float], arguments: Arguments) -> Arguments:
    """As given, except for an eighth, which lies within 2^-1 to 2^-60 of points."""

    def draw(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        (drawn,) = arguments(rng, n, dtype)
        distance = np.exp2(-rng.uniform(1, 60, n)) * rng.choice([-1, 1], n)
        with np.errstate(over="ignore"):
            close = (rng.choice(points, n) * (1 + distance)).astype(dtype)
        return (np.where(rng.random(n) < 0.125, close, drawn),)

    return draw


def points_of_a_plane(
    rng: np.random.Generator, n: int, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """y and x of all binades; some along the edges of octants; zeros and infinities."""
    (x,) = within(-1e3, 1e3)(rng, n, dtype)
    (y,) = within(-1e3, 1e3)(rng, n, dtype)
    with np.errstate(all="ignore"):
        edge = (x * rng.choice(_EIGHTHS, n) * (1 + np.exp2(-rng.uniform(1, 60, n)))).astype(dtype)
    special = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype), n)
    y = np.where(rng.random(n) < 0.125, edge, y)
    y = np.where(rng.random(n) < 0.0625, special, y)
    return y, np.where(rng.random(n) < 0.0625, rng.permutation(special), x)


def bases_and_exponents(
    rng: np.random.Generator, n: int, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """x and y with x^y of all binades; whole and half exponents; powers in the middle of floats."""
    largest = float(np.log(np.finfo(dtype).max)) * 1.06
    (any_x,) = within(-1e3, 1e3)(rng, n, dtype)
    whole = rng.integers(-300, 300, n).astype(dtype)
    x = np.where(rng.random(n) < 0.25, whole, any_x)
    with np.errstate(all="ignore"):
        y = (rng.uniform(-largest, largest, n) / np.log(np.abs(x.astype(float)))).astype(dtype)
        simple = (rng.integers(-8, 9, n) / rng.choice([1, 2], n)).astype(dtype)
        y = np.where(rng.random(n) < 0.25, simple, np.where(rng.random(n) < 0.25, np.rint(y), y))
    special = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype), n)
    y = np.where(rng.random(n) < 0.0625, special, y)
    return np.where(rng.random(n) < 0.0625, rng.permutation(special), x), y


# ---- Functions ----

# Points where e^x and 2^x change: overflow, ends of normal and subnormal results, half an octave.
_E_POINTS = [709.78, -708.4, -745.13, 88.72, -87.34, -103.97, 11.09, -9.7, -17.33, 0.3466, -0.3466]
_2_POINTS = [1024, -1022, -1075, 128, -126, -150, 16, -14, -25, 0.5, -0.5]
# Points where the exponent of the argument's split changes, and the logarithm's sign.
_LOG_POINTS = [0.70710678, 1.41421356, 1.0, 2.0, 10.0, 1e-308, 100.0]
# Multiples of an eighth of a turn, and the first hard argument.
TURNS = near([k * np.pi / 4 for k in (1, 2, 3, 4, 6, 100, 10**6)] + [2.0**22], within(-1e7, 1e7))
# Slopes between the octants from which an angle is computed, and of the diagonal.
_EIGHTHS = [np.sqrt(2) - 1, np.sqrt(2) + 1, 1.0]


def logaddexp(x: Any, y: Any) -> Any:
    """log(e^x + e^y), to 300 bits also where it cancels."""
    larger, smaller = (x, y) if x > y else (y, x)
    if not gmpy2.is_finite(larger) or gmpy2.is_nan(smaller):
        return x + y if gmpy2.is_nan(x) or gmpy2.is_nan(y) else larger
    with gmpy2.context(WIDE, precision=2400):
        return larger + gmpy2.log1p(gmpy2.exp(smaller - larger))


def at_least_1(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """Numbers from 1 on, half of them near 1; and numbers of all binades, most of them outside."""
    (numbers,) = near([1.0], within(1, 8))(rng, n, dtype)
    close = (1 + np.exp2(-rng.uniform(0, 53, n))).astype(dtype)
    return (np.where(rng.random(n) < 0.5, close, numbers),)


def logarithms(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """x and y of all binades; some close together; some with e^x + e^y near 1: the result cancels.

    Of these, half are as near to 1 as they can be.
    """
    (x,) = within(-50, 50)(rng, n, dtype)
    (y,) = within(-50, 50)(rng, n, dtype)
    least = -float(np.log2(np.finfo(dtype).smallest_subnormal))
    small = -np.exp2(-rng.uniform(0.53, rng.choice([2.0, 20.0, least - 1], n)))
    with np.errstate(all="ignore"):
        close = (x * (1 + np.exp2(-rng.uniform(0, 8, n)))).astype(dtype)
        rest = np.log(-np.expm1(small.astype(dtype).astype(float)))
        distance = np.exp2(-rng.uniform(1, 60, n)) * rng.choice([-1, 0, 1], n, p=[0.25, 0.5, 0.25])
        y = np.where(rng.random(n) < 0.25, close, y)
        cancels = rng.random(n) < 0.5
        x = np.where(cancels, small, x).astype(dtype)
        y = np.where(cancels, rest * (1 + distance), y).astype(dtype)
    swaps = rng.random(n) < 0.5
    x, y = np.where(swaps, y, x), np.where(swaps, x, y)
    special = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype), n)
    y = np.where(rng.random(n) < 0.0625, special, y)
    return np.where(rng.random(n) < 0.0625, rng.permutation(special), x), y


# Points where the octave of e^x changes, sinh and cosh overflow, and tanh rounds to 1.
_OCTAVES = [np.log(2) / 2, np.log(2) * 1.5, 710.4758, 89.416, 11.78, 18.4, 19.06, 9.01]

FUNCTIONS: dict[str, Function] = {
    "exp": Function(gmpy2.exp, 0.55, near(_E_POINTS, within(-750, 712))),
    "exp2": Function(gmpy2.exp2, 0.55, near(_2_POINTS, within(-1080, 1026))),
    "expm1": Function(gmpy2.expm1, 0.55, near(_E_POINTS, within(-40, 712))),
    "log": Function(gmpy2.log, 0.55, near(_LOG_POINTS, within(1e-3, 1e3))),
    "log2": Function(gmpy2.log2, 0.55, near(_LOG_POINTS, within(1e-3, 1e3))),
    "log10": Function(gmpy2.log10, 0.55, near(_LOG_POINTS, within(1e-3, 1e3))),
    "log1p": Function(gmpy2.log1p, 0.55, near([-0.2929, 0.4142, -1.0, 1.0], within(-1, 1e3))),
    "power": Function(operator.pow, 0.67, bases_and_exponents),
    "sin": Function(gmpy2.sin, 1.0, TURNS),
    "cos": Function(gmpy2.cos, 1.0, TURNS),
    "tan": Function(gmpy2.tan, 1.0, TURNS),
    "arcsin": Function(gmpy2.asin, 1.0, near([0.5, 1.0, -1.0], within(-1, 1))),
    "arccos": Function(gmpy2.acos, 1.0, near([0.5, -0.5, 1.0, -1.0], within(-1, 1))),
    "arctan": Function(gmpy2.atan, 1.0, near(_EIGHTHS, within(-4, 4))),
    "arctan2": Function(gmpy2.atan2, 1.0, points_of_a_plane),
    "cbrt": Function(gmpy2.cbrt, 0.55, near([1.0, 2.0, 4.0, 8.0, 2.0**-1022], within(-8, 8))),
    "hypot": Function(gmpy2.hypot, 1.0, points_of_a_plane),
    "sinh": Function(gmpy2.sinh, 1.0, near(_OCTAVES, within(-712, 712))),
    "cosh": Function(gmpy2.cosh, 1.0, near(_OCTAVES, within(-712, 712))),
    "tanh": Function(gmpy2.tanh, 1.0, near(_OCTAVES, within(-20, 20))),
    "arcsinh": Function(gmpy2.asinh, 1.0, near([0.35, 1.0, 2.0**54], within(-4, 4))),
    "arccosh": Function(gmpy2.acosh, 1.0, at_least_1),
    "arctanh": Function(gmpy2.atanh, 1.0, near([1.0, -1.0, 0.17], within(-1, 1))),
    "logaddexp": Function(logaddexp, 0.75, logarithms),
    "erf": Function(gmpy2.erf, 1.0, near([0.875, -0.875, 5.92, 3.9], within(-6, 6))),
}


# ---- Complex numbers ----


def _expm1(z: Any) -> Any:
    """e^z - 1, to 200 bits also where it cancels."""
    if abs(z) < gmpy2.exp2(-100):
        return z + z * z / 2 + z * z * z / 6
    return gmpy2.exp(z) - 1


def _log1p(z: Any) -> Any:
    """log(1 + z), to 200 bits also where 1 + z is rounded."""
    with gmpy2.context(WIDE, precision=300 if abs(z) > gmpy2.exp2(-50) else 2500):
        return gmpy2.log(1 + z)


COMPLEX_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: FUNCTIONS[name].oracle for name in COMPLEX_ELEMENTARY},
    "log2": lambda z: gmpy2.log(z) / gmpy2.log(gmpy2.mpfr(2)),
    "expm1": _expm1,
    "log1p": _log1p,
    "power": operator.pow,
}

# Real and imaginary parts up to which functions neither overflow nor make MPC slow.
_LARGEST = {
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), (760, 1e5)),
    **dict.fromkeys(("sin", "cos"), (1e5, 760)),
    "tanh": (30, 1e5),
    "tan": (1e5, 30),
}


def complex_arguments(
    name: str, rng: np.random.Generator, n: int, dtype: np.dtype[Any]
) -> tuple[Array]:
    """Finite numbers, evenly and by binades, near 1 and i, and where a part of a result cancels."""

    def parts(largest: float) -> Array:
        even = rng.uniform(0, largest, n)
        small = np.exp2(rng.uniform(np.log2(np.finfo(dtype).smallest_subnormal), 10, n))
        near_1 = 1 + rng.choice([-1, 0, 1], n) * np.exp2(-rng.uniform(1, 53, n))
        turns = rng.integers(0, 40, n) * np.pi / 4
        way = rng.integers(0, 4, n)
        return np.minimum(np.choose(way, [even, small, near_1, turns]), largest)

    x, y = (parts(largest) * rng.choice([-1, 1], n) for largest in _LARGEST.get(name, (1e3, 1e3)))
    angle = rng.uniform(-1.5, 1.5, n) * np.exp2(-rng.uniform(0, 30, n))
    if name.startswith(("log", "arctan")):
        # The unit circle, for log1p that around -1.
        curve = -2 * np.sin(angle / 2) ** 2 + (name != "log1p"), np.sin(angle)
    elif name == "expm1":
        curve = -np.log(np.cos(angle)), angle
    else:
        curve = x, y
    is_on_curve = rng.random(n) < 0.125
    z = np.where(is_on_curve, curve[0], x) + 1j * np.where(is_on_curve, curve[1], y)
    return (z.astype(dtype),)


def complex_powers(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """z and w with z^w of all binades: |w log z| is at most 2^24; real and whole exponents."""
    (z,) = complex_arguments("power", rng, n, dtype)
    unit = np.exp(1j * rng.uniform(-np.pi, np.pi, n)) * (1 + np.exp2(-rng.uniform(1, 60, n)))
    z = np.where(rng.random(n) < 0.125, unit.astype(dtype), z)
    z = np.where(z == 0, dtype.type(1), z)
    limit = float(np.log(np.finfo(dtype).max)) * 1.06
    with np.errstate(all="ignore"):
        log_z = np.log(z.astype(np.complex128))
        size = rng.uniform(-limit, limit, n) * np.exp2(-rng.uniform(0, 40, n))
        angle = rng.choice([-1, 1], n) * np.exp2(rng.uniform(-30, 23, n))
        simple = rng.integers(-20, 21, n) / rng.choice([1, 2, 3], n)
        plain = rng.uniform(-5, 5, n) + 1j * rng.uniform(-5, 5, n)
        ways = [(size + 1j * angle) / log_z, simple + 0j, size / log_z.real + 0j, plain]
        w = np.choose(rng.integers(0, 4, n), ways).astype(dtype)
        is_far = ~(np.abs(w.astype(np.complex128) * log_z) < 2**24)
    return z, np.where(is_far, plain.astype(dtype), w)


def complex_ulps(name: str, results: Array, z: Array, w: Array | None = None) -> Array:
    """Returns the larger error of the two parts in ulps of complex128.

    The real part of expm1 and both of power, whose exponents are `w`, are measured in ulps of the
    larger part.
    """
    found = []
    largest = gmpy2.mpfr(np.finfo(np.float64).max)
    with gmpy2.context(WIDE):
        rows = [z] if w is None else [z, w]
        for arguments, result in zip(
            zip(*(x.tolist() for x in rows), strict=True), results.tolist(), strict=True
        ):
            true = COMPLEX_FUNCTIONS[name](*map(gmpy2.mpc, arguments))
            parts, worst = (true.real, true.imag), 0.0
            for part, got in zip(parts, (result.real, result.imag), strict=True):
                size = max(map(abs, parts)) if name in ("expm1", "power") else abs(part)
                ulp = gmpy2.exp2(max(gmpy2.get_exp(size) - 53, -1074)) if size != 0 else 1
                wanted = min(max(part, -largest), largest) if np.isfinite(got) else part
                error = abs(gmpy2.mpfr(got) - wanted) / ulp
                if not np.isfinite(got):
                    overflows = abs(part) > largest and (got > 0) == (part > 0)
                    is_small = abs(part) < size * gmpy2.exp2(-50)
                    error = 0 if got == got and (overflows or is_small) else np.inf
                worst = max(worst, float(error))
            found.append(worst)
    return np.array(found)


# ---- Comparison ----


def exact(name: str, *arguments: Array) -> list[Any]:
    """Returns the true values, as mpfr numbers of 300 bits."""
    oracle = FUNCTIONS[name].oracle
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        columns = [a.astype(np.float64).tolist() for a in arguments]
    with gmpy2.context(WIDE):
        return [oracle(*map(gmpy2.mpfr, row)) for row in zip(*columns, strict=True)]


def rounded(name: str, *arguments: Array) -> Array:
    """Returns the correctly rounded values, of the arguments' element type."""
    dtype = arguments[0].dtype
    values = exact(name, *arguments)
    with gmpy2.context(CONTEXTS[dtype.name]):
        return np.array([float(+v) for v in values]).astype(dtype)


def ulps(name: str, results: Array, *arguments: Array) -> Array:
    """Returns the error of each result in ulps; infinity where only one of two is finite or NaN."""
    digits, last = DIGITS[results.dtype.name], LAST_EXPONENT[results.dtype.name]
    nearest = rounded(name, *arguments)
    found = []
    with gmpy2.context(WIDE):
        for true, near_it, result in zip(
            exact(name, *arguments), nearest.tolist(), results.tolist(), strict=True
        ):
            if not np.isfinite(near_it) or not np.isfinite(result) or true == 0:
                same = near_it == result or (near_it != near_it and result != result)
                found.append(0.0 if same else np.inf)
            else:
                ulp = gmpy2.exp2(max(gmpy2.get_exp(true) - digits, last))
                found.append(float(abs(gmpy2.mpfr(result) - true) / ulp))
    return np.array(found)
