"""Logic, bits and shifts, and arithmetic of bools: NumPy's values in every place and layout."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd

BOOL = np.dtype(bool)
OF_BOOL = ["add", "multiply", "minimum", "maximum", "absolute", "logical_and", "logical_or"]
OF_BOOL += ["logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert"]
OF_BOOL += ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LENGTHS = [0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, 4095, 4097, 70_001]
SHIFTS = ["left_shift", "right_shift"]


def _masks(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 2, n).astype(bool)


@cases.each_place()
@pytest.mark.parametrize("name", OF_BOOL)
def test_of_bools(name: str, place: str) -> None:
    """Tries lengths around the kernels' blocks and vectors, contiguous, strided and repeated."""
    operation = getattr(pcd, name)
    for n in LENGTHS:
        a, b = _masks(2 * n), _masks(2 * n, 1)
        for x, y in ((a[:n], b[:n]), (a[::2], b[:n]), (a[:n][::-1], b[n:]), (a[:n], b[:1])):
            args = (x, y)[: operation.nin]
            wanted = getattr(np, name)(*args)
            oracle.assert_same(cases.call(operation, place, *args), wanted, f"{name} of {n}")


@cases.each_place()
@pytest.mark.parametrize("name", OF_BOOL)
def test_bytes_other_than_0_and_1_are_true(name: str, place: str) -> None:
    """A mask may be a view of bytes; the result has only 0 and 1."""
    operation = getattr(pcd, name)
    a = np.arange(512, dtype=np.uint8).reshape(2, 256)
    b = a[:, ::-1].copy()
    b[:, ::3] = 0
    args = (a.view(bool), b.view(bool))[: operation.nin]
    plain = (a != 0, b != 0)[: operation.nin]
    result = cases.call(operation, place, *args)
    oracle.assert_same(result.view(np.uint8), getattr(np, name)(*plain).view(np.uint8))
    if operation.nin == 1:
        fused = cases.call(pcd.Expression(f"{name}(a)"), place, *args)
        oracle.assert_same(fused.view(np.uint8), result.view(np.uint8))


@cases.each_device()
def test_reductions_of_bytes_other_than_0_and_1(device: str) -> None:
    mask = np.arange(256, dtype=np.uint8).reshape(16, 16).view(bool)
    plain = mask.view(np.uint8) != 0
    for name in ("sum", "prod", "min", "max", "mean", "any", "all", "count_nonzero", "trace"):
        result = getattr(pcd, name)(mask, device=device)
        assert result == getattr(np, name)(plain), name


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_reduce_gives_a_bool(name: str, dtype: np.dtype[Any]) -> None:
    """For any type and any output, as in NumPy; `accumulate` and `reduceat` too."""
    a = generators.moderate(dtype, 60).reshape(4, 15)
    a[:, ::4] = 0
    a[1:] = a[0]
    ours, numpys = getattr(pcd, name), getattr(np, name)
    ours(a == 0, a, dtype=bool)  # NumPy remembers the loop of these types
    for how in ({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1), "keepdims": True}):
        oracle.assert_same(ours.reduce(a, **how), numpys.reduce(a, **how), name)
    for kind in (bool, int, dtype):
        out, wanted = np.zeros(15, kind), np.zeros(15, kind)
        assert ours.reduce(a, out=out) is out
        oracle.assert_same(out, numpys.reduce(a, out=wanted), name)
    oracle.assert_same(ours.accumulate(a, axis=1), numpys.accumulate(a, axis=1), name)
    oracle.assert_same(ours.reduceat(a[0], [0, 3, 9]), numpys.reduceat(a[0], [0, 3, 9]), name)
    assert ours.reduce(a[:, :0], axis=1).tolist() == [name == "logical_and"] * 4


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_the_type_of_reductions_in_any_place(name: str) -> None:
    """`dtype` may be None or positional, with `out` after it, as for NumPy's methods."""
    ours, numpys = getattr(pcd, name), getattr(np, name)
    a, out = np.array([[0, 1, 2], [3, 4, 0]]), np.zeros(3)
    for dtype in (None, bool, np.bool_):
        wanted = numpys.reduce(a, 0, dtype)
        oracle.assert_same(ours.reduce(a, 0, dtype), wanted, name)
        oracle.assert_same(ours.reduce(a, 0, dtype=dtype), wanted, name)
        assert ours.reduce(a, 0, dtype, out) is out and (out == wanted).all()
        wanted = numpys.accumulate(a, 1, dtype)
        oracle.assert_same(ours.accumulate(a, 1, dtype), wanted, name)
        oracle.assert_same(ours.accumulate(a, 1, dtype=dtype), wanted, name)
        wanted = numpys.reduceat(a, [0, 1], 1, dtype)
        oracle.assert_same(ours.reduceat(a, [0, 1], 1, dtype), wanted, name)
    with pytest.raises(TypeError, match="No loop"):
        ours.reduce(a, 0, "f4")
    with pytest.raises(TypeError, match="dtype"):
        ours.reduce(a, 0, bool, dtype=bool)
    assert str(inspect.signature(ours.reduce)) == str(inspect.signature(pcd.add.reduce))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BOOL, *cases.DTYPES], ids=str)
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_reduce_of_arrays(name: str, dtype: np.dtype[Any]) -> None:
    a = (
        generators.moderate(dtype, 60).reshape(4, 15)
        if dtype != BOOL
        else _masks(60).reshape(4, 15)
    )
    a[:, ::4] = 0
    x, numpys = pcd.asarray(a, device="cuda"), getattr(np, name)
    for reduce in (numpys.reduce, getattr(pcd, name).reduce):
        for how in ({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1), "keepdims": True}):
            oracle.assert_same(pcd.asnumpy(reduce(x, **how)), numpys.reduce(a, **how), name)
    oracle.assert_same(
        pcd.asnumpy(numpys.reduce(x[:, :0], axis=1)), numpys.reduce(a[:, :0], axis=1)
    )


