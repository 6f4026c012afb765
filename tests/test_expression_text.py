"""A text that is not an expression raises an error with the place, and is never run."""

from __future__ import annotations

import copy
import pickle
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pkg as pcd
from pkg import Expression, evaluate

#: text, what the error says, and the part of the text that it points at.
REFUSED = [
    ("a.T", "attributes are not allowed, except .real and .imag", "a.T"),
    ("a + b.__class__", "attributes are not allowed", "b.__class__"),
    ("a[0] + b", "indexing is not supported", "a[0]"),
    ("a and b", "'and' and 'or' are not supported", "a and b"),
    ("2 * (a or b)", "'and' and 'or' are not supported", "a or b"),
    ("not a", "'not' is not supported; use ~", "not a"),
    ("a @ b", "operator is not supported", "a @ b"),
    ("a < b in c", "comparison is not supported", "a < b in c"),
    ("a is b", "comparison is not supported", "a is b"),
    ("a in b", "comparison is not supported", "a in b"),
    ("a if b else c", "use where", "a if b else c"),
    ("(x := a)", "assignment is not supported", "x := a"),
    ("[x for x in a]", "comprehensions are not supported", "[x for x in a]"),
    ("sqrt(x for x in a)", "comprehensions are not supported", "(x for x in a)"),
    ("a + [1, 2]", "only names and numbers", "[1, 2]"),
    ("a, b", "only names and numbers", "a, b"),
    ("{'a': 1}", "only names and numbers", "{'a': 1}"),
    ("lambda: a", "functions cannot be defined", "lambda: a"),
    ("'text' + a", "'text' is not a number", "'text'"),
    ("b'text'", "b'text' is not a number", "b'text'"),
    ("f'{a}'", "strings are not supported", "f'{a}'"),
    ("a + None", "None is not a number", "None"),
    ("a + ...", "Ellipsis is not a number", "..."),
    ("a + 2 ** 1e300", "^[A-Z][a-z ]* range", "2 ** 1e300"),
    ("gamma(a)", "unknown function 'gamma'; known are add,", "gamma"),
    ("__import__('os')", "unknown function '__import__'", "__import__"),
    ("eval('1')", "unknown function 'eval'", "eval"),
    ("np.sqrt(a)", "only functions can be called, by their names", "np.sqrt"),
    ("(lambda: 1)()", "only functions can be called, by their names", "lambda: 1"),
    ("sqrt(a)(b)", "only functions can be called, by their names", "sqrt(a)"),
    ("sqrt(a, b)", r"sqrt\(\) takes 1 operand, not 2", "sqrt(a, b)"),
    ("add(a)", r"add\(\) takes 2 operands, not 1", "add(a)"),
    ("add(a, b=b)", "by position only", "b=b"),
    ("add(*a)", "by position only", "*a"),
    ("add(a, **b)", "by position only", "**b"),
    ("raised(a, 2)", "unknown function 'raised'", "raised"),
    ("1 + sum(a)", "only be the outermost", "sum(a)"),
    ("sum(sum(a))", "only be the outermost", "sum(a)"),
    ("min(a, b)", r"axis must be an int or a tuple.*minimum\(a, b\)", "b"),
    ("sum(a, axis=1.5)", "axis must be an int or a tuple", "1.5"),
    ("sum(a, axis=b)", "axis must be an int or a tuple", "b"),
    ("sum(a, axis={[1]: 2})", "axis must be an int or a tuple", "{[1]: 2}"),
    ("sum(a, axis=(0, 10000000000))", "axis must be an int or a tuple", "(0, 10000000000)"),
    ("sum(a, keepdims=b)", "keepdims must be True or False", "b"),
    ("sum(a, 0, axis=1)", "takes axis and keepdims, not 'axis'", "axis=1"),
    ("sum(a, dtype=1)", "takes axis and keepdims, not 'dtype'", "dtype=1"),
    ("sum(a, **b)", "takes axis and keepdims", "**b"),
    ("sum()", "takes an expression", "sum()"),
    ("a + 1 / 0", "division by zero", "1 / 0"),
    ("a * sqrt(-1)", "sqrt", "sqrt(-1)"),
    ("a * (9 ** 9 ** 9)", "is too large", "9 ** 9 ** 9"),
    ("a * 2 ** 2000", "is too large", "2 ** 2000"),
    ("a * (1 < 2j)", "not supported between", "1 < 2j"),
    ("a + 0x" + "f" * 300, "int of 1200 bits is too large", "0x" + "f" * 300),
    ("größe + ж.size", "attributes are not allowed", "ж.size"),
    ("(a +\n b.c)", "attributes are not allowed", "b.c"),
    (" + ".join(f"x{k}" for k in range(33)), "can have 32 inputs", "x32"),
]


@pytest.mark.parametrize(("text", "message", "part"), REFUSED, ids=[t[:20] for t, *_ in REFUSED])
def test_refused(text: str, message: str, part: str) -> None:
    """The SyntaxError points exactly at the mistake."""
    with pytest.raises(SyntaxError, match=message) as caught:
        Expression(text)
    error = caught.value
    assert error.lineno and error.offset and error.end_offset and error.text is not None
    assert error.lineno == error.end_lineno
    assert error.text[error.offset - 1 : error.end_offset - 1] == part
    shown = traceback.format_exception_only(error)
    assert "^" in shown[-2] and part in shown[-3]


