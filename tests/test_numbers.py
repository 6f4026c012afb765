"""Python numbers: exact ints, Python's floats, the right exceptions and kinds of results."""

from __future__ import annotations

import cmath
import enum
import fractions
import math
import struct
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pkg as pcd
from pkg._docs import COMPLEX_ELEMENTARY
from pkg._table import PREDICATES

OPERATIONS = pytest.mark.parametrize("operation", pcd.core.operations, ids=lambda op: op.__name__)

OF_FLOATS = pytest.mark.parametrize("operation", cases.OF_FLOATS, ids=lambda op: op.__name__)

INT_OPERATIONS = [
    operation
    for operation in pcd.core.operations
    if any(types[0] == "l" for types in operation.types)
]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

EDGES = [0, 1, -1, 2, -2, 3, 10, -10, 2**31, 2**32 - 1, 3_037_000_499, 3_037_000_500, 2**62]
EDGES += [INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1]
EDGES += [2**63, INT64_MIN - 1, 2**64, -(10**30)]

ints = st.one_of(
    st.sampled_from(EDGES), st.integers(-20, 20), st.integers(INT64_MIN, INT64_MAX), st.integers()
)
floats = st.floats(allow_nan=True, allow_infinity=True)


def _outcome(function: Any, *args: Any) -> Any:
    """The result with its type, or the type of the exception."""
    try:
        result = function(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error)
    return type(result), result


def _bits(x: float) -> bytes:
    return b"nan" if x != x else struct.pack("d", x)


def _check(operation: Any, args: tuple[float, ...], device: str | None = None) -> None:
    kwargs = {} if device is None else {"device": device}
    ours = _outcome(lambda *a: operation(*a, **kwargs), *args)
    wanted = _outcome(oracle.expected_number, operation.__name__, *args)
    note = f"{operation.__name__}{args} on {device or 'cpu'}: {ours}, {wanted}"
    if not (type(ours) is type(wanted) is tuple and ours[0] is wanted[0] is float):
        assert ours == wanted, note
    elif operation.__name__ in oracle.ELEMENTARY:
        beyond = oracle.beyond_ulps(np.float64(ours[1]), np.float64(wanted[1]), 2)
        assert not beyond.any(), note
    else:
        same_zero = ours[1] == wanted[1] == 0 and operation.__name__ in ("minimum", "maximum")
        assert same_zero or _bits(ours[1]) == _bits(wanted[1]), note


@pytest.mark.parametrize("operation", INT_OPERATIONS, ids=lambda op: op.__name__)
@given(a=ints, b=ints)
def test_ints_are_exact_or_fail(operation: Any, a: int, b: int) -> None:
    _check(operation, (a, b)[: operation.nin])


@cases.each_device()
@pytest.mark.parametrize("operation", INT_OPERATIONS, ids=lambda op: op.__name__)
def test_ints_at_the_edges(operation: Any, device: str) -> None:
    for a in EDGES:
        for b in EDGES if operation.nin == 2 else [0]:
            _check(operation, (a, b)[: operation.nin], device)


@OF_FLOATS
@given(a=floats, b=floats)
@example(a=-0.0, b=0.0)
@example(a=-5.5, b=math.inf)
@example(a=math.inf, b=2.0)
@example(a=1e308, b=1e-308)
def test_floats_are_pythons(operation: Any, a: float, b: float) -> None:
    _check(operation, (a, b)[: operation.nin])


@cases.each_device()
@OF_FLOATS
def test_floats_at_the_edges(operation: Any, device: str) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 5.5, -5.5, math.inf, -math.inf, math.nan]
    values += [5e-324, 1.8e308, 1 / 3]
    for a in values:
        for b in values if operation.nin == 2 else [0.0]:
            _check(operation, (a, b)[: operation.nin], device)


@OF_FLOATS
@given(a=st.one_of(floats, st.integers(-(2**70), 2**70)), b=floats)
def test_ints_among_floats(operation: Any, a: float, b: float) -> None:
    if operation.nin == 2:
        _check(operation, (a, b))
        _check(operation, (b, a))


def test_integers_stay_exact_and_floats_are_pythons() -> None:
    results = [pcd.add(1, 2), pcd.divide(999, 9), pcd.divide(-7, 2), pcd.floor_divide(-7, 2)]
    results += [pcd.subtract(1, 2), pcd.multiply(-3, 4), pcd.remainder(-7, 3), pcd.square(-5)]
    assert results == [3, 111, -3, -4, -1, -12, 2, 25]
    assert [type(x) for x in results] == [int] * 8
    assert pcd.add(0.1, 0.2) == 0.1 + 0.2 and pcd.divide(1.0, 4) == 0.25
    assert repr(pcd.sqrt(4)) == "2.0" and repr(pcd.absolute(-3)) == "3"


@OPERATIONS
def test_bool_is_an_int(operation: Any) -> None:
    """Bitwise operations of bools give bools, as in Python; `invert` is `not`, as in NumPy."""
    has_bits = operation.__name__ in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")
    for a in (False, True):
        for b in (False, True):
            args = (a, b)[: operation.nin]
            wanted = _outcome(operation, *(int(x) for x in args))
            if has_bits:
                wanted = bool, bool(wanted[1] & 1)
            assert _outcome(operation, *args) == wanted


