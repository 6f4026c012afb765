"""Operators of arrays on a GPU: NumPy's values, types and errors; power; what is refused."""

from __future__ import annotations

import decimal
import enum
import fractions
import itertools
import operator
from collections.abc import Callable
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import on_gpu

import pkg as pcd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add),
    "-": ("subtract", operator.sub),
    "*": ("multiply", operator.mul),
    "/": ("divide", operator.truediv),
    "//": ("floor_divide", operator.floordiv),
    "%": ("remainder", operator.mod),
    "==": ("equal", operator.eq),
    "!=": ("not_equal", operator.ne),
    "<": ("less", operator.lt),
    "<=": ("less_equal", operator.le),
    ">": ("greater", operator.gt),
    ">=": ("greater_equal", operator.ge),
}

#: Of integers and bools.
BITS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "&": ("bitwise_and", operator.and_),
    "|": ("bitwise_or", operator.or_),
    "^": ("bitwise_xor", operator.xor),
    "<<": ("left_shift", operator.lshift),
    ">>": ("right_shift", operator.rshift),
}

#: "+=" to "%=".
INPLACE: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    f"{sign}=": (name, getattr(operator, f"i{function.__name__}"))
    for sign, (name, function) in list(BINARY.items())[:6]
}


def _expected(name: str, *operands: Any) -> Any:
    """Returns the oracle's result of an operator, but NumPy's quotient of integers."""
    kinds = ["i" if type(x) is int else np.asarray(x).dtype.kind for x in operands]
    if name == "divide" and all(kind in "biu" for kind in kinds):
        return np.asarray(np.divide(*operands))
    return oracle.expected(name, *operands)


def _check(function: Callable[..., Any], name: str, *operands: Any) -> None:
    """Compares an operator on arrays with the oracle: the result, or the kind of exception."""
    note = f"{name}({', '.join(str(getattr(x, 'dtype', x)) for x in operands)})"
    try:
        wanted = _expected(name, *operands)
    except (TypeError, OverflowError) as error:
        with pytest.raises(TypeError if isinstance(error, TypeError) else OverflowError):
            function(*(on_gpu(x) for x in operands))
        return
    result = function(*(on_gpu(x) for x in operands))
    assert isinstance(result, pcd.Array), note
    host = pcd.asnumpy(result)
    if wanted.dtype.kind == "c":
        assert host.dtype == wanted.dtype, note
        assert not oracle.beyond_ulps(host, wanted, 8).any(), note
    else:
        oracle.assert_same(host, wanted, note, operands, name=name)


@pytest.mark.parametrize("symbol", [*BINARY, *BITS])
def test_every_pair_of_types(symbol: str) -> None:
    name, function = (BINARY | BITS)[symbol]
    for a, b in itertools.product(cases.WITH_BOOL, repeat=2):
        _check(function, name, generators.moderate(a), generators.moderate(b, seed=1))


@pytest.mark.parametrize("symbol", [*BINARY, *BITS])
def test_numbers_on_either_side(symbol: str) -> None:
    """Python numbers are weak, NumPy's are not; out of a type's range they raise OverflowError."""
    name, function = (BINARY | BITS)[symbol]
    numbers = [1, -1, 2.5, 1e30, 2j, True, np.float32(2.5), np.int16(-3), np.bool_(1), np.array(3)]
    numbers += [0, 127, 128, -129, 255, 256, 2**31, 2**63, 2**64]
    for dtype, number in itertools.product(cases.WITH_BOOL, numbers):
        a = generators.moderate(dtype)
        if name in oracle.COMPARISONS and type(number) is int and dtype.kind in "biu":
            plain = a.view(np.uint8) if dtype.kind == "b" else a  # NumPy fails for large ints
            wanted = getattr(np, name)(plain, number)
            oracle.assert_same(pcd.asnumpy(function(on_gpu(a), number)), wanted)
            oracle.assert_same(
                pcd.asnumpy(function(number, on_gpu(a))), getattr(np, name)(number, plain)
            )
            continue
        _check(function, name, a, number)
        if isinstance(number, np.ndarray):
            continue  # moved to the GPU as well
        _check(function, name, number, a)


@pytest.mark.parametrize("symbol", BINARY)
def test_reflected_with_numpy_scalars(symbol: str) -> None:
    """NumPy's scalars leave the operator to the array."""
    name, function = BINARY[symbol]
    a = generators.moderate(np.dtype("f4"))
    for scalar in (np.float64(2), np.int8(3), np.array(2.5)):
        result = function(scalar, on_gpu(a))
        assert isinstance(result, pcd.Array)
        oracle.assert_same(pcd.asnumpy(result), oracle.expected(name, scalar, a))


