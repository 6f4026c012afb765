"""Masks: with ``where=``, only selected elements are written, warn or are refused.

And `where`, whose types and memory order must be those of NumPy.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pkg as pcd

LENGTHS = st.integers(1, 40) | st.integers(1000, 1100) | st.sampled_from([1023, 1024, 4096, 5000])
TYPES = ("f8", "f4", "f2", "i8", "u1", "i2", "c16")


def _operand(rng: np.random.Generator, dtype: str, n: int, layout: str) -> Any:
    values = rng.integers(0, 100, 2 * n).astype(dtype)
    if layout == "strided":
        return values[::2]
    if layout == "reversed":
        return values[n - 1 :: -1]
    if layout == "swapped":
        return values[:n].astype(values.dtype.newbyteorder(">"))
    return values[:1] if layout == "one" else values[:n]


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(["add", "multiply", "minimum", "true_divide", "equal"]),
    n=LENGTHS,
    types=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    layouts=st.tuples(*[st.sampled_from(["plain", "strided", "reversed", "swapped", "one"])] * 2),
    out_layout=st.sampled_from(["plain", "strided", "reversed", "swapped"]),
    overlap=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_values(
    name: str,
    n: int,
    types: tuple[str, str],
    layouts: tuple[str, str],
    out_layout: str,
    overlap: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (_operand(rng, *pair) for pair in ((types[0], n, layouts[0]), (types[1], n, layouts[1])))
    mask = rng.random(n) < rng.random()
    ours: Any = getattr(pcd, name)
    numpys: Any = getattr(np, name)
    dtype = numpys(a[:1], b[:1]).dtype
    out = _operand(rng, dtype.str, n, out_layout)
    if overlap and out.dtype == a.dtype and a.size == n:
        out = a
    expected = np.array(out)
    with np.errstate(all="ignore"):
        np.copyto(expected, numpys(np.array(a), np.array(b)), where=mask, casting="unsafe")
        result = ours(a, b, out=out, where=mask)
    assert result is out
    np.testing.assert_array_equal(out, expected)


def _mask(rng: np.random.Generator, kind: str, n: int) -> Any:
    """Returns a mask of long runs, or of few elements, of bytes other than 0 and 1, or mixed."""
    scattered = rng.random(n) < 0.02
    runs = (np.arange(n) + rng.integers(100)) // 100 % 2 == 0
    halves = np.where(np.arange(n) < n // 2, scattered, runs)
    if kind == "bytes":
        return np.where(scattered, rng.integers(1, 256, n), 0).astype("u1").view(np.bool_)
    return {"none": runs & ~runs, "all": runs | ~runs, "runs": runs, "few": scattered}.get(
        kind, halves
    )


@pytest.mark.parametrize("kind", ["none", "all", "runs", "few", "mixed", "bytes"])
@pytest.mark.parametrize("shape", [(7,), (5000,), (50, 99), (70_000,)])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "aliased"])
def test_runs_and_few_elements(kind: str, shape: tuple[int, ...], layout: str) -> None:
    rng = np.random.default_rng(7)
    order: Any = "F" if layout == "F" else "C"
    n = int(np.prod(shape))
    mask = _mask(rng, kind, n).reshape(shape, order=order)
    for first, second in (("f8", "f8"), ("f4", "f8"), ("i2", "i2"), ("u1", "u1"), ("c16", "c16")):
        a, b = (
            rng.integers(1, 99, (*shape, 2)).astype(dtype)[..., 0].copy(order)
            for dtype in (first, second)
        )
        out = rng.integers(1, 99, shape).astype(np.result_type(a, b)).copy(order)
        if layout == "strided":
            a, out = np.repeat(a, 2, -1)[..., ::2], np.repeat(out, 3, -1)[..., ::-3]
        if layout == "aliased":
            b = out = out.copy()
        for operands in ((a, b), (a, b.dtype.type(3)), (a, b.ravel()[:1])):
            expected = out.copy()
            np.multiply(*operands, out=expected, where=mask != 0)
            pcd.multiply(*operands, out=out, where=mask)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [20, 3000])
@pytest.mark.parametrize("name", ["divide", "log", "sqrt", "arctanh"])
def test_only_selected_elements_warn(name: str, n: int) -> None:
    x, out = np.full(n, 0.5), np.full(n, -7.0)
    x[7] = -2 if name != "divide" else 0
    mask = np.ones(n, np.bool_)
    args = (1.0, x) if name == "divide" else (x,)
    with pytest.warns(RuntimeWarning, match="divide by zero|invalid"):
        getattr(pcd, name)(*args, out=out, where=mask)
    mask[7], out[7] = False, -7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(pcd, name)(*args, out=out, where=mask)
    assert out[7] == -7
    assert (out[:7] == out[0]).all() and out[0] != -7
    few = np.zeros(n, np.bool_)
    few[[3, 11]] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(pcd, name)(*args, out=out, where=few)
    few[7] = True
    with pytest.warns(RuntimeWarning, match="divide by zero|invalid"):
        getattr(pcd, name)(*args, out=out, where=few)


@pytest.mark.parametrize("n", [20, 3000])
def test_only_selected_elements_warn_when_dtype_converts_them(n: int) -> None:
    x, out, mask = np.ones(n), np.full(n, -7, "f4"), np.ones(n, np.bool_)
    x[7] = 1e300
    with pytest.warns(RuntimeWarning, match="overflow"):
        pcd.add(x, 1, out=out, where=mask, dtype="f4")
    mask[7], out[7] = False, -7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pcd.add(x, 1, out=out, where=mask, dtype="f4")
    assert out[7] == -7 and (out == 2).sum() == n - 1


#: Calls that warn somewhere inside the package or NumPy.
_WARNING: dict[str, Any] = {
    "a long mask": lambda x: pcd.divide(x, 0.0, out=np.zeros(4000), where=x > 9),
    "a short mask": lambda x: pcd.divide(x[:40], 0.0, out=np.zeros(40), where=x[:40] > 9),
    "a long mask that narrows": lambda x: pcd.add(x, 1e308, out=np.zeros(4000, "f4"), where=x > 9),
    "a mask without out": lambda x: pcd.divide(x, 0.0, where=x > 9),
    "complex numbers": lambda x: pcd.add(x + 1j, x, out=np.zeros(4000), casting="unsafe"),
    "masked complex numbers": lambda x: pcd.add(
        x + 1j, x, out=np.zeros(4000), where=x > 9, casting="unsafe"
    ),
    "a list": lambda x: pcd.divide([1.0], 0.0),
    "a large array": lambda x: pcd.divide(np.zeros(100_000)[::-1], np.zeros(1), dtype="f8"),
    "sum": lambda x: pcd.sum(np.full(2, 1e308)),
    "sum of a list": lambda x: pcd.sum([1e308, 1e308]),
    "dot": lambda x: pcd.dot([1e200, 1.0], [1e200, 1]),
    "mean": lambda x: pcd.mean([]),
    "astype": lambda x: pcd.astype(x + 1j, "i4"),
    "astype to a smaller type": lambda x: pcd.astype(x * 1e305, "f4"),
    "astype of swapped bytes": lambda x: pcd.astype((x * 1e305).astype(">f8"), "f2"),
    "an unsafe type": lambda x: pcd.sin(x + 1j, dtype="f8", casting="unsafe"),
    "an out of an unsafe type": lambda x: pcd.sin(
        np.arange(3, dtype="i1"), out=np.zeros(3, "f2"), dtype="c8", casting="unsafe"
    ),
    "a masked out of an unsafe type": lambda x: pcd.exp(
        np.full(3, 200), out=np.zeros(3, "f2"), dtype="c8", casting="unsafe", where=x[:3] < 9
    ),
    "a masked array": lambda x: pcd.divide(np.ma.array([1, 2]), 0),
    "a matrix": lambda x: pcd.power(np.array([[0.0]]).view(np.matrix), -1),
    "vectors": lambda x: pcd.vector_divide(np.ones(2, ">f4"), np.zeros(2)),
    "asarray": lambda x: pcd.asarray(x + 1j, dtype="f8"),
    "full": lambda x: pcd.full(2, 1 + 1j, dtype="f8"),
    "arange": lambda x: pcd.arange(np.complex128(3), dtype="f8"),
    "concatenate": lambda x: pcd.concatenate([x * 1e305], dtype="f4"),
    "a number": lambda x: pcd.add(1e300, x[:3], dtype="f4", casting="same_kind", where=x[:3] > 0),
    "evaluate": lambda x: pcd.evaluate("x * 1e305", out=np.zeros(4000, "f4"), casting="unsafe"),
    "a number of a call": lambda x: pcd.evaluate("x * k", {"x": np.ones(3, "f4"), "k": 1e300}),
    "one beside the other byte order": lambda x: pcd.evaluate(
        "x * k", {"x": np.ones(3, ">f4"), "k": 1e300}
    ),
}


@pytest.mark.parametrize("name", _WARNING)
def test_warnings_name_the_line_of_the_caller(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _WARNING[name](np.arange(4000.0))
    assert caught and {one.filename for one in caught} == {__file__}
    functions = [str(one.message).split(" encountered in ")[1:] for one in caught]
    assert ["trunc_divide"] not in functions and ["elementwise_power"] not in functions


@pytest.mark.parametrize("device", [None, pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_call_warns_of_each_kind_once(device: str | None) -> None:
    """The function warns too, also if a conversion overflows, or both do."""
    x, mask = np.array([200, 20, 2], "i2"), np.array([True, True, False])
    for out, keywords in itertools.product(("f2", "f4", "f8"), ({}, {"where": mask})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            target: Any = np.zeros(3, out)
            pcd.exp(x, out=target, dtype="c8", casting="unsafe", device=device, **keywords)
        assert [str(one.message) for one in caught] == [
            "Casting complex values to real discards the imaginary part",
            "overflow encountered in exp",
        ]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="in add"):
        target = np.zeros(2, "f4")
        pcd.add([1e300, 1], 0, out=target, dtype="f8", where=[True, True], device=device)
    assert target.tolist() == [np.inf, 1]  # the results are written before it raises, as in NumPy


def test_out_none_is_a_choice() -> None:
    """NumPy warns of `where` without `out`, which leaves elements undefined; not of out=None."""
    x, mask = np.ones(3), np.array([True, False, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pcd.add(x, x, where=mask, out=None)
        pcd.add(x, [1, 2, 3], where=mask, out=None, dtype="f4")
        pcd.logical_and(x, 1, where=mask, out=None)
        pcd.power(x, 2, where=mask, out=None)
        pcd.add(np.ma.ones(3), 1, where=mask, out=None)
        pcd.add(x[::-1], 1, where=np.ones((3, 1), bool), out=None, casting="unsafe")


def test_only_selected_powers_are_refused() -> None:
    base, exponent = np.full(3000, 2), np.full(3000, 3)
    exponent[7] = -1
    mask, out = np.ones(3000, np.bool_), np.zeros(3000, np.int64)
    with pytest.raises(ValueError, match="negative"):
        pcd.power(base, exponent, out=out, where=mask)
    assert not out.any()
    mask[7] = False
    pcd.power(base, exponent, out=out, where=mask)
    assert out.sum() == 8 * 2999


def test_the_mask_is_read_before_it_is_written() -> None:
    mask = np.arange(3000) % 3 == 0
    expected = np.logical_or(mask, np.where(mask, True, mask))
    pcd.logical_not(np.zeros(3000, np.bool_), out=mask, where=mask)
    np.testing.assert_array_equal(mask, expected)


@settings(deadline=None, max_examples=100)
@given(
    types=st.tuples(*[st.sampled_from([*TYPES, "?", "q", "L", "i4", "f4"])] * 3),
    numbers=st.tuples(*[st.sampled_from([None, None, 3, 2.5, True])] * 2),
    shape=st.sampled_from([(), (0,), (7,), (3, 5), (1, 5), (3, 1), (2, 3, 5)]),
    order=st.sampled_from("CF"),
    seed=st.integers(0, 2**32 - 1),
)
def test_where(
    types: tuple[str, ...], numbers: tuple[Any, Any], shape: tuple[int, ...], order: Any, seed: int
) -> None:
    """The library selects elements of NumPy arrays, in NumPy's types and memory order."""
    rng = np.random.default_rng(seed)
    condition, x, y = (
        np.asarray(rng.integers(0, 3, shape[rng.integers(0, 2) :]).astype(t), order=order)
        for t in types
    )
    x, y = (a if number is None else number for a, number in zip((x, y), numbers, strict=True))
    expected = np.where(condition, x, y)
    for result in (pcd.where(condition, x, y), pcd.where(np.asarray(condition)[...], x, y)):
        assert type(result) is np.ndarray
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        assert result.strides == expected.strides
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("n", [20, 3000])
@pytest.mark.parametrize("types", ["i8 f8", "i8 f4", "f4 f8"])
def test_unselected_elements_of_a_wider_out_do_not_warn(types: str, n: int) -> None:
    """NumPy converts unselected elements to the type of the results and back."""
    own, wider = types.split()
    x, mask = np.arange(n).astype(own), np.arange(n) % 3 == 0
    out = np.where(mask, 0, np.nan if own == "i8" else 1e300).astype(wider)
    expected = np.where(mask, 2 * x, out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pcd.add(x, x, out=out, where=mask)
    np.testing.assert_array_equal(out, expected)


def test_a_mask_of_more_dimensions_than_out_is_refused() -> None:
    for mask in (np.ones(1, np.bool_), np.zeros((1, 1), np.bool_)):
        out = np.array(7.0)
        with pytest.raises(ValueError, match="broadcast"):
            pcd.add(np.array(1.0), np.array(2.0), out=out, where=mask)
        assert out == 7