@cases.each_place()
@pytest.mark.parametrize("dtype", cases.INTEGERS, ids=str)
@pytest.mark.parametrize("name", SHIFTS)
def test_every_count_of_a_shift(name: str, dtype: np.dtype[Any], place: str) -> None:
    """Counts below 0, up to the width and beyond, for values at the edges of the type."""
    info = np.iinfo(dtype)
    bits = 8 * dtype.itemsize
    least = max(info.min, -bits - 2)
    counts = np.array([*range(least, bits + 3), info.max, info.min, info.max - 1], dtype)
    values = np.array([0, 1, 2, 3, info.max, info.max - 1, info.min, info.min // 2 + 1], dtype)
    operation = getattr(pcd, name)
    for a, b in ((values[:, None], counts), (counts[:, None], values)):
        oracle.assert_same(cases.call(operation, place, a, b), getattr(np, name)(a, b))
    for count in (0, 1, bits - 1, min(bits, info.max)):
        wanted = getattr(np, name)(values, count)
        oracle.assert_same(cases.call(operation, place, values, count), wanted)


@cases.each_place()
def test_refused_as_by_numpy(place: str) -> None:
    """Refused for bools alone; beside an integer they are integers."""
    mask = _masks(5)
    for empty in (mask, mask[:0], mask.reshape(5, 1)):
        with pytest.raises(TypeError, match="subtract is not defined for bool: use \\^"):
            cases.call(pcd.subtract, place, empty, empty)
        with pytest.raises(TypeError, match="negative is not defined for bool: use ~"):
            cases.call(pcd.negative, place, empty)
    for other in (1, np.int8(1), np.arange(5, dtype="u2")):
        wanted = np.subtract(mask, other)
        oracle.assert_same(cases.call(pcd.subtract, place, mask, other), wanted)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        with pytest.raises(TypeError, match="defined for"):
            cases.call(getattr(pcd, name), place, np.ones(3), np.ones(3))


@cases.each_place()
def test_truths_of_numbers(place: str) -> None:
    """Only the truth of a Python number matters, even if the array's type cannot hold it."""
    for dtype, number in itertools.product([BOOL, *cases.DTYPES], [0, 300, -1, 1e-300, 0j, True]):
        a = generators.moderate(dtype, 9) if dtype != BOOL else _masks(9)
        a[::2] = 0
        for name in ("logical_and", "logical_or", "logical_xor"):
            truth = np.bool_(number)
            wanted = getattr(np, name)(a, truth)
            oracle.assert_same(cases.call(getattr(pcd, name), place, a, number), wanted)
            oracle.assert_same(cases.call(getattr(pcd, name), place, number, a), wanted)


@cases.each_place()
def test_truths_of_numbers_on_all_paths(place: str) -> None:
    """Keywords, lists and scalars take other paths to the same truths."""
    a, mask = np.array([0, 1, 2], np.float32), np.array([True, False, True])
    for name, number in itertools.product(
        ("logical_and", "logical_or", "logical_xor"), [1e-300, 2**40, 10**400, 0.0, 1e300j, -0.0]
    ):
        function, numpys = getattr(pcd, name), getattr(np, name)
        for x in (a, a.astype(np.float16), a[1]):
            wanted = numpys(x, bool(number))
            oracle.assert_same(cases.call(function, place, number, x, order="C"), wanted)
        out = np.zeros(3, bool)
        wanted = np.where(mask, numpys(a, bool(number)), False)
        oracle.assert_same(cases.call(function, place, a, number, out=out, where=mask), wanted)
        if place == "cpu":
            oracle.assert_same(function([np.float32(1)], number), numpys([1], bool(number)))
        for text, given in ((f"{name}(a, n)", {"n": number}), (f"{name}({number!r}, a)", {})):
            if len(text) < 100:
                expression = pcd.Expression(text)
                args = [{"a": a, **given}[one] for one in expression.inputs]
                wanted = numpys(a, bool(number))
                oracle.assert_same(cases.call(expression, place, *args), wanted, text)


EXPRESSIONS = [
    "(a > 0) & (b < 1)",
    "~(a > 0) | (b < 1) ^ (a == b)",
    "where((a > 0) & ~(b > a), a, b)",
    "(a > 0) + (b > 0) * (a < b)",
    "logical_and(a, b) | logical_not(a)",
    "logical_xor(a, 300) & (a <= b)",
    "maximum(a > 0, b > 0) != minimum(a > 0, b > 0)",
    "((a > 0) & (b < 1)) * a",
]


@cases.each_place()
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str, dtype: str, place: str) -> None:
    """Masks are 0 and 1 of the computed type within a fused kernel, and bytes outside."""
    a, b = (generators.moderate(np.dtype(dtype), 3000, seed).reshape(3, -1) for seed in (0, 1))
    a[:, ::5] = 0
    if np.dtype(dtype).kind == "f":
        a[:, 7], b[:, 8] = np.nan, np.nan
    known = {name: getattr(np, name) for name in np.ufunc.__doc__ and dir(np)}
    truth = text.replace("300", "True")
    with np.errstate(all="ignore"):
        wanted = eval(truth, {**known, "a": a, "b": b})
    expression = pcd.Expression(text)
    oracle.assert_same(cases.call(expression, place, a, b), np.asarray(wanted), text)


@cases.each_place()
@pytest.mark.parametrize("dtype", ["i4", "i8", "f2", "f4", "f8"])
def test_selections_in_long_programs(dtype: str, place: str) -> None:
    """Each element of a thread has a bit in a mask, however many a thread has."""
    a, b = (generators.moderate(np.dtype(dtype), 120_007, seed) for seed in (0, 1))
    text = "where(maximum(a - b, b - a) + b < a + b - minimum(a, b), a + b, b)"
    with np.errstate(all="ignore"):
        wanted = eval(text, {"maximum": np.maximum, "minimum": np.minimum, "where": np.where,
                             "a": a, "b": b})  # fmt: skip
    oracle.assert_same(cases.call(pcd.Expression(text), place, a, b), wanted, text)


@cases.each_place()
def test_expressions_of_masks_and_bits(place: str) -> None:
    """Programs of bools alone, and of integers."""
    m, n, k = (_masks(4099, seed) for seed in range(3))
    for text in ("m & n | k", "~m ^ (n + k)", "where(m & n, k, ~k)", "logical_or(m, n) == k"):
        wanted = eval(
            text, {"m": m, "n": n, "k": k, "where": np.where, "logical_or": np.logical_or}
        )
        oracle.assert_same(cases.call(pcd.Expression(text), place, m, n, k), wanted, text)
    for dtype in cases.INTEGERS:
        a, b = generators.moderate(dtype, 999), generators.moderate(dtype, 999, 1)
        for text in ("(a & 7) << (b & 3) | ~a", "(a ^ b) >> 2 & b", "bitwise_left_shift(a, b) + 1"):
            scope = {"a": a, "b": b, "bitwise_left_shift": np.left_shift}
            oracle.assert_same(
                cases.call(pcd.Expression(text), place, a, b), eval(text, scope), text
            )


def test_fused_functions() -> None:
    @pcd.fuse
    def inside(x: Any, low: Any, high: Any) -> Any:
        return np.where((x >= low) & (x < high) & ~np.logical_not(x), x << 1, x | 1)

    x = np.arange(-20, 20)
    wanted = np.where((x >= -3) & (x < 7) & (x != 0), x << 1, x | 1)
    oracle.assert_same(inside(x, -3, 7), wanted)
    assert pcd.evaluate("(2 < 3) & ~(1 > 2)") is True
    assert pcd.evaluate("1 << 70 >> 69") == 2
    with pytest.raises(OverflowError, match="bits is too large"):
        pcd.evaluate("a << 10000000", {"a": 1})


def test_positive_is_refused_for_bools() -> None:
    """Refused by the function, in texts and in fused functions; a copy is allowed."""
    mask = _masks(5)
    for compute in (pcd.positive, pcd.Expression("+a"), pcd.Expression("positive(a)"),
                    pcd.fuse(lambda a: +a), pcd.fuse(lambda a: np.positive(a))):  # fmt: skip
        with pytest.raises(TypeError, match="positive is not defined for bool"):
            compute(mask)
        oracle.assert_same(compute(np.arange(-2, 3)), np.arange(-2, 3))
    oracle.assert_same(pcd.evaluate("copy(mask)"), mask)
    assert pcd.evaluate("+k * +k", {"k": True}) == 1 and pcd.evaluate("+2 ** +k", {"k": 3}) == 8


def test_numbers_beside_pandas_integers() -> None:
    """Their class refuses NumPy's bools."""
    pd = pytest.importorskip("pandas")
    x = pd.Series([0, 2, None], dtype="Int64")
    for number in (0, 2, 0.5, float("nan"), True, 2j):
        for name in ("logical_and", "logical_or", "logical_xor"):
            wanted = getattr(np, name)(x, bool(number))
            assert getattr(pcd, name)(x, number).equals(wanted)
            assert getattr(pcd, name)(number, x).equals(wanted)


def test_reductions_by_ufuncs() -> None:
    """The identities are NumPy's; sums of bools count."""
    mask, numbers = _masks(77), np.array([12, 10, 14])
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"):
        ours, numpys = getattr(pcd, name), getattr(np, name)
        assert ours.identity == numpys.identity
        for x in (mask, mask[:0], *([numbers, numbers[:0]] if "bit" in name else [])):
            assert ours.reduce(x) == numpys.reduce(x), name
    assert pcd.add.reduce(mask) == mask.sum() and pcd.multiply.reduce(mask) == mask.prod()
    assert pcd.maximum.reduce(mask) is np.True_


TRUTHS = ["any", "all", "count_nonzero"]


def _numbers(dtype: np.dtype[Any], shape: tuple[int, ...], share: float) -> np.ndarray[Any, Any]:
    """Zeros of both signs, and numbers below 1, NaN and others that are true."""
    rng = np.random.default_rng(len(shape))
    is_true = rng.random(shape) < share
    if dtype == BOOL:
        return is_true
    a = np.zeros(shape, dtype)
    true = [1, 2, 100] if dtype.kind in "iu" else [np.nan, 0.001, -1, np.inf]
    a[is_true] = rng.choice(np.array(true, dtype), is_true.sum())
    if dtype.kind in "fc":
        a[~is_true & (rng.random(shape) < 0.5)] = -0.0
    if dtype.kind == "c":
        a[is_true & (rng.random(shape) < 0.5)] = 1j
    return a


@cases.each_place()
@pytest.mark.parametrize("dtype", [BOOL, *cases.DTYPES], ids=str)
@pytest.mark.parametrize("name", TRUTHS)
def test_truths(name: str, dtype: np.dtype[Any], place: str) -> None:
    """Over all axes and some, for every layout; NaN and numbers below 1 are true."""
    ours, numpys = getattr(pcd, name), getattr(np, name)
    for shape, share in (((7,), 0.0), ((7,), 1.0), ((40, 70), 0.02), ((3, 5, 2100), 0.999)):
        a = _numbers(dtype, shape, share)
        for x in (a, a.T, a[..., ::-2], a[:0], a[..., :0]):
            for axis in (None, 0, -1, tuple(range(x.ndim))):
                for keepdims in (False, True):
                    got = cases.call(ours, place, x, axis=axis, keepdims=keepdims)
                    wanted = numpys(x, axis=axis, keepdims=keepdims)
                    oracle.assert_same(
                        np.asarray(got), np.asarray(wanted), f"{name} {shape} {axis}"
                    )


@cases.each_place()
def test_out_of_truths(place: str) -> None:
    """NumPy's any and all write to any type."""
    a = _numbers(np.dtype("f4"), (20, 30), 0.05)
    for name in ("any", "all"):
        for dtype in (BOOL, np.dtype("f8"), np.dtype("i1")):
            out, wanted = np.full(30, 7, dtype), np.full(30, 7, dtype)
            assert cases.call(getattr(pcd, name), place, a, axis=0, out=out) is out
            oracle.assert_same(out, getattr(np, name)(a, axis=0, out=wanted))
        with pytest.raises(ValueError, match="out has shape"):
            cases.call(getattr(pcd, name), place, a, axis=0, out=np.zeros(3, bool))
        with pytest.raises(ValueError, match="axis"):
            cases.call(getattr(pcd, name), place, a, axis=2)


def test_kinds_of_truths() -> None:
    """NumPy's kinds of results, and lists, masked arrays and arrays in the other byte order."""
    assert type(pcd.any([0, 1])) is np.bool_ and type(pcd.count_nonzero([0, 1])) is np.int64
    assert pcd.count_nonzero(np.arange(3, dtype=">i4"), axis=0) == 2
    assert type(pcd.count_nonzero([[0, 1]], axis=(0, 1))) is type(
        np.count_nonzero([[0, 1]], (0, 1))
    )
    masked = np.ma.array([0, 1], mask=[False, True])
    assert not pcd.any(masked) and np.any(masked) == pcd.any(masked)


@pytest.mark.gpu
def test_truths_of_arrays_by_numpys_functions() -> None:
    x = pcd.asarray(np.array([[0.0, np.nan], [1, 0]]), device="cuda")
    for result in (
        x.any(),
        np.any(x),
        np.logical_or.reduce(x, axis=None),
        ~x.all(),
        np.count_nonzero(x) == 2,
    ):
        assert isinstance(result, pcd.Array) and result.dtype == np.bool_ and result.shape == ()
        assert bool(result)
    assert (x > 5).any().item() is False and x.all(axis=1, keepdims=True).shape == (2, 1)
    assert np.logical_and.reduce(x).tolist() == [False, False]
    with pytest.raises(TypeError, match="where"):
        np.any(x, where=x > 0)


@pytest.mark.gpu
def test_reductions_of_arrays_by_ufuncs() -> None:
    """Defaults change nothing, and errors name what was called."""
    mask = _masks(77)
    x = pcd.asarray(mask, device="cuda")
    for name in ("logical_and", "logical_or", "logical_xor", "add", "multiply"):
        wanted = getattr(np, name).reduce(mask)
        for true in (True, np.True_):
            given = {"initial": np._NoValue, "where": true}
            assert getattr(np, name).reduce(x, **given).item() == wanted
    for given in ({"axis": 5}, {"out": pcd.zeros(3, device="cuda")}, {"initial": True}):
        with pytest.raises((TypeError, ValueError), match="logical_xor"):
            np.logical_xor.reduce(x, **given)
