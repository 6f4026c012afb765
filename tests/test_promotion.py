"""Which type comes out (NEP 50), and the keywords of ufuncs: NumPy's rules on every path."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd

pytestmark = pytest.mark.usefixtures("quiet")

ALL_DTYPES = [np.dtype(bool), *cases.DTYPES, np.dtype("q"), np.dtype("Q")]
PAIRS = list(itertools.product(ALL_DTYPES, repeat=2))
ERRORS = (TypeError, OverflowError, ValueError)
WEAK = [1, -1, 100, 1.5, 1e30, 2j, True]

BINARY = [operation for operation in pcd.core.operations if operation.nin == 2]
UNARY = [operation for operation in pcd.core.operations if operation.nin == 1]


def _same_outcome(operation: Any, place: str, *args: Any) -> None:
    """The same values and type as the oracle, or an exception of the same kind."""
    try:
        wanted = oracle.expected(operation.__name__, *args)
    except ERRORS as error:
        kind = next(kind for kind in ERRORS if isinstance(error, kind))
        with pytest.raises(kind):
            cases.call(operation, place, *args)
        return
    result = np.asarray(cases.call(operation, place, *args))
    what = f"{operation.__name__}({', '.join(str(getattr(x, 'dtype', x)) for x in args)})"
    if any(np.iscomplexobj(x) for x in args) and wanted.dtype != np.bool_:
        assert result.dtype == wanted.dtype, what
        is_power = operation.__name__ == "power"
        if is_power and any(np.ndim(x) == 0 and x == 1e30 for x in args):  # turns beyond NumPy
            return
        bad = oracle.beyond_ulps(result, wanted, 8, of_modulus=is_power)
        assert not bad.any(), what
    else:
        oracle.assert_same(result, wanted, what, args, name=operation.__name__)


@cases.each_place()
@pytest.mark.parametrize("operation", BINARY, ids=lambda op: op.__name__)
def test_every_pair_of_types(operation: Any, place: str) -> None:
    for a, b in PAIRS:
        _same_outcome(operation, place, generators.moderate(a), generators.moderate(b, seed=1))
        _same_outcome(operation, place, generators.moderate(a)[3], generators.moderate(b, seed=1))


@cases.each_place()
@pytest.mark.parametrize("operation", BINARY, ids=lambda op: op.__name__)
def test_every_type_with_every_weak_number(operation: Any, place: str) -> None:
    """A number that the type of the arrays cannot hold is an OverflowError for integers."""
    for dtype, number in itertools.product(ALL_DTYPES, WEAK):
        _same_outcome(operation, place, generators.moderate(dtype), number)
        _same_outcome(operation, place, number, generators.moderate(dtype))
        _same_outcome(operation, place, generators.moderate(dtype)[0], number)


@cases.each_place()
@pytest.mark.parametrize("operation", UNARY, ids=lambda op: op.__name__)
def test_every_type(operation: Any, place: str) -> None:
    for dtype in ALL_DTYPES:
        _same_outcome(operation, place, generators.moderate(dtype))


@cases.each_place()
@pytest.mark.parametrize(
    "operation", [op for op in pcd.core.operations if op.compares], ids=lambda op: op.__name__
)
def test_comparisons_with_numbers_beyond_the_type(operation: Any, place: str) -> None:
    """Comparisons are exact, as NumPy's."""
    assert operation.__name__ in oracle.COMPARISONS
    for dtype in cases.INTEGERS:
        info = np.iinfo(dtype)
        a = np.array([[info.min, 1, info.max]], dtype)
        for number in (int(info.max) + 1, int(info.min) - 1, 10**30, -(10**30)):
            for args in ((a, number), (number, a)):
                wanted = getattr(np, operation.__name__)(*args)
                oracle.assert_same(cases.call(operation, place, *args), wanted)
                out = np.empty((2, 3), bool)
                assert cases.call(operation, place, *args, out=out) is out
                assert (out == wanted).all()


@cases.each_place()
def test_numbers_beyond_the_type(place: str) -> None:
    for dtype in cases.INTEGERS:
        info = np.iinfo(dtype)
        a = np.ones(3, dtype)
        for number in (info.max, info.min):
            _same_outcome(pcd.add, place, a, int(number))
        for number in (int(info.max) + 1, int(info.min) - 1, 10**30):
            with pytest.raises(OverflowError):
                cases.call(pcd.add, place, a, number)


