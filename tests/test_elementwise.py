"""Names of the array API and NumPy; true_divide, clip and round have NumPy's values and types."""

from __future__ import annotations

import itertools
import pickle
import types
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from shared import fetched

import pkg as pcd

#: Names of NumPy's ufuncs that the package lacks, by reasons.
ABSENT = {
    "matrices, not element-wise": "matmul matvec vecdot vecmat",
    "two results": "divmod frexp modf",
    "integers to floats and back": "ldexp spacing",
    "of integers alone": "bitwise_count gcd lcm",
    "compositions of others": "fabs float_power heaviside logaddexp2",
    "times": "isnat",
}

CODES = "bBhHlLefd"


def _given(x: np.ndarray, place: str) -> tuple[Any, dict[str, Any]]:
    if place == "array":
        return pcd.asarray(x, device="cuda"), {}
    return x, {"device": place}


def test_the_array_apis_names() -> None:
    module = pytest.importorskip("array_api_strict._elementwise_functions")
    helpers = {"requires_api_version", "wraps"}
    names = {
        name
        for name, x in vars(module).items()
        if isinstance(x, types.FunctionType) and not name.startswith("_")
    } - helpers
    assert len(names) > 60
    assert {name for name in names if not hasattr(pcd, name)} == set()


def test_numpys_names() -> None:
    ufuncs = {name for name in np.__all__ if isinstance(getattr(np, name), np.ufunc)}
    absent = {name for names in ABSENT.values() for name in names.split()}
    assert absent <= {*ufuncs, "matvec", "vecmat", "vecdot", "bitwise_count"}
    assert {name for name in ufuncs if not hasattr(pcd, name)} == absent & ufuncs


@cases.each_place()
@pytest.mark.parametrize("name", ["degrees", "radians", "conj", "arcsin", "abs"])
def test_numpys_functions_of_arrays(name: str, place: str) -> None:
    """NumPy ufuncs whose operations have other names here work on GPU arrays too."""
    x, keywords = _given(np.linspace(-1, 1, 100), place)
    ours = getattr(pcd, name)(x, **keywords)
    if place == "array":
        assert isinstance(getattr(np, name)(x), pcd.Array)
        oracle.assert_same(fetched(getattr(np, name)(x)), fetched(ours))
    np.testing.assert_allclose(fetched(ours), getattr(np, name)(fetched(x)), rtol=1e-15)


@cases.each_place()
@pytest.mark.parametrize("code", CODES)
@pytest.mark.usefixtures("quiet")
def test_true_divide(code: str, place: str) -> None:
    a, b = (generators.values(np.dtype(code), 300, k) for k in (0, 1))
    (x, keywords), (y, _) = _given(a, place), _given(b, place)
    wanted = np.true_divide(a, b)
    if code in "bB":  # of small integers NumPy's quotients may be of a smaller type
        wanted = np.true_divide(a, b, dtype=np.float64)
    oracle.assert_same(fetched(pcd.true_divide(x, y, **keywords)), wanted, code, [a, b])
    (out, _) = _given(np.zeros(300, wanted.dtype), place)
    assert pcd.true_divide(x, y, out=out, **keywords) is out
    oracle.assert_same(fetched(out), wanted, code, [a, b])


@cases.each_place()
@pytest.mark.parametrize("code", "?bHiL")
def test_true_divide_by_ints_of_any_size(code: str, place: str) -> None:
    a = np.array([1, 3], code)
    x, keywords = _given(a, place)
    for n in (3, 2**63, -(2**63) - 1, 10**30):
        oracle.assert_same(fetched(pcd.true_divide(x, n, **keywords)), a / n, f"{n}")
        oracle.assert_same(fetched(pcd.true_divide(n, x, **keywords)), n / a, f"{n}")


