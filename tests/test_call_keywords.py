"""Keyword arguments mean the same on every path: tables of calls, compared with NumPy's."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import oracle
import pytest
from shared import how, in_place

import pkg as pcd

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]


class Colour(enum.IntEnum):
    RED = 3


#: Keywords that mean the same as leaving them out.
DEFAULTS: list[dict[str, Any]] = [
    *[{"out": None}, {"where": True}, {"where": np.True_}, {"dtype": None}, {"order": "K"}],
    *[{"casting": "same_kind"}, {"subok": True}, {"device": None}, {"device": "cpu"}],
    *[{"order": None}, {"out": (None,)}, {"out": None, "where": True, "casting": "same_kind"}],
    {"out": None, "where": True, "dtype": None, "casting": "same_kind", "order": "K"},
    {"out": None, "device": None, "subok": True, "where": True},
]

#: Calls of Python numbers: exact, or an error.
NUMBERS: list[tuple[str, tuple[Any, ...]]] = [
    *[("add", (2**62, 2**62)), ("add", (1, 2)), ("add", (True, Colour.RED)), ("divide", (1, 0))],
    *[("divide", (999, 9)), ("floor_divide", (1.5, 0.0)), ("sqrt", (-1.0,)), ("sqrt", (4,))],
    *[("square", (2**32,)), ("multiply", (2**40, 2**40)), ("multiply", (2.5, 2))],
    *[("negative", (-(2**63),)), ("equal", (2**53 + 1, 2.0**53)), ("less", (2**70, 2**71))],
    ("absolute", (3 + 4j,)),
]


def _outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The type and the value of a result, or the type and the text of an exception."""
    try:
        result = call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    return type(result), result


@pytest.mark.parametrize("keywords", DEFAULTS, ids=str)
@pytest.mark.parametrize(("name", "args"), NUMBERS, ids=str)
def test_default_keywords_of_numbers(name: str, args: Any, keywords: Any) -> None:
    """Default keywords change nothing: Python numbers stay exact, and raise Python's errors."""
    function = getattr(pcd, name)
    assert _outcome(function, *args, **keywords) == _outcome(function, *args)
    further = {key: x for key, x in keywords.items() if key != "out"}
    assert _outcome(function, *args, None, **further) == _outcome(function, *args)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "args"), NUMBERS, ids=str)
def test_default_keywords_of_numbers_on_a_gpu(name: str, args: Any) -> None:
    function = getattr(pcd, name)
    for keywords in ({"out": None}, {"where": True, "dtype": None}):
        assert _outcome(function, *args, device="cuda", **keywords) == _outcome(function, *args)
        with pcd.default_device("cuda"):
            assert _outcome(function, *args, **keywords) == _outcome(function, *args)


# ---- Comparisons ----

_NAN, _INF = float("nan"), float("inf")
_REALS = [
    *[0, 1, -1, True, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 2**70],
    *[10**400, -(10**400), 0.0, -0.0, 1.0, 2.0**53, 2.0**63, -(2.0**63), 1e308, _NAN, _INF, -_INF],
]


@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_comparisons_of_numbers(name: str) -> None:
    """Ints of any size compare exactly with ints and floats, as in Python."""
    for a, b in itertools.product(_REALS, _REALS):
        wanted = oracle.COMPARISONS[name](a, b)
        assert getattr(pcd, name)(a, b) is wanted, (a, b)
        assert getattr(pcd, name)(a, b, out=None) is wanted, (a, b)
        assert getattr(pcd, name)(a, b, out=np.empty((), "?")) == wanted, (a, b)
        assert pcd.evaluate(f"{name}(a, b)", {"a": a, "b": b}) is wanted, (a, b)


@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_comparisons_of_ints_with_complex_numbers(name: str) -> None:
    """Compares the real part, then the imaginary part, without rounding the int."""
    for n in (2**53, 2**53 + 1, 10**400, -(2**70), 0):
        for z in (2.0**53 + 0j, 2.0**53 + 1j, 2.0**53 - 1j, complex(_NAN, 0), complex(0, _NAN)):
            is_nan = z != z
            pairs = ((n, 0.0), (z.real, z.imag))
            for a, b, args in ((*pairs, (n, z)), (*pairs[::-1], (z, n))):
                orders = name not in ("equal", "not_equal")
                wanted = oracle.COMPARISONS[name](a, b) and not (orders and is_nan)
                assert getattr(pcd, name)(*args) is wanted, args


_INTEGERS = ["i1", "u1", "i2", "u4", "i8", "u8", ">i2"]
_BEYOND = [300, -300, 2**40, -(2**40), 2**70, -(2**70), 10**400, -1]


