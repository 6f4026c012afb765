"""Expressions as graphs, which parsing and tracing make and lowering turns into steps.

A graph is a list of nodes whose operands come earlier in the list, so that deep expressions need no
recursion.  Equal nodes are one node: a common sub-expression is computed once.  Nodes have no
element types; the types of the inputs come with a call.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import core
from .._operands import python_number, type_number
from .._table import OPERATIONS

#: Functions of an expression besides the operations: name -> number of operands.  `raised` is the
#: operator ``**``; `complex` makes complex numbers of their parts.
FURTHER = {"raised": 2, "where": 3, "ones_like": 1, "round": 1, "clip": 3, "complex": 2}

REDUCTIONS = ("sum", "prod", "min", "max", "mean", "any", "all", "count_nonzero")

#: No element type holds ints of more bits.
MAX_INT_BITS = 1024

#: Limits the ints that are computed from the numbers of a call, to save memory and time.
MAX_COMPUTED_BITS = 1 << 16

#: ("input", index); ("number", x) with a Python number, which takes the type of the other operand;
#: ("value", x) with a NumPy scalar; or (function, *operands) with numbers of nodes.
Node = tuple[Any, ...]


class Reduction(NamedTuple):
    name: str
    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False


class Graph(NamedTuple):
    """An expression: its nodes, the number of the result, and its reduction, if any."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    root: int
    reduction: Reduction | None = None

    def key(self) -> tuple[Any, ...]:
        """Returns a hashable value that is equal for graphs that compute the same."""
        return self.inputs, tuple(map(_key, self.nodes)), self.root, self.reduction


def _key(node: Node) -> tuple[Any, ...]:
    """Distinguishes 1 from 1.0 and 0.0 from -0.0, which are equal for Python."""
    if node[0] == "number":
        return "number", type(node[1]).__name__, repr(node[1])
    if node[0] == "value":
        return "value", node[1].dtype.str, node[1].tobytes()
    return node


def check_parts(*types: Any) -> None:
    """Raises TypeError for types of parts that are complex themselves."""
    for dtype in map(np.dtype, types):
        if dtype.kind == "c":
            raise TypeError(f"complex() takes the real and the imaginary part, not {dtype} numbers")


# ---- Python numbers ----


def _raised(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        # The power has more bits than this product.
        if abs(base) > 1 and (base.bit_length() - 1) * exponent >= MAX_COMPUTED_BITS:
            raise OverflowError(f"an int of more than {MAX_COMPUTED_BITS} bits is too large")
    return base**exponent


def _complex(real: Any, imag: Any) -> complex:
    check_parts(type(real), type(imag))
    return complex(real, imag)


def _invert(x: Any) -> Any:
    return not x if isinstance(x, bool) else ~x


def _left_shift(x: Any, count: Any) -> Any:
    if isinstance(x, int) and isinstance(count, int) and x.bit_length() + count > MAX_COMPUTED_BITS:
        raise OverflowError(f"an int of more than {MAX_COMPUTED_BITS} bits is too large")
    return x << count


def _where(condition: Any, a: Any, b: Any) -> Any:
    """As a number of the kind to which both promote."""
    chosen = a if condition else b
    for kind in (complex, float):
        if isinstance(a, kind) or isinstance(b, kind):
            return kind(chosen)
    return chosen if type(a) is type(b) else int(chosen)


def _clip(x: Any, lowest: Any, highest: Any) -> Any:
    return on_numbers("minimum", on_numbers("maximum", x, lowest), highest)


#: The operators of two operands: function -> symbol, node of Python's grammar, Python's function.
OPERATORS: dict[str, tuple[str, type[ast.AST], Callable[[Any, Any], Any]]] = {
    "add": ("+", ast.Add, operator.add),
    "subtract": ("-", ast.Sub, operator.sub),
    "multiply": ("*", ast.Mult, operator.mul),
    "true_divide": ("/", ast.Div, operator.truediv),
    "floor_divide": ("//", ast.FloorDiv, operator.floordiv),
    "remainder": ("%", ast.Mod, operator.mod),
    "raised": ("**", ast.Pow, _raised),
    "bitwise_and": ("&", ast.BitAnd, operator.and_),
    "bitwise_or": ("|", ast.BitOr, operator.or_),
    "bitwise_xor": ("^", ast.BitXor, operator.xor),
    "left_shift": ("<<", ast.LShift, _left_shift),
    "right_shift": (">>", ast.RShift, operator.rshift),
    "equal": ("==", ast.Eq, operator.eq),
    "not_equal": ("!=", ast.NotEq, operator.ne),
    "less": ("<", ast.Lt, operator.lt),
    "less_equal": ("<=", ast.LtE, operator.le),
    "greater": (">", ast.Gt, operator.gt),
    "greater_equal": (">=", ast.GtE, operator.ge),
}

_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: function for name, (_, _, function) in OPERATORS.items()},
    "positive": operator.pos,
    "negative": operator.neg,
    "absolute": abs,
    "invert": _invert,
    "complex": _complex,
    "ones_like": lambda x: type(x)(1),
    "clip": _clip,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) is not bool(b),
    "logical_not": operator.not_,
}


#: Those that the package computes for ints of 64 bits only.
_ON_INTS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("minimum", "fmin"), lambda a, b: int(min(a, b))),
    **dict.fromkeys(("maximum", "fmax"), lambda a, b: int(max(a, b))),
    **dict.fromkeys(("real", "conjugate", "floor", "ceil", "trunc"), operator.pos),
    **dict.fromkeys(("isnan", "isinf"), lambda x: False),
    "isfinite": lambda x: True,
    "imag": lambda x: 0,
    "round": lambda x: x,
    "sign": lambda x: (x > 0) - (x < 0),
}