def test_true_divide_of_numbers() -> None:
    assert pcd.true_divide(1, 2) == 0.5 and pcd.divide(1, 2) == pcd.trunc_divide(1, 2) == 0
    mask = np.array([True, False])
    oracle.assert_same(pcd.true_divide(mask, np.array([True, True])), np.array([1.0, 0.0]))
    assert pcd.true_divide(10**400, 10**399) == 10.0
    with pytest.raises(ZeroDivisionError):
        pcd.true_divide(1, 0)
    with pytest.raises(TypeError, match=r"true_divide\(\): dtype must be one of float16, float32"):
        pcd.true_divide([1], 2, dtype="i1")


def test_true_divide_is_an_operation() -> None:
    """It lacked methods and attributes, `signature=`, and its name in messages."""
    a, b = np.array([8, 2, 2], "i1"), [2, 4, 5]
    for method, args in (
        ("reduce", (a,)),
        ("accumulate", (a,)),
        ("reduceat", (a, [0, 1])),
        ("outer", (a, b)),
    ):
        wanted = getattr(np.true_divide, method)(*args)
        oracle.assert_same(getattr(pcd.true_divide, method)(*args), wanted)
    at = np.array([1.0, 2.0])
    pcd.true_divide.at(at, [0, 0], 2)
    assert at.tolist() == [0.25, 2.0]
    attributes = ("nin", "nout", "nargs", "identity")
    ours, numpys = (
        [getattr(one, name) for name in attributes] for one in (pcd.true_divide, np.true_divide)
    )
    assert ours == numpys and "dd->d" in pcd.true_divide.types
    for keywords in ({"signature": "ff->f"}, {"sig": "dd->d"}, {"dtype": "f4"}):
        wanted = np.true_divide(a, b, **keywords)
        oracle.assert_same(pcd.true_divide(a, b, **keywords), wanted)
    for operation in (pcd.true_divide, pcd.true_divide.ufunc):
        assert pickle.loads(pickle.dumps(operation)) is operation
    with pytest.raises(TypeError, match=r"true_divide\(\) is not defined for"):
        pcd.true_divide("a", 1)
    with pytest.warns(RuntimeWarning, match="encountered in true_divide"):
        pcd.true_divide(a, 0)


@pytest.mark.gpu
def test_true_divide_of_arrays_names_itself() -> None:
    x = pcd.asarray([1, 2], device="cuda")
    with pytest.raises(TypeError, match=r"true_divide\(\): cannot cast the result"):
        pcd.true_divide(x, 2, out=pcd.zeros(2, "i8", "cuda"))
    with pytest.raises(TypeError, match=r"true_divide\(\): cannot cast the result"):
        x /= 2


@cases.each_place()
@pytest.mark.parametrize("code", CODES)
@pytest.mark.usefixtures("quiet")
def test_clip(code: str, place: str) -> None:
    """Bounds that are numbers, arrays, None, or beyond the type; `out=`."""
    a = generators.values(np.dtype(code), 300)
    lowest = generators.values(np.dtype(code), 300, 1)
    (x, keywords), (y, _) = _given(a, place), _given(lowest, place)
    for given, wanted in (
        ((1, 5), np.clip(a, 1, 5)),
        ((2, None), np.clip(a, 2, None)),
        ((None, 3), np.clip(a, None, 3)),
        ((5, 1), np.clip(a, 5, 1)),
        ((y, 100), np.clip(a, lowest, 100)),
        ((None, None), a),
    ):
        oracle.assert_same(fetched(pcd.clip(x, *given, **keywords)), wanted, f"{code} {given}", [a])
    if code in "bBhHlL":
        oracle.assert_same(fetched(pcd.clip(x, -(2**70), 2**70, **keywords)), a)
        with pytest.raises(OverflowError):
            pcd.clip(x, 2**70, None, **keywords)
    out, _ = _given(np.zeros_like(a), place)
    assert pcd.clip(x, 1, 5, out, **keywords) is out
    oracle.assert_same(fetched(out), np.clip(a, 1, 5))
    if place == "array":
        oracle.assert_same(fetched(np.clip(x, min=1, max=5)), np.clip(a, 1, 5))


