"""Expressions equal the single operations one after the other, however they are called."""

from __future__ import annotations

import argparse
import types
from pathlib import Path
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest
import trees
from hypothesis import given
from hypothesis import strategies as st

import pkg as pcd
from pkg import Expression, evaluate, numexpr

# ---- Values ----


@cases.each_place()
@given(tree=trees.trees(trees.NAMES), inputs=trees.inputs(trees.NAMES))
def test_random_expressions(place: str, tree: Any, inputs: dict[str, Any]) -> None:
    """A wrong promotion, conversion, order or common part changes bits."""
    text = trees.text(tree)
    used = {name: inputs[name] for name in trees.NAMES if name in trees.names(tree)}
    wanted, refused = trees.outcome(trees.value, tree, used)
    actual, error = trees.outcome(trees.call, text, place, used)
    if refused is not None:
        assert error is not None, f"{text} of {used} gave {actual!r}, not {refused!r}"
        return
    if error is not None:
        raise AssertionError(f"{text} of {used}") from error
    trees.assert_same(actual, wanted, text, used)


@cases.each_place()
@given(data=st.data())
def test_random_expressions_over_many_elements(place: str, data: Any) -> None:
    """Tries lengths around the sizes of blocks, for several blocks and threads."""
    n = data.draw(st.sampled_from([*generators.LENGTHS[-9:], generators.LARGE_LENGTHS[0]]))
    names = trees.NAMES[:2]
    tree = data.draw(trees.trees(names, 6))
    dtypes = data.draw(st.tuples(*[st.sampled_from(cases.WITH_BOOL[1:])] * 2))
    inputs = {name: generators.values(t, n) for name, t in zip(names, dtypes, strict=True)}
    text = trees.text(tree)
    used = {name: inputs[name] for name in names if name in trees.names(tree)}
    wanted, refused = trees.outcome(trees.value, tree, used)
    actual, error = trees.outcome(trees.call, text, place, used)
    assert (error is None) == (refused is None), f"{text}: {error!r}, {refused!r}"
    if error is None:
        trees.assert_same(actual, wanted, text, used)


@cases.each(array=False, cuda=False)
def test_each_operation(case: cases.Case) -> None:
    """Every operation is a function of expressions, for every type that it has."""
    arrays = generators.special_pairs(case.dtype, case.nin)
    names = "ab"[: case.nin]
    with np.errstate(all="ignore"):
        actual = Expression(f"{case.name}({', '.join(names)})")(*arrays)
        oracle.assert_same(actual, case(*arrays), case, arrays)


