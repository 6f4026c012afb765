"""sum, prod, min, max, mean, dot, trace: the documented order to the bit, everywhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import cases
import generators
import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import how, in_place

import pkg as pcd

pytestmark = pytest.mark.usefixtures("quiet")


NAMES = ("sum", "prod", "min", "max")

#: Around the sizes of lanes, blocks and pairs of blocks.
LENGTHS = (1, 2, 3, 127, 128, 129, 255, 256, 257, 511, 513, 2047, 2048, 2049, 4095, 4096, 4097)
LENGTHS += (6143, 6145, 8192, 10_241, 20_479, 65_537)


# ---- The oracle ----


def _carrier(name: str, dtype: np.dtype) -> np.dtype:
    if name in ("min", "max"):
        return np.dtype(np.uint8) if dtype == np.bool_ else dtype
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype({"u": np.uint64}.get(dtype.kind, np.float32 if dtype == np.float16 else dtype))


def _result(name: str, dtype: np.dtype) -> np.dtype:
    if name in ("min", "max") or dtype.kind in "fc":
        return dtype
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def _combined(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    operation = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}[name]
    return np.asarray(oracle.expected(operation, a, b))


def _folded(name: str, terms: np.ndarray) -> np.ndarray:
    """Reduces the first axis in the order of mylib.h, for all others at once."""
    n = terms.shape[0]
    if n == 0:
        return np.full(terms.shape[1:], 0 if name == "sum" else 1, terms.dtype)
    blocks = []
    for start in range(0, n, 2048):
        block = terms[start : start + 2048]
        lanes = block[:256].copy()
        for row in range(256, len(block), 256):
            part = block[row : row + 256]
            lanes[: len(part)] = _combined(name, lanes[: len(part)], part)
        half = 128
        while half:
            upper = lanes[half : 2 * half].copy()
            lanes = lanes[:half].copy()
            lanes[: len(upper)] = _combined(name, lanes[: len(upper)], upper)
            half //= 2
        blocks.append(lanes[0])
    while len(blocks) > 1:
        pairs = [_combined(name, *blocks[i : i + 2]) for i in range(0, len(blocks) - 1, 2)]
        blocks = pairs + blocks[len(pairs) * 2 :]
    return np.asarray(blocks[0])


def _expected(
    name: str, host: np.ndarray, axis: Any = None, keepdims: bool = False, dtype: Any = None
) -> np.ndarray:
    source = (host.dtype if dtype is None else np.dtype(dtype)).newbyteorder("=")
    axes = (
        tuple(range(host.ndim)) if axis is None
        else tuple(d % host.ndim for d in ((axis,) if isinstance(axis, int) else axis))
    )  # fmt: skip
    kept = [d for d in range(host.ndim) if d not in axes]
    terms = host.transpose([*sorted(axes), *kept]).reshape(
        (math.prod(host.shape[d] for d in axes), *(host.shape[d] for d in kept))
    )
    carrier = _carrier(name, source)
    result = _folded(name, terms.astype(source).astype(carrier))
    wanted = result.astype(_result(name, source) if dtype is None else source)
    if keepdims:
        wanted = wanted.reshape([1 if d in axes else n for d, n in enumerate(host.shape)])
    return wanted


def _data(dtype: np.dtype, shape: Any, seed: int = 0) -> np.ndarray:
    n = math.prod(shape)
    if dtype == np.bool_:
        return (np.arange(n) % (3 + seed) > 0).reshape(shape)
    return generators.moderate(dtype, n, seed).reshape(shape)


def _check(place: str, name: str, host: np.ndarray, array: Any = None, **kwargs: Any) -> None:
    array = in_place(place, host) if array is None else array
    if place == "cuda":
        kwargs["device"] = "cuda"
    result = getattr(pcd, name)(array, **kwargs)
    kwargs.pop("device", None)
    wanted = _expected(name, np.array(host), **kwargs)
    if place == "array":
        assert isinstance(result, pcd.Array)
        result = pcd.asnumpy(result)
    else:
        assert isinstance(result, np.ndarray if wanted.ndim else np.generic)
    note = f"{name} of {host.dtype}{host.shape} in {place}, {kwargs}"
    # The sign of a zero that is the least of several is open.
    kind = {"min": "minimum", "max": "maximum"}.get(name, "")
    oracle.assert_same(result, wanted, note, name=kind)


# ---- Order ----


@cases.each_place()
@pytest.mark.parametrize("name", NAMES)
@cases.each_dtype(cases.WITH_BOOL)
def test_every_length(dtype: np.dtype, name: str, place: str) -> None:
    data = _data(dtype, (LENGTHS[-1],))
    for n in (*LENGTHS, *((0,) if name in ("sum", "prod") else ())):
        _check(place, name, data[:n])


@cases.each_place()
@pytest.mark.parametrize("name", NAMES)
@cases.each_dtype([np.dtype(code) for code in ("?", "i1", "u4", "f2", "f4", "f8", "c8")])
@pytest.mark.parametrize("layout", [*generators.LAYOUTS, "repeated_row", "repeated_column"])
def test_axes_and_layouts(layout: str, dtype: np.dtype, name: str, place: str) -> None:
    shape = (7, 33, 12)
    host = generators.laid_out(_data(dtype, shape), layout)
    array = cases.Movers().move(host) if place == "array" else host
    for count in range(4):
        for axis in itertools.combinations(range(3), count):
            _check(place, name, host, array, axis=axis)
    _check(place, name, host, array)
    for axis in (0, 1, 2, -1, -3, (-1, 0)):
        for keepdims in (False, True):
            _check(place, name, host, array, axis=axis, keepdims=keepdims)


@cases.each_place()
@cases.each_dtype([np.dtype(code) for code in ("i2", "f4", "f8", "c16")])
@pytest.mark.parametrize(
    "shape",
    [(5000, 3), (3, 5000), (300, 40, 7), (70, 5, 300), (2, 2500, 2), (1, 9000), (9000, 1)],
    ids=str,
)
def test_long_axes(shape: tuple[int, ...], dtype: np.dtype, place: str) -> None:
    """Reduces more than a block along an axis, with elements at any distance."""
    host = _data(dtype, shape)
    for view in (lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[..., ::2]):
        array = view(in_place(place, host))
        for axis in range(len(shape)):
            _check(place, "sum", view(host), array, axis=axis)
        _check(place, "sum", view(host), array)
        _check(place, "max", view(host), array, axis=0)


@cases.each_place()
@given(data=st.data())
def test_any_reduction(place: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(cases.WITH_BOOL))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=1, max_side=8))
    host = _data(dtype, shape, data.draw(st.integers(0, 9)))
    index = data.draw(hnp.basic_indices(shape))
    if isinstance(host[index], np.generic):
        index = (...,)
    view, array = host[index], in_place(place, host)[index]
    axis = data.draw(
        st.none() | (hnp.valid_tuple_axes(view.ndim, min_size=0) if view.ndim else st.none())
    )
    keepdims = data.draw(st.booleans())
    name = data.draw(st.sampled_from(NAMES if view.size else ("sum", "prod")))
    _check(place, name, view, array, axis=axis, keepdims=keepdims)


@cases.each_place()
@cases.each_dtype([np.dtype(code) for code in ("f4", "f8")])
@pytest.mark.parametrize("text", ["a * a", "abs(a)", "square(a)"])
def test_squares_and_magnitudes(text: str, dtype: np.dtype, place: str) -> None:
    """A GPU makes these terms as it loads elements: short rows, long ones, any layout."""
    for shape in ((1500, 3), (1100, 100), (1030, 700), (3, 5000), (1025, 2100), (40_000,)):
        whole = _data(dtype, shape)
        whole[..., 1::3] *= -1
        for view in (lambda x: x, lambda x: x[..., 1:], lambda x: x[..., ::-2]):
            host, array = view(whole), view(in_place(place, whole))
            for name, axis in itertools.product(("sum", "min", "max"), range(host.ndim)):
                result = pcd.evaluate(f"{name}({text}, axis={axis})", {"a": array}, **how(place))
                wanted = _expected(name, np.abs(host) if "abs" in text else host * host, axis=axis)
                note = f"{name}({text}) of {dtype}{host.shape} in {place}, axis {axis}"
                oracle.assert_same(pcd.asnumpy(result), wanted, note)


@cases.each_place()
def test_large(place: str) -> None:
    """Arrays larger than a thread's share and a piece have the bits of one thread."""
    for dtype in ("f4", "f8", "i4", "f2"):
        host = _data(np.dtype(dtype), (1_300_021,))
        _check(place, "sum", host)
        _check(place, "min", host)
        _check(place, "sum", host[:1_300_000].reshape(1300, 1000), axis=0)
        _check(place, "sum", host[:1_300_000].reshape(1300, 1000), axis=1)