@cases.each_place()
@pytest.mark.parametrize("code", "bBhHlL")
def test_clip_in_expressions(code: str, place: str) -> None:
    """Python ints beyond the type, in the text or as inputs, set no limit, as in NumPy."""
    a = generators.values(np.dtype(code), 300)
    x, keywords = _given(a, place)
    for lowest, highest in ((-(2**70), 2**70), (-300, 5), (3, 2**64), (-1, 100)):
        wanted = np.clip(a, lowest, highest)
        for text in ("clip(a, l, h)", f"clip(a, {lowest}, {highest})"):
            names = {"a": x, "l": lowest, "h": highest}
            result = pcd.evaluate(text, names, {}, **keywords)
            oracle.assert_same(fetched(result), wanted, f"{code} {text} {lowest} {highest}", [a])
    for lowest, highest in ((2**64, 2**65), (-(2**65), -(2**64))):
        with pytest.raises(OverflowError):
            pcd.evaluate("clip(a, l, h)", {"a": x, "l": lowest, "h": highest}, {}, **keywords)


@cases.each_place()
def test_outputs_of_clip_and_round(place: str) -> None:
    """Outputs of other types are cast by ``same_kind``, as in NumPy; errors name the function."""
    (x, keywords), (out, _) = _given(np.array([1.25, 2.5]), place), _given(np.zeros(2, "f4"), place)
    assert pcd.clip(x, 1, 2, out, **keywords) is out and fetched(out).tolist() == [1.25, 2.0]
    assert pcd.clip(x, None, 2, out, **keywords) is out and fetched(out).tolist() == [1.25, 2.0]
    assert pcd.round(x, 1, out, **keywords) is out
    assert fetched(out).tolist() == [np.float32(1.2), 2.5]
    for name, call in (
        ("clip", lambda out: pcd.clip(x, 1, 2, out, **keywords)),
        ("clip", lambda out: pcd.clip(x, 1, None, out, **keywords)),
        ("round", lambda out: pcd.round(x, 1, out, **keywords)),
        ("round", lambda out: pcd.round(x, 0, out, **keywords)),
    ):
        with pytest.raises(TypeError, match=rf"{name}\(\): cannot cast the result"):
            call(_given(np.zeros(2, "i4"), place)[0])
        with pytest.raises(ValueError, match=rf"{name}\(\): out has shape"):
            call(_given(np.zeros(3), place)[0])
        with pytest.raises(TypeError, match=rf"{name}\(\): out must be an array"):
            call(3)


@cases.each_place()
@pytest.mark.parametrize("code", "FD")
def test_clip_by_complex_nan(code: str, place: str) -> None:
    """If one part of a bound is NaN, the other may decide alone, as in NumPy."""
    parts = np.array([np.nan, 0.0, 1.0, 3.0, -2.0])
    numbers = (parts[:, None] + 1j * parts).ravel().astype(code)
    numbers.imag = np.tile(parts, 5)
    a, lowest, highest = (x.ravel() for x in np.meshgrid(numbers, numbers, numbers))
    (x, keywords), (y, _), (z, _) = (_given(one, place) for one in (a, lowest, highest))
    wanted = np.clip(a, lowest, highest)
    oracle.assert_same(fetched(pcd.clip(x, y, z, **keywords)), wanted, code, [a, lowest, highest])


@cases.each_place()
@pytest.mark.parametrize("code", CODES)
@pytest.mark.usefixtures("quiet")
def test_round(code: str, place: str) -> None:
    a = generators.moderate(np.dtype(code), 300)
    a = a[np.abs(a.astype("d")) < 2**15]
    x, keywords = _given(a, place)
    for decimals in (0, 1, 3, -1, -2):
        if code == "e" and decimals:  # NumPy computes these in float16 too; 10 ** 3 fits
            decimals = np.sign(decimals)
        wanted = np.round(a, decimals)
        note = f"{code} {decimals}"
        oracle.assert_same(fetched(pcd.round(x, decimals, **keywords)), wanted, note, [a])
        if place == "array":
            oracle.assert_same(fetched(np.round(x, decimals)), wanted, note, [a])
        out, _ = _given(np.zeros_like(a), place)
        assert pcd.round(x, decimals, out, **keywords) is out
        oracle.assert_same(fetched(out), wanted, note, [a])


