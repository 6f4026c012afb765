"""Reductions are NumPy's in types, shapes, outputs and errors, for every combination of arguments.

The values are small integers, whose sums and products are exact in all types but float16's
products, so that the order does not matter and NumPy's bits are the only right ones.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import cases
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import how, in_place

import pkg as pcd
from pkg import core

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning"),
]

DTYPES = "?bhilBHILefdFD"
NAMES = ("sum", "prod", "min", "max", "mean")
SHAPES = [(), (1,), (0,), (5,), (2, 3), (0, 3), (3, 0), (0, 0), (2, 0, 3), (1, 2, 1), (2, 1, 3, 2)]


def _data(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).choice([1, 2, 1, 0, 3, 1, 2], math.prod(shape))
    return values.reshape(shape).astype(dtype)


def _outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns what a call returns, or the kind of its error."""
    try:
        return function(*args, **kwargs)
    except np.exceptions.AxisError:
        return "AxisError"
    except IndexError:
        return "IndexError"
    except (TypeError, ValueError) as error:
        return type(error).__name__ if type(error) in (TypeError, ValueError) else "TypeError"


def _computed_type(name: str, dtype: Any, given: Any, out: Any) -> Any:
    """The type in which NumPy computes, before it casts to `out`."""
    if given is not None:
        return np.dtype(given)
    if name == "mean" and np.dtype(dtype).kind in "biu":
        return np.dtype("f8")
    return np.result_type(dtype, out)


def _check(place: str, name: str, host: np.ndarray, out: str | None = None, **kwargs: Any) -> None:
    note = f"{name} of {host.dtype}{host.shape} in {place}, {kwargs}, out {out}"
    ours, theirs = getattr(pcd, name), getattr(np, name)
    if name == "mean" and host.size == 0 and np.dtype(kwargs.get("dtype", "f8")).kind in "biu":
        return  # an integer for NaN
    x = in_place(place, host)
    if out is None:
        wanted = _outcome(theirs, host, **kwargs)
        result = _outcome(ours, x, **kwargs, **how(place))
        if isinstance(wanted, str) or isinstance(result, str):
            assert isinstance(result, str) and isinstance(wanted, str), (
                f"{note}: {result}, {wanted}"
            )
            assert result == wanted, note
            return
        assert isinstance(result, pcd.Array) is (place == "array"), note
        assert place == "array" or isinstance(result, type(wanted)), note
        result = pcd.asnumpy(result)
        oracle.assert_same(result, np.asarray(wanted), note)
        return
    shape = _outcome(theirs, host, **{k: v for k, v in kwargs.items() if k != "dtype"})
    if isinstance(shape, str):
        return
    wanted_out = np.full(np.shape(shape), 1, out)
    given_out = in_place(place, np.full(np.shape(shape), 1, out))
    result = _outcome(ours, x, out=given_out, **kwargs, **how(place))
    if not np.can_cast(
        _computed_type(name, host.dtype, kwargs.get("dtype"), out), out, "same_kind"
    ):
        assert result == "TypeError", note  # NumPy casts in silence
        return
    assert _outcome(theirs, host, out=wanted_out, **kwargs) is wanted_out, note
    assert result is given_out, f"{note}: {result}"
    oracle.assert_same(pcd.asnumpy(given_out), wanted_out, note)


# ---- The table ----


@cases.each_place()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_axes(name: str, shape: tuple[int, ...], place: str) -> None:
    axes: list[Any] = [None, (), 0, -1, 1, -2, 2, (0,), (-1,), (0, 1), (1, 0), (0, 0), (0, -1)]
    axes += [(0, 2), 1.0, "a", np.int64(0), (0, 1, 2), -5, 7, *([] if name == "mean" else [True])]
    for axis, keepdims, dtype in itertools.product(axes, (False, True), "ldD?"):
        _check(place, name, _data(dtype, shape), axis=axis, keepdims=keepdims)


@cases.each_place()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_types(name: str, dtype: str, place: str) -> None:
    for shape in ((), (3,), (2, 3), (0,)):
        host = _data(dtype, shape)
        for out in (None, *DTYPES):
            _check(place, name, host, out)
            if shape == (2, 3):
                _check(place, name, host, out, axis=0)
                _check(place, name, host, out, axis=-1, keepdims=True)
        if name in ("sum", "prod", "mean"):
            for given_dtype, out in itertools.product(DTYPES, (None, "d", "D")):
                _check(place, name, host, out, dtype=given_dtype)


