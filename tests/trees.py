"""Random expressions: hypothesis strategies, their text, and their value step by step.

A tree is ("input", name), ("number", x), or (function, *trees) with the operators under the names
of the functions that they are.  `value` computes it by NumPy, one operation after the other, each
as the oracle says.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import cases
import generators
import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
from hypothesis import strategies as st

import pkg as pcd

Tree = tuple[Any, ...]

NAMES = ["a", "b", "c", "d"]

ERRORS = (ArithmeticError, TypeError, ValueError, SyntaxError)

OPERATORS = {
    **{"add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//"},
    **{"remainder": "%", "power": "**", "equal": "==", "not_equal": "!=", "less": "<"},
    **{"less_equal": "<=", "greater": ">", "greater_equal": ">="},
}

#: Functions by name in the text.
FUNCTIONS = {
    **{"minimum": 2, "maximum": 2, "divide": 2, "square": 1, "sqrt": 1, "abs": 1, "where": 3},
    "complex": 2,
}


def _complex(real: Any, imag: Any) -> Any:
    """The complex numbers of these parts, in the type to which NumPy promotes both."""
    dtype = np.result_type(
        np.complex64, *(type(x)(0) if _is_number(x) else x for x in (real, imag))
    )
    if any(np.iscomplexobj(x) for x in (real, imag)):
        raise TypeError("a part is complex itself")
    if _is_number(real) and _is_number(imag):
        return complex(real, imag)
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype)
    result.real, result.imag = real, imag
    return result


def _raised(base: Any, exponent: Any) -> Any:
    """Computes a power of numbers; an int of very many bits is refused."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if (base.bit_length() - 1) * exponent >= 1 << 16:
            raise OverflowError("the power has too many bits")
    return base**exponent


_PYTHON = {
    "complex": _complex,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": _raised,
    "negative": operator.neg,
    "abs": abs,
    **oracle.COMPARISONS,
}


# ---- Text ----


def text(tree: Tree) -> str:
    """The tree as an expression."""
    kind, *parts = tree
    if kind == "input":
        return str(parts[0])
    if kind == "number":
        return f"({parts[0]!r})" if repr(parts[0]).startswith("-") else repr(parts[0])
    texts = [text(part) for part in parts]
    if kind in OPERATORS:
        return f"({texts[0]} {OPERATORS[kind]} {texts[1]})"
    return f"(-{texts[0]})" if kind == "negative" else f"{kind}({', '.join(texts)})"


def names(tree: Tree) -> set[str]:
    """The inputs of a tree."""
    if tree[0] == "input":
        return {tree[1]}
    return set().union(*map(names, tree[1:])) if tree[0] != "number" else set()


# ---- Value ----


def _is_number(x: Any) -> bool:
    return type(x) in (bool, int, float, complex)


def of_numbers(inputs: dict[str, Any]) -> bool:
    """Tells whether Python computes an expression of these inputs."""
    return all(map(_is_number, inputs.values()))


def _operation(name: str, *operands: Any) -> Any:
    operands = tuple(np.bool_(x) if type(x) is bool else x for x in operands)
    dtype = np.result_type(*operands)
    if name in ("minimum", "maximum", "power") or (
        dtype.kind == "c" and name in ("absolute", "sqrt")
    ):
        # Of which the oracle leaves some bits open.
        return getattr(pcd, name)(*operands)
    if name == "true_divide":
        name = "divide"
        if dtype.kind in "biu":
            operands = tuple(np.asarray(x, np.float64) for x in operands)
    return oracle.expected(name, *operands)


def _where(condition: Any, a: Any, b: Any) -> Any:
    if _is_number(a) and _is_number(b):
        dtype = np.result_type(np.dtype(type(a)), np.dtype(type(b)))
    else:
        dtype = np.result_type(*(type(x)(0) if _is_number(x) else x for x in (a, b)))
    return np.where(condition, *(np.asarray(x, dtype) for x in (a, b)))