@pytest.mark.parametrize(
    "text",
    [
        "(a * b + c) / (d - e)", "a + b * c - d / e", "where(a > b, c, d) * e",
        "-a * (b - c) + d * e", "sqrt(a * a + b * b) + abs(c - d) - e", "(a < b) == (c < d)",
        "2 * a + b / 3 - c * 0.5 + d - e",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_the_bits_of_numexpr_and_numpy(text: str, dtype: str) -> None:
    """Users of numexpr change only the import."""
    numexpr = pytest.importorskip("numexpr")
    a, b, c, d, e = (np.random.default_rng(k).random(10_001).astype(dtype) for k in range(5))
    ours = evaluate(text)
    names = {"sqrt": np.sqrt, "abs": np.abs, "where": np.where}
    by_numpy = eval(text, names, {"a": a, "b": b, "c": c, "d": d, "e": e})
    oracle.assert_same(ours, by_numpy, text)
    theirs = numexpr.evaluate(text)
    if dtype == "f8" and "/ 3" not in text:  # numexpr multiplies by the reciprocal
        oracle.assert_same(ours, theirs, text)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@cases.each_place()
@pytest.mark.parametrize("code", "efd")
@pytest.mark.usefixtures("quiet")
def test_quotients_by_powers_of_two(place: str, code: str) -> None:
    """They are computed as products, if those have the same bits."""
    a, limits = generators.specials(np.dtype(code)), np.finfo(code)
    low, high = limits.minexp, limits.maxexp
    for exponent in (low - limits.nmant, low - 1, low, low + 1, -1, 0, 1, high - 2, high - 1):
        for b in (2.0**exponent, -(2.0**exponent), 1.5 * 2.0**exponent, 0.0):
            oracle.assert_same(trees.call(f"a / {b!r}", place, {"a": a}), a / b, f"{b}")


@cases.each_place()
def test_promotion_is_numpys(place: str) -> None:
    """Types are promoted node by node: the first product here is of int8."""
    a, b = np.array([100, 3], "i1"), np.array([0.5, 2.0], "f4")
    with np.errstate(all="ignore"):
        oracle.assert_same(trees.call("a * a * b", place, {"a": a, "b": b}), a * a * b)
        oracle.assert_same(trees.call("a / 3 + b", place, {"a": a, "b": b}), a / 3 + b)
        oracle.assert_same(trees.call("b * 0.1", place, {"a": a, "b": b}), b * 0.1)
    u, i = np.array([2**63], "u8"), np.array([-1], "i8")
    oracle.assert_same(trees.call("u + i", place, {"u": u, "i": i}), u + i)


@pytest.mark.parametrize("dtype", ["u1", ">u2", ">i4"])
@pytest.mark.parametrize("number", [300, -1, 2**40, 2**63, 2**70])
def test_numbers_beyond_a_type(number: int, dtype: str) -> None:
    """As operands they raise NumPy's OverflowError; comparisons have NumPy's answer."""
    a = np.arange(5).astype(dtype)
    if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        return
    for text in (f"a + {number}", "a + n"):
        with pytest.raises(OverflowError):
            evaluate(text, {"a": a, "n": number})
    for symbol in ("<", "<=", ">", ">=", "==", "!="):
        for wanted, texts in (
            (eval(f"a {symbol} number"), (f"a {symbol} {number}", f"a {symbol} n")),
            (eval(f"number {symbol} a"), (f"{number} {symbol} a", f"n {symbol} a")),
        ):
            for text in texts:
                oracle.assert_same(evaluate(text, {"a": a, "n": number}), wanted, text)
    assert evaluate("a < n", {"a": a, "n": 10**5000}).all()  # too long for str()
    for text in (f"a < {2**1024 - 1}", "a < n", "n == a"):  # comparisons of floats as well
        with pytest.raises(OverflowError):
            evaluate(text, {"a": a.astype("f4"), "n": 2**1024 - 1})


def test_numbers_are_computed_by_python() -> None:
    """Results of numbers alone are exact, and weak, as they are step by step."""
    a = np.ones(3, "f4")
    assert evaluate("2**n * a", {"n": 10, "a": a}).dtype == np.float32
    assert evaluate("(n * n - n * n + 1) * a", {"n": 2**60 + 1, "a": a})[0] == 1
    with pytest.raises(ZeroDivisionError):
        evaluate("a * (1 / n)", {"n": 0, "a": a})
    assert evaluate("a * (n > 2)", {"n": 3, "a": np.ones(2, "i1")}).dtype == np.int8
    result = evaluate("a ** n", {"a": np.array([3, -2], "i2"), "n": 3})
    oracle.assert_same(result, np.array([27, -8], "i2"))
    for n in (1, 2, 0.5, np.int64(2), np.float32(3)):
        x = np.array([2.0, 5.0], "f4")
        assert evaluate("x ** n", {"x": x, "n": n}).dtype == np.result_type(x, n)


@pytest.mark.parametrize("base", [3, -2, 2.0, 1.5, 1j, True, 300])
@pytest.mark.parametrize("code", "bBHiQefd")
@pytest.mark.usefixtures("quiet")
def test_numbers_raised_to_scalars(code: str, base: Any) -> None:
    """The type comes from the types, never from the value of the exponent."""
    for e in np.array([0, 1, 2, 5, 65], code):
        wanted, refused = trees.outcome(lambda e=e: np.power(base, e))
        for exponent in (e, np.array(e)):
            for text in ("n ** e", f"({base}) ** e"):
                given = {"n": base, "e": exponent}
                for _ in range(2):
                    result, error = trees.outcome(evaluate, text, given)
                    assert type(error) is type(refused), (text, given)
                    if refused is None:
                        assert result.dtype == wanted.dtype, (text, given)
                        np.testing.assert_allclose(result, wanted, rtol=1e-2)
    a, e = np.ones(2, "f4"), np.float32(2)
    for result in (evaluate("a * 2**e"), pcd.fuse(lambda a, e: a * 2**e)(a, e)):
        assert result.dtype == np.float32
    assert pcd.fuse(lambda n: n ** np.float32(2))(3).dtype == np.float32


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a / b + a", (7, 2)), ("a / b + a", (1.5, 2)), ("a / b + a", (True, 1j)),
        ("a / b + a", (0, 0)), ("a // b", (1, 0)), ("a % b", (1.5, 0.0)), ("a * b", (2**40, 2**40)),
        ("a * b", (10**400, 10**400)), ("a ** b", (2, 80)), ("a ** b", (2, -2)),
        ("a ** b", (3, 2.5)), ("a < b", (2**53, 2.0**53 + 2)), ("(a < b) * 3 - b", (1, 2)),
        ("-(a == a)", (1,)), ("a + a", (True,)), ("2 ** 80", ()), ("1 + 2", ()), ("2 * 3.5", ()),
        ("1 // 0", ()), ("1.0 % 0", ()), ("a < 1j", (1,)),
    ],
)  # fmt: skip
def test_numbers_alone(text: str, numbers: tuple[Any, ...]) -> None:
    """Python computes them: the same number, or the same error."""
    inputs = dict(zip("ab", numbers, strict=False))
    try:
        wanted = eval(text, dict(inputs))
    except (ArithmeticError, TypeError) as error:
        for call in (lambda: evaluate(text, inputs), lambda: Expression(text)(**inputs)):
            with pytest.raises(type(error)):
                call()
        return
    for result in (evaluate(text, inputs), Expression(text)(**inputs)):
        assert type(result) is type(wanted) and result == wanted


def test_functions_of_numbers_alone() -> None:
    """The package's operations of Python numbers, and `where`."""
    given = {"a": -7, "b": 2, "c": 2.5}
    assert evaluate("divide(a, b)", given) == -3
    assert type(evaluate("where(a < b, a, c)", given)) is float
    assert evaluate("where(a < b, b, a)", given) == 2
    assert evaluate("sqrt(b + b)", given) == 2.0
    with pytest.raises(ValueError, match="negative"):
        evaluate("sqrt(a)", given)
    with pytest.raises(OverflowError):
        evaluate("square(a)", {"a": 2**40})
    with pytest.raises(OverflowError):
        evaluate("sum(a)", {"a": 2**70})
    with pytest.raises(OverflowError):
        evaluate("a * a", {"a": 2**40}, out=np.empty(()))
    with pytest.raises(OverflowError, match="too large"):
        evaluate("a ** a ** a", {"a": 99})


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "c8"])
def test_numbers_stay_weak(dtype: str) -> None:
    """A value that Python computes from Python numbers has the type of a Python number."""
    x = np.array([0, 1, 1], dtype)
    numbers = {"k": 3, "b": True, "f": 1.5, "z": 0}
    for text in (
        *["x + (k < 2) * 3", "x + (k < 5) * 3", "x + (1 < 2) * 3", "x + (k < 2)", "x * (k == 3)"],
        *["x - (b + b)", "x + b * 2", "x * -b", "x + (k > f) * f", "x + (k > 2) / 2", "x * b"],
        *["(k < 2) * 3 + x", "x * ((k < 5) + (f < 2))", "x + abs(b)", "(x < k) + (b < k) * 1"],
    ):
        given = {"x": x, **numbers}
        if dtype in ("?", "u2") and "-" in text:
            continue
        wanted = eval(text, {"abs": abs}, given)
        for _ in range(2):
            actual = evaluate(text, given)
            if dtype != "?":
                oracle.assert_same(actual, wanted, text)
            elif actual.dtype != np.int8:  # arithmetic of bool alone
                assert actual.dtype == wanted.dtype and (actual == wanted).all(), text