@given(st.data())
@cases.each_place()
def test_generated(place: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=5)))
    name = data.draw(st.sampled_from(NAMES))
    host = _data(data.draw(st.sampled_from(DTYPES)), shape, data.draw(st.integers(0, 99)))
    host = host.transpose(data.draw(st.permutations(range(host.ndim))))
    some = st.integers(-host.ndim - 1, host.ndim)
    axis = data.draw(st.none() | some | st.lists(some, max_size=3).map(tuple))
    kwargs: Any = {"axis": axis, "keepdims": data.draw(st.booleans())}
    if name in ("sum", "prod", "mean"):
        kwargs["dtype"] = data.draw(st.none() | st.sampled_from(DTYPES))
    _check(place, name, host, data.draw(st.none() | st.sampled_from(DTYPES)), **kwargs)


# ---- Examples ----


@cases.each_place()
def test_an_output_chooses_the_type(place: str) -> None:
    for x, dtype, total in (
        (np.full(4, 2**62), "f8", 2.0**64), (np.full(300, 100, "i1"), "i4", 30000),
        (np.full(4, 60000, "e"), "f4", 240000),
    ):  # fmt: skip
        out = in_place(place, np.empty((), dtype))
        assert pcd.asnumpy(pcd.sum(in_place(place, x), out=out, **how(place))) == total


LENGTHS = (*range(1, 21), 255, 256, 257, 2047, 2048, 2049, 4095, 4096, 4097, 2**16 + 3)
MATRICES = [(3, 4, 5), (40, 50), (6, 3000), (3000, 6), (3000, 40), (2, 3, 700), (700, 3, 2)]