@cases.each_place()
@pytest.mark.parametrize("code", "efd")
@pytest.mark.usefixtures("quiet")
def test_round_to_any_decimals(code: str, place: str) -> None:
    """NumPy's power of ten is a product of tens, which differs from the nearest from 10**23 on."""
    info = np.finfo(code)
    exponents = np.arange(np.log10(info.tiny), np.log10(info.max), 7 if code == "d" else 1)
    a = (np.pi * 10.0 ** np.append(exponents, exponents[-1])).astype(code)
    for decimals in (*range(-40, 41), *range(50, 310, 20), -308, -309, 308, 309, 310):
        actual = cases.call(pcd.round, place, a, decimals=decimals)
        oracle.assert_same(actual, np.round(a, decimals), f"{code} {decimals}", [a])


@cases.each_place()
@pytest.mark.parametrize("code", "bBhHiIlL")
def test_round_of_integers_to_tens(code: str, place: str) -> None:
    """A result beyond the type becomes its nearest number on every device; 10**400 gives 0."""
    info = np.iinfo(code)
    x = np.array([info.max, info.min, info.max - 3, 5, 15, 25], code)
    for decimals in (-1, -2, -5, -20, -400):
        tens = 10 ** min(-decimals, 30)
        wanted = [int(np.rint(float(v) / tens) * float(tens)) for v in x.tolist()]
        limited = np.array([min(max(v, info.min), info.max) for v in wanted], code)
        for given in (x, x[:, None], x.astype(x.dtype.newbyteorder())):
            actual = cases.call(pcd.round, place, given, decimals=decimals)
            oracle.assert_same(actual, limited.reshape(given.shape), str(decimals))
    assert pcd.round(5, -400) == 0


@cases.each_place()
def test_decimals_that_no_c_int_holds(place: str) -> None:
    """All kinds of operands raise NumPy's error; none gives NaN, 0 or the operand."""
    for decimals, code in itertools.product((2**31, -(2**31) - 1, 2**63, -(10**30)), "iIefdD?"):
        with pytest.raises(OverflowError, match="decimals must be an int of 32 bits"):
            cases.call(pcd.round, place, np.ones(2, code), decimals=decimals)
    for x in (7, 1.5, np.float32(1.5), [1.5], np.ma.ones(1)):
        with pytest.raises(OverflowError, match="decimals must be an int of 32 bits"):
            pcd.round(x, 2**63)
    assert pcd.round(7, 2**31 - 1) == 7 and pcd.round(7, -(2**31)) == 0


def test_round_of_numbers_and_what_it_cannot() -> None:
    assert pcd.round(2.5) == 2 and pcd.round(2.675, 2) == 2.68 and pcd.round(1234, -2) == 1200
    assert type(pcd.round(7)) is int and pcd.round(2**60 + 1) == 2**60 + 1
    for x in (2**60 + 1, 10**30, 10**30 + 5, -(2**62 + 7), 15, 25, -25, 0, 10**400):
        for decimals in (0, 1, -1, -2, -20, -350):  # a float would not hold the digits
            rounded = pcd.round(x, decimals)
            assert rounded == round(x, decimals) and type(rounded) is int
    assert pcd.round(7, -(10**9)) == 0
    assert pcd.round(17, -1, np.zeros((), "i2")) == 20
    with np.errstate(invalid="ignore"):
        assert np.isnan(pcd.round(np.ones(3), 400)).all()  # as NumPy's: 10 ** 400 is infinite
    for x in (1j, np.ones(2, "F")):
        with pytest.raises(TypeError, match="decimals must be 0 for .*complex"):
            pcd.round(x, 1)
    with pytest.raises(TypeError, match="decimals must be an int"):
        pcd.round(1.5, 0.5)