@pytest.mark.parametrize("n", [2**70, -(2**70), 2**63, 3, 0, True])
def test_functions_of_large_ints(n: int) -> None:
    """Python computes numbers alone exactly, also in functions that have no operator."""
    for text, wanted in (
        *(("n.real", +n), ("n.imag", 0), ("conj(n)", +n), ("sign(n)", (n > 0) - (n < 0))),
        *(("floor(n)", +n), ("ceil(n)", +n), ("trunc(n)", +n), ("round(n)", n)),
        *(("logical_not(n)", not n), ("logical_and(n, 1)", bool(n)), ("logical_or(n, 0)", bool(n))),
        *(("logical_xor(n, 2**80)", not n), ("isnan(n)", False), ("isfinite(n)", True)),
        *(("fmin(n, 2**80)", +n), ("fmax(n, -2**80)", +n), ("minimum(n, 2**80)", +n)),
    ):
        result = evaluate(text, {"n": n})
        assert type(result) is type(wanted) and result == wanted, text
        assert evaluate(f"a * ({text})", {"n": n, "a": 1.0}) == float(wanted), text
    assert evaluate("n.real * a", {"n": n, "a": np.ones(2)}).tolist() == [float(n)] * 2
    assert evaluate("logical_not(n)", {"n": 0.5}) is False
    assert evaluate("logical_xor(n, 1j)", {"n": 0.0}) is True
    assert evaluate("sign(n) + floor(n)", {"n": -2.5}) == -4


def test_a_bool_and_numpys_bool_are_two_kinds() -> None:
    """Each has its own program."""
    x, e = np.ones(3, "i1"), Expression("x + k * 2")
    for _ in range(2):
        assert e(x, True).dtype == np.int8
        assert e(x, np.True_).dtype == (x + np.True_ * 2).dtype


def test_results_without_dimensions() -> None:
    """Results are NumPy scalars, as from NumPy's operators; arrays only in `out`."""
    result = evaluate("a * 2", {"a": np.array(3.0)})
    assert type(result) is np.float64 and result == 6
    out = np.empty(())
    assert evaluate("a * 2", {"a": 3.0}, out=out) is out and out == 6


def test_copy() -> None:
    """An input alone is a copy, not the input."""
    a = np.arange(3)
    for text in ("a", "+a"):
        result = evaluate(text)
        assert (result == a).all() and not np.shares_memory(result, a)


# ---- Outputs ----


@cases.each_place()
@pytest.mark.parametrize("layout", list(generators.LAYOUTS))
def test_output_layouts(place: str, layout: str) -> None:
    """The whole output is written, and nothing beside it."""
    a, b = generators.moderate(np.dtype("f8"), 60, 1).reshape(5, 12), np.arange(12.0)
    out = generators.LAYOUTS[layout]((5, 12), np.dtype("f8"))
    around = generators.surroundings(out)
    assert trees.call("a * b - 1", place, {"a": a, "b": b}, out=out) is out
    oracle.assert_same(out, a * b - 1)
    assert (generators.surroundings(out) == around).all()


@cases.each_place()
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", "i4", ">f8"])
def test_output_types(place: str, dtype: str) -> None:
    """The result is converted at the end, by the rule of `casting`."""
    a = np.array([1.5, 2.5, -3.25], "f4")
    out = generators.poisoned(3, np.dtype(dtype))
    if np.can_cast("f4", dtype):
        trees.call("a * 3", place, {"a": a}, out=out)
    else:
        with pytest.raises(TypeError, match=rf"from float32 to out's {np.dtype(dtype)} .*'safe'"):
            trees.call("a * 3", place, {"a": a}, out=out)
        trees.call("a * 3", place, {"a": a}, out=out, casting="unsafe")
    oracle.assert_same(out, (a * 3).astype(out.dtype.newbyteorder("=")))


def test_outputs_that_do_not_fit() -> None:
    """Each is an error that names what was given and what was expected."""
    given = {"a": np.ones(4)}
    frozen = np.ones(4)
    frozen.flags.writeable = False
    for out, error, text in [
        (np.ones(3), ValueError, r"shape \(3,\), but the result has \(4,\)"),
        (np.ones((4, 1)), ValueError, r"shape \(4, 1\)"),
        (frozen, ValueError, "read-only"),
        (np.ones(4, "f4"), TypeError, "from float64 to out's float32"),
        (np.ones(4, "U3"), TypeError, "elements of <U3"),
        ([0.0] * 4, TypeError, "must be an array, not list"),
        (np.ma.ones(4), TypeError, "rules of its own"),
    ]:
        with pytest.raises(error, match=text):
            evaluate("a * 2", given, out=out)
    with pytest.raises(np.exceptions.ComplexWarning):
        evaluate("a * 1j", given, out=np.ones(4), casting="unsafe")


@cases.each_place()
@given(data=st.data())
def test_overlap(place: str, data: Any) -> None:
    """An output that overlaps an input has the same result as one that does not."""
    memory = np.arange(1.0, 41.0)
    slices = st.builds(
        lambda start, step: slice(start, start + 10 * step, step),
        st.integers(0, 10),
        st.sampled_from([1, 2, 3]),
    )
    views = [memory[data.draw(slices)] for _ in range(3)]
    if data.draw(st.booleans()):
        views[0] = views[0][::-1]
    a, b, out = views
    wanted = (a * 2 - b) / a
    trees.call("(a * 2 - b) / a", place, {"a": a, "b": b}, out=out)
    oracle.assert_same(out, wanted)