def on_numbers(function: str, *numbers: Any, most: int = MAX_COMPUTED_BITS) -> Any:
    """Computes a function of Python numbers as Python does, or as the package if Python lacks it.

    Raises ZeroDivisionError, ValueError or TypeError if there is no result, and OverflowError for
    an int of more than `most` bits.
    """
    if function == "where":
        return _where(*map(python_number, numbers))
    given = [python_number(x) for x in numbers]
    known = _ON_NUMBERS.get(function)
    if known is None and all(isinstance(x, int) for x in given):
        known = _ON_INTS.get(function)
    result = (known or OPERATIONS["rint" if function == "round" else function])(*given)
    if isinstance(result, int) and result.bit_length() > most:
        raise OverflowError(f"an int of {result.bit_length()} bits is too large")
    return result


def on_samples(function: str, *samples: Any) -> Any:
    """Returns a one of the kind that a function of such numbers gives.

    Each function has a value at one, or at zero.
    """
    try:
        result = on_numbers(function, *samples)
    except (ArithmeticError, ValueError):
        result = on_numbers(function, *(type(x)(0) for x in samples))
    return type(result)(1)


def of_numbers(
    graph: Graph, values: Sequence[Any], compute: Callable[..., Any] = on_numbers
) -> Any:
    """Computes an expression of Python numbers by `compute`; `on_samples` gives only the kind."""
    known: list[Any] = []
    for node in graph.nodes:
        if node[0] == "input":
            known.append(python_number(values[node[1]]))
        elif node[0] == "number":
            known.append(node[1])
        else:
            known.append(compute(node[0], *(known[k] for k in node[1:])))
    return known[graph.root]


# ---- Building ----


class Builder:
    """Makes a graph, node by node.  The methods return numbers of nodes."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def _node(self, node: Node) -> int:
        key = _key(node)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return number

    def input(self, name: str) -> int:
        if name not in self.inputs:
            if len(self.inputs) == core.PROGRAM_MAX_INPUTS:
                raise ValueError(
                    f"an expression can have {core.PROGRAM_MAX_INPUTS} inputs, not more"
                )
            self.inputs.append(name)
        return self._node(("input", self.inputs.index(name)))

    def number(self, x: Any) -> int:
        x = type_number(x)
        if isinstance(x, np.generic):
            return self._node(("value", x))
        if isinstance(x, int) and x.bit_length() > MAX_INT_BITS:
            raise OverflowError(f"an int of {x.bit_length()} bits is too large")
        return self._node(("number", x))

    def call(self, function: str, *operands: int) -> int:
        """Adds a function of nodes; computes it for numbers, with the errors of `on_numbers`."""
        if function != "where" and all(self.nodes[k][0] == "number" for k in operands):
            numbers = (self.nodes[k][1] for k in operands)
            return self.number(on_numbers(function, *numbers, most=MAX_INT_BITS))
        return self._node((function, *operands))

    def graph(self, root: int, reduction: Reduction | None = None) -> Graph:
        return needed(self.inputs, self.nodes, root, reduction)


def needed(
    names: Sequence[str], nodes: Sequence[Node], root: int, reduction: Reduction | None = None
) -> Graph:
    """Returns the graph of what `root` needs, operands first: the same in any order of building."""
    numbers: dict[int, int] = {}
    order: list[int] = []
    work = [root]
    while work:
        k = work[-1]
        waits_for = [j for j in reversed(operands(nodes[k])) if j not in numbers]
        if waits_for:
            work += waits_for
            continue
        work.pop()
        if k not in numbers:
            numbers[k] = len(order)
            order.append(k)
    used = {nodes[k][1] for k in order if nodes[k][0] == "input"}
    inputs = {k: n for n, k in enumerate(sorted(used))}
    kept: list[Node] = []
    for k in order:
        node = nodes[k]
        if node[0] == "input":
            node = ("input", inputs[node[1]])
        elif node[0] not in ("number", "value"):
            node = (node[0], *(numbers[j] for j in node[1:]))
        kept.append(node)
    return Graph(tuple(names[k] for k in inputs), tuple(kept), numbers[root], reduction)


def operands(node: Node) -> tuple[int, ...]:
    return () if node[0] in ("input", "number", "value") else node[1:]


# ---- Text ----


def _text_of_number(x: Any) -> str:
    """Returns a text that parses as the number; the language has no names for infinity and NaN."""
    text = str(x)
    if np.iscomplexobj(x) and any(part in text for part in ("-0", "inf", "nan")):
        return f"complex({_text_of_number(x.real)}, {_text_of_number(x.imag)})"
    text = text.replace("inf", "1e999").replace("nan", "abs(1e999 - 1e999)")
    return f"({text})" if text.startswith("-") else text


def text_of(graph: Graph) -> str:
    """Returns the text of a graph; "..." for parts of more than 2000 characters."""
    texts: list[str] = []
    for node in graph.nodes:
        parts = [texts[k] for k in operands(node)]
        if node[0] == "input":
            text = graph.inputs[node[1]]
        elif node[0] in ("number", "value"):
            text = _text_of_number(node[1])
        elif node[0] in OPERATORS:
            text = f"({parts[0]} {OPERATORS[node[0]][0]} {parts[1]})"
        elif node[0] in ("negative", "invert"):
            text = f"({'-' if node[0] == 'negative' else '~'}{parts[0]})"
        else:
            text = f"{node[0]}({', '.join(parts)})"
        texts.append(text if len(text) <= 2000 else "...")
    text = texts[graph.root]
    text = text[1:-1] if text.startswith("(") else text
    reduction = graph.reduction
    if reduction is None:
        return text
    axis = "" if reduction.axis is None else f", axis={reduction.axis}"
    return f"{reduction.name}({text}{axis}{', keepdims=1' if reduction.keepdims else ''})"