def test_kinds_of_numbers() -> None:
    """Subclasses of Python's numbers have a type, as for NumPy."""

    class Own(float):
        pass

    class Colour(enum.IntEnum):
        RED = 3

    x = on_gpu(np.arange(4, dtype="i2"))
    host = np.arange(4, dtype="i2")
    for number in (Colour.RED, Own(2.5)):
        for result, wanted in (
            (x + number, host + number),
            (number * x, number * host),
            (pcd.maximum(x, number), np.maximum(host, number)),
        ):
            oracle.assert_same(pcd.asnumpy(result), wanted)
    x[0] = Colour.RED
    x += Colour.RED
    assert x.tolist() == [6, 4, 5, 6]
    for number in (np.longdouble(1), fractions.Fraction(1, 2), decimal.Decimal(1)):
        with pytest.raises(TypeError):
            x + number


def test_vectors() -> None:
    """The strict functions take arrays on a GPU."""
    a, b = generators.moderate(np.dtype("i4")), generators.moderate(np.dtype("i4"), seed=1)
    for name in ("add", "subtract", "multiply", "divide"):
        function = getattr(pcd, f"vector_{name}")
        result = function(on_gpu(a), on_gpu(b))
        assert isinstance(result, pcd.Array)
        oracle.assert_same(pcd.asnumpy(result), oracle.expected(name, a, b))
        with pytest.raises(ValueError, match="equal"):
            function(on_gpu(a), on_gpu(b[:3]))
        with pytest.raises(ValueError, match="one dimension"):
            function(on_gpu(a), on_gpu(b[None]))
        with pytest.raises(TypeError, match="host memory"):
            function(on_gpu(a), b)


def test_unary() -> None:
    for dtype in cases.DTYPES:
        a = generators.values(dtype, 40)
        x = on_gpu(a)
        oracle.assert_same(pcd.asnumpy(-x), -a)
        if dtype.kind in "iu":
            oracle.assert_same(pcd.asnumpy(~x), ~a)
        positive = +x
        oracle.assert_same(pcd.asnumpy(positive), a)
        assert positive._memory is not x._memory
        if dtype.kind != "c":
            oracle.assert_same(pcd.asnumpy(abs(x)), abs(a))
    assert (~on_gpu(np.array([True]))).tolist() == [False]
    for refused, text in ((operator.neg, "negative is not defined for bool: use ~"),
                          (operator.pos, "positive is not defined for bool")):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            refused(on_gpu(np.array([True])))
    with pytest.raises(TypeError):
        operator.matmul(on_gpu(np.arange(3)), on_gpu(np.arange(3)))


def test_divmod() -> None:
    a, b = generators.moderate(np.dtype("i4")), generators.moderate(np.dtype("i4"), seed=1)
    for args in ((a, b), (a, a), (a, 7), (100, b), (np.int8(2), b)):
        for function in (divmod, np.divmod):
            for got, wanted in zip(function(*map(on_gpu, args)), function(*args), strict=True):
                oracle.assert_same(pcd.asnumpy(got), wanted)


# ---- In place ----


@pytest.mark.parametrize("symbol", INPLACE)
def test_in_place(symbol: str) -> None:
    """Writes to the same memory and type; refuses the casts that NumPy refuses."""
    name, function = INPLACE[symbol]
    for a, b in itertools.product(cases.DTYPES, repeat=2):
        host, other = generators.moderate(a), generators.moderate(b, seed=1)
        x = on_gpu(host)
        try:
            wanted = _expected(name, host, other)
        except TypeError:
            wanted = None
        if wanted is None or not np.can_cast(wanted.dtype, a, "same_kind"):
            with pytest.raises(TypeError):
                function(x, on_gpu(other))
            oracle.assert_same(pcd.asnumpy(x), host, "unchanged after a refusal")
            continue
        pointer = x._pointer
        assert function(x, on_gpu(other)) is x and x._pointer == pointer
        if wanted.dtype.kind == "c":
            assert not oracle.beyond_ulps(pcd.asnumpy(x), wanted.astype(a), 8).any()
        else:
            oracle.assert_same(pcd.asnumpy(x), wanted.astype(a), f"{name} {a} {b}")