def test_an_output_that_is_an_input() -> None:
    """The usual way to save memory: no copy is made."""
    import tracemalloc

    a, b = np.ones(1_000_000), np.full(1_000_000, 2.0)
    expression = Expression("a * b + b")
    expression(a, b, out=a)
    tracemalloc.start()
    expression(a, b, out=a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert a[0] == 10 and peak < 100_000


@pytest.mark.parametrize("order", "CFAK")
@given(data=st.data())
def test_order(order: str, data: Any) -> None:
    """A new result lies in memory as one of NumPy's ufuncs lays it out."""
    shape = data.draw(st.sampled_from([(4, 5), (2, 3, 4), (3, 1, 4), (1, 5)]))
    layouts = ["contiguous", "fortran", "transposed", "reversed", "strided", "repeated_row"]
    arrays = [
        generators.laid_out(
            np.random.default_rng(k).random(shape), data.draw(st.sampled_from(layouts))
        )
        for k in range(2)
    ]
    result = Expression("a + b * 1")(*arrays, order=order)
    wanted = np.add(*arrays, order=order)
    oracle.assert_same(result, wanted)
    used = [d for d, size in enumerate(shape) if size > 1]
    assert [result.strides[d] for d in used] == [wanted.strides[d] for d in used]
    if order == "K":
        assert Expression("a + b")(*arrays).strides == result.strides


@pytest.mark.gpu
@pytest.mark.parametrize("order", "CFAK")
@pytest.mark.parametrize("layout", ["contiguous", "fortran", "transposed"])
def test_order_of_arrays(layout: str, order: str) -> None:
    """On a GPU as in host memory."""
    a = generators.laid_out(np.random.default_rng(0).random((2, 3, 4)), layout)
    movers = cases.Movers()
    result = Expression("a * 2 + 1")(movers.move(a), order=order)
    assert result.strides == np.add(a, 1, order=order).strides
    oracle.assert_same(cases.to_host(result), a * 2 + 1)


def test_shapes_that_do_not_broadcast() -> None:
    """The error names both inputs, with their shapes."""
    with pytest.raises(ValueError, match=r"do not broadcast: a \(3,\), b \(4,\)"):
        evaluate("a + b", {"a": np.ones(3), "b": np.ones(4)})
    swapped = np.ones(3, ">i8"), np.ones(4, ">i8")
    for text in ("a + b", "a ** b"):  # which are converted piece by piece
        with pytest.raises(ValueError, match=r"do not broadcast: a \(3,\), b \(4,\)"):
            pcd.Expression(text)(*swapped)


# ---- Inputs ----


def test_kinds_of_inputs(tmp_path: Any) -> None:
    """Accepts anything that NumPy accepts as an array; does not copy arrays."""
    a = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for x in (a.tolist(), mapped, a.astype(">f8"), memoryview(a), np.asfortranarray(a)):
        for _ in range(2):
            result = evaluate("x * 2 + 1", {"x": x})
            oracle.assert_same(result, a * 2 + 1)
            assert type(result) is np.ndarray
    target = np.lib.format.open_memmap(tmp_path / "b.npy", "w+", np.float64, (2, 3))
    assert evaluate("x * 2", {"x": mapped}, out=target) is target
    oracle.assert_same(np.asarray(target), a * 2)


@given(data=st.data())
def test_byte_orders(data: Any) -> None:
    """Arrays of the other byte order are converted piece by piece, outputs too."""
    n = data.draw(st.sampled_from([0, 1, 5, 40_000, 70_000]))
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.integers(0, 100, n).astype("i4")
    out = np.empty(n, data.draw(st.sampled_from(["<f8", ">f8"])))
    given = {"a": a.astype(">f8"), "b": data.draw(st.sampled_from([b, b.astype(">i4")])), "k": 3}
    if data.draw(st.booleans()):
        out = given["a"]
    result = evaluate("(a - b) * k", given, out=out)
    oracle.assert_same(result, (a - b) * 3)


def test_objects_with_rules_of_their_own() -> None:
    """Labels, masks and graphs would be lost silently; the error says what to do."""
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    dask = pytest.importorskip("dask.array")
    for x, advice in [
        (pandas.Series([1.0, 2.0]), r"x\.to_numpy\(\)"),
        (xarray.DataArray([1.0, 2.0]), "apply_ufunc"),
        (xarray.DataArray([1.0, 2.0]).variable, "apply_ufunc"),
        (xarray.DataArray([1.0, 2.0]).chunk(), "apply_ufunc"),
        (dask.ones(3), "map_blocks"),
        (np.ma.ones(3), r"np\.asarray"),
        (np.ones(2).view(np.recarray), r"np\.asarray"),
    ]:
        with pytest.raises(TypeError, match=f"input 'x' is a .*{advice}"):
            evaluate("x + 1", {"x": x})
        assert isinstance(numexpr.validate("x + 1", {"x": x}), TypeError)
        with pytest.raises(TypeError, match=f"out of evaluate.. is a .*{advice}"):
            evaluate("1 + 1", out=x)
        with pytest.raises(TypeError, match=f"operand of fingerprint.. is a .*{advice}"):
            pcd.fingerprint(x)
    for x in (None, "text", object(), np.array(["a"]), np.array([None]), np.longdouble(1), print):
        with pytest.raises(TypeError, match="the input 'x' is .*expected numbers or arrays"):
            evaluate("x + 1", {"x": x})


def test_names_and_positions() -> None:
    """Inputs are bound as Python binds arguments; errors name the mistake."""
    expression = Expression("b - a / c")
    assert expression.inputs == ("b", "a", "c")
    assert expression(1, 2, 4) == expression(1, c=4, a=2) == expression(a=2, b=1, c=4) == 0.5
    for args, named, text in [
        ((1, 2), {}, "'c' is missing"),
        ((1, 2, 3, 4), {}, "4 were given by position"),
        ((1, 2), {"c": 3, "d": 4}, "'d' is none of them"),
        ((1, 2, 3), {"a": 3}, "'a' is none of them, or given twice"),
        ((), {}, "'b', 'a', 'c' is missing"),
    ]:
        with pytest.raises(TypeError, match=f"b, a, c: {text}"):
            expression(*args, **named)


scale = 10


def test_names_from_frames() -> None:
    """Local variables first, then global ones; dicts where they are given."""
    a = np.arange(3)

    def inner(a: Any) -> Any:
        return evaluate("a * scale")

    assert (evaluate("a * scale") == a * 10).all()
    assert inner(2) == 20
    assert evaluate("a * scale", {"a": 3}) == 30
    assert evaluate("a * scale", {"a": 3}, {"scale": 2}) == 6
    assert evaluate(Expression("a * scale"), {"a": 3}, {"scale": 2}) == 6
    with pytest.raises(
        NameError, match="name 'missing' of the expression is not defined"
    ) as caught:
        evaluate("a * missing")
    assert caught.value.name == "missing"
    with pytest.raises(TypeError, match="a str or an Expression, not bytes"):
        evaluate(b"a")  # type: ignore[arg-type]


# ---- Warnings ----


@pytest.mark.parametrize("order", ["K", "C"])
def test_floating_point_flags(order: str) -> None:
    """np.errstate reports them, on the fast path and on the slow one."""
    a = np.array([0.0, 1.0])
    expression = Expression("1 / a")
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in evaluate"):
            expression(a, order=order)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            expression(a, order=order)
        with np.errstate(divide="ignore"):
            assert expression(a, order=order)[0] == np.inf


@pytest.mark.gpu
def test_a_gpu_raises_no_flags() -> None:
    """Raises none for host arrays or for its own."""
    a = np.array([0.0, 1.0])
    assert evaluate("1 / a", device="cuda")[0] == np.inf
    assert evaluate("1 / a", {"a": pcd.asarray(a, device="cuda")})[0].item() == np.inf


def test_constants_that_overflow_warn_each_time() -> None:
    """They warn in each call, as NumPy does, not only when the program is made."""
    given = {"a": np.ones(2, "f2")}
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="overflow"):
            assert evaluate("a * 1e30", given)[0] == np.inf