def test_long_and_long_long_keep_their_kind() -> None:
    """On Linux there are two types of 64 bits."""
    for code in "lqLQ":
        a = np.ones(3, code)
        assert pcd.add(a, a).dtype == np.add(a, a).dtype
        assert pcd.add(a, a).dtype.itemsize == 8


def _same_call(name: str, place: str, args: tuple[Any, ...], **kwargs: Any) -> None:
    """The same result as NumPy for the same keywords, or the same kind of exception."""
    try:
        wanted = getattr(np, name)(*args, **kwargs)
    except (TypeError, ValueError) as error:
        with pytest.raises(TypeError if isinstance(error, TypeError) else ValueError):
            cases.call(getattr(pcd, name), place, *args, **kwargs)
        return
    result = cases.call(getattr(pcd, name), place, *args, **kwargs)
    assert type(result) is type(wanted), kwargs
    oracle.assert_same(result, wanted, name, args, str(kwargs))


@cases.each_place()
@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_dtype_and_casting(casting: str, place: str) -> None:
    a, b = generators.moderate(np.dtype("f8"), 9), generators.moderate(np.dtype("f8"), 9, 1)
    for dtype in ("f8", ">f8", "f4", "f2", "i4", "c16"):
        for inputs in ((a, b), (a.astype("f4"), b), (a.astype("i2"), b.astype("i4"))):
            _same_call("add", place, inputs, dtype=dtype, casting=casting)


@cases.each_place()
@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_types_of_out(casting: str, place: str) -> None:
    inputs = [generators.moderate(np.dtype("f4"), 9, seed) for seed in range(2)]
    for dtype in ("f4", ">f4", "f8", "f2", "i4", "c8", "c16"):
        if place == "array" and dtype == ">f4":
            continue  # Arrays have native byte order
        outs = [generators.poisoned(9, np.dtype(dtype)) for _ in range(2)]
        try:
            np.add(*inputs, out=outs[0], casting=casting)
        except TypeError:
            with pytest.raises(TypeError):
                cases.call(pcd.add, place, *inputs, out=outs[1], casting=casting)
        else:
            assert cases.call(pcd.add, place, *inputs, out=outs[1], casting=casting) is outs[1]
        assert outs[0].tobytes() == outs[1].tobytes(), f"out of {dtype}"


@cases.each_place()
def test_where(place: str) -> None:
    a, b = generators.moderate(np.dtype("f4"), 12), generators.moderate(np.dtype("f4"), 12, 1)
    a, b = a.reshape(3, 4), b.reshape(3, 4)
    masks = [
        np.arange(12).reshape(3, 4) % 3 == 0,
        np.array([True, False, True, False]),
        np.bool_(0),
    ]
    masks += [np.array([[True], [False], [True]]), True, False, [True, False, False, True]]
    for mask in masks:
        outs = [generators.poisoned((3, 4), np.dtype("f4")) for _ in range(2)]
        np.multiply(a, b, out=outs[0], where=mask)
        assert cases.call(pcd.multiply, place, a, b, out=outs[1], where=mask) is outs[1]
        assert outs[0].tobytes() == outs[1].tobytes(), f"where={mask}"
    row_out = [generators.poisoned((2, 4), np.dtype("f4")) for _ in range(2)]
    tall = np.array([[True], [False]])
    np.multiply(a[0], b[0], out=row_out[0], where=tall)
    cases.call(pcd.multiply, place, a[0], b[0], out=row_out[1], where=tall)
    assert row_out[0].tobytes() == row_out[1].tobytes()


@cases.each_device()
def test_where_must_be_bool(device: str) -> None:
    for mask in (np.arange(3), np.ones(3)):
        with pytest.raises(TypeError):
            np.add(np.ones(3), 1, where=mask, out=np.zeros(3))
        with pytest.raises(TypeError):
            pcd.add(np.ones(3), 1, where=mask, out=np.zeros(3), device=device)


@cases.each_device()
def test_where_as_a_list(device: str) -> None:
    """NumPy converts any list to bool."""
    for mask in ([1, 0, 2], [0.5, 0.0, 0.0], 1, 0, [True, False, True]):
        outs = [np.zeros(3), np.zeros(3)]
        np.add(np.ones(3), 1, where=mask, out=outs[0])
        pcd.add(np.ones(3), 1, where=mask, out=outs[1], device=device)
        assert outs[0].tolist() == outs[1].tolist(), f"where={mask}"