def _equal_numbers(dtype: str, shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    """Returns zeros of all signs beside other numbers, or NaNs that their numbers tell apart."""
    rng = np.random.default_rng(seed)
    host = np.empty(shape, dtype)
    host.real, host.imag = rng.choice([0.0, -0.0], shape), rng.choice([0.0, -0.0], shape)
    others = rng.random(shape) < 0.5
    host.real[others] = rng.choice([-1.0, 1.0])
    if kind != "zeros":
        where = rng.random(shape) < {"nans": 0.3, "few nans": 0.002}[kind]
        where.flat[rng.integers(host.size)] = True
        number, form = np.arange(1, host.size + 1).reshape(shape), rng.integers(0, 3, shape)
        host.real[where] = np.where(form == 1, number, np.nan)[where]
        host.imag[where] = np.where(form == 0, number, np.nan)[where]
    return host


def _fold(name: str, host: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Combines the terms from left to right, in C order of the axes."""
    terms = host.transpose(*axes, *(d for d in range(host.ndim) if d not in axes))
    terms = np.ascontiguousarray(terms).reshape(-1, *terms.shape[len(axes) :])
    return np.asarray(getattr(np, name)(terms, axis=0))


def _assert_first(result: Any, wanted: Any, note: Any) -> None:
    """Compares all bits but the signs and payloads of NaNs."""
    oracle.assert_same(np.atleast_1d(pcd.asnumpy(result)), np.atleast_1d(wanted), note)


def test_numpy_takes_the_first() -> None:
    host = _equal_numbers("D", (4097,), "nans", 1)
    for name, ufunc in (("min", np.minimum), ("max", np.maximum)):
        for x in (host, host[::-1], host[::3], _equal_numbers("D", (300,), "zeros", 2)):
            wanted = x[:1].copy()
            for i in range(1, x.size):
                wanted = ufunc(wanted, x[i : i + 1])
            _assert_first(_fold(name, x, (0,)), wanted[0], name)


@cases.each_place()
@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("kind", ["zeros", "nans", "few nans"])
def test_the_first_of_equal_complex_numbers(dtype: str, kind: str, place: str) -> None:
    for seed, length in enumerate(LENGTHS):
        host = _equal_numbers(dtype, (length,), kind, seed)
        for x, name in itertools.product((host, host[::-1], host[::3]), ("min", "max")):
            result = getattr(pcd, name)(in_place(place, x), **how(place))
            _assert_first(result, getattr(np, name)(x), (name, length, x.strides))


@cases.each_place()
@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("kind", ["zeros", "nans", "few nans"])
def test_the_first_of_equal_complex_numbers_along_axes(dtype: str, kind: str, place: str) -> None:
    for seed, shape in enumerate(MATRICES):
        host = _equal_numbers(dtype, shape, kind, seed)
        views = (host, np.asfortranarray(host), host.T, host[::-1], host[..., ::-2], np.flip(host))
        for x, name in itertools.product(views, ("min", "max")):
            dims = range(x.ndim)
            all_axes = [axes for n in dims for axes in itertools.combinations(dims, n + 1)]
            for axes in all_axes:
                wanted = _fold(name, x, axes)
                note = (name, x.shape, x.strides, axes)
                if x is host or len(axes) == 1:
                    _assert_first(getattr(np, name)(x, axis=axes), wanted, note)
                result = getattr(pcd, name)(in_place(place, x), axis=axes, **how(place))
                _assert_first(result, wanted, note)


@cases.each_place()
@pytest.mark.parametrize("kind", ["zeros", "nans", "few nans"])
def test_the_first_of_equal_complex_numbers_of_an_expression(kind: str, place: str) -> None:
    for seed, shape in enumerate([(1,), (17,), (257,), (4097,), (70_003,), *MATRICES]):
        host = _equal_numbers("D", shape, kind, seed)
        x = in_place(place, host)
        for name in ("min", "max"):
            for axis in (None, *range(len(shape))):
                expression = pcd.Expression(f"{name}(x + 0, axis={axis})")
                wanted = getattr(np, name)(host + 0, axis=axis)
                for _ in range(2):  # the second call may take a shorter way
                    _assert_first(expression(x, **how(place)), wanted, (name, shape, axis))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_of_equal_complex_numbers_on_many_threads(threads: int) -> None:
    before = pcd.get_num_threads()
    pcd.set_num_threads(threads)
    try:
        for kind in ("zeros", "nans", "few nans"):
            for shape in ((600_001,), (3, 200_001), (200_001, 3), (20_001, 30)):
                host = _equal_numbers("D", shape, kind, threads)
                for axis in (None, *range(len(shape))):
                    _assert_first(pcd.max(host, axis=axis), np.max(host, axis=axis), (shape, axis))
    finally:
        pcd.set_num_threads(before)


@pytest.mark.gpu
def test_complex_minima_stay_on_their_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pcd.asarray(np.array([1, complex(np.nan, 1)]), device="cuda")
    monkeypatch.setattr(core, "copy", None)
    for result in (x.min(), pcd.max(x, axis=0), pcd.evaluate("min(x * 1)")):
        assert isinstance(result, pcd.Array)


def test_means_of_many_elements_divide_by_their_exact_number() -> None:
    count = 2**24 + 1
    x = np.broadcast_to(np.float32(1.5), count)
    assert pcd.mean(x) == np.mean(x, dtype="f8").astype("f4")


@cases.each_place()
def test_an_output_that_is_the_input(place: str) -> None:
    host = np.arange(12.0).reshape(3, 4)
    x = in_place(place, host.copy())
    assert pcd.sum(x, axis=0, out=x[1], **how(place)) is not None
    wanted = host.copy()
    np.sum(host, axis=0, out=wanted[1])
    oracle.assert_same(pcd.asnumpy(x), wanted)


@pytest.mark.parametrize(
    "name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_comparisons(name: str, dtype: str) -> None:
    """`reduce`, `accumulate` and `reduceat` of comparisons: of bool, or as bool."""
    ours, theirs = getattr(pcd, name), getattr(np, name)
    for shape in ((5,), (0,), (2, 3), (1001,)):
        host = _data(dtype, shape)
        for kwargs in ({}, {"dtype": bool}, {"dtype": bool, "axis": -1}):
            for method, args in (("reduce", ()), ("accumulate", ()), ("reduceat", ([0, 1],))):
                result = _outcome(getattr(ours, method), host, *args, **kwargs)
                wanted = _outcome(getattr(theirs, method), host, *args, **kwargs)
                if isinstance(wanted, str):
                    assert result == wanted, (method, shape, kwargs)
                else:
                    oracle.assert_same(result, wanted, (method, shape, kwargs))