# ---- Programs ----


def test_many_types_through_one_expression() -> None:
    """Programs are kept for some combinations of types; more of them only cost time."""
    expression = Expression("a * b + 1")
    kinds = [np.dtype(char) for char in "bhilBHILefdFD"]
    for _ in range(2):
        for s in kinds:
            for t in kinds:
                a, b = np.full(3, 2, s), np.full(3, 3, t)
                oracle.assert_same(expression(a, b), a * b + 1, f"{s} {t}")
    assert len(expression._programs) <= 64


def test_values_of_numbers_share_a_program() -> None:
    """A Python number as input is not a constant: another value does not lower again."""
    expression = Expression("a * k + k")
    a = np.arange(3, dtype="f4")
    for k in range(100):
        oracle.assert_same(expression(a, k), a * k + k)
        oracle.assert_same(expression(a, k / 7), a * (k / 7) + k / 7)
    assert len(expression._programs) == 2


def test_common_parts_are_computed_once() -> None:
    lines = Expression("(a + b) * (a + b) - (a + b) / (b + a)").disassemble("f8", "f8").splitlines()
    assert sum("add" in line for line in lines) == 2


def test_disassemble() -> None:
    text = Expression("where(a > 2, b, 0.5) * a").disassemble("i2", b="f4")
    assert text.splitlines() == [
        "a: int16", "b: float32", "%0 = greater int16 a, 2", "%1 = where float32 %0, b, 0.5",
        "%2 = multiply float32 %1, a", "-> float32",
    ]  # fmt: skip


@given(tree=trees.trees(trees.NAMES, 6), inputs=trees.inputs(trees.NAMES, 3))
def test_dtype_for(tree: Any, inputs: dict[str, Any]) -> None:
    """Tells the type that a call has, unless the value of a number decides it."""
    expression, error = trees.outcome(Expression, trees.text(tree))
    if error is not None:
        return
    values = [inputs[name] for name in expression.inputs]
    result, error = trees.outcome(expression, *values)
    if error is None and not trees.depends_on_values(tree, inputs):
        kinds = [type(x) if trees._is_number(x) else np.asarray(x).dtype for x in values]
        wanted = np.dtype(type(result)) if trees.of_numbers({"": result}) else result.dtype
        assert expression.dtype_for(*kinds) == wanted, (expression, kinds)


@pytest.mark.parametrize(
    ("text", "types", "wanted"),
    [
        ("2 ** e", ["f4"], "f4"),
        ("a ** b", ["i1", "u1"], "i2"),
        ("a * (1 / (n - 5))", ["f4", int], "f4"),
        ("a * (n - 12) ** 0.5", ["f8", int], "f8"),
        ("a * log(n - 3) + arctanh(n)", ["f4", int], "f4"),
        ("i ** (1 - n)", ["i2", int], "i2"),
        ("n ** -1 + m", [int, int], "f8"),
        ("where(n > m, n, m)", [int, bool], "i8"),
        ("complex(i ** (j - k - k), a)", ["i1", "i1", "i1", "f4"], "c8"),
    ],
)
def test_types_alone(text: str, types: Any, wanted: str) -> None:
    """No made-up value refuses a type, decides it, or stands in the program for an exponent."""
    expression = Expression(text)
    assert expression.dtype_for(*types) == wanted
    if int not in types[:1]:  # of numbers alone there is no program
        program = expression.disassemble(*types)
        assert program.endswith(f"-> {np.dtype(wanted)}")
        assert text != "a ** b" or "%0 = power int16 a, b" in program


def test_a_thousand_terms() -> None:
    """Long sums work, to the left and to the right; what is too deep is refused."""
    a, b = np.arange(5.0), np.full(5, 0.1)
    wanted = a
    for _ in range(999):
        wanted = wanted + b
    oracle.assert_same(evaluate("a" + " + b" * 999), wanted)
    oracle.assert_same(evaluate("a" + " - (b" * 90 + ")" * 90).shape, a.shape)
    with pytest.raises((SyntaxError, ValueError), match="nested too deeply|more than 4096 steps"):
        evaluate("a" + " + b" * 10_000)
    with pytest.raises(SyntaxError, match="too many nested parentheses|nested too deeply"):
        evaluate("(" * 1000 + "a" + ")" * 1000)
    many = "+".join(f"complex(a + {k}, a)" for k in range(33))
    with pytest.raises(ValueError, match=r"needs more than 32 inputs: arrays, complex\(\)"):
        evaluate(many, {"a": np.ones(2)})
    with pytest.raises(ValueError, match="more than 256 different constants"):
        evaluate("a" + "".join(f" + {k}.5" for k in range(300)))


