"""Truths: one true or false element anywhere, in any layout, must be found; signs are not truths.

The library looks at several vectors at a time, and completes the last one; it stops when an element
decides.  It reads the elements of these and other reductions of integers in the order of memory.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import pkg as pcd

FUNCTIONS = ("any", "all", "count_nonzero")
TYPES = "?bBhHiIlLefdFD"


def _truths(dtype: str) -> tuple[list[Any], list[Any]]:
    """Returns elements of a type that are true, and some that are false."""
    if dtype in "efd":
        tiny = np.finfo(dtype).smallest_subnormal
        return [1, -2, np.nan, np.inf, tiny, -tiny], [0.0, -0.0]
    if dtype in "FD":
        tiny = np.finfo(dtype).smallest_subnormal
        return [1, -1j, complex(0, np.nan), complex(-0.0, tiny)], [0, complex(-0.0, -0.0)]
    return ([1] if dtype == "?" else [1, 64, np.array(-128 if dtype in "bhil" else 128)]), [0]


def _check(x: Any, axis: Any = None) -> None:
    for name in (*FUNCTIONS, *(("sum", "min", "max") if x.dtype.kind in "iu" else ())):
        expected = getattr(np, name)(x, axis=axis)
        result = getattr(pcd, name)(x, axis=axis)
        np.testing.assert_array_equal(result, expected, f"{name} {x.dtype} {x.shape} {x.strides}")
        assert np.asarray(result).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("level", ["generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", TYPES)
def test_one_element(dtype: str, level: str) -> None:
    pairs = [pair for two in product(*_truths(dtype)) for pair in (two, two[::-1])]
    try:
        pcd.core.set_cpu_level(level)
    except TypeError as error:
        pytest.skip(str(error))
    try:
        for n in (1, 3, 64, 255, 256, 257, 5000, 70000):
            for position in {0, n // 2, n - 1}:
                for one, others in pairs:
                    x = np.full(n, others, dtype)
                    x[position] = one
                    for view in (x, x[::-1], x[::2]):
                        _check(view)
    finally:
        pcd.core.set_cpu_level(None)


@pytest.mark.parametrize("dtype", TYPES)
def test_layouts(dtype: str) -> None:
    true, false = _truths(dtype)
    rng = np.random.default_rng(1)
    for density in (0, 0.01, 0.5, 0.99, 1):
        values = rng.choice(np.array(true, dtype), 4 * 33 * 65)
        values[rng.random(values.size) >= density] = false[-1]
        cube = values.reshape(4, 33, 65)
        for x in (cube, cube.T, cube[:, ::-2, 1:31], cube[::-1].transpose(1, 0, 2)):
            for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
                _check(x, axis)
        _check(np.broadcast_to(cube[:1], cube.shape))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_on_a_gpu(dtype: str) -> None:
    """Truths of numbers are extremes of their bits, by vectors, single elements or short rows."""
    true, false = _truths(dtype)
    rng = np.random.default_rng(2)
    shapes = [(1,), (255,), (70_001,), (3000, 3), (5, 300, 40), (4, 1000, 9), (2, 3, 4097), (9, 0)]
    for shape, density in product(shapes, (0, 1e-4, 0.5, 0.9999, 1)):
        values = rng.choice(np.array(true, dtype), math.prod(shape))
        lacks = rng.random(values.size) >= density
        values[lacks] = rng.choice(np.array(false, dtype), np.count_nonzero(lacks))
        host = values.reshape(shape)
        array = pcd.asarray(host, device="cuda")
        views = [(slice(None),), (..., slice(1, None)), (..., slice(None, None, -2))]
        for view, name in product(views, FUNCTIONS):
            for axis in (None, 0, -1, *([(0, 2), (1, 2)] if len(shape) == 3 else [])):
                wanted = getattr(np, name)(host[view], axis=axis)
                result = pcd.asnumpy(getattr(pcd, name)(array[view], axis=axis))
                note = f"{name} of {dtype}{shape}, {view}, axis {axis}, density {density}"
                np.testing.assert_array_equal(result, wanted, note)
                assert result.dtype == np.asarray(wanted).dtype, note


def test_all_elements_may_warn() -> None:
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert pcd.evaluate("any(1 / x > 0)", {"x": np.arange(5000.0)[::-1]})


def test_dot_of_bools() -> None:
    for n in (0, 1, 100, 3000, 3_000_000):
        a, b = np.zeros((2, n), np.bool_)
        for position in (None, 0, n // 2, n - 1):
            if n and position is not None:
                a[:], b[:] = True, False
                b[position] = True
            for x, y in ((a, b), (a[::-1], b[::-1])):
                result = pcd.dot(x, y)
                assert result == np.dot(x, y)
                assert isinstance(result, np.bool_)