@pytest.mark.parametrize("symbol", INPLACE)
def test_in_place_with_numbers_and_shapes(symbol: str) -> None:
    name, function = INPLACE[symbol]
    for number in (3, np.float32(1.5), 2.5):
        host = generators.moderate(np.dtype("f4")).reshape(3, 4)
        x = on_gpu(host)
        view = x[:, ::2]
        assert function(view, number) is view
        wanted = host.copy()
        wanted[:, ::2] = oracle.expected(name, host[:, ::2], number)
        oracle.assert_same(pcd.asnumpy(x), wanted)
    x = on_gpu(np.ones((3, 4), "f4"))
    function(x, on_gpu(np.full(4, 2, "f4")))
    function(x, x)
    function(x, on_gpu(np.full((3, 1), 2, "f4")))
    for wrong in (np.ones((2, 3, 4), "f4"), np.ones(3, "f4")):
        with pytest.raises(ValueError):
            function(x, on_gpu(wrong))
    with pytest.raises(ValueError, match="read-only"):
        function(pcd.broadcast_to(x, (2, 3, 4)), 1)
    row = on_gpu(np.ones(4, "f4"))
    with pytest.raises(ValueError):  # the result is larger than the output
        function(row, x)


def test_in_place_overlap() -> None:
    host = generators.values(np.dtype("f4"), 50)
    for to, source in ((np.s_[1:], np.s_[:-1]), (np.s_[::-1], np.s_[:]), (np.s_[:25], np.s_[::2])):
        wanted, x = host.copy(), on_gpu(host)
        wanted[to] = wanted[to] + wanted[source]
        view = x[to]
        view += x[source]
        oracle.assert_same(pcd.asnumpy(x), wanted)


# ---- Powers ----


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
def test_small_powers(dtype: np.dtype) -> None:
    """Small powers are products: 2 is NumPy's square, larger ones differ by rounding.

    The function `power` gives the same for integers, and for complex numbers.
    """
    a = np.arange(-3, 5).astype(dtype) if dtype.kind != "u" else np.arange(8).astype(dtype)
    x = on_gpu(a)
    for exponent in (0, 1, 2, 3, 5, np.int64(2), 2.0, np.array(2)):
        result = x**exponent
        wanted = a ** (int(exponent) if dtype.kind in "iu" and not isinstance(exponent, float)
                       else exponent)  # fmt: skip
        host = pcd.asnumpy(result)
        if isinstance(exponent, np.generic | np.ndarray):
            exponent = exponent.item()
        if dtype.kind in "iu" and isinstance(exponent, int):
            assert np.array_equal(host, np.power(a, exponent, dtype=a.dtype))
        else:
            np.testing.assert_allclose(host.astype("c16"), wanted.astype("c16"), rtol=2e-3)
        if exponent == 1:
            assert result._memory is not x._memory
        if dtype.kind in "iuc" or exponent == 2:
            number = exponent if dtype.kind == "c" else x.dtype.type(exponent)
            same_power = pcd.asnumpy(np.power(x, number))
            oracle.assert_same(same_power, host.astype(same_power.dtype))


def test_powers_of_floats() -> None:
    a = np.array([0.5, 1.5, 2.0, 4.0, -3.0, 0.0])
    x = on_gpu(a)
    for exponent in (-1, -2, -3, 7, 10, 64, -64):
        np.testing.assert_allclose(pcd.asnumpy(x**exponent), a**exponent, rtol=1e-14)
    oracle.assert_same(pcd.asnumpy(x**0.5), np.sqrt(a))
    oracle.assert_same(pcd.asnumpy(x**2), np.square(a))
    oracle.assert_same(pcd.asnumpy(on_gpu(np.array([4, 9])) ** 0.5), np.array([2.0, 3.0]))
    oracle.assert_same(pcd.asnumpy(on_gpu(np.array([4, 9])) ** -1.0), 1 / np.array([4.0, 9.0]))
    x = on_gpu(a)
    y = x
    y **= 2
    assert y is x
    oracle.assert_same(pcd.asnumpy(x), a * a)
    n = on_gpu(np.array([2, 3]))
    n **= 3
    assert n.tolist() == [8, 27]
    with pytest.raises(TypeError):
        n **= 0.5