# ---- Types ----


@cases.each_place()
@pytest.mark.parametrize("name", ["sum", "prod"])
@cases.each_dtype(cases.WITH_BOOL)
def test_dtype(dtype: np.dtype, name: str, place: str) -> None:
    """The elements are converted first."""
    host = _data(dtype, (3, 300))
    for to in cases.DTYPES:
        if dtype.kind == "c" and to.kind != "c":
            continue
        values = abs(host) if to.kind == "u" and dtype.kind in "if" else host
        _check(place, name, values, axis=1, dtype=to)
        _check(place, name, values, dtype=to)


@cases.each_place()
@pytest.mark.parametrize("name", NAMES)
def test_unsigned_of_floats(name: str, place: str) -> None:
    """Converts numbers that int64 cannot hold to uint64."""
    host = np.array([1e19, 2.0**63, 3.0, 1.5e19] * 300).reshape(3, 400)
    to = np.dtype("u8")
    for axis in (0, 1, None):
        if name in ("sum", "prod"):
            _check(place, name, host, axis=axis, dtype=to)
            _check(place, name, host[:, ::2], axis=axis, dtype=to)
        else:
            _check(place, name, host.astype(to), axis=axis)


@cases.each_place()
def test_out(place: str) -> None:
    host = _data(np.dtype("f4"), (4, 5))
    for dtype in ("f4", "f8", "c8"):
        for name in NAMES:
            for kwargs in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
                wanted = _expected(name, host, **kwargs)
                target = generators.poisoned((*wanted.shape, 2), np.dtype(dtype))[..., 0]
                around = generators.surroundings(target)
                out = cases.Movers() if place == "array" else None
                given_out = out.move(target) if out else target
                result = getattr(pcd, name)(
                    in_place(place, host), out=given_out, **kwargs, **how(place)
                )
                assert result is given_out
                if out:
                    out.fetch(target)
                wide = host.astype(np.result_type(host, dtype))  # the sum is computed in out's type
                oracle.assert_same(target, _expected(name, wide, **kwargs).astype(dtype))
                assert np.array_equal(generators.surroundings(target), around)


