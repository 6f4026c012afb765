"""Powers: of signed integers by all ways and in all layouts; the operator and the function agree.

The risks: a negative exponent of integers that is not refused, or after something was written; the
operator `**`, the function `power` and the expression that differ, or that know other operands.
The lists of cases leave powers of signed integers out, since not all exponents have one.
"""

from __future__ import annotations

import itertools
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd

SIGNED = [dtype for dtype in cases.INTEGERS if dtype.kind == "i"]
MESSAGE = "the exponent -3 is negative: integers have no such powers"


def _operands(dtype: np.dtype[Any], n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bases of any size, and exponents of which half are small; none is negative."""
    exponents = generators.values(dtype, n, 1) & np.iinfo(dtype).max
    small = np.random.default_rng(n).integers(0, 12, n).astype(dtype)
    return generators.values(dtype, n), np.where(np.arange(n) % 2, small, exponents)


def _powers(a: Any, b: Any) -> np.ndarray[Any, Any]:
    """Python's powers, of which the type keeps the low bits."""
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
    """Wherever it stands among many, and before anything is written."""
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


def _evaluate(text: str, place: str, a: Any, b: Any, n: Any) -> Any:
    names = {"a": a, "b": b, "n": n}
    if place == "array":
        names = {name: cases.Movers().move(x) if np.ndim(x) else x for name, x in names.items()}
        result = pcd.evaluate(text, names)
        return pcd.asnumpy(result) if isinstance(result, pcd.Array) else result
    return pcd.evaluate(text, names, device=place)


def test_a_mask_chooses_exponents() -> None:
    """Elements that `where` leaves out are not looked at, as in NumPy."""
    a, b, mask = np.array([2, 3, 4]), np.array([2, -1, 3]), np.array([True, False, True])
    out = np.zeros(3, a.dtype)
    assert pcd.power(a, b, out=out, where=mask) is out and out.tolist() == [4, 0, 64]


def test_types_are_numpys() -> None:
    for a, b in itertools.product("?bhilBHILefd", repeat=2):
        x, y = np.ones(3, a), np.ones(3, b)
        assert pcd.power(x, y).dtype == np.power(x, y).dtype, f"{a} {b}"
        assert pcd.evaluate("x ** y").dtype == np.power(x, y).dtype, f"{a} {b}"
        y = y[0]
        assert pcd.evaluate("x ** y").dtype == np.power(x, y).dtype, f"{a} {b}"
    with pytest.raises(OverflowError):
        pcd.power(np.ones(3, "i1"), 300)
    with pytest.raises(TypeError, match=r"power\(\) is not defined for .*complex128"):
        pcd.power(np.array([1j]), 2)


@cases.each_place()
@cases.each_dtype(cases.FLOATS)
@pytest.mark.usefixtures("quiet")
def test_operator_function_and_expression(dtype: np.dtype[Any], place: str) -> None:
    """The same bits, but for exponents that are numbers: there the operator multiplies."""
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


def test_pandas_computes_here() -> None:
    """It replaces ufuncs named "power" by its own operator."""
    pd = pytest.importorskip("pandas")
    a = np.random.default_rng(0).uniform(0, 10, 1000)
    series = pcd.power(pd.Series(a), 3.0)
    oracle.assert_same(series.to_numpy(), pcd.power(a, 3.0))
