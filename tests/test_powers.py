"""Powers: of signed integers by all ways and in all layouts; the operator and the function agree.

The risks: a negative exponent of integers that is not refused, or after something was written; the
operator `**`, the function `power` and the expression that differ, or that know other operands.
The lists of cases leave powers of signed integers out, since not all exponents have one.
"""

from __future__ import annotations

import enum
import itertools
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from shared import fetched

import pkg as pcd

SIGNED = [dtype for dtype in cases.INTEGERS if dtype.kind == "i"]
MESSAGE = "the exponent -3 is negative: integers have no such powers"


def _operands(dtype: np.dtype[Any], n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bases of any size, and exponents of which half are small; none is negative."""
    exponents = generators.values(dtype, n, 1) & np.iinfo(dtype).max
    small = np.random.default_rng(n).integers(0, 12, n).astype(dtype)
    return generators.values(dtype, n), np.where(np.arange(n) % 2, small, exponents)


def _powers(a: Any, b: Any) -> np.ndarray[Any, Any]:
    """Returns Python's powers, cut to the type's low bits."""
    a, b = np.broadcast_arrays(a, b)
    bits = 8 * a.itemsize
    values = [pow(int(x), int(n), 1 << bits) for x, n in zip(a.flat, b.flat, strict=True)]
    native = a.dtype.newbyteorder("=")
    return np.array(values, np.uint64).astype(f"u{a.itemsize}").view(native).reshape(a.shape)


@cases.each_place()
@cases.each_dtype(SIGNED)
def test_signed_integers(dtype: np.dtype[Any], place: str) -> None:
    for n in generators.LENGTHS[::4]:
        a, b = _operands(dtype, n)
        oracle.assert_same(cases.call(pcd.power, place, a, b), _powers(a, b), note=str(n))
    for first, second in itertools.product(generators.INPUT_LAYOUTS, ("contiguous", "reversed")):
        a, b = (x.reshape(5, 33) for x in _operands(dtype, 165))
        a, b = generators.laid_out(a, first), generators.laid_out(b, second)
        oracle.assert_same(cases.call(pcd.power, place, a, b), _powers(a, b), note=first)
        b, a = (x.reshape(5, 33) for x in _operands(dtype, 165)[::-1])
        a, b = generators.laid_out(a, second), generators.laid_out(b, first)
        oracle.assert_same(cases.call(pcd.power, place, a, b), _powers(a, b), note=first)


@cases.each_place()
@cases.each_dtype(SIGNED)
def test_negative_exponents_of_integers(dtype: np.dtype[Any], place: str) -> None:
    """Refused at any position, and before anything is written."""
    for n, layout in ((7, "strided"), (5000, "contiguous"), (200_000, "reversed")):
        a, b = _operands(dtype, n)
        b[n - 2] = -3
        b = generators.laid_out(b, layout)
        out = np.full(n, 77, dtype)
        for given in (b, np.array(-3, dtype), dtype.type(-3)):
            with pytest.raises(ValueError, match=MESSAGE):
                cases.call(pcd.power, place, a, given, out=out)
            assert (out == 77).all()
        b[n - 2] = 3
        oracle.assert_same(cases.call(pcd.power, place, a, b, out=out), _powers(a, b))


@pytest.mark.parametrize("n", [10, 20_000, 300_000])
@pytest.mark.parametrize(
    "types", ["i4 i8 i8", "i8 i8 i8", "i4 i4 i8", ">i4 i4 i4", "i4 >i4 >i4", "u1 i1 i2", "i8 i8 f8"]
)
def test_a_negative_exponent_writes_nothing(types: str, n: int) -> None:
    """Nothing is written either where NumPy would convert or select part by part."""
    of_base, of_exponent, of_out = types.split()
    a, b, out = np.full(n, 2, of_base), np.full(n, 3, of_exponent), np.full(n, 7, of_out)
    b[-1] = -3
    where = np.arange(n) % 3 != 1
    where[-1] = True
    for keywords in ({}, {"where": where}, {"casting": "unsafe"}, {"order": "F"}):
        with pytest.raises(ValueError, match=MESSAGE):
            pcd.power(a, b, out=out, **keywords)
        with pytest.raises(ValueError, match=MESSAGE):
            pcd.power(a, b, out, **keywords)
        assert (out == 7).all(), keywords
    with pytest.raises(ValueError, match=MESSAGE):
        pcd.evaluate("a ** b + 0", out=out, casting="same_kind")
    assert (out == 7).all()
    where[-1] = False
    assert pcd.power(a, b, out=out, where=where) is out
    assert (out == np.where(where, 8, 7)).all()
    b[-1] = 3
    assert pcd.power(a, b, out=out) is out and (out == 8).all()
    assert pcd.evaluate("a ** b + 0", out=out, casting="same_kind") is out and (out == 8).all()


def test_a_negative_exponent_in_a_later_piece_writes_nothing() -> None:
    """Large calls run in pieces, for Ctrl-C: so many elements times steps."""
    b = np.full((1 << 26) + 1, 3, "i1")
    b[-1] = -3
    with pytest.raises(ValueError, match=MESSAGE):
        pcd.power(np.int8(2) + np.zeros_like(b[:1]), b, out=b)
    assert (b[:-1] == 3).all()
    a, b, out = np.full(200_000, 2), np.full(200_000, 3), np.full(200_000, 7)
    long = pcd.Expression("a ** b" + "".join(f" + sqrt(sqrt(a + {k}))" for k in range(200)))
    b[-1] = -3
    for given in (out, out[::-1], out.reshape(2, -1).T):
        x, y = (x.reshape(given.shape) for x in (a, b))
        for _ in range(2):
            with pytest.raises(ValueError, match=MESSAGE):
                long(x, y, out=given, casting="unsafe")
            assert (out == 7).all()


@cases.each_place()
def test_negative_exponents_in_expressions(place: str) -> None:
    a = np.arange(1, 3000)
    b = np.arange(1, 3000) % 7
    n = np.array(3)
    for text in ("a ** (b - n)", "sum(a ** (b - n))", "2 ** (b - n)", "power(a, b - n)"):
        with pytest.raises(ValueError, match=MESSAGE):
            _evaluate(text, place, a, b, n)
    with pytest.raises(ValueError, match="the exponent -2 is negative"):
        _evaluate("a ** -2", place, a, b, n)
    right = (a ** (b + 3)).sum()
    assert _evaluate("sum(a ** (b + n))", place, a, b, n) == right
    oracle.assert_same(_evaluate("a ** (b + n)", place, a, b, n), a ** (b + 3))


@cases.each_place()
def test_without_elements_no_exponent_is_refused(place: str) -> None:
    """As in NumPy, on every path; but a Python number must fit the type of the array."""
    for dtype, n in itertools.product("?bBqQ", (-1, -3, -100, -300, np.int8(-1), np.int64(-70))):
        a = np.empty(0, dtype)
        for text in ("a ** n", f"a ** {n}", "power(a, n)")[
            :: 2 if isinstance(n, np.generic) else 1
        ]:
            try:
                wanted = a**n
            except OverflowError:
                with pytest.raises(OverflowError, match="out of bounds"):
                    _evaluate(text, place, a, a, n)
            else:
                oracle.assert_same(_evaluate(text, place, a, a, n), wanted, f"{text} {n!r}")
                if place == "array":
                    x = pcd.asarray(a, device="cuda")
                    oracle.assert_same(pcd.asnumpy(x**n), wanted, f"{n!r}")


def _evaluate(text: str, place: str, a: Any, b: Any, n: Any) -> Any:
    names = {"a": a, "b": b, "n": n}
    if place == "array":
        names = {name: cases.Movers().move(x) if np.ndim(x) else x for name, x in names.items()}
        return fetched(pcd.evaluate(text, names))
    return pcd.evaluate(text, names, device=place)


@cases.each_place()
def test_a_mask_chooses_exponents(place: str) -> None:
    """Unselected elements are not checked, as in NumPy."""
    a, b, mask = np.array([2, 3, 4]), np.array([2, -1, 3]), np.array([True, False, True])
    out = np.zeros(3, a.dtype)
    cases.call(pcd.power, place, a, b, out=out, where=mask)
    assert out.tolist() == [4, 0, 64]
    if place == "array":
        x, y, where = (pcd.asarray(one, device="cuda") for one in (a, b, mask))
        there = pcd.zeros(3, a.dtype, device="cuda")
        assert pcd.power(x, y, out=there, where=where) is there
        assert pcd.asnumpy(there).tolist() == [4, 0, 64]
        none = pcd.asarray(np.zeros(3, bool), device="cuda")
        assert pcd.asnumpy(np.power(x, -2, out=there, where=none)).tolist() == [4, 0, 64]
        assert pcd.asnumpy(np.power(x, 2, out=there, where=where)).tolist() == [4, 0, 16]
        with pytest.raises(ValueError, match="the exponent -2 is negative"):
            np.power(x, -2, out=there, where=where)
        assert pcd.asnumpy(np.power(x * 1.0, -1, where=where))[0] == 0.5


def test_types_are_numpys() -> None:
    for a, b in itertools.product("?bhilBHILefdFD", repeat=2):
        x, y = np.ones(3, a), np.ones(3, b)
        assert pcd.power(x, y).dtype == np.power(x, y).dtype, f"{a} {b}"
        assert pcd.evaluate("x ** y").dtype == np.power(x, y).dtype, f"{a} {b}"
        y = y[0]
        assert pcd.evaluate("x ** y").dtype == np.power(x, y).dtype, f"{a} {b}"
    with pytest.raises(OverflowError):
        pcd.power(np.ones(3, "i1"), 300)


@cases.each_place()
def test_types_of_powers_of_bools(place: str) -> None:
    """NumPy's types: int64, but int8 for squares."""
    m = np.array([True, False])
    for n in (0, 1, 2, 3, 64, 65, 0.5, 2.0, np.int8(2), np.int8(3)):
        wanted = m**n
        for text in ("a ** n", f"a ** {n}"):
            if isinstance(n, np.generic) and "n" not in text:
                continue
            oracle.assert_same(_evaluate(text, place, m, m, n), wanted, f"{text} {n}")
        if place == "array":
            oracle.assert_same(pcd.asnumpy(pcd.asarray(m, device="cuda") ** n), wanted, f"{n}")


@pytest.mark.gpu
def test_exponents_of_subclasses_have_a_type() -> None:
    """As in NumPy, only Python's own numbers take the type of the array."""
    three: Any = enum.IntEnum("Three", {"A": 3})
    a = np.array([2, 3], "u2")
    oracle.assert_same(pcd.asnumpy(pcd.asarray(a, device="cuda") ** three.A), a**three.A)


@cases.each_place()
@cases.each_dtype(cases.FLOATS)
@pytest.mark.usefixtures("quiet")
def test_operator_function_and_expression(dtype: np.dtype[Any], place: str) -> None:
    """All have the same bits, except for exponents that are numbers: there `**` multiplies."""
    a, b = generators.values(dtype, 500), generators.moderate(dtype, 500, 1)
    wanted = pcd.power(a, b)
    for text in ("a ** b", "power(a, b)", "pow(a, b)"):
        oracle.assert_same(_evaluate(text, place, a, b, 0), wanted, text, [a, b])
    for number in (1.7, -2.5, 65, -100, 0.25, float("inf")):
        right = pcd.power(a, dtype.type(number))
        for text in ("a ** n", "power(a, n)", f"a ** {number}".replace("inf", "1e400")):
            oracle.assert_same(_evaluate(text, place, a, b, number), right, text, [a])
    for number in (0, 1, 2):
        right = pcd.power(a, dtype.type(number))
        oracle.assert_same(_evaluate("a ** n", place, a, b, number), right, str(number), [a])


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
def test_operators_of_arrays() -> None:
    a, b = generators.values(np.dtype("d"), 300), generators.moderate(np.dtype("d"), 300, 1)
    x, y = (pcd.asarray(one, device="cuda") for one in (a, b))
    for ours, wanted in (
        (x**y, pcd.power(a, b)), (2.5**x, pcd.power(2.5, a)), (x**1.7, pcd.power(a, 1.7)),
        (np.power(x, y), pcd.power(a, b)), (np.power(2.5, x), pcd.power(2.5, a)),
        (pcd.pow(x, 2), np.square(a)), (x ** pcd.asarray(2.5, device="cuda"), pcd.power(a, 2.5)),
        (pcd.asarray([3, 5], device="cuda") ** 70, np.array([3, 5]) ** 70),
    ):  # fmt: skip
        oracle.assert_same(pcd.asnumpy(ours), wanted)
    x **= y
    oracle.assert_same(pcd.asnumpy(x), pcd.power(a, b))


# ---- Complex numbers ----


def _complex_operands(dtype: np.dtype[Any], n: int) -> tuple[Any, Any]:
    """Numbers of all kinds, of which a quarter are moderate, and a quarter whole exponents."""
    a, b = generators.values(dtype, n), generators.values(dtype, n, 1)
    a[::4], b[::4] = generators.moderate(dtype, n)[::4], generators.moderate(dtype, n, 1)[::4]
    b[1::4] = np.random.default_rng(n).integers(-9, 10, n)[1::4]
    return a, b


@cases.each_place()
@cases.each_dtype(cases.COMPLEX)
@pytest.mark.usefixtures("quiet")
def test_complex_layouts(dtype: np.dtype[Any], place: str) -> None:
    """An element has the bits of a single one on the CPU."""
    for n in generators.LENGTHS[::4]:
        a, b = _complex_operands(dtype, n)
        alone = [pcd.power(a[i : i + 1], b[i : i + 1])[0] for i in range(n)]
        oracle.assert_same(cases.call(pcd.power, place, a, b), np.array(alone, dtype), str(n))
    flat = _complex_operands(dtype, 165)
    wanted = pcd.power(*flat).reshape(5, 33)
    for layout in generators.INPUT_LAYOUTS:
        a, b = (x.reshape(5, 33) for x in flat)
        x, y = generators.laid_out(a, layout), generators.laid_out(b, "reversed")
        if np.array_equal(x, a, equal_nan=True) and np.array_equal(y, b, equal_nan=True):
            oracle.assert_same(cases.call(pcd.power, place, x, y), wanted, layout)
        right = pcd.power(np.ascontiguousarray(x), np.ascontiguousarray(y))
        oracle.assert_same(cases.call(pcd.power, place, x, y), right, layout)
    out = flat[0].copy()
    cases.call(pcd.power, place, out, flat[1], out=out)
    oracle.assert_same(out, wanted.ravel())


@cases.each_dtype(cases.COMPLEX)
@pytest.mark.usefixtures("quiet")
def test_complex_powers_are_near_numpys(dtype: np.dtype[Any]) -> None:
    a, b = generators.moderate(dtype, 1000), generators.moderate(dtype, 1000, 1)
    a, b = a / 8, b / 8
    a[a == 0] = 1
    oracle.assert_same(
        pcd.power(a, b), oracle.expected("power", a, b), "power", [a, b], name="power"
    )


@cases.each_dtype(cases.COMPLEX)
@pytest.mark.usefixtures("quiet")
def test_complex_special_values(dtype: np.dtype[Any]) -> None:
    """NumPy's special values: z^0, powers of 0, exact powers, signs of zeros, overflow."""
    inf, nan = np.inf, np.nan
    z = np.array([0, 1, 2 - 3j, complex(inf, 1), complex(nan, inf), complex(0, nan)], dtype)
    assert (pcd.power(z, 0) == 1).all() and (pcd.power(z, 0j).imag == 0).all()
    zero, w = np.zeros(7, dtype), np.array([1, 2 + 3j, 1e-30 - 1j, -1, 1j, -2 + 1j, nan], dtype)
    oracle.assert_same(pcd.power(zero, w), np.power(zero, w))
    with np.errstate(invalid="raise"):
        assert pcd.power(zero[:3], w[:3]).tolist() == [0, 0, 0]
        for exponent in w[3:6]:
            with pytest.raises(FloatingPointError):
                pcd.power(zero, exponent)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        pcd.power(np.array([1e30 + 1e30j], dtype), 30)
    for n in range(-12, 13):
        for number in (1 + 1j, -2 + 1j, 3 - 2j, 0.5j, -4 + 0j, complex(2, -0.0)):
            x = 1 + 0j if n == 0 else number
            for _ in range(abs(n) - 1):
                x = complex(
                    x.real * number.real - x.imag * number.imag,
                    x.real * number.imag + x.imag * number.real,
                )
            wanted = np.array([x if n >= 0 else 1 / x], dtype)
            result = pcd.power(np.array([number], dtype), n)
            np.testing.assert_allclose(result, wanted, rtol=2e-7 if dtype == "F" else 1e-15)
            assert n < 0 or result == wanted, f"{number} ** {n}"
    for number in (2.0, -2.0):
        for n in (-3, -2, 1, 2, 3, 0.5, 2.5, -1.5, 65):
            above, below = (
                pcd.power(np.array([complex(number, y)], dtype), n) for y in (0.0, -0.0)
            )
            oracle.assert_same(below, above.conj(), f"{number} ** {n}")
    assert pcd.power(np.array([4, 9, 0.25], dtype), 0.5).tolist() == [2, 3, 0.5]


@cases.each_place()
@cases.each_dtype(cases.COMPLEX)
@pytest.mark.usefixtures("quiet")
def test_complex_expressions(dtype: np.dtype[Any], place: str) -> None:
    """The function's bits, also of exponents that are real; products of small whole numbers."""
    a, b = _complex_operands(dtype, 500)
    wanted = pcd.power(a, b)
    for text in ("a ** b", "power(a, b)", "pow(a, b)"):
        oracle.assert_same(_evaluate(text, place, a, b, 0), wanted, text, [a, b])
    for number in (1.7, -2.5, 65, 0.25 - 1j, 2 + 0j):
        right = pcd.power(a, dtype.type(number))
        for text in ("a ** n", "power(a, n)", f"a ** ({number})"):
            oracle.assert_same(_evaluate(text, place, a, b, number), right, text, [a])
    oracle.assert_same(_evaluate("a ** n", place, a, b, 2), pcd.square(a))
    oracle.assert_same(_evaluate("n ** b", place, a, b, 2), pcd.power(dtype.type(2), b))
    real = np.abs(a.real)
    oracle.assert_same(_evaluate("a ** b", place, real, b, 0), pcd.power(real.astype(dtype), b))


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
def test_complex_operators_of_arrays() -> None:
    a, b = _complex_operands(np.dtype("D"), 300)
    x, y = (pcd.asarray(one, device="cuda") for one in (a, b))
    for ours, wanted in (
        (x**y, pcd.power(a, b)), (2.5j**x, pcd.power(2.5j, a)), (x**1j, pcd.power(a, 1j)),
        (np.power(x, 3), pcd.power(a, 3)), (x**2, pcd.square(a)), (x**1.5, pcd.power(a, 1.5)),
    ):  # fmt: skip
        oracle.assert_same(pcd.asnumpy(ours), wanted)
    x **= y
    oracle.assert_same(pcd.asnumpy(x), pcd.power(a, b))


def test_complex_numbers() -> None:
    """Python's complex numbers; 0 has more powers than in Python."""
    for z, w in itertools.product((1 + 2j, -3j, 2, -1.5), (0j, 2j, -1.5, 3 + 1j, 5)):
        if isinstance(z, complex) or isinstance(w, complex):
            result, wanted = pcd.power(z, w), z**w
            assert type(result) is complex and abs(result - wanted) <= 1e-13 * abs(wanted)
    assert pcd.power(0j, 3 + 1j) == 0 and pcd.power(0j, 0) == 1
    with pytest.raises(ValueError):
        pcd.power(0j, -1.5)
    with pytest.raises(OverflowError):
        pcd.power(1e200 + 1j, 5)


def test_pandas_computes_here() -> None:
    """It replaces ufuncs named "power" by its own operator."""
    pd = pytest.importorskip("pandas")
    a = np.random.default_rng(0).uniform(0, 10, 1000)
    series = pcd.power(pd.Series(a), 3.0)
    oracle.assert_same(series.to_numpy(), pcd.power(a, 3.0))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@cases.each_device()
def test_the_exponent_2(dtype: str, device: str) -> None:
    """A single exponent 2 uses `square`, and has the bits of an array of exponents."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**63, 5000, dtype=np.uint64).view(dtype)
    x = np.concatenate([bits, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-5, -3.0], dtype)])
    twos = np.full_like(x, 2)
    with np.errstate(all="ignore"):
        for exponent in (2, 2.0, twos[0], twos[:1]):
            result = pcd.power(x, exponent, device=device)
            expected = pcd.power(x, twos, device=device)
            is_nan = np.isnan(expected)
            assert result.dtype == expected.dtype
            assert (np.isnan(result) == is_nan).all()
            assert result[~is_nan].tobytes() == expected[~is_nan].tobytes()
    big = np.full(10, np.finfo(dtype).max, dtype)
    with pytest.warns(RuntimeWarning, match="overflow"):
        pcd.power(big, 2, device=device)