@pytest.mark.gpu
def test_parts_of_complex_arrays() -> None:
    a = generators.moderate(np.dtype("D"), 50)
    x = pcd.asarray(a, device="cuda")
    for ours, wanted in (
        (x.real, a.real), (x.imag, a.imag), (x.conj(), a.conj()), (np.conj(x), a.conj()),
        (np.real(x), a.real), (np.imag(x), a.imag), (x.real.imag, a.real.imag),
    ):  # fmt: skip
        oracle.assert_same(pcd.asnumpy(ours), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("code", "FD")
def test_parts_of_complex_arrays_are_views(code: str) -> None:
    """Views of any layout; writing to a part changes the number."""
    a = generators.moderate(np.dtype(code), 60).reshape(5, 12)
    x = pcd.asarray(a, device="cuda")
    a, x = a[::-1, ::3].T, x[::-1, ::3].T
    for ours, wanted in ((x.real, a.real), (x.imag, a.imag)):
        assert (ours.shape, ours.strides, ours.dtype) == (
            *(wanted.shape, wanted.strides, wanted.dtype),
        )
    for y in (a, x):
        y.real = 2
        y.imag[1:] = y.real[1:] * 3
        y.imag += 1
    oracle.assert_same(pcd.asnumpy(x), a)
    real = x.real
    assert real.real.__cuda_array_interface__ == real.__cuda_array_interface__
    with pytest.raises(TypeError, match="have no imaginary parts to assign to"):
        real.imag = 1
    with pytest.raises(ValueError, match="read-only"):
        real.imag[:1] = 1  # it would be lost
    with pytest.raises(ValueError, match="read-only"):
        pcd.broadcast_to(x, (2, *x.shape)).real = 1


def test_operands_with_rules_of_their_own() -> None:
    masked = np.ma.array([1.26, 2.0, 9.5], mask=[True, False, False])
    for result in (pcd.clip(masked, 2, 5), pcd.round(masked, 1), pcd.true_divide(masked, 2)):
        assert isinstance(result, np.ma.MaskedArray) and result.mask.tolist() == [1, 0, 0]
    pd = pytest.importorskip("pandas")
    series = pd.Series([1, 2, 9], index=list("abc"))
    assert pcd.true_divide(series, 2).to_dict() == {"a": 0.5, "b": 1, "c": 4.5}
    nullable = pd.Series([7, None], dtype="Int64")
    for result in (pcd.true_divide(nullable, 2, device=None), 1 / pcd.true_divide(2, nullable)):
        assert result.dtype == "Float64" and result[0] == 3.5 and result[1] is pd.NA
    assert pcd.clip(series, 2, 5).to_dict() == {"a": 2, "b": 2, "c": 5}
    assert pcd.round(series, -1).to_dict() == {"a": 0, "b": 0, "c": 10}


def test_clip_of_ints_of_any_size() -> None:
    """The result is exact, as in expressions of Python numbers."""
    big = 2**70
    assert pcd.clip(big, 1, 5) == 5
    assert pcd.clip(1, big, 2 * big) == big
    assert pcd.clip(-big, max=0) == -big
    assert pcd.clip(big) == big
    with pytest.raises(OverflowError):
        pcd.clip(10**400, 1.5, 2)


def test_complex_round_by_rules_into_reals_writes_nothing() -> None:
    class Own(np.ndarray):
        pass

    out = np.full(3, 9, np.uint8)
    for x in (np.array([1.5, 2.5, 3.5j]), np.array([1.5, 2.5, 3.5j]).view(Own)):
        with pytest.raises(TypeError, match=r"round\(\): .*complex"):
            pcd.round(x, out=out)
        assert (out == 9).all()


def test_in_fused_functions() -> None:
    """Fused functions may use the package's functions, too."""
    fused = pcd.fuse(lambda x, y: pcd.clip(pcd.round(x), -2, y) + pcd.true_divide(x, 3))
    assert fused.expression == pcd.Expression("clip(round(x), -2, y) + x / 3")