@cases.each_place()
def test_out_that_does_not_fit(place: str) -> None:
    x, own = in_place(place, np.ones((4, 5))), in_place(place, np.ones(5))
    refused = [[1.0] * 5, (own,), 5, *([np.ones(5)] if place == "array" else [])]
    for name in (*NAMES, "mean"):
        function = getattr(pcd, name)
        for axis, shape in ((0, 4), (0, (1, 5)), (0, ()), (None, 1)):
            with pytest.raises(ValueError, match="shape"):
                function(x, axis, out=in_place(place, np.ones(shape)), **how(place))
        with pytest.raises(TypeError):
            function(x, axis=0, out=in_place(place, np.ones(5, "i4")), **how(place))
        for out in refused:
            with pytest.raises(TypeError, match="out must be"):
                function(x, axis=0, out=out, **how(place))
    own.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pcd.sum(x, axis=0, out=own, **how(place))


@cases.each_device()
def test_bad_axes(device: str) -> None:
    x = pcd.ones((4, 5), device=device)
    for name in (*NAMES, "mean"):
        for axis in (2, -3, (0, 2), (0, 0), (1, -1), "a", 1.5):
            with pytest.raises((ValueError, TypeError, np.exceptions.AxisError)):
                getattr(pcd, name)(x, axis=axis)


@cases.each_device()
def test_no_elements(device: str) -> None:
    x = pcd.ones((0, 3), "f4", device)
    assert pcd.sum(x).item() == 0 and pcd.prod(x).item() == 1
    assert pcd.asnumpy(pcd.sum(x, axis=0)).tolist() == [0, 0, 0]
    assert pcd.asnumpy(pcd.prod(x, axis=0)).tolist() == [1, 1, 1]
    assert pcd.sum(x, axis=1).shape == (0,)
    assert pcd.min(x, axis=1).shape == (0,) and pcd.max(x, axis=1, keepdims=True).shape == (0, 1)
    for name in ("min", "max"):
        for axis in (None, 0, (0, 1)):
            with pytest.raises(ValueError, match="no elements"):
                getattr(pcd, name)(x, axis=axis)
    with pytest.warns(RuntimeWarning, match="mean of an empty"):
        assert np.isnan(pcd.asnumpy(pcd.mean(x, axis=0))).all()


