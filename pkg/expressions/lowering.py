"""Lowers a graph, for given element types, to the steps of a program.

It promotes types node by node, as NumPy does (Python numbers are weak, NEP 50).  So an expression
has the bits of its single operations one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import core
from .._call import compare_beyond, is_by_products, resolve
from .._table import LOGIC, OPERATIONS
from .graph import Graph, operands

CONVERT: int = core.STEP_CONVERT
SELECT: int = core.STEP_SELECT

BOOL = np.dtype(np.bool_)

_LESS: int = OPERATIONS["less"].index
_POWER: int = OPERATIONS["power"].index


class Static(NamedTuple):
    """A number that is known before the call; `dtype` is None for a Python number."""

    number: Any
    dtype: Any = None


#: Describes a node to `lower`: its dtype; int, float or complex for a Python number whose value
#: comes with the call; or a `Static`.
Kind = Any


class Lowered(NamedTuple):
    """A program for given types of the inputs, and the sources of its inputs."""

    #: The node of the graph and the type of each input of the program.
    sources: tuple[tuple[int, np.dtype[Any]], ...]
    constants: tuple[tuple[np.dtype[Any], Any], ...]
    #: (operation, CONVERT or SELECT; type; operands), as `core.Program` takes them.
    steps: tuple[tuple[int, np.dtype[Any], tuple[int, ...]], ...]
    dtype: np.dtype[Any]

    @property
    def may_refuse(self) -> bool:
        """Tells whether the program may refuse elements: negative exponents of integers."""
        return any(op == _POWER and dtype.kind == "i" for op, dtype, _ in self.steps)

    def program(self, name: str) -> core.Program:
        return core.Program([dtype for _, dtype in self.sources], self.constants, self.steps, name)


class _Typed(NamedTuple):
    """A value in the program: ("input" or "constant" or "step", number), and its type."""

    place: tuple[str, int]
    dtype: Any


class _Weak(NamedTuple):
    """A Python number: a known one, or the value of the node `node` in a call."""

    kind: type
    number: Any = None
    node: int | None = None


#: A step: operation, type, operands.
_Step = tuple[int, Any, tuple[tuple[str, int], ...]]


def _c_type(dtype: Any) -> Any:
    """Returns the type in native byte order; one type for C's two of the same size."""
    return np.dtype(dtype.newbyteorder("=").str)


def _common(values: Iterable[Any]) -> Any:
    return _c_type(np.result_type(*(getattr(x, "dtype", None) or x.kind(0) for x in values)))


def _raises(wide: Any, narrow: Any) -> bool:
    """Tells whether the conversion of a number overflowed or underflowed."""
    if narrow.dtype.kind not in "fc" or wide.dtype == narrow.dtype:
        return False
    if narrow.dtype.kind == "c":
        return _raises(wide.real, narrow.real) or _raises(wide.imag, narrow.imag)
    overflows = np.isfinite(wide) and not np.isfinite(narrow)
    return bool(overflows or (wide != 0 and abs(narrow) < np.finfo(narrow.dtype).tiny))


def _limited(bound: Any, own: Any, dtype: Any, is_lowest: bool) -> Any:
    """Returns a bound of `clip`; None for a known int beyond all elements, which are `own`.

    Limits another known int to `dtype`, if that has integers.
    """
    if not isinstance(bound, _Weak) or bound.kind is not int or bound.number is None:
        return bound
    for of in (own, dtype):
        if of is not None and of.kind in "iu":
            limit = int(np.iinfo(of).min if is_lowest else np.iinfo(of).max)
            if bound.number <= limit if is_lowest else bound.number >= limit:
                return None if of is own else _Weak(int, limit)
    return bound