@pytest.mark.parametrize(
    "text", ["", "  ", "a +", "(a", "a b", "1 +* a", "a = 1", "a; b", "import os", "a\0", "a\ud800",
             "0777", "a" * 70_000, "\n", "#", "a #", "é\x00"],
)  # fmt: skip
def test_what_is_no_python(text: str) -> None:
    """Keeps Python's message, always as a SyntaxError with a place."""
    if text == "a #":  # but this is
        assert Expression(text).inputs == ("a",)
        return
    with pytest.raises(SyntaxError) as caught:
        evaluate(text, {})
    assert caught.value.lineno is not None and caught.value.filename == "<expression>"


def test_no_text() -> None:
    with pytest.raises(TypeError, match="a str, not int"):
        Expression(3)  # type: ignore[arg-type]


def test_nothing_is_run(tmp_path: Path) -> None:
    """Tries texts that would have an effect if any part were run."""
    target = tmp_path / "run"
    for text in (
        f"__import__('os').mkdir({str(target)!r})",
        f"open({str(target)!r}, 'w')",
        f"sum(a, axis=open({str(target)!r}, 'w'))",
        f"sum(a, keepdims=open({str(target)!r}, 'w'))",
        f"[open({str(target)!r}, 'w') for a in (1,)]",
        f"(lambda: open({str(target)!r}, 'w'))()",
    ):
        with pytest.raises(SyntaxError):
            evaluate(text, {"a": np.ones(3)})
    assert not target.exists()
    package = Path(pcd.__file__).parent / "expressions"
    for name in ("parsing", "graph", "lowering", "expression", "tracing"):
        source = (package / f"{name}.py").read_text()
        assert not re.search(r"(?<![\w.])(eval|exec|compile)\(", source), name


def test_what_is_allowed() -> None:
    """Spaces, lines in brackets, names of any script, names of functions as inputs."""
    assert Expression("  a\t+ b ").text == "a\t+ b"
    assert evaluate("(a +\n b)", {"a": 1, "b": 2}) == 3
    assert evaluate("größe * 2", {"größe": 2}) == 4
    assert evaluate("sum + abs(min)", {"sum": 1, "min": -2}) == 3
    assert evaluate("+a - -b", {"a": 1, "b": 2}) == 3
    assert evaluate("0x10 + 1_000 + 1e3 + a", {"a": 0}) == 2016
    m = np.array([True, False])
    for text in ("m == True", "m & True", "where(True, m, False)", "m | (False < True)"):
        result = evaluate(text, {"m": m})
        assert result.dtype == bool and result.tolist() == [True, "|" in text], text
    result = evaluate("a * True", {"a": np.ones(2, "i1")})
    assert result.dtype == np.int8


def test_equality() -> None:
    """Expressions are equal when they compute the same in the same way; -0.0 is not 0.0."""
    assert Expression("a+ b") == Expression(" a + (b)")
    assert hash(Expression("a+b")) == hash(Expression("a + b"))
    for text in ("b + a", "a - b", "a + c", "sum(a + b)"):
        assert Expression("a + b") != Expression(text)
    different = {Expression(f"a + {x}") for x in ("0", "0.0", "(-0.0)", "0j", "1", "1.0")}
    assert len(different) == 6
    assert Expression("a") != "a"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol: int) -> None:
    """An Expression goes to other processes."""
    expression = Expression("sum(a * b + 2, axis=0)")
    expression(np.ones(3), np.ones(3))
    again = pickle.loads(pickle.dumps(expression, protocol))
    assert again == expression and again.text == expression.text
    assert again(np.ones(3), np.ones(3)) == 9
    for other in (copy.copy(expression), copy.deepcopy(expression)):
        assert other == expression and other(np.ones(3), np.ones(3)) == 9


def test_description() -> None:
    import inspect
    import weakref

    expression = Expression("a * b")
    assert repr(expression) == "Expression('a * b')"
    assert str(inspect.signature(expression)).startswith("(a, b, *, out=None, order='K'")
    assert weakref.ref(expression)() is expression
    with pytest.raises(AttributeError):
        expression.text = "b"  # type: ignore[misc]


def test_texts_are_parsed_once() -> None:
    """The cache of texts is bounded."""
    from pkg.expressions import expression

    expression.of_text.cache_clear()
    for _ in range(3):
        evaluate("a + 1", {"a": 2})
    assert expression.of_text.cache_info().misses == 1
    for k in range(1000):
        evaluate(f"a + {k}", {"a": 2})
    assert expression.of_text.cache_info().currsize <= 256


def test_random_texts() -> None:
    """Any text gives an Expression or a SyntaxError."""
    rng = np.random.default_rng(0)
    parts = ["a", "b", "(", ")", "+", "-", "*", "**", "/", ",", "1", "2.5", "3j", "sqrt", "sum",
             "where", "<", "==", " ", "axis=", "[", "]", ".", "'", "if", "else", "lambda", ":",
             "\n", "for", "in", "not", "{", "}", "@", "=", "~", "1e999", "0x", "_", "é",
             "\0"]  # fmt: skip
    accepted = 0
    for _ in range(20_000):
        text = "".join(rng.choice(parts, rng.integers(1, 12)))
        try:
            Expression(text)
        except (SyntaxError, TypeError) as error:
            assert isinstance(error, SyntaxError) or "~" in text, text  # Python's error: ~2.5
            continue
        accepted += 1
    assert accepted > 100


def test_disassemble_takes_types() -> None:
    with pytest.raises(TypeError, match="'b' is missing"):
        Expression("a + b").disassemble("f8")
    with pytest.raises(TypeError, match="expected numbers or arrays"):
        Expression("a + b").dtype_for("U3", "f8")
    kinds: list[Any] = [int, float, complex]
    assert [Expression("a * b").dtype_for("f4", kind).name for kind in kinds] == [
        "float32", "float32", "complex64",
    ]  # fmt: skip