@cases.each_place()
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_nan_and_infinities(dtype: str, place: str) -> None:
    for n in (1, 5, 300, 5000):
        for position in {0, n // 2, n - 1}:
            for value in (np.nan, np.inf, -np.inf, -0.0):
                host = _data(np.dtype(dtype), (n,))
                host[position] = value
                for name in NAMES:
                    _check(place, name, host)
                if np.isnan(value):
                    for name in NAMES:
                        result = getattr(pcd, name)(in_place(place, host), **how(place))
                        assert np.isnan(complex(result.item())), f"{name}, {n}, {position}"


@cases.each_place()
def test_integers_wrap(place: str) -> None:
    host = np.full(3, 2**62)
    _check(place, "sum", host)
    _check(place, "prod", host)
    _check(place, "sum", np.full(300, 127, "i1"))
    _check(place, "sum", np.full(3, 2**63, "u8"))


@cases.each_place()
def test_float16_is_summed_in_float32(place: str) -> None:
    host = np.full(5000, 0.1, "f2")
    result = pcd.sum(in_place(place, host), **how(place))
    assert result.dtype == np.float16
    assert float(result) == np.float16(5000 * np.float32(np.float16(0.1)))
    ones = in_place(place, np.ones(100_000, "f2"))
    assert float(pcd.sum(ones, dtype="f4", **how(place))) == 100_000


def test_types_that_have_no_sum() -> None:
    for host in (np.array(["a"]), np.array([object()]), np.ones(3, "g"), np.array(["2020"], "M8")):
        with pytest.raises(TypeError, match="not supported"):
            pcd.sum(host)
    with pytest.raises(TypeError):
        pcd.sum(np.ones(3), dtype="S3")


def test_lists_and_other_byte_orders() -> None:
    assert pcd.sum([1, 2, 3]) == 6 and pcd.max([[1.5], [2.5]]) == 2.5 and pcd.prod(7) == 7
    assert pcd.sum(np.array([1, 2], ">i4")) == 3
    assert pcd.mean([1, 2]) == 1.5 and pcd.min(np.float32(3)) == 3


# ---- Accuracy ----


@cases.each_place()
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [100, 3000, 100_000, 1_000_003])
def test_sums_are_accurate(n: int, dtype: str, place: str) -> None:
    """Sums are no worse than NumPy's pairwise sums, apart from luck in single cases."""
    ours, numpys = [], []
    for seed in range(5):
        host = np.random.default_rng(seed).uniform(0, 1, n).astype(dtype)
        exact = math.fsum(host.tolist())
        ours.append(abs(float(pcd.sum(in_place(place, host), **how(place))) - exact))
        numpys.append(abs(float(host.sum()) - exact))
    unit = float(np.spacing(np.dtype(dtype).type(n / 2)))
    assert sum(ours) <= sum(numpys) + 5 * unit, f"{ours}, NumPy: {numpys}"


# ---- Means ----


@cases.each_place()
@cases.each_dtype(cases.WITH_BOOL)
def test_mean(dtype: np.dtype, place: str) -> None:
    """The sum, divided by the number of its terms."""
    host = _data(dtype, (6, 500))
    for axis in (None, 0, 1, (0, 1)):
        for keepdims in (False, True):
            result = pcd.mean(in_place(place, host), axis, keepdims=keepdims, **how(place))
            wanted = np.mean(host, axis, keepdims=keepdims)
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            got = pcd.asnumpy(result).astype("c16")
            np.testing.assert_allclose(
                got, wanted.astype("c16"), rtol=1e-2 if dtype == "f2" else 1e-4, atol=1e-3
            )
    result = pcd.mean(
        in_place(place, host), axis=0, dtype="f4" if dtype.kind != "c" else "c8", **how(place)
    )
    assert result.dtype == ("f4" if dtype.kind != "c" else "c8")
    out = pcd.zeros(6, "c16", "cuda" if place == "array" else "cpu")
    assert pcd.mean(in_place(place, host), axis=1, out=out, **how(place)) is out
    np.testing.assert_allclose(pcd.asnumpy(out), host.mean(1), rtol=1e-2, atol=1e-3)