def _numpys(name: str, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> Any:
    """NumPy's result; with `where` by way of a result without, because NumPy's own may crash."""
    where = keywords.get("where")
    given = {key: x for key, x in keywords.items() if key != "where"}
    result = getattr(np, name)(*args, **given, **({} if out is None else {"out": out.copy()}))
    if out is None:
        return result
    np.copyto(out, result, casting="unsafe", where=True if where is None else where)
    return out


@cases.each_place()
@pytest.mark.parametrize("dtype", _INTEGERS)
@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_integers_and_numbers_beyond_their_type(name: str, dtype: str, place: str) -> None:
    """The comparison has an answer; out, where, casting and dtype work as in any call."""
    x = np.array([[0, 1, 100]], dtype)
    if place == "array":
        x = x.astype(x.dtype.newbyteorder("="))
    mask = np.array([[True], [False]])
    function = getattr(pcd, name)
    for number, reflected, out_dtype, where, casting in itertools.product(
        _BEYOND, (False, True), (None, "?", "f4"), (None, mask), ("same_kind", "no", "equiv")
    ):
        keywords = {} if casting == "same_kind" else {"casting": casting}
        if where is not None:
            if out_dtype is None:
                continue
            keywords["where"] = where
        args = (number, x) if reflected else (x, number)
        there = tuple(in_place(place, a) if a is x else a for a in args)
        out = None if out_dtype is None else np.full((2, 3), 1, out_dtype)
        given = {} if out is None else {"out": in_place(place, out.copy())}
        further = {**keywords, **how(place), **given}
        if "where" in further:
            further["where"] = in_place(place, where)
        try:
            wanted = _numpys(name, args, out, keywords)
        except TypeError:
            with pytest.raises(TypeError):
                function(*there, **further)
            continue
        for dtype_given in ({}, {"dtype": bool}):
            actual = pcd.asnumpy(function(*there, **further, **dtype_given))
            note = f"{name}{args} {further}"
            oracle.assert_same(actual, wanted, note)
        if given:
            oracle.assert_same(pcd.asnumpy(given["out"]), wanted)
        else:
            oracle.assert_same(pcd.asnumpy(function(*there, **further, out=...)), wanted)


@cases.each_place()
@pytest.mark.parametrize("name", oracle.COMPARISONS)
def test_bools_and_ints_of_any_size(name: str, place: str) -> None:
    """NumPy refuses these comparisons; here they have an answer, as beside integers."""
    mask = np.array([True, False])
    for number, args in itertools.product((2**63, -(2**70)), ((0, 1), (1, 0))):
        operands = [(in_place(place, mask), number)[k] for k in args]
        actual = pcd.asnumpy(getattr(pcd, name)(*operands, **how(place)))
        numbers = [[(int(x), number)[k] for k in args] for x in mask]
        wanted = np.array([getattr(pcd, name)(*pair) for pair in numbers])
        oracle.assert_same(actual, wanted)
        expression = pcd.Expression(f"{name}(a, b)")
        oracle.assert_same(pcd.asnumpy(expression(*operands, **how(place))), wanted)


_KINDS: dict[str, Any] = {
    **{dtype: np.array([0, 1, 1], dtype) for dtype in ("?", "i1", "i8", "u8", "f4", "f8", "c8")},
    **{
        "True": True,
        "int": 1,
        "float": 1.5,
        "complex": 1j,
        "scalar": np.int8(1),
        "f4 s": np.float32(1),
    },
}
_PREDICATES = ["less", "not_equal", "logical_and", "logical_xor", "logical_not", "isnan", "isinf"]
CASTINGS = ["no", "equiv", "safe", "same_kind", "unsafe"]


@cases.each_place()
@pytest.mark.parametrize("casting", CASTINGS)
@pytest.mark.parametrize("name", [*_PREDICATES, "add", "maximum", "subtract", "negative"])
def test_casting_rules(name: str, casting: str, place: str) -> None:
    """`casting` allows and refuses what NumPy's does, for each pair of kinds of operands."""
    function, numpys = getattr(pcd, name), getattr(np, name)
    for a, b in itertools.product(_KINDS, _KINDS):
        args = (_KINDS[a], _KINDS[b])[: function.nin]
        if not any(isinstance(x, np.ndarray) for x in args):
            continue
        if name not in _PREDICATES and any(x.dtype == "?" for x in map(np.asarray, args)):
            continue  # arithmetic of bool has types of its own
        for out_dtype in (None, "?", "i1", "f8"):
            out = {} if out_dtype is None else {"out": np.zeros(3, out_dtype)}
            expected = _outcome(numpys, *args, casting=casting, **out)
            there = tuple(in_place(place, x) if isinstance(x, np.ndarray) else x for x in args)
            given = {} if out_dtype is None else {"out": in_place(place, np.zeros(3, out_dtype))}
            actual = _outcome(function, *there, casting=casting, **how(place), **given)
            note = f"{name}({a}, {b}, casting={casting!r}, out={out_dtype}): {actual}"
            if isinstance(expected[1], str):
                assert issubclass(actual[0], TypeError), f"{note}, NumPy: {expected}"
            else:
                assert not isinstance(actual[1], str), note
                oracle.assert_same(pcd.asnumpy(actual[1]), expected[1], note)


@cases.each_place()
def test_enums_among_arrays(place: str) -> None:
    """A subclass of int has a type, as for NumPy, on every path."""
    for size in (3, 100_000):
        x = np.arange(size).astype("i1")
        there = in_place(place, x)
        for keywords in ({}, {"order": "C"}, {"where": np.array(True), "out": None}):
            wanted = np.add(x, Colour.RED)
            oracle.assert_same(
                pcd.asnumpy(pcd.add(there, Colour.RED, **keywords, **how(place))), wanted
            )
        oracle.assert_same(
            pcd.asnumpy(pcd.evaluate("x + c", {"x": there, "c": Colour.RED}, **how(place))), wanted
        )
        oracle.assert_same(
            pcd.asnumpy(pcd.evaluate("x + c * 2", {"x": there, "c": Colour.RED}, **how(place))),
            x + Colour.RED * 2,
        )


@pytest.mark.gpu
def test_order_of_arrays() -> None:
    """`order` decides how a new array lies, whatever the other keywords are."""
    c = np.arange(6.0).reshape(2, 3)
    for x in (c, np.asfortranarray(c), c[:, ::2]):
        for order, where in itertools.product("CFAK", (True, np.array(True))):
            wanted = np.add(x, 1, order=order)
            there = pcd.asarray(x, device="cuda")
            for function in (pcd.add, np.add):
                actual = function(there, 1, order=order, where=where, out=None)
                assert actual.strides == wanted.strides
            assert pcd.evaluate("a + 1", {"a": there}, order=order).strides == wanted.strides
    with pytest.raises(ValueError, match="order"):
        pcd.evaluate("sum(a)", {"a": there}, order="X")


@pytest.mark.gpu
def test_positive_and_power_of_arrays() -> None:
    """Keywords that they do not take are refused, and `out` is written."""
    x, out = pcd.asarray(np.arange(3.0), device="cuda"), pcd.zeros(3, device="cuda")
    assert np.positive(x, out=out) is out
    assert out.tolist() == [0.0, 1.0, 2.0]
    assert np.power(x, 2, out=out) is out
    assert out.tolist() == [0.0, 1.0, 4.0]
    with pytest.raises(TypeError, match="where is in host memory"):
        np.power(x, 2, where=np.array([True, False, True]))
    with pytest.raises(TypeError, match="does not take initial"):
        np.add.reduce(x, initial=3)


@pytest.mark.parametrize("device", [None, pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["u1", "u4", "i1", "f2", "f4", "c8"])
def test_a_type_for_numbers(dtype: str, device: str | None) -> None:
    """Two Python numbers take the type that is given; a single one must cast to it."""
    for name, *args in (("add", 2, 7), ("add", 2.5, 1), ("multiply", -1, 1), ("add", 300, 1)):
        for casting in ("same_kind", "safe"):
            wanted = _outcome(getattr(np, name), *args, dtype=dtype, casting=casting)
            actual = _outcome(
                getattr(pcd, name), *args, dtype=dtype, casting=casting, device=device
            )
            assert actual[0] is wanted[0], f"{name}{args} {dtype} {casting}: {actual}"
            assert actual[0].__name__.endswith("Error") or actual[1] == wanted[1]
    for casting in ("same_kind", "safe"):
        wanted = _outcome(np.sqrt, 4.0, dtype=dtype, casting=casting)
        actual = _outcome(pcd.sqrt, 4.0, dtype=dtype, casting=casting, device=device)
        assert actual[0] is wanted[0] or dtype[0] in "iu"


@pytest.mark.gpu
def test_equiv_and_numbers_on_a_gpu() -> None:
    """NumPy crashes when asked for the types of such a call."""
    for dtype, number in itertools.product(("i1", "f4", "f8", "c8", "?"), (1, 1.5, 1j, 300)):
        x = np.ones(3, dtype)
        for args in ((x, number), (number, x)):
            if dtype == "?":
                continue
            expected = _outcome(np.add, *args, casting="equiv")
            actual = _outcome(pcd.add, *args, casting="equiv", device="cuda")
            assert issubclass(actual[0], TypeError) == issubclass(expected[0], TypeError), args


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy warns since 2.4")
@cases.each_place()
def test_unset_elements_warn(place: str) -> None:
    x, mask = (in_place(place, y) for y in (np.ones(2), np.array([True, False])))
    for given in ({"dtype": "f4"}, {}):
        with pytest.warns(UserWarning, match="'where' used without 'out'"):
            pcd.add(x, 1, where=mask, **given)
        assert pcd.asnumpy(pcd.add(x, 1, where=mask, out=None, **given))[0] == 2


def test_no_warnings_of_defaults() -> None:
    assert pcd.add(np.ones(2), 1, where=True, out=None).tolist() == [2, 2]
    assert pcd.add([1, 2], 1, where=True, out=None, device=None).tolist() == [2, 3]


# ---- Expressions ----


def test_inputs_with_the_names_of_options() -> None:
    """The name means the input until the input is given by position."""
    x = np.arange(3.0)
    expression = pcd.Expression("self + out * order - casting / device")
    wanted = x + 2 * 3 - 4 / 5
    named = {"self": x, "out": 2, "order": 3, "casting": 4, "device": 5}
    for _ in range(2):
        oracle.assert_same(expression(**named), wanted)
        oracle.assert_same(expression(x, 2, 3, 4, 5), wanted)
        oracle.assert_same(expression(x, 2, casting=4, order=3, device=5), wanted)
        oracle.assert_same(pcd.evaluate(expression, named), wanted)
        out = np.empty(3)
        assert expression(x, 2, 3, 4, 5, out=out, order="C", device="cpu") is out
        oracle.assert_same(out, wanted)
        out = np.empty(3)
        assert pcd.evaluate(expression, named, out=out, casting="same_kind") is out
        oracle.assert_same(out, wanted)
    assert expression.dtype_for(**{**dict.fromkeys(named, int), "self": "f4"}) == np.float32
    for wrong in ({"out": 2}, {**named, "bogus": 1}):
        with pytest.raises(TypeError, match="the inputs of the expression are self, out, order"):
            expression(**wrong)
    with pytest.raises(TypeError, match="'a' is none of them, or given twice"):
        pcd.Expression("a + b")(1, a=2, b=3)


def test_large_constants() -> None:
    x = np.array([1.0, 2.0**-100])
    for text in ("x * 2**513", "x * 2**1023", "x / 2**600", "x * 3**600"):
        oracle.assert_same(pcd.evaluate(text, {"x": x}), eval(text, {"x": x}))


def test_texts_that_are_too_long_for_the_parser() -> None:
    """The error names both reasons: depth and length look the same to Python's parser."""
    # Newer Pythons have room for the chain; the program does not.
    with pytest.raises((SyntaxError, ValueError), match="chain of operators is too long|4096"):
        pcd.evaluate("a" + " + a" * 9000, {"a": np.ones(1)})
    with pytest.raises(SyntaxError, match="too deeply"):
        pcd.evaluate("-" * 9000 + "a", {"a": 1.0})


def test_advice_on_masks() -> None:
    """The error of `and` recommends the operators for masks; chains need no advice."""
    with pytest.raises(SyntaxError, match=r"use & and \|, or logical_and"):
        pcd.evaluate("(a < b) and c", {"a": 1, "b": 2, "c": 3})
    a, b, c = np.array([1, 5]), np.array([2, 6]), np.array([3, 1])
    for text in ("a < b < c", "(a < b) & (b < c)", "((a < b) * (b < c)) != 0"):
        oracle.assert_same(pcd.evaluate(text), (a < b) & (b < c))


# ---- Messages ----


@cases.each_place()
def test_operands_are_named_in_errors(place: str) -> None:
    """The error says what was given, and exposes nothing internal."""
    x = in_place(place, np.ones(2))
    for wrong, text in (
        *[("text", "str"), (None, "NoneType"), (object(), "object"), (print, "builtin")],
        *[(np.array(["a"]), "ndarray"), (np.longdouble(1), "longdouble"), ({}, "dict")],
    ):
        for args in ((x, wrong), (wrong, x)):
            if place != "array" and isinstance(wrong, np.longdouble):
                continue
            with pytest.raises(TypeError, match=text) as caught:
                pcd.add(*args, **how(place))
            assert "fit together" not in str(caught.value)
            assert "_ordinal" not in str(caught.value)
    with pytest.raises(TypeError, match=r"int64 and float; it is defined for int8,"):
        pcd.left_shift(in_place(place, np.arange(2)), 1.5, **how(place))
    for keywords in ({"bogus": 1}, {"axis": 0}):
        with pytest.raises(TypeError, match=next(iter(keywords))):
            pcd.add(x, 1, **keywords, **how(place))


@pytest.mark.parametrize("wrong", [1, "ab", 2.5, print])
def test_variables_that_are_no_mapping(wrong: Any) -> None:
    for given in ({"local_dict": wrong}, {"local_dict": {}, "global_dict": wrong}):
        with pytest.raises(TypeError, match="mapping of names to values"):
            pcd.evaluate("a + b", **given)


@pytest.mark.parametrize("device", [None, pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("size", [8, 3000])
def test_warnings_of_selected_elements_alone(size: int, device: str | None) -> None:
    """An unselected element never warns, not even when it is converted."""
    mask = np.arange(size) % 2 == 0
    x, n = np.where(mask, 1.0, 1e300), np.where(mask, 1, 70000)
    with np.errstate(all="raise"):
        for args, result, casting in (
            ((x, x), "f4", "same_kind"),
            ((x, x), "f2", "same_kind"),
            ((x.astype(">f8"), x), ">f4", "same_kind"),
            ((n, n), "f2", "unsafe"),
            ((x, x), "f8", "same_kind"),
        ):
            out = np.zeros(size, result)
            pcd.add(*args, out=out, where=mask, casting=casting, device=device)
            assert (out == np.where(mask, 2, 0)).all(), (result, casting)
    for result, name in (("f4", "add"), ("f8", "multiply")):
        with pytest.warns(RuntimeWarning, match="overflow"), np.errstate(over="warn"):
            getattr(pcd, name)(x, x, out=np.zeros(size, result), where=~mask, device=device)


@pytest.mark.parametrize("size", [8, 3000])
def test_warnings_of_narrowed_results(size: int) -> None:
    """Warnings name the operation, as NumPy's do, for masks of any length."""
    x, mask = np.full(size, 1e300), np.arange(size) % 2 == 0
    for function in (np.add, pcd.add):
        with pytest.warns(RuntimeWarning, match="encountered in add"), np.errstate(over="warn"):
            function(x, x, out=np.zeros(size, "f4"), where=mask)


@pytest.mark.parametrize("device", [None, pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("size", [8, 3000])
def test_raising_with_a_mask(size: int, device: str | None) -> None:
    """The results are written before an error of `np.errstate` is raised, as in NumPy."""
    mask = np.arange(size) % 2 == 0
    wanted, out = np.zeros(size), np.zeros(size)
    with np.errstate(divide="raise"):
        with pytest.raises(FloatingPointError, match="divide by zero"):
            np.divide(1.0, np.zeros(size), out=wanted, where=mask)
        with pytest.raises(FloatingPointError, match="divide by zero"):
            pcd.divide(1.0, np.zeros(size), out=out, where=mask, device=device)
    assert out.tolist() == wanted.tolist()


@pytest.mark.gpu
def test_out_may_ask_for_an_array() -> None:
    """`out=...` changes nothing: every result of Arrays is an array."""
    x = pcd.asarray(np.arange(3.0), device="cuda")
    assert pcd.add(x, 1, out=...).tolist() == [1, 2, 3]
    assert pcd.sqrt(x[1], out=...).shape == ()
    assert pcd.clip(x, 1, out=...).tolist() == [1, 1, 2]
    oracle.assert_same(pcd.clip(5, 1, 3, out=...), np.clip(5, 1, 3, out=np.empty((), int)))
    for refused in (lambda: pcd.add(x, 1, ...), lambda: pcd.add(x, 1, out=(...,))):
        with pytest.raises(TypeError, match="out="):
            refused()


@pytest.mark.parametrize("device", [None, pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64])
@pytest.mark.parametrize("name", ["negative", "absolute", "square", "sin"])
def test_an_int_of_more_than_63_bits_alone(name: str, number: int, device: str | None) -> None:
    """Such an int is a uint64, as for NumPy, on every device."""
    out = np.zeros(2, "f8" if name == "sin" else "u8")
    if number == 2**64:
        with pytest.raises(TypeError):
            getattr(pcd, name)(number, out=out, device=device)
        return
    getattr(pcd, name)(number, out=out, device=device)
    expected = getattr(pcd, name)(np.full(2, number, "u8"))
    assert np.array_equal(out, expected)