@cases.each_device()
def test_positional_out(device: str) -> None:
    a, out = np.arange(4.0), np.zeros(4)
    assert pcd.add(a, a, out, device=device) is out and out.tolist() == [0, 2, 4, 6]
    assert pcd.negative(a, out, device=device) is out and out.tolist() == [0, -1, -2, -3]
    assert pcd.add(a, 1, None, device=device).tolist() == [1, 2, 3, 4]
    assert pcd.add(a, 2, out=(out,), device=device) is out and out.tolist() == [2, 3, 4, 5]
    assert pcd.add(a, 2, out=(None,), device=device).tolist() == [2, 3, 4, 5]


@cases.each_place()
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_out_larger_than_the_inputs(large: bool, place: str) -> None:
    """Inputs are broadcast to out."""
    n = 70_000 if large else 4
    a = np.arange(n, dtype="f4")
    out, wanted = (generators.poisoned((3, n), np.dtype("f4")) for _ in range(2))
    np.add(a, a[::-1], out=wanted)
    assert cases.call(pcd.add, place, a, a[::-1], out=out) is out
    oracle.assert_same(out, wanted, "add", [a])


@cases.each_device()
def test_lists_and_array_likes(device: str) -> None:
    class ArrayLike:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([1, 2, 3], dtype or np.int16)

    result = pcd.add(ArrayLike(), 1, device=device)
    assert result.dtype == np.int16 and result.tolist() == [2, 3, 4]
    assert pcd.add([1, 2], (3, 4.5), device=device).tolist() == [4, 6.5]
    assert pcd.add([[1], [2]], range(3), device=device).tolist() == [[1, 2, 3], [2, 3, 4]]
    assert pcd.sqrt([], device=device).tolist() == []


def test_subok() -> None:
    class Own(np.ndarray):
        pass

    own = np.arange(3).view(Own)
    assert type(pcd.add(own, 1)) is Own
    assert type(pcd.add(own, 1, subok=False)) is np.ndarray
    assert type(pcd.add.reduce(own.reshape(3, 1))) is type(np.add.reduce(own.reshape(3, 1)))


def test_signature_keyword() -> None:
    """The ufunc gets arguments that only ufuncs know."""
    result = pcd.add(np.ones(2, "i4"), np.ones(2, "i4"), signature="dd->d")
    assert result.dtype == np.float64
    assert pcd.less([2.5], 2, signature="ii->?", casting="unsafe").tolist() == [False]
    assert pcd.equal([2.5], 2, signature="ii->?", casting="unsafe").tolist() == [True]


@pytest.mark.parametrize("code", "qQ")
def test_the_other_64_bit_integers_of_c(code: str) -> None:
    """As `dtype`, in signatures, and in arrays that are reduced."""
    x, plain = np.arange(1, 5).astype(code), np.arange(1, 5)
    assert x.dtype.char == code
    for name in ("add", "multiply", "maximum", "power", "bitwise_or", "subtract"):
        ours, numpys = getattr(pcd, name), getattr(np, name)
        for function in ("reduce", "accumulate"):
            for given, dtype in ((x, None), (plain, code)):
                result = getattr(ours, function)(given, dtype=dtype)
                wanted = getattr(numpys, function)(given, dtype=dtype)
                assert result.dtype.char == wanted.dtype.char == code
                assert np.array_equal(result, wanted), f"{name}.{function}"
        if code == "q":
            for how in ({"dtype": code}, {"dtype": np.longlong}, {"signature": "qq->q"}):
                oracle.assert_same(ours(plain, 2, **how), numpys(plain, 2, **how), f"{name} {how}")
        oracle.assert_same(ours(x, x), numpys(x, x), name)
    negative = pcd.negative(np.arange(3, dtype="i1"), dtype="q")
    assert negative.dtype == np.int64 and negative.tolist() == [0, -1, -2]


def test_attributes_are_the_ufuncs() -> None:
    for operation in pcd.core.operations:
        ufunc = operation.ufunc
        assert isinstance(ufunc, np.ufunc)
        assert (operation.nin, operation.nout, operation.nargs) == (ufunc.nin, 1, ufunc.nin + 1)
        assert operation.types == ufunc.types and operation.signature is None
        assert operation.__name__ in dir(pcd) and {"reduce", "types"} <= set(dir(operation))
        with pytest.raises(AttributeError, match="no_such_thing"):
            _ = operation.no_such_thing
    numpys = [np.add.identity, np.multiply.identity, np.minimum.identity]
    assert [pcd.add.identity, pcd.multiply.identity, pcd.minimum.identity] == numpys