@pytest.mark.parametrize(
    ("inputs", "constants", "steps", "error"),
    [
        (["f8"], [], [], ValueError),
        (["f8"], [], [(0, "f8", (0, 1))], ValueError),
        (["f8"], [], [(77, "f8", (0, 0))], ValueError),
        (["f8"], [], [(0, "f8", (0, -1))], ValueError),
        (["f8"], [], [(0, "f8", (0, 2**40))], ValueError),
        (["f8"], [], [(0, "f8", (0, 0, 0, 0))], ValueError),
        (["f8"], [], [(4, "c16", (0, 0))], TypeError),
        (["O"], [], [(0, "f8", (0, 0))], TypeError),
        (["f8"] * 33, [], [(0, "f8", (0, 0))], ValueError),
        (["f8"], [("f8", 1)] * 257, [(0, "f8", (0, 0))], ValueError),
        (["f8"], [("f8", [1, 2])], [(0, "f8", (0, 0))], ValueError),
        (["f8"], [1], [(0, "f8", (0, 0))], TypeError),
        (["f8"], [], [1], TypeError),
        (["f8"], [], 7, TypeError),
    ],
)
def test_programs_that_are_none(inputs: Any, constants: Any, steps: Any, error: Any) -> None:
    """The library checks everything that `core.Program` is given."""
    with pytest.raises(error):
        pcd.core.Program(inputs, constants, steps, "f")


def test_programs_check_their_inputs() -> None:
    """Too few inputs, inputs of other types, objects that are not arrays."""
    program = pcd.core.Program(["f8", "f8"], [], [(0, "f8", (0, 1))], "f")
    for inputs, error in [
        ((np.ones(2),), TypeError),
        ((np.ones(2), np.ones(2, "f4")), ValueError),
        ((np.ones(2), "a"), TypeError),
        ((np.ones(2), np.ones(2, ">f8")), TypeError),
    ]:
        with pytest.raises(error):
            program.call(-1, "K", None, inputs)
        with pytest.raises(error):
            program.reduce(0, "f8", -1, (0,), False, inputs)
    with pytest.raises(ValueError):
        program.reduce(9, "f8", -1, (0,), False, (np.ones(2), np.ones(2)))
    with pytest.raises(TypeError):
        program.reduce(0, "f8", -1, [0.0], False, (np.ones(2), np.ones(2)))
    assert program.call(-1, "K", None, (np.ones(2), np.ones(3))) is NotImplemented


# ---- Tables as local_dict ----


def test_columns_of_tables() -> None:
    """The columns of one table share its labels, so their elements are the operands."""
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    records = np.zeros(3, [("a", "f8"), ("b", "i4"), ("text", "S3")])
    records["b"] = [1, 2, 3]
    assert np.array_equal(evaluate("a + b * k", records, {"k": 2}), [2, 4, 6])
    named = types.MappingProxyType({"a": a, "b": b})
    assert np.array_equal(evaluate("a + b", named), a + b)

    class Keys:
        def keys(self) -> list[str]:
            return ["b"]

        def __getitem__(self, name: str) -> Any:
            return {"b": b}[name]

    assert np.array_equal(evaluate("b * k", Keys(), {"k": 2}), b * 2)
    with pytest.raises(NameError):
        evaluate("missing + b", Keys())

    class Attribute:
        keys = "text"

        def __getitem__(self, name: str) -> Any:
            return b

    unnamed = (a, [a], "text", 3, range(3), {}.keys(), memoryview(b"a"))
    for wrong in (*unnamed, argparse.Namespace(a=a, b=b), Attribute()):
        with pytest.raises(TypeError, match="local_dict is a mapping of names to values, not"):
            evaluate("a + b", wrong)


def test_columns_of_pandas() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4], "text": ["x", "y"]}, index=[7, 5])
    result = evaluate("a * b + k", frame, {"k": 10})
    assert type(result) is np.ndarray and np.array_equal(result, [13, 18])
    assert evaluate("sum(b)", frame) == 7
    with pytest.raises(TypeError, match="the input 'text'"):
        evaluate("text + a", frame)
    with pytest.raises(
        TypeError, match="local_dict is a mapping of names to values, not DataFrameG"
    ):
        evaluate("a + 1", frame.groupby("a"))
    with pytest.raises(TypeError, match="several columns of the DataFrame have the name 'a'"):
        evaluate("a + 1", pd.concat([frame, frame], axis=1))
    with pytest.raises(TypeError, match="pandas.*rules of its own"):
        evaluate("a + b", {"a": frame["a"], "b": frame["b"][::-1]})


def test_columns_of_xarray() -> None:
    """Dimensions broadcast by position, so names in another order are refused."""
    xr = pytest.importorskip("xarray")
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    data = xr.Dataset({"a": (("y", "x"), a), "b": ("x", b), "c": ("y", b[:2]), "n": 5.0})
    assert np.array_equal(evaluate("a + b * n", data), a + b * 5)
    with pytest.raises(ValueError, match=r"'a' has the dimensions \('y', 'x'\) and 'c' has"):
        evaluate("a + c", data)
    pytest.importorskip("dask")
    with pytest.raises(TypeError, match="xarray.apply_ufunc"):
        evaluate("a + b", data.chunk({"x": 2}))


def test_columns_of_groups(tmp_path: Path) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file["a"], file["b"] = a, b
        assert np.array_equal(evaluate("a + b", file), a + b)
    group = zarr.open_group(tmp_path / "store", mode="w")
    for name, x in (("a", a), ("b", b)):
        group.create_array(name, data=x)
    assert np.array_equal(evaluate("a + b", group), a + b)


# ---- Names and chains ----