@cases.each_place()
def test_mean_is_a_sum_and_a_quotient(place: str) -> None:
    host = _data(np.dtype("f4"), (3001,))
    wanted = _expected("sum", host) / np.float32(3001)
    oracle.assert_same(pcd.asnumpy(pcd.mean(in_place(place, host), **how(place))), wanted)
    host = _data(np.dtype("i4"), (3001,))
    wanted = _expected("sum", host, dtype="f8") / 3001
    oracle.assert_same(pcd.asnumpy(pcd.mean(in_place(place, host), **how(place))), wanted)


# ---- dot, trace ----


def _expected_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dtype = np.result_type(a, b)
    if dtype == np.bool_:
        return np.asarray(np.dot(a, b))
    carrier = _carrier("sum", dtype)
    terms = oracle.expected("multiply", a.astype(dtype).astype(carrier),
                            b.astype(dtype).astype(carrier))  # fmt: skip
    return _folded("sum", np.asarray(terms)).astype(dtype)


@cases.each_place()
@cases.each_dtype(cases.WITH_BOOL)
def test_dot(dtype: np.dtype, place: str) -> None:
    for n in (0, 1, 2, 255, 257, 2049, 10_241, 70_001):
        a, b = _data(dtype, (n,)), _data(dtype, (n,), 1)
        for view in (lambda x: x, lambda x: x[::-1], lambda x: x[::3]):
            x, y = in_place(place, a), in_place(place, b)
            result = pcd.dot(view(x), view(y), **how(place))
            oracle.assert_same(pcd.asnumpy(result), _expected_dot(view(a), view(b)), f"dot {n}")
        if place == "array":
            assert isinstance(x.dot(y), pcd.Array)


@cases.each_place()
def test_dot_of_two_types(place: str) -> None:
    for a, b in itertools.product(cases.WITH_BOOL, repeat=2):
        x, y = _data(a, (300,)), _data(b, (300,), 1)
        result = pcd.dot(in_place(place, x), in_place(place, y), **how(place))
        oracle.assert_same(pcd.asnumpy(result), _expected_dot(x, y), f"dot of {a} and {b}")


@cases.each_device()
def test_dot_that_fails(device: str) -> None:
    x = pcd.ones(3, device=device)
    for a, b in ((x, pcd.ones(4, device=device)), (x, pcd.ones((3, 3), device=device)),
                 (pcd.ones((2, 3), device=device), x)):  # fmt: skip
        with pytest.raises(ValueError, match="dot"):
            pcd.dot(a, b)
    assert pcd.asnumpy(pcd.dot(x, 2)).tolist() == [2, 2, 2]
    assert pcd.dot(x.astype("i1"), 2).dtype == np.int64  # the number is not weak
    out = pcd.zeros((), device=device)
    assert pcd.dot(x, x, out=out) is out and out.item() == 3
    with pytest.raises(ValueError):
        pcd.dot(x, x, out=pcd.zeros(1, device=device))
    if device == "cuda":
        with pytest.raises(TypeError, match="host memory"):
            pcd.dot(x, np.ones(3))
        with pytest.raises(ValueError, match="device"):
            pcd.dot(x, x, device="cpu")
        with pytest.raises(ValueError, match="device"):
            pcd.sum(x, device="cpu")


@cases.each_place()
@cases.each_dtype(cases.WITH_BOOL)
def test_trace(dtype: np.dtype, place: str) -> None:
    views: list[Callable[[Any], Any]] = [
        lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-2], lambda x: x[:, :1],
        lambda x: x[:0],
    ]  # fmt: skip
    host = _data(dtype, (40, 300))
    for view in views:
        a, x = view(host), view(in_place(place, host))
        for offset in (0, 1, -1, 39, -39, 300, -300):
            wanted = _expected("sum", np.diagonal(a, offset))
            result = pcd.trace(x, offset, **how(place))
            oracle.assert_same(pcd.asnumpy(result), wanted, f"trace of {dtype}, {offset}")
            if place == "array":
                assert isinstance(result, pcd.Array)
                oracle.assert_same(pcd.asnumpy(x.trace(offset)), wanted)
    with pytest.raises(ValueError, match="two dimensions"):
        pcd.trace(x[0] if x.size else x.reshape(-1), **how(place))