@OPERATIONS
def test_subclasses_of_int_are_ints(operation: Any) -> None:
    class Colour(enum.IntEnum):
        RED = 7

    class Own(int):
        def __add__(self, other: Any) -> Any:
            raise AssertionError("not called: the operation computes")

    for value in (Colour.RED, Own(7)):
        args = (value, 2)[: operation.nin]
        wanted = _outcome(operation, *(int(x) for x in args))
        assert _outcome(operation, *args) == wanted


@OPERATIONS
def test_subclasses_of_float_and_complex_are_numbers(operation: Any) -> None:
    class Length(float):
        pass

    class Phase(complex):
        pass

    def said(function: Any, *args: Any) -> str:
        try:
            result = function(*args)
        except (ArithmeticError, ValueError, TypeError) as error:
            return f"{type(error)} {error}"
        return f"{type(result)} {result!r}"

    text = f"{operation.__name__}({', '.join('ab'[: operation.nin])})"
    for x, plain in ((Length(0.5), 0.5), (Phase(0.5 + 1j), 0.5 + 1j)):
        args, numbers = (x, Length(2.5))[: operation.nin], (plain, 2.5)[: operation.nin]
        assert said(operation, *args) == said(operation, *numbers)
        ours, wanted = (dict(zip("ab", given, strict=False)) for given in (args, numbers))
        assert said(pcd.evaluate, text, ours) == said(pcd.evaluate, text, wanted)


def test_subclasses_in_further_functions() -> None:
    class Length(float):
        pass

    assert pcd.round(Length(2.5)) == 2 and pcd.round(Length(2.675), 2) == 2.68
    assert pcd.clip(Length(2.5), 0, 1) == 1 and pcd.true_divide(Length(1), 2) == 0.5
    two: Any = enum.IntEnum("Two", {"A": 2})
    assert pcd.evaluate("ones_like(a)", {"a": two.A}, {}) == 1


@OPERATIONS
def test_numpy_scalars_stay_numpys(operation: Any) -> None:
    """np.float64 is a subclass of float, but behaves as NumPy's: it warns instead of raising."""
    is_comparison = operation.__name__ in PREDICATES
    floats = [np.float64(-2.0), np.float32(3), np.float16(1.5)]
    for scalar in floats if operation in cases.OF_FLOATS else []:
        for args in ((scalar, 2)[: operation.nin], (2, scalar)[2 - operation.nin :]):
            with np.errstate(all="ignore"):
                result = operation(*args)
            assert type(result) is (np.bool_ if is_comparison else type(scalar))
    if operation in INT_OPERATIONS:
        for scalar in (np.int64(-7), np.int8(-7), np.uint16(7)):
            args = (scalar, abs(scalar))[: operation.nin]
            with np.errstate(all="ignore"):
                result = operation(*args)
            assert type(result) is (np.bool_ if is_comparison else type(scalar))


def test_division_by_zero() -> None:
    for operation in (pcd.divide, pcd.floor_divide, pcd.remainder):
        for zero in (0, 0.0, -0.0, False):
            with pytest.raises(ZeroDivisionError, match=f"{operation.__name__} by zero"):
                operation(1, zero)
            with pytest.raises(ZeroDivisionError):
                operation(1.5, zero)
    for zero in (0, 0.0, 0j):
        with pytest.raises(ZeroDivisionError):
            pcd.divide(1j, zero)


def test_messages() -> None:
    with pytest.raises(OverflowError, match="the result of add does not fit in 64 bits"):
        pcd.add(INT64_MAX, 1)
    with pytest.raises(OverflowError, match="argument 2 does not fit in 64 bits"):
        pcd.multiply(1, 2**64)
    with pytest.raises(OverflowError, match="negative"):
        pcd.negative(INT64_MIN)
    for call, args, said in (
        (pcd.sqrt, (-1.0,), "sqrt of the negative number -1 is not real"),
        (pcd.sqrt, (-4,), "sqrt of the negative number -4 is not real"),
        (pcd.log, (-0.1,), "log has no value for -0.1"),
        (pcd.arccos, (1 + 2**-52,), "arccos has no value for 1.0000000000000002"),
        (pcd.power, (-2.5, 1 / 3), "power has no value for -2.5 and 0.3333333333333333"),
        (pcd.arctan, (1j,), "arctan has no value for 0+1j"),
    ):
        with pytest.raises(ValueError) as caught:
            call(*args)
        assert str(caught.value) == said


def test_sqrt() -> None:
    assert _bits(pcd.sqrt(-0.0)) == _bits(-0.0)
    assert pcd.sqrt(math.inf) == math.inf and math.isnan(pcd.sqrt(math.nan))
    assert pcd.sqrt(2) == math.sqrt(2) and pcd.sqrt(True) == 1.0
    assert pcd.sqrt(10**30) == math.sqrt(10**30)
    assert pcd.sqrt(-1 + 0j) == 1j and pcd.sqrt(complex(-4, -0.0)) == -2j
    with pytest.raises(ValueError):
        pcd.sqrt(-math.inf)
    with pytest.raises(OverflowError):
        pcd.sqrt(10**400)


