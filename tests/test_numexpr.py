"""`pkg.numexpr` does with the arguments of numexpr's functions what numexpr does."""

from __future__ import annotations

import collections
import gc
import inspect
import re
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd
import pkg.numexpr as ne

#: Read by the expressions that take their names from this module.
of_module = 7.0


def test_names_from_the_caller() -> None:
    """Local variables go before global ones, and `_frame_depth` counts as numexpr counts."""
    a = np.arange(3.0)
    assert np.array_equal(ne.evaluate("a + of_module"), a + 7)
    assert np.array_equal(ne.evaluate("a", {"a": 2 * a}), 2 * a)
    assert ne.evaluate("a + of_module", {"a": 1.0}, {"of_module": 2.0}) == 3

    def inner() -> tuple[Any, Any, Any]:
        here = ne.evaluate("a", {"a": 1.0}), ne.re_evaluate(_frame_depth=3)
        return *here, ne.evaluate("a", _frame_depth=4)

    assert [np.sum(x) for x in inner()] == [1.0, 3.0, 3.0]
    assert ne.validate("a + inner_only", _frame_depth=2) is not None
    with pytest.raises(KeyError, match="unknown"):
        ne.evaluate("a + unknown")


def test_names_from_mappings_with_defaults() -> None:
    """A missing name has the mapping's default, if it has one."""
    assert ne.evaluate("q + 1", collections.defaultdict(lambda: 5)) == 6
    assert ne.evaluate("q + 1", collections.Counter()) == 1
    assert ne.evaluate("q + r", collections.ChainMap({"q": 2.0}), {"r": 3.0}) == 5
    with pytest.raises(KeyError, match="unknown"):
        ne.evaluate("q + unknown", collections.ChainMap({"q": 2.0}))


def test_results_are_arrays() -> None:
    """numexpr's callers use attributes of arrays on the result, also of a single number."""
    x = np.arange(4, dtype="f4")
    for text, wanted in (("1 + 1", np.int64(2)), ("1 < 2", np.bool_(True)), ("sum(x)", x.sum())):
        result = ne.evaluate(text)
        assert type(result) is np.ndarray and result.shape == ()
        assert result == wanted and result.dtype == wanted.dtype
    with pytest.raises(OverflowError):
        ne.evaluate("2 ** 70")


def test_out_order_and_casting() -> None:
    """The default casting of `evaluate` is that of numexpr 2.14, "same_kind"."""
    x = np.arange(6.0).reshape(2, 3)
    out = np.empty((2, 3), "f4")
    assert ne.evaluate("x * 2", out=out) is out
    assert np.array_equal(out, x * 2)
    with pytest.raises(TypeError):
        ne.evaluate("x * 2", out=out, casting="safe")
    with pytest.raises(TypeError):
        ne.evaluate("x * 2", out=np.empty((2, 3), "i4"))
    assert ne.evaluate("x * 2", order="F").flags.f_contiguous
    assert ne.evaluate("x * 2", {"x": x.T}, order=None).flags.f_contiguous


def test_wrong_out_and_casting() -> None:
    x = np.arange(3.0)
    with pytest.raises(ValueError, match="casting must be one of"):
        ne.evaluate("x * 2", casting="bogus")
    for out in ([1, 2, 3], 3):
        with pytest.raises(TypeError, match="out must be an array, not"):
            ne.evaluate("x * 2", out=out)
    assert np.array_equal(ne.evaluate("x * 2"), 2 * x)


def test_keywords_that_change_nothing() -> None:
    x = np.arange(5, dtype="i4")
    for optimization in ("none", "moderate", "aggressive"):
        for truediv in (False, True, "auto"):
            result = ne.evaluate("x / 2", optimization=optimization, truediv=truediv)
            assert np.array_equal(result, x / 2)
    with pytest.raises(ValueError, match="optimization must be one of 'none'.*not 'much'"):
        ne.evaluate("x", optimization="much")
    with pytest.raises(ValueError, match="truediv must be one of False"):
        ne.evaluate("x", truediv="no")
    with pytest.raises(ValueError, match="a str, not int"):
        ne.evaluate(3)  # type: ignore[arg-type]


REFUSED = ["__builtins__", "lambda x: x", "x[0]", "x; x", "x. shape", "(x+1).ᵇit_length()",
           "x.__class__", "x\n.T", "x.real.T", "x.realistic", "'a'.x"]  # fmt: skip

ALLOWED = ["x*2.e-5", "x*2.E+5", "2.+x", ".5*x", "1.5j*x", "3.j+x", "1_0.5*x", "x__y+x", "__x+x"]