# ---- The short way ----


def _outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        result = function(*args, **kwargs)
    except (OverflowError, RuntimeWarning, TypeError, ValueError) as error:
        return type(error), str(error)
    return result.shape, result.dtype, result.device, pcd.asnumpy(result).tobytes()


@pytest.mark.gpu
@cases.each_dtype(cases.WITH_BOOL)
def test_usual_calls_give_what_the_general_ones_give(dtype: np.dtype) -> None:
    """A call with `device=` bypasses the fast functions of core."""
    for shape in ((), (3,), (2, 3, 4), (2, 0, 3), (1, 5, 1)):
        x = in_place("array", _data(dtype, shape))
        for name, axis, keepdims, view in itertools.product(
            (*NAMES, "mean"),
            (None, 0, 1, -1, -3, 3, (0,), 2**70, np.int64(0), 1.0),
            (False, True),
            (x, x.T),
        ):
            function = getattr(pcd, name)
            wanted = _outcome(function, view, axis, keepdims=keepdims, device="cuda")
            got = _outcome(function, view, axis, keepdims=keepdims)
            assert got == wanted, f"{name} of {dtype}, {view.shape}, axis={axis}, {keepdims}"
    for other in cases.WITH_BOOL:
        a, b = in_place("array", _data(dtype, (7,))), in_place("array", _data(other, (7,)))
        wanted = _outcome(pcd.dot, a, b, device="cuda")
        assert _outcome(pcd.dot, a, b) == wanted, f"dot of {dtype} and {other}"


@pytest.mark.gpu
def test_traces_with_offsets_beyond_the_matrix() -> None:
    x = pcd.ones((3, 5), "i4", device="cuda")
    for offset, wanted in ((2, 3), (4, 1), (5, 0), (2**70, 0), (-2, 1), (-3, 0), (-(2**70), 0)):
        assert pcd.trace(x, offset).item() == wanted
    with pytest.raises(ValueError, match="is on cuda:0 and device is 'cpu'"):
        pcd.trace(x, device="cpu")


# ---- The methods ----


@pytest.mark.gpu
def test_methods() -> None:
    host = _data(np.dtype("f8"), (4, 5))
    x = in_place("array", host)
    for name in NAMES:
        for kwargs in ({}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}):
            result = getattr(x, name)(**kwargs)
            oracle.assert_same(pcd.asnumpy(result), _expected(name, host, **kwargs))
    assert x.mean(axis=0, keepdims=True).shape == (1, 5)
    assert x.sum(dtype="f4").dtype == np.float32


@pytest.mark.gpu
def test_one_call_in_every_place_gives_the_same_bits() -> None:
    for dtype in ("f4", "f8", "c8", "f2"):
        host = _data(np.dtype(dtype), (257, 1001))
        for name in ("sum", "prod", "mean", "max"):
            for axis in (None, 0, 1):
                function = getattr(pcd, name)
                results = [
                    function(host, axis), function(host, axis, device="cuda"),
                    pcd.asnumpy(function(in_place("array", host), axis)),
                    pcd.asnumpy(function(in_place("array", np.asfortranarray(host)), axis)),
                ]  # fmt: skip
                for other in results[1:]:
                    oracle.assert_same(other, np.asarray(results[0]), f"{name} {dtype} {axis}")


def test_warnings() -> None:
    """Warns as NumPy does on the CPU; computations on GPU memory do not warn."""
    host = np.full(10, 3e38, "f4")
    with np.errstate(all="warn"):
        for call in (lambda: pcd.sum(host), lambda: pcd.mean(host), lambda: pcd.dot(host, host)):
            with pytest.warns(RuntimeWarning, match="overflow encountered in"):
                assert np.isinf(call())
        with pytest.warns(RuntimeWarning, match="invalid value encountered in"):
            assert np.isnan(pcd.sum(np.array([np.inf, -np.inf])))


@pytest.mark.gpu
def test_no_warnings_from_a_gpu() -> None:
    x = in_place("array", np.full(10, 3e38, "f4"))
    with np.errstate(all="raise"):
        assert np.isinf((x + x).sum().item()) and np.isinf(pcd.dot(x, x).item())
        assert np.isinf(pcd.mean(x).item()) and np.isinf((x / 0).max().item())