def _power(base: Any, exponent: Any, is_input: bool) -> Any:
    """Computes by squares, as the package documents it, or else by the function.

    The exponents of squares are numbers, and inputs without dimensions.
    """
    number = exponent
    if not _is_number(exponent) and is_input and np.ndim(exponent) == 0:
        number = exponent.item()
    if type(number) not in (int, float) or number not in (0.5, *range(-64, 65)):
        return _operation("power", base, exponent)
    dtype = None if number is exponent else np.result_type(base, exponent)
    base, exponent = np.asarray(base, dtype), number
    if base.dtype == np.bool_:
        base = base.astype(np.int8 if exponent == 2 else np.int64)  # as NumPy
    if isinstance(exponent, float):
        if base.dtype.kind in "biu":
            base = base.astype(np.float64)
        if exponent == 0.5:
            return _operation("sqrt", base)
        exponent = int(exponent)
    if exponent < 0:
        if base.dtype.kind in "biu":
            raise ValueError("integers to negative integer powers")
        return _operation("true_divide", 1, _power(base, -exponent, False))
    if exponent == 0:
        return np.ones_like(base)
    result = None
    for bit in bin(exponent)[:1:-1]:
        if bit == "1":
            result = base if result is None else _operation("multiply", result, base)
        base = _operation("square", base)
    return result


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """Computes `where` of Python numbers alone."""
    kinds = [kind for kind in (complex, float, int) if kind in (type(a), type(b))]
    return (a if condition else b) if type(a) is type(b) else kinds[0](a if condition else b)


def value(tree: Tree, inputs: dict[str, Any]) -> Any:
    """The value of a tree, step by step: an array, or of numbers alone a Python number."""
    alone = of_numbers(inputs)
    result = _value(tree, inputs, alone)
    if alone:
        return result
    result = np.asarray(result, np.dtype(type(result)) if _is_number(result) else None)
    return result.astype(result.dtype.newbyteorder("="))


def _value(tree: Tree, inputs: dict[str, Any], alone: bool) -> Any:
    kind, *parts = tree
    if kind == "input":
        return inputs[parts[0]]
    if kind == "number":
        return parts[0]
    values = [_value(part, inputs, alone) for part in parts]
    if kind == "where":
        return _chosen(*values) if alone else _where(*values)
    if all(map(_is_number, values)):
        known = _PYTHON.get(kind) or getattr(pcd, kind)
        return known(*values)
    if kind == "complex":
        return _complex(*values)
    if kind == "power":
        return _power(*values, parts[1][0] == "input")
    return _operation("absolute" if kind == "abs" else kind, *values)


def depends_on_values(tree: Tree, inputs: dict[str, Any]) -> bool:
    """Tells whether a Python number of the call decides the type of a power by its value."""
    if tree[0] in ("input", "number"):
        return False
    if tree[0] == "power":
        base, exponent = (
            {name: inputs[name] for name in names(part)} | {"": 0} for part in tree[1:]
        )
        if of_numbers(exponent) and (of_numbers(base) or len(exponent) > 1):
            return tree[2] not in {("number", n) for n in (0, 1, 2, 3, 4, 5, 7)}
    return any(depends_on_values(part, inputs) for part in tree[1:])


# ---- Calls ----


def call(text: str, place: str, inputs: dict[str, Any], **kwargs: Any) -> Any:
    """The value of an expression in a place of `cases`.

    It is computed twice where that can be: a call that finds its program goes another way.
    """
    expression = pcd.Expression(text)
    values = [inputs[name] for name in expression.inputs]

    def once() -> Any:
        if place != "array":
            options = kwargs if place == "cpu" else {**kwargs, "device": place}
            return expression(*values, **options)
        if not any(isinstance(x, np.ndarray) and x.ndim for x in values):
            return expression(*values, **kwargs)
        return cases.on_arrays(expression, *values, **kwargs)

    result = once()
    if _is_number(result):
        assert repr(once()) == repr(result), f"{text}, the second time"
    elif "out" not in kwargs:
        oracle.assert_same(once(), result, f"{text}, the second time")
    return result