def test_powers_that_are_refused() -> None:
    x = on_gpu(np.arange(1.0, 4))
    n = on_gpu(np.arange(1, 4))
    for function in (
        lambda: x ** "a", lambda: pow(x, 2, 3), lambda: pow(2, x, 3), lambda: x ** np.arange(3),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            function()
    with pytest.raises(ValueError, match="the exponent -1 is negative"):
        n**-1


# ---- What does not fit together ----


@pytest.mark.parametrize("symbol", BINARY)
def test_host_arrays_are_refused(symbol: str) -> None:
    """The error names both places, and what helps."""
    _, function = BINARY[symbol]
    x = pcd.ones(3, device="cuda")
    for other in (np.ones(3), [1, 2, 3], (1, 2, 3), np.ones((1, 1))):
        for args in ((x, other), (other, x)):
            with pytest.raises(TypeError, match=r"cuda:0.*pkg.asarray\(x, device='cuda:0'\)"):
                function(*args)


@pytest.mark.parametrize("symbol", BINARY)
def test_other_objects(symbol: str) -> None:
    name, function = BINARY[symbol]
    x = pcd.ones(3, device="cuda")
    for other in ("text", None, object(), {}, np.str_("a"), np.datetime64("2020")):
        if symbol in ("==", "!="):
            continue
        with pytest.raises(TypeError):
            function(x, other)
        if type(other) not in (str, np.str_) or symbol != "%":
            with pytest.raises(TypeError):
                function(other, x)

    class Other:
        def __add__(self, other: Any) -> str:
            return "mine"

        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __add__
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __add__
        __hash__ = None

    assert function(x, Other()) == "mine"


def test_equality_with_other_objects() -> None:
    x = pcd.ones(3, device="cuda")
    times = np.datetime64("2020"), np.timedelta64(1, "s")
    for other in ("text", None, object(), np.str_("a"), *times):
        assert (x == other) is False and (x != other) is True
    for other in (np.longdouble(1), np.clongdouble(1)):
        for function in (operator.eq, operator.ne, operator.lt, operator.add):
            with pytest.raises(TypeError, match=r"Array of float64 and numpy\.c?longdouble"):
                function(x, other)


def test_shapes_that_do_not_broadcast() -> None:
    x, y = pcd.ones((2, 3), device="cuda"), pcd.ones((2, 4), device="cuda")
    with pytest.raises(ValueError, match=r"\(2,3\) \(2,4\)"):
        x + y
    with pytest.raises(ValueError, match="shape"):
        pcd.add(x, x, out=y)
    with pytest.raises(ValueError, match="shape"):
        pcd.add(x, x, out=x[0])


@pytest.mark.parametrize("name", ["add", "sqrt", "less"])
def test_outputs_that_are_refused(name: str) -> None:
    x = pcd.ones(3, device="cuda")
    function = getattr(pcd, name)
    args = (x, x)[: function.nin]
    with pytest.raises(TypeError, match="out must be"):
        function(*args, out=np.ones(3))
    with pytest.raises(TypeError):
        function(*args, out=[1, 2, 3])
    with pytest.raises(TypeError, match="out is on cuda:0"):
        function(*((np.ones(3),) * function.nin), out=x)
    with pytest.raises(ValueError, match="read-only"):
        function(*args, out=pcd.broadcast_to(x, (2, 3)))
    if name != "less":
        with pytest.raises(TypeError, match="cannot cast"):
            function(*args, out=pcd.zeros(3, "i4", "cuda"))
    with pytest.raises(TypeError, match="wrong_keyword"):
        function(*args, wrong_keyword=1)
    with pytest.raises(TypeError):
        function(x, x, x, x)
    with pytest.raises(ValueError, match="device"):
        function(*args, device="cpu")
    assert isinstance(function(*args, device="cuda"), pcd.Array)


@given(data=st.data())
def test_expressions(data: st.DataObject) -> None:
    """Applies several operators to views that broadcast."""
    dtype = data.draw(st.sampled_from([np.dtype(code) for code in ("f4", "f8", "i4", "u1", "f2")]))
    arrays, _ = data.draw(generators.operands(dtype, 2))
    ndim = max(map(np.ndim, arrays))  # else they might not broadcast when transposed
    a, b = (np.array(x, ndmin=ndim).astype(dtype) for x in arrays)
    x, y = on_gpu(a), on_gpu(b)
    result = (x.T * 2 - x.T) + (-y).T
    oracle.assert_same(pcd.asnumpy(result), (a.T * 2 - a.T) + (-b).T)
    oracle.assert_same(pcd.asnumpy(x < y), a < b)


@pytest.mark.parametrize("sign", [*INPLACE, "divmod"])
def test_operators_that_refuse_do_not_return_notimplemented(sign: str) -> None:
    """Python checks no result of the sequences' ``+=``, nor do we hand it one in a tuple."""
    x = pcd.ones(3, device="cuda")
    apply = divmod if sign == "divmod" else INPLACE[sign][1]
    for wrong in (None, "a", object(), np.datetime64("2020")):
        with pytest.raises(TypeError):
            apply(x, wrong)
        if sign == "divmod":
            with pytest.raises(TypeError):
                divmod(wrong, x)

    class Other:
        def __radd__(self, other: Any) -> str:
            return "reflected"

        __rdivmod__ = __radd__

    if sign in ("+=", "divmod"):
        assert apply(x, Other()) == "reflected"