def test_chained_comparisons() -> None:
    """A chain is true if all its pairs are, also with constants and Python numbers."""
    a, b = np.arange(-3.0, 4.0), np.array([1, 0, np.nan, 5, 2, 2, 9])
    assert np.array_equal(evaluate("-2 <= a < b"), (a >= -2) & (a < b))
    assert np.array_equal(evaluate("a < b != 2 > a"), (a < b) & (b != 2) & (a < 2))
    assert np.array_equal(evaluate("1 < 2 < a"), a > 2)
    assert not evaluate("2 < 1 < a").any()
    assert np.array_equal(evaluate("where(-1 < a < 2, a, 9)"), np.where((a > -1) & (a < 2), a, 9))
    for x in (0, 1, 1.5, 3):
        result = evaluate("1 <= x < 3", {"x": x})
        assert type(result) is bool and result == (1 <= x < 3)
    assert Expression("a < b < c").inputs == ("a", "b", "c")


@pytest.mark.parametrize("code", "?bHqefdFD")
def test_ones_like_and_copy(code: str) -> None:
    x = np.zeros((3, 4), code)[:, ::2]
    row = np.zeros(2, code)  # noqa: F841
    assert np.array_equal(evaluate("ones_like(x)"), np.ones_like(x))
    assert evaluate("ones_like(x)").dtype == x.dtype
    assert evaluate("ones_like(row + x)").shape == (3, 2)
    assert evaluate("copy(x)").dtype == x.dtype and np.array_equal(evaluate("copy(x)"), x)
    result = evaluate("ones_like(k)", {"k": 2.5})
    assert type(result) is float and result == 1


@cases.each_place()
@pytest.mark.parametrize(
    "text", ["({}) ** 0", "({}) ** 0.0", "ones_like({})", "({}) < 2**70", "-2**70 >= ({})"]
)
def test_known_answers_drop_no_errors(place: str, text: str) -> None:
    """Even if the answer is known, its operands may refuse an element, or warn."""
    i, j, names = np.array([2, 3]), np.array([-1, 0]), {"np": np}
    by_numpy = text.replace("ones_like", "np.ones_like")
    for part in ("i // (j + 1)", "i * j", "i"):
        with np.errstate(all="ignore"):
            wanted = eval(by_numpy.format(part), names, {"i": i, "j": j})
        used = {"i": i, "j": j} if "j" in part else {"i": i}
        heard: list[str] = []
        with np.errstate(divide="call", call=lambda kind, _, heard=heard: heard.append(kind)):
            result = cases.call(Expression(text.format(part)), place, *used.values())
        assert result.dtype == wanted.dtype and (result == wanted).all(), part
        assert len(heard) == (place == "cpu" and "//" in part)
    with pytest.raises(ValueError, match="the exponent -1 is negative"):
        cases.call(Expression(text.format("i ** j")), place, i, j)
    assert len(Expression("ones_like(a) + a ** 0").disassemble("f4").splitlines()) == 3


def test_further_names() -> None:
    """Each alias is the operation, in the package and in expressions."""
    from pkg._table import ALIASES

    for alias, name in ALIASES.items():
        assert getattr(pcd, alias) is getattr(pcd, name)
        operands = ", ".join("ab"[: getattr(pcd, name).nin])
        assert Expression(f"{alias}({operands})") == Expression(f"{name}({operands})")


@pytest.mark.parametrize("code", "fdFD")
def test_parts_and_rounding(code: str) -> None:
    """`.real`, `.imag`, `conj` and `round`, in texts and in fused functions."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-9, 9, 100).view("D" if code in "FD" else "d")[:50].astype(code)
    for text, wanted in (
        ("x.real + x.imag", x.real + x.imag),
        ("(x * 2).imag", (x * 2).imag),
        ("real(x) - imag(x)", x.real - x.imag),
        ("conj(x) + x", np.conj(x) + x),
        ("round(x)", np.round(x)),
    ):
        oracle.assert_same(evaluate(text), wanted, text, [x])
    parts = pcd.fuse(lambda z: z.real * 2 + z.imag)
    oracle.assert_same(parts(x), x.real * 2 + x.imag, "parts", [x])


@cases.each_place()
def test_complex_of_parts(place: str) -> None:
    """Zeros keep their signs, infinities make no NaN, and the parts broadcast."""
    x = generators.specials(np.dtype("d"))
    given = {"a": x, "b": x[:, None]}
    wanted = np.empty((x.size, x.size), complex)
    wanted.real, wanted.imag = x, x[:, None]
    oracle.assert_same(trees.call("complex(a, b)", place, given), wanted, place, [x])
    for codes, code in (("ff", "F"), ("ef", "F"), ("??", "F"), ("if", "D"), ("db", "D")):
        dtypes = [np.dtype(c) for c in codes]
        assert Expression("complex(a, b)").dtype_for(*dtypes) == code
        given = {"a": x[:9].astype("?").astype(dtypes[0]), "b": np.ones(9, dtypes[1])}
        assert trees.call("complex(a, b)", place, given).dtype == code
    given = {"a": x[np.isfinite(x)], "b": 2.0, "c": np.arange(3.0)[:, None]}
    inner = trees.call("complex(complex(a, c).imag, b) * 2 + a", place, given)
    by_steps = trees.call("complex(c + 0 * a, b) * 2 + a", place, given)
    oracle.assert_same(inner, by_steps, place, [x])
    given = {"a": x[:9].astype("f"), "b": np.int16(3)}
    for text in ("complex(a, b * 2)", "complex(where(1 > 0, 2, 3), a)"):
        assert trees.call(text, place, given).dtype == ("F" if "b" in text else "D")
    out = np.full(4, np.nan, "F")
    with pytest.raises(TypeError, match="the real and the imaginary part, not complex64 numbers"):
        trees.call("complex(a, b)", place, {"a": np.ones(4, "F"), "b": 1.0}, out=out)
    assert np.isnan(out).all()


def test_complex_of_parts_in_memory() -> None:
    """The axes lie in memory as those of other operations."""
    a = np.arange(24.0).reshape(2, 3, 4)
    for x, y in (
        (a, a[:1, 0]), (a.T, 1), (a.transpose(2, 0, 1), a[0, 0][:, None, None]),
        (a[:, ::-1, ::2], 2.0), (a[0, :, :1], a[0, :1]), (a.T, a.reshape(4, 3, 2)),
        (a[::-1].T, a.T),
    ):  # fmt: skip
        wanted = x + 1j * y
        for order in "KCFA":
            result = evaluate("complex(x, y)", order=order)
            like = np.add(x, y, order=order)
            assert np.array_equal(result, wanted)
            assert result.strides == tuple(2 * stride for stride in like.strides), order


def test_complex_of_parts_in_texts() -> None:
    """Sums, programs in text, other byte orders, and Python's numbers."""
    a = np.arange(3.0)
    assert evaluate("sum(complex(a, 1))") == 3 + 3j
    assert evaluate("sum(abs(complex(a * 3, a * 4)), axis=0)") == 15
    assert evaluate("complex(a, a)", {"a": a.astype(">f8")}).tolist() == [0, 1 + 1j, 2 + 2j]
    assert repr(evaluate("complex(a, b)", {"a": -0.0, "b": 2})) == repr(complex(-0.0, 2))
    assert evaluate("complex(a, 2**70)")[0].imag == 2**70
    assert Expression("complex(a, 1) + 1").disassemble("f4").startswith("complex2: complex64")


