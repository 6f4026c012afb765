"""Every argument: all 2^32 float32 numbers, for each elementary function of one argument; and a
hundred million float64 numbers.

`make test-exhaustive` runs these.  All float16 numbers are tried every day.

The risk: a float32 result that is not the correctly rounded one, for a few arguments among all.  A
result is checked against the float64 function, which has code and tests of its own: where both
ends of its bound of error round to the same float32, that is the right one.  MPFR decides the few
others.

And a float64 result beyond the bound of its error.  The C library's functions of 64 bits judge it,
and where they find an error near the bound, MPFR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pkg as pcd

pytest.importorskip("gmpy2", reason="the true values are MPFR's, by way of gmpy2")
import elementary

#: Arguments at a time; 2^32 is a multiple.
CHUNK = 1 << 22

#: Twice the widest bound of the float64 functions, 1 ulp, relative.
MARGIN = 2.0**-51

#: About sixty arguments in 2^32 lie so near to the middle of two float32 numbers; allow for more.
MOST_DOUBTFUL = 1 << 20


def _functions() -> list[str]:
    rng = np.random.default_rng(0)
    single = np.dtype(np.float32)
    rows = elementary.FUNCTIONS.items()
    unary = (name for name, row in rows if len(row.arguments(rng, 8, single)) == 1)
    return [name for name in unary if hasattr(pcd, name)]


def _chunks() -> list[tuple[int, int]]:
    return [(start, start + CHUNK) for start in range(0, 1 << 32, CHUNK)]


def _numbers(first: int, last: int) -> np.ndarray[Any, Any]:
    return np.arange(first, last, dtype=np.uint32).view(np.float32)


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """Bit for bit; any two NaNs are the same."""
    return (a.view(np.uint32) == b.view(np.uint32)) | ((a != a) & (b != b))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", _functions())
def test_every_float32_is_correctly_rounded(name: str) -> None:
    function, doubtful_count = getattr(pcd, name), 0
    with np.errstate(all="ignore"):
        for first, last in _chunks():
            x = _numbers(first, last)
            result, wide = function(x), function(x.astype(np.float64))
            low = (wide * (1 - MARGIN)).astype(np.float32)
            high = (wide * (1 + MARGIN)).astype(np.float32)
            is_sure = _same(low, high)
            wrong = np.flatnonzero(is_sure & ~_same(result, low))
            assert not wrong.size, f"{name}({x[wrong[0]]!r}) is {result[wrong[0]]!r}"
            doubtful = np.flatnonzero(~is_sure)
            doubtful_count += doubtful.size
            assert doubtful_count < MOST_DOUBTFUL, "the float64 function decides too little"
            right = elementary.rounded(name, x[doubtful])
            wrong = doubtful[~_same(result[doubtful], right)]
            assert not wrong.size, f"{name}({x[wrong[0]]!r}) is {result[wrong[0]]!r}"


#: Float64 arguments of a function that are tried, a multiple of CHUNK.
FLOAT64_COUNT = 25 * CHUNK

#: The largest error of the C library's functions of 64 bits, in ulps of float64.
JUDGES_ERROR = 2.0**-8


def _is_judged(name: str) -> bool:
    """Tells whether NumPy has the function, with as many bits; its logaddexp loses them."""
    return hasattr(np, name) and name != "logaddexp"


def _errors(name: str, results: Any, arguments: Any) -> np.ndarray[Any, Any]:
    """Returns errors in ulps of float64, found in numbers of 64 bits."""
    true = getattr(np, name)(*(x.astype(np.longdouble) for x in arguments))
    nearest = true.astype(np.float64)
    exponents = np.maximum(np.frexp(true)[1] - 53, -1074)
    errors = np.abs(results - true) / np.ldexp(np.longdouble(1), exponents)
    is_same = (nearest == results) | ((nearest != nearest) & (results != results))
    is_finite = np.isfinite(nearest) & np.isfinite(results)
    return np.where(is_finite, errors, np.where(is_same, 0, np.inf)).astype(np.float64)


@pytest.mark.exhaustive
@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant != 63, reason="long double has not 64 bits on this processor"
)
@pytest.mark.parametrize("name", list(filter(_is_judged, elementary.FUNCTIONS)))
def test_float64_is_within_its_bound(name: str) -> None:
    row, largest = elementary.FUNCTIONS[name], 0.0
    for seed in range(FLOAT64_COUNT // CHUNK):
        arguments = row.arguments(np.random.default_rng(seed), CHUNK, np.dtype(np.float64))
        with np.errstate(all="ignore"):
            results = getattr(pcd, name)(*arguments)
            errors = _errors(name, results, arguments)
        doubtful = np.flatnonzero(errors > row.bound - JUDGES_ERROR)
        assert doubtful.size < CHUNK >> 10, "the judge is wrong more often than it may be"
        chosen = [x[doubtful] for x in arguments]
        errors[doubtful] = elementary.ulps(name, results[doubtful], *chosen)
        worst = int(errors.argmax())
        assert errors[worst] <= row.bound, f"{name} of {[x[worst] for x in arguments]}, {seed=}"
        largest = max(largest, float(errors[worst]))
    print(f"{name}: largest error {largest:.3f} ulps of {FLOAT64_COUNT:,} arguments")


@pytest.mark.parametrize("name", _functions())
def test_every_float16_is_correctly_rounded(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        result = getattr(pcd, name)(x)
    right = elementary.rounded(name, x)
    is_same = (result.view(np.uint16) == right.view(np.uint16)) | (
        (result != result) & (right != right)
    )
    assert is_same.all(), f"{name}({x[~is_same][0]!r}) is {result[~is_same][0]!r}"