def assert_same(actual: Any, wanted: Any, text: str, inputs: dict[str, Any]) -> None:
    """Asserts the same Python number, for numbers alone, or the same array."""
    if of_numbers(inputs):
        assert (type(actual), repr(actual)) == (type(wanted), repr(wanted)), text
    else:
        oracle.assert_same(actual, wanted, text, list(inputs.values()))


def outcome(function: Any, *args: Any) -> tuple[Any, Exception | None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args), None
        except ERRORS as error:
            return None, error


# ---- Strategies ----

_numbers = st.one_of(
    st.sampled_from([0, 1, 2, 3, -1, 7, 127, 128, 300, -300, 2**31, 2**63]),
    st.sampled_from([0.0, 0.5, 1.0, -0.0, 1.5, -2.25, 0.1, 1e-5, 65504.0, 1e300]),
    st.sampled_from([1j, 2.5j]),
)

_exponents = st.sampled_from([0, 1, 2, 3, 4, 5, 7, -1, -2, 0.5, 2.0, -1.0, 1.5, -65.0])

#: Of a 0-d array, the scalar and the array itself.
_indices = st.sampled_from([(), ...])


def _grow(trees: Any, inputs: Any) -> Any:
    binary = [name for name in OPERATORS if name != "power"]
    return st.one_of(
        st.tuples(st.sampled_from([*binary, "minimum", "maximum", "divide"]), trees, trees),
        st.tuples(st.sampled_from([*binary, "minimum", "maximum", "divide"]), trees, trees),
        st.tuples(st.sampled_from(["square", "sqrt", "abs", "negative"]), trees),
        st.tuples(st.just("where"), trees, trees, trees),
        st.tuples(st.just("complex"), trees, trees),
        st.tuples(st.just("power"), trees, st.tuples(st.just("number"), _exponents)),
        st.tuples(st.just("power"), trees, trees),
        st.tuples(st.just("power"), trees, inputs),
    )


def trees(names: list[str], leaves: int = 12) -> Any:
    """A strategy of trees over inputs and numbers."""
    inputs = st.tuples(st.just("input"), st.sampled_from(names))
    leaf = st.one_of(inputs, inputs, st.tuples(st.just("number"), _numbers))
    return st.recursive(leaf, lambda trees: _grow(trees, inputs), max_leaves=leaves)


@st.composite
def inputs(draw: Any, names: list[str], max_side: int = 9) -> dict[str, Any]:
    """Arrays of any types and layouts whose shapes broadcast, and numbers among them."""
    shapes = draw(
        hnp.mutually_broadcastable_shapes(
            num_shapes=len(names), min_side=0, max_side=max_side, max_dims=3
        )
    ).input_shapes
    few = draw(st.lists(st.sampled_from(cases.WITH_BOOL), min_size=1, max_size=2))
    given: dict[str, Any] = {}
    for name, shape in zip(names, shapes, strict=True):
        dtype = draw(st.sampled_from(few) | st.sampled_from(cases.WITH_BOOL))
        kind = draw(st.integers(0, 6))
        if kind == 0:
            given[name] = draw(_numbers | st.booleans())
            continue
        if kind == 1:  # small enough for an exponent
            given[name] = np.asarray(draw(_exponents)).astype(dtype)[draw(_indices)]
            continue
        count = int(np.prod(shape, dtype=np.int64))
        if dtype == np.bool_:
            data = np.random.default_rng(draw(generators.seeds)).integers(0, 2, count) > 0
        else:
            data = generators.values(dtype, count, draw(generators.seeds))
        layout = draw(generators.input_layouts)
        given[name] = generators.laid_out(data.reshape(shape), layout)
        if not given[name].ndim and draw(st.booleans()):
            given[name] = given[name][()]
    return given