@cases.each_place()
def test_complex_of_parts_is_computed_once(place: str) -> None:
    """Each level of nesting would double the passes, and the warnings of the innermost part."""
    a, b = np.array([0.0, 2.0, 4.0]), np.array([3.0, 5.0, 7.0])
    chain = tree = "complex(1 / a, b)"
    for _ in range(5):
        chain, tree = f"complex(real({chain}), b)", f"complex(real({tree}), imag({tree}) + b)"
    for text, imaginary in ((chain, b), (tree, 6 * b)):
        heard: list[str] = []
        with np.errstate(divide="call", call=lambda kind, _, heard=heard: heard.append(kind)):
            result = cases.call(Expression(text), place, a, b)
        assert len(heard) == (place == "cpu")
        assert (result.real == [np.inf, 0.5, 0.25]).all() and (result.imag == imaginary).all()
    assert (evaluate("complex(where(k > 0, 2, 3), a)", {"k": 1, "a": a}) == 2 + 1j * a).all()


def test_rounding_of_integers_and_numbers() -> None:
    """Integers stay as they are, of any size and type."""
    x = np.arange(-3, 4, dtype="i2")
    result = evaluate("round(x)")
    assert result.dtype == "i2" and np.array_equal(result, x)
    assert evaluate("round(k)", {"k": 2**60 + 1}) == 2**60 + 1
    assert evaluate("round(2.5) + round(k)", {"k": -3.5}) == -2
    assert evaluate("(k + 2j).imag", {"k": 1.5}) == 2


@cases.each_place()
@pytest.mark.parametrize("codes", ["ddd", "fff", "eee", "bbb", "HBi", "lfd", "DDD"])
@pytest.mark.usefixtures("quiet")
def test_clip(place: str, codes: str) -> None:
    """The type is that of all three operands; NaN and bounds in the wrong order as in NumPy."""
    make = generators.moderate if "D" in codes else generators.values
    x, lowest, highest = (make(np.dtype(c), 200, k) for k, c in enumerate(codes))
    given = {"x": x, "lowest": lowest, "highest": highest}
    wanted = np.clip(x, lowest, highest)
    if codes[0] in "efd":  # of two zeros NumPy may take either
        wanted = wanted + x.dtype.type(0)
        actual = trees.call("clip(x, lowest, highest) + 0", place, given)
    else:
        actual = trees.call("clip(x, lowest, highest)", place, given)
    oracle.assert_same(actual, wanted, f"clip-{codes}-{place}", [x, lowest, highest])


@pytest.mark.parametrize("bound", ["500.0", "300", "3e30", "-70000.0"])
@pytest.mark.parametrize("x", ["i1", "u1", "u8"])
def test_clip_to_ints_beyond_all_elements(x: str, bound: str) -> None:
    """They are no bounds, also where the other one widens the type."""
    values, other = np.array([1, 5], x), np.array(eval(bound))
    for text in ("clip(x, other, 2**64)", "clip(x, -(2**63), other)", "clip(x, -(2**70), 2**70)"):
        wanted = eval(text.replace("clip", "np.clip"), {"np": np, "x": values, "other": other})
        oracle.assert_same(evaluate(text, {"x": values, "other": other}), wanted, text, [values])


def test_further_functions_in_fused_functions() -> None:
    """NumPy functions that are not ufuncs, and ufuncs with two names, give the same expressions."""
    fused = pcd.fuse(lambda x: np.clip(np.round(x), -2, 3) + np.radians(x) + np.degrees(x))
    text = "clip(round(x), -2, 3) + deg2rad(x) + rad2deg(x)"
    assert fused.expression == Expression(text)
    assert evaluate("clip(k, 0, 2) + clip(k, 0.5, 2)", {"k": 5}) == 4


@cases.each_place()
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u8"])
def test_chains(place: str, dtype: str) -> None:
    """A GPU runs sums, differences and products with the same operands in loops of their own."""
    rng = np.random.default_rng(7)
    inputs = {name: rng.uniform(1, 9, 3001).astype(dtype) for name in "abc"}
    for steps in (3, 6, 40, 127):
        for _ in range(3):
            repeated = [
                f"{rng.choice(['+', '-', '*'])} {rng.choice(['b', 'c', '2', '3'])}"
                for _ in range(rng.integers(1, 4))
            ]
            text = "a"
            for k in range(steps):
                text = f"({text} {repeated[k % len(repeated)] if rng.random() < 0.9 else '* c'})"
            with np.errstate(all="ignore"):
                oracle.assert_same(trees.call(text, place, inputs), eval(text, {}, inputs))