class _Lowering:
    def __init__(self, graph: Graph, kinds: Mapping[int, Kind]) -> None:
        self.graph = graph
        self.kinds = kinds
        self.sources: dict[tuple[int, Any], int] = {}
        self.constants: dict[tuple[str, bytes], tuple[Any, Any]] = {}
        self.steps: dict[_Step, int] = {}
        self.results: dict[int, Any] = {}

    # ---- Values ----

    def source(self, node: int, dtype: Any) -> _Typed:
        number = self.sources.setdefault((node, dtype), len(self.sources))
        if number == core.PROGRAM_MAX_INPUTS:
            raise ValueError(
                f"the expression needs more than {number} inputs: arrays, complex(), and numbers, "
                "once for each type in which they are used"
            )
        return _Typed(("input", number), dtype)

    def constant(self, x: Any, dtype: Any) -> _Typed:
        value = np.asarray(x, dtype)
        key = (dtype.str, value.tobytes())
        if key not in self.constants:
            if len(self.constants) == core.PROGRAM_MAX_CONSTANTS:
                raise ValueError(
                    f"the expression has more than {core.PROGRAM_MAX_CONSTANTS} different constants"
                )
            self.constants[key] = (dtype, value)
        return _Typed(("constant", list(self.constants).index(key)), dtype)

    def materialize(self, x: Any, dtype: Any) -> _Typed:
        """Returns a value as operand of a step; a weak number becomes a constant or an input."""
        if isinstance(x, _Typed):
            return x
        if x.node is not None:
            return self.source(x.node, dtype)
        wide = np.dtype(x.kind)
        if x.kind is int and dtype.kind in "iub":
            wide = dtype
        elif x.kind is int:
            wide = np.dtype(np.float64)
        with np.errstate(all="ignore"):
            number = np.asarray(x.number, wide)  # OverflowError is NumPy's
            narrow = number.astype(dtype)
        # Rounding that overflows or underflows is left to each call, which warns.
        return self.constant(number, wide if _raises(number, narrow) else dtype)

    def default(self, x: Any) -> _Typed:
        """Returns a value with a type; a weak number gets NumPy's default type."""
        return x if isinstance(x, _Typed) else self.materialize(x, np.dtype(x.kind))

    def step(self, op: int, dtype: Any, result: Any, *places: tuple[str, int]) -> _Typed:
        key = (op, dtype, places)
        number = self.steps.setdefault(key, len(self.steps))
        if len(self.steps) > core.PROGRAM_MAX_STEPS:
            raise ValueError(f"the expression has more than {core.PROGRAM_MAX_STEPS} steps")
        return _Typed(("step", number), result)

    def convert(self, x: _Typed, dtype: Any) -> _Typed:
        return x if x.dtype == dtype else self.step(CONVERT, dtype, dtype, x.place)

    # ---- Nodes ----

    def operation(self, name: str, *values: Any) -> _Typed:
        operation = OPERATIONS[name]
        if name in LOGIC:  # only the truth of a Python number matters
            values = tuple(self.truth(x) if isinstance(x, _Weak) else x for x in values)
        *dtypes, result = resolve(operation, [getattr(x, "dtype", None) or x.kind for x in values])
        if len(set(dtypes)) == 2:
            return self.mixed_comparison(operation, *values)
        dtype, result = _c_type(dtypes[0]), _c_type(result)
        places = []
        for k, x in enumerate(values):
            try:
                places.append(self.materialize(x, dtype).place)
            except OverflowError:
                if not operation.compares or dtype.kind not in "iub":
                    raise
                return self.fixed(values[1 - k], compare_beyond(name, x.number, k == 0), BOOL)
        return self.step(operation.index, dtype, result, *places)

    def fixed(self, x: Any, answer: Any, dtype: Any) -> _Typed:
        """Returns an answer that is known for all `x`; keeps its steps, which may warn or refuse.

        The inputs of `x` stay inputs, for their shapes.
        """
        result = self.constant(answer, dtype)
        if not isinstance(x, _Typed) or x.place[0] != "step":
            return result
        is_true = self.operation("logical_or", x, self.constant(1, x.dtype))
        return self.step(SELECT, dtype, dtype, is_true.place, result.place, result.place)

    def truth(self, x: _Weak) -> _Typed:
        """Returns the truth of a Python number; a known one may be an int of any size."""
        if x.node is None:
            return self.constant(bool(x.number), BOOL)
        return self.convert(self.default(x), BOOL)

    def mixed_comparison(self, operation: Any, a: _Typed, b: _Typed) -> _Typed:
        """Compares a signed integer with a uint64, exactly: the answer for negatives is known."""
        is_first = a.dtype.kind == "i"
        x = a if is_first else b
        zero, u8 = self.constant(0, x.dtype), np.dtype(np.uint64)
        is_negative = self.step(_LESS, x.dtype, BOOL, x.place, zero.place)
        answer = self.constant(compare_beyond(operation.__name__, -1, is_first), BOOL)
        compared = self.step(operation.index, u8, BOOL, a.place, b.place)
        return self.step(SELECT, BOOL, BOOL, is_negative.place, answer.place, compared.place)

    def where(self, condition: Any, a: Any, b: Any) -> _Typed:
        if isinstance(condition, _Weak) and condition.node is None:
            condition = self.constant(bool(condition.number), BOOL)
        condition = self.default(condition)
        dtype = _common((a, b))
        places = [self.materialize(x, dtype).place for x in (a, b)]
        return self.step(SELECT, dtype, dtype, condition.place, *places)

    def clip(self, *values: Any) -> _Typed:
        """Returns min(max(x, lowest), highest), in the type to which all three promote.

        Known ints beyond all elements of `x` are no bounds, and do not count, as in NumPy.

        For complex numbers only a NaN of `x` stays; NaN parts of bounds compare as floats do, as in
        NumPy's clip.
        """
        dtype = _common(values)
        x, *bounds = values
        own = getattr(x, "dtype", None)
        bounds = [_limited(bound, own, dtype, k == 0) for k, bound in enumerate(bounds)]
        if None in bounds:
            dtype = _common(filter(None, (x, *bounds)))
        x = self.convert(self.materialize(x, dtype), dtype)
        limit = self.limit if dtype.kind == "c" else self.operation
        names = ("greater", "less") if dtype.kind == "c" else ("maximum", "minimum")
        for name, bound in zip(names, bounds, strict=True):
            if bound is not None:
                x = limit(name, x, self.convert(self.materialize(bound, dtype), dtype))
        return x

    def limit(self, comparison: str, x: _Typed, bound: _Typed) -> _Typed:
        """Returns a complex `x` where it is NaN or compares with `bound` as stated, else `bound`.

        The imaginary parts count where the real ones are equal.
        """
        parts = [
            (self.operation(part, x), self.operation(part, bound)) for part in ("real", "imag")
        ]
        by_real, by_imag = (self.operation(comparison, *pair) for pair in parts)
        is_beyond = self.where(self.operation("equal", *parts[0]), by_imag, by_real)
        stays = self.operation("logical_or", self.operation("isnan", x), is_beyond)
        return self.where(stays, x, bound)

    def raised(self, base: Any, exponent: Static, operand: Any) -> _Typed:
        """Returns the power with a known exponent, an operand, that is computed by products."""
        number, given = exponent.number, base
        if exponent.dtype is None:
            base = self.default(base)
        else:  # beside which a Python number is weak
            dtype = _common((base, exponent))
            base = self.convert(self.materialize(base, dtype), dtype)
        if isinstance(number, float):
            if base.dtype.kind in "biu":
                base = self.convert(base, np.dtype(np.float64))
            if number == 0.5:
                return self.operation("sqrt", base)
            number = int(number)
        if base.dtype.kind in "biu" and number < 0:  # refused, unless there are no elements
            return self.operation("power", given, operand)
        if base.dtype == BOOL:
            base = self.convert(base, np.dtype(np.int8 if number == 2 else np.int64))  # as NumPy
        if number == 0:
            return self.fixed(given, 1, base.dtype)
        if number < 0:
            return self.operation("true_divide", _Weak(int, 1), self.products(base, -number))
        return self.products(base, number)

    def products(self, base: _Typed, exponent: int) -> _Typed:
        """Computes base ** exponent by squares and products in the order of the bits."""
        result = None
        while True:
            if exponent & 1:
                result = base if result is None else self.operation("multiply", result, base)
            exponent >>= 1
            if not exponent:
                return result or base
            base = self.operation("square", base)

    def exponent(self, k: int) -> Static | None:
        """Returns the exponent of a power that is computed by products; None for another one."""
        found, node = self.kinds.get(k), self.graph.nodes[k]
        if node[0] == "number":
            found = Static(node[1])
        elif node[0] == "value":
            found = Static(node[1].item(), node[1].dtype)
        return found if isinstance(found, Static) and is_by_products(found.number) else None

    def power(self, function: str, k: int, j: int) -> _Typed:
        base, exponent = self.results[k], self.exponent(j)
        if exponent is not None and function == "raised":
            return self.raised(base, exponent, self.results[j])
        return self.operation("power", base, self.results[j])

    def value(self, k: int) -> Any:
        node = self.graph.nodes[k]
        if k in self.kinds:
            kind = self.kinds[k]
            if isinstance(kind, Static):
                if kind.dtype is None:
                    return _Weak(type(kind.number), kind.number)
                kind = kind.dtype
            return _Weak(kind, node=k) if isinstance(kind, type) else self.source(k, _c_type(kind))
        if node[0] == "number":
            if type(node[1]) is bool:
                return self.constant(node[1], BOOL)
            return _Weak(type(node[1]), node[1])
        if node[0] == "value":
            return self.constant(node[1], _c_type(node[1].dtype))
        if node[0] in ("raised", "power"):
            return self.power(*node)
        if node[0] == "ones_like":
            x = self.default(self.results[node[1]])
            return self.fixed(x, 1, x.dtype)
        if node[0] == "round":
            x = self.default(self.results[node[1]])
            return self.operation("rint", x) if x.dtype.kind in "fc" else x
        values = [self.results[j] for j in node[1:]]
        if node[0] in ("where", "clip"):
            return self.where(*values) if node[0] == "where" else self.clip(*values)
        return self.operation(node[0], *values)

    # ---- All of it ----

    def run(self, out_dtype: Any) -> Lowered:
        graph = self.graph
        needed = {graph.root}
        for k in range(graph.root, -1, -1):
            if k in needed and k not in self.kinds:
                needed.update(operands(graph.nodes[k]))
        for k in sorted(needed):
            self.results[k] = self.value(k)
        result = self.default(self.results[graph.root])
        if result.place[0] != "step":  # a program has at least one step
            result = self.step(CONVERT, result.dtype, result.dtype, result.place)
        return self.finish(result if out_dtype is None else self.convert(result, out_dtype))

    def finish(self, result: _Typed) -> Lowered:
        """Returns what `result` needs, numbered as the library does: inputs, constants, steps."""
        steps = list(self.steps)[: result.place[1] + 1]
        live = {result.place}
        for k in range(len(steps) - 1, -1, -1):
            if ("step", k) in live:
                live.update(steps[k][2])
        numbers = {("input", k): k for k in range(len(self.sources))}
        constants = []
        for k, constant in enumerate(self.constants.values()):
            if ("constant", k) in live:
                numbers["constant", k] = len(numbers)
                constants.append(constant)
        kept = []
        for k, (op, dtype, places) in enumerate(steps):
            if ("step", k) in live:
                numbers["step", k] = len(numbers)
                kept.append((op, dtype, tuple(numbers[place] for place in places)))
        return Lowered(tuple(self.sources), tuple(constants), tuple(kept), result.dtype)


def lower(graph: Graph, kinds: Mapping[int, Kind], out_dtype: Any = None) -> Lowered:
    """Returns the program of a graph, without its reduction.

    `kinds` has every needed input, or nodes computed from it instead.
    """
    return _Lowering(graph, kinds).run(out_dtype)


# ---- Text ----


def describe(graph: Graph, lowered: Lowered) -> str:
    names = []
    lines = []
    for node, dtype in lowered.sources:
        kind = graph.nodes[node]
        what = "complex" if kind[0] == "complex" else "number"
        name = graph.inputs[kind[1]] if kind[0] == "input" else f"{what}{node}"
        names.append(name)
        lines.append(f"{name}: {dtype}")
    names += [str(value) for _, value in lowered.constants]
    for k, (op, dtype, places) in enumerate(lowered.steps):
        further = {CONVERT: "convert", SELECT: "where"}
        name = further.get(op) or core.operations[op].__name__
        lines.append(f"%{k} = {name} {dtype} {', '.join(names[place] for place in places)}")
        names.append(f"%{k}")
    return "\n".join([*lines, f"-> {lowered.dtype}"])