def test_ints_too_large_for_a_float() -> None:
    with pytest.raises(OverflowError):
        pcd.add(1.0, 10**400)


@OF_FLOATS
@cases.each_device()
def test_complex_numbers(operation: Any, device: str) -> None:
    if not any(types[0] == "D" for types in operation.types):
        with pytest.raises(TypeError, match=rf"{operation.__name__}.*float64|supported|defined"):
            operation(*(1j, 2j)[: operation.nin], device=device)
        return
    values = generators.moderate(np.dtype("c16"), 50).tolist() + [3, 2.5, -7]
    for a in values[:50]:
        for b in values[::7] if operation.nin == 2 else [1]:
            args = (a, b)[: operation.nin]
            wanted = oracle.expected(operation.__name__, *(np.array(x, "c16") for x in args)).item()
            result = operation(*args, device=device)
            assert type(result) is type(wanted)
            bound = 8 * np.finfo(float).eps * abs(wanted)
            assert abs(result - wanted) <= bound, f"{operation.__name__}{args}"
    assert pcd.multiply(1j, 1j) == -1 and pcd.absolute(3 + 4j) == 5.0
    assert cmath.isclose(pcd.divide(1 + 2j, 3 - 4j), (1 + 2j) / (3 - 4j))


def test_other_kinds_of_numbers() -> None:
    """Operands that NumPy turns into objects are refused; the text names the supported types."""
    for number in (fractions.Fraction(1, 2), None, object(), "1", b"1"):
        with pytest.raises(TypeError, match="int64"):
            pcd.add(number, 1)
    assert pcd.add(memoryview(b"\x01\x02"), 1).tolist() == [2, 3]


def test_numbers_with_keywords() -> None:
    """Keywords such as dtype make it a call of arrays, as in NumPy."""
    assert type(pcd.add(1, 2, dtype="f4")) is np.float32
    out = np.zeros((), int)
    assert pcd.add(1, 2, out=out) is out and out == 3
    assert pcd.add(1, 2, device="cpu") == 3 and type(pcd.add(1, 2, device="cpu")) is int
    assert pcd.add(1, 2, device=None) == 3


@cases.each_device()
def test_numbers_under_a_default_device(device: str) -> None:
    with pcd.default_device(device):
        assert pcd.multiply(6, 7) == 42 and type(pcd.multiply(6, 7)) is int
        assert pcd.multiply(1.5, 2) == 3.0
        with pytest.raises(ZeroDivisionError):
            pcd.divide(1, 0)
        with pytest.raises(OverflowError):
            pcd.add(INT64_MAX, 1)


@cases.each_device()
@pytest.mark.parametrize("name", COMPLEX_ELEMENTARY)
def test_functions_of_complex_numbers_are_cmaths(name: str, device: str) -> None:
    """Results are Python's complex, and raise exceptions where cmath does."""
    functions = {"expm1": lambda z: cmath.exp(z) - 1, "log1p": lambda z: cmath.log(1 + z)}
    functions["log2"] = lambda z: complex(math.log2(abs(z)), cmath.phase(z) / math.log(2))
    numbers = [0.5 + 1j, -2.5 + 0.25j, -1 + 0j, 0j, 1j, 1e200 + 1e200j, 1e5 - 2j, 3 + 1000j]
    numbers += [complex(math.inf, 1), complex(1, math.inf), complex(math.nan, 1)]
    for z in numbers:
        wanted = _outcome(functions.get(name) or getattr(cmath, name.replace("arc", "a")), z)
        ours = _outcome(lambda z: getattr(pcd, name)(z, device=device), z)
        if isinstance(wanted, tuple):
            assert isinstance(ours, tuple) and ours[0] is complex, f"{name}({z}): {ours}, {wanted}"
            parts = [(x.real, x.imag) for x in (ours[1], wanted[1])]
            near = np.allclose(*parts, 1e-12, 1e-300, equal_nan=True)
            assert near, f"{name}({z}): {ours[1]}, {wanted[1]}"
        else:
            assert ours == wanted, f"{name}({z}): {ours}, {wanted}"


@cases.each_device()
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "minimum", "bitwise_or"])
@pytest.mark.parametrize("dtype", ["i8", "u8", "f8", "?"])
def test_ints_beyond_int64_are_refused_before_the_type_of_out(
    name: str, dtype: str, device: str
) -> None:
    out = np.zeros(3, dtype)
    for numbers in ((2**63, 1), (1, -(2**64))):
        with pytest.raises(OverflowError):
            getattr(np, name)(*numbers, out=out)
        with pytest.raises(OverflowError):
            getattr(pcd, name)(*numbers, out=out, device=device)
    with pytest.raises(TypeError):
        pcd.add(2, 1, out=np.zeros(3, "?"), device=device)