def test_sanitize(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that numexpr refuses with a ValueError must not get past callers who catch it."""
    x = x__y = __x = 2.0  # noqa: F841
    monkeypatch.delenv("NUMEXPR_SANITIZE", raising=False)
    for text in REFUSED:
        with pytest.raises(ValueError, match="are forbidden"):
            ne.evaluate(text)
        assert isinstance(ne.validate(text), ValueError)
        with pytest.raises((SyntaxError, TypeError)):
            ne.evaluate(text, sanitize=False)
    for text in ALLOWED:
        ne.evaluate(text)
    monkeypatch.setenv("NUMEXPR_SANITIZE", "0")
    with pytest.raises(SyntaxError):
        ne.evaluate("x; x")
    with pytest.raises(ValueError, match="are forbidden"):
        ne.evaluate("x; x", sanitize=True)


def test_sanitize_as_numexpr_does() -> None:
    original = pytest.importorskip("numexpr")
    values = {"x": np.arange(3.0), "x__y": 1.0, "__x": 1.0}
    for text in [*REFUSED, *ALLOWED]:
        theirs = original.validate(text, values)
        assert (theirs is None) == (ne.validate(text, values) is None), text


def test_re_evaluate() -> None:
    """Takes new values, the previous `out` while it exists, and only this caller's expression."""
    a = np.arange(3.0)
    out = np.zeros(3)
    ne.evaluate("a + 1", out=out)
    assert ne.re_evaluate({"a": a * 2}) is out
    assert np.array_equal(out, a * 2 + 1)
    reference = weakref.ref(out)
    del out
    gc.collect()
    assert reference() is None, "the output is kept alive"
    assert np.array_equal(ne.re_evaluate(), a + 1)
    assert ne.validate("a - 1") is None
    assert np.array_equal(ne.re_evaluate(), a - 1)
    ne.evaluate("a * 9", disable_cache=True)
    assert np.array_equal(ne.re_evaluate(), a - 1)

    errors: list[Exception] = []

    def work() -> None:
        try:
            ne.re_evaluate()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 1 and "before re_evaluate()" in str(errors[0])


def test_validate() -> None:
    """Errors are returned, not raised, and nothing is computed."""
    a = np.broadcast_to(np.float64(0), (2**40,))  # noqa: F841
    assert ne.validate("a + 1") is None
    assert isinstance(ne.validate("a + "), SyntaxError)
    assert isinstance(ne.validate("a + b"), KeyError)
    assert isinstance(ne.validate("a + b", {"a": 1, "b": np.array(["text"])}), TypeError)


@pytest.mark.parametrize(
    ("text", "n", "error"),
    [
        ("a * (1 / (n - 5))", 20, None), ("a * sqrt(n - 8)", 20, None), ("i ** (1 - n)", 1, None),
        ("1 << (n - 10)", 20, None), ("i < n", 2**70, None), ("i ** n", np.int8(2), None),
        ("complex(i ** (i - i - i), n)", 1, None), ("sum(i ** (i - i - i))", 1, None),
        ("n", 2**70, OverflowError), ("i + n", 2**70, OverflowError),
        ("complex(a, n)", 10**400, OverflowError), ("a < n", 10**400, OverflowError),
        ("sum(a + n)", 10**400, OverflowError), ("i < n", 10**400, None),
        ("a * (1 / (n - 5))", 5, ZeroDivisionError), ("1 / n", 0, ZeroDivisionError),
        ("a + n", np.ma.ones(3), TypeError),
    ],
)  # fmt: skip
def test_validate_takes_the_numbers(text: str, n: Any, error: Any) -> None:
    """A false refusal would let `re_evaluate` compute the expression before; arrays count by type.

    The elements of `i` have no power: only `evaluate` sees that.
    """
    given = {"a": np.ones(3), "i": np.ones(3, "i8"), "n": n}
    ne.evaluate("a - 1", given)
    found = ne.validate(text, given)
    assert found is None if error is None else type(found) is error
    if error is not None:
        with pytest.raises(error):
            ne.evaluate(text, given)
    elif "i - i" not in text:
        assert np.array_equal(ne.re_evaluate(given), ne.evaluate(text, given))


@pytest.mark.parametrize(("text", "n"), [("i ** (1 - n)", 3), ("i ** n", np.int8(-2))])
def test_validate_leaves_negative_exponents_to_evaluate(text: str, n: Any) -> None:
    """Only elements are refused: an array of the same type without any has a result."""
    assert ne.validate(text, {"i": np.ones(3, "i8"), "n": n}) is None
    with pytest.raises(ValueError, match="the exponent -2 is negative"):
        ne.evaluate(text, {"i": np.ones(3, "i8"), "n": n})
    assert ne.evaluate(text, {"i": np.ones(0, "i8"), "n": n}).shape == (0,)


def test_compiled() -> None:
    """Of a `NumExpr`, the signature has the order and the types of the arguments."""
    a, b = np.arange(4, dtype="i4"), np.arange(4, dtype="f4") + 1
    f = ne.NumExpr("2 * b - a", [("a", np.int32), ("b", float)])
    assert (f.input_names, f.signature, f.constants) == (("a", "b"), b"if", (2,))
    assert repr(f) == ("NumExpr('2 * b - a', [('a', 'int32'), ('b', 'float32')])")
    assert np.array_equal(f(a, b), 2 * b - a) and f(a, b).dtype == np.float64
    out = np.zeros(4)
    assert f.run(a, b, out=out, ex_uses_vml=True) is out
    g = ne.NumExpr("2 * b - a")
    assert g(a, b).dtype == np.float64 and g(3, 1.0) == -1
    assert g(a, b, order="F").dtype == np.float64
    with pytest.raises(TypeError, match="'a' is of int64, which casting 'safe' does not convert"):
        f(a.astype("i8"), b)
    assert np.array_equal(f(a.astype("i8"), b, casting="same_kind"), 2 * b - a)
    with pytest.raises(ValueError, match="the inputs are a, b: 1 were given"):
        f(a)
    with pytest.raises(ValueError, match="the signature has the inputs a, and the expression a, b"):
        ne.NumExpr("a + b", [("a", float)])
    with pytest.raises(ValueError, match="the inputs a, a, and the expression a"):
        ne.NumExpr("a", [("a", float), ("a", int)])
    with pytest.raises(TypeError, match="elements of <U0 are not supported"):
        ne.NumExpr("a", [("a", str)])


@pytest.mark.parametrize("library", ["numpy.ma", "pandas", "xarray", "dask.array"])
def test_compiled_refuses_rules_of_their_own(library: str) -> None:
    """A mask or labels would be dropped silently, and lazy operands computed."""
    module = pytest.importorskip(library)
    make = {"pandas": "Series", "xarray": "DataArray"}.get(library, "array")
    with pytest.raises(TypeError, match="the input 'a' is a .* which has rules of its own"):
        ne.NumExpr("2 * a")(getattr(module, make)(np.ones(3)))


def test_threads() -> None:
    before = ne.get_num_threads()
    try:
        assert ne.set_num_threads(2) == before
        assert ne.get_num_threads() == pcd.get_num_threads() == 2
    finally:
        ne.set_num_threads(before)
    assert ne.detect_number_of_cores() >= 1 and ne.use_vml is False


@pytest.mark.parametrize("name", ["evaluate", "validate", "re_evaluate"])
def test_signatures(name: str) -> None:
    """Positional arguments and defaults are numexpr's."""
    original = pytest.importorskip("numexpr")

    def positional(function: Any) -> list[tuple[str, Any]]:
        return [
            (parameter.name, parameter.default)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]

    assert positional(getattr(ne, name)) == positional(getattr(original, name))


@pytest.mark.gpu
def test_arrays() -> None:
    """Arrays are computed where they are, and the result stays there."""
    x = pcd.asarray(np.arange(5.0), device="cuda")  # noqa: F841
    result = ne.evaluate("x * 2 + 1")
    assert isinstance(result, pcd.Array)
    assert np.array_equal(pcd.asnumpy(result), np.arange(5.0) * 2 + 1)
    f = ne.NumExpr("x * 2", [("x", np.float64)])
    assert isinstance(f(pcd.asarray(np.arange(5), device="cuda")), pcd.Array)


def _type_rows() -> list[tuple[str, str, str]]:
    """The rows of the table of types in docs/numexpr.md: expression, type here, numexpr's."""
    page = Path(pcd.__file__).parents[1] / "docs" / "numexpr.md"
    if not page.exists():
        return []
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (\w+) \|", page.read_text(), re.MULTILINE)
    assert len(rows) > 10
    return rows


@pytest.mark.parametrize(("text", "here", "theirs"), _type_rows())
def test_the_page_of_differences(text: str, here: str, theirs: str) -> None:
    """The page must state the types correctly, for this package and for numexpr."""
    codes = ("i1", "i4", "u1", "u4", "u8", "f2", "f4", "c8", "c16")
    values = {code: np.ones(3, code) for code in codes}
    assert ne.evaluate(text, values).dtype == here
    original = pytest.importorskip("numexpr")
    assert original.evaluate(text, values).dtype == theirs
