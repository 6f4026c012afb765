"""`Expression` and `evaluate`: expressions over arrays, computed in one pass.

Calls come here whose types the expression has not met before.  This file prepares the operands,
lowers the graph for their types and lets `core.ExpressionBase` compute the next such call.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import _reductions, core
from .._array import Array
from .._call import empty_like_all, is_by_products
from .._convert import in_native_order
from .._mode import in_default_mode
from .._operands import (
    WEAK,
    broadcast_shapes,
    device_name,
    find_place,
    is_number,
    native,
    order_of,
    plain,
    type_number,
)
from .._results import check_out, finish, open_out, store, unwrap_out
from .._table import ELEMENTS, ELEMENTS_TEXT, REDUCTIONS, TRUTHS, check_dtype, reduction_type
from .._typing import Host, overload
from .._warnings import call_for_user
from .columns import look_up
from .datasets import fill, is_dataset
from .graph import Graph, check_parts, needed, of_numbers, on_numbers, on_samples, operands, text_of
from .lowering import Lowered, Static, describe, lower
from .parsing import parse

_Out = TypeVar("_Out", bound=Host | Array)

#: The keyword arguments of a call besides the inputs, with their defaults.
OPTIONS: dict[str, Any] = {"out": None, "order": "K", "casting": "safe", "device": None}

#: The number of programs that an expression keeps, besides those of `core.ExpressionBase`.
_MAX_PROGRAMS = 64

#: Elements that NumPy's iterator converts at a time, so that they stay in the cache.
_PIECE = 1 << 15
_GPU_PIECE = 1 << 18

#: The rules of `numpy.can_cast` that the outputs of calls take.
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")

_lock = threading.Lock()


# ---- Operands ----


def take(name: str, x: Any) -> Any:
    """Returns an input as a number, a NumPy array or an Array."""
    kind = type(x)
    if is_number(x) or isinstance(x, Array):
        return x
    if kind is not np.ndarray and not isinstance(x, np.generic):
        x = core.as_array(x)
        if isinstance(x, Array):
            return x
        x = plain(f"the input {name!r}", x)
    if x.dtype.char not in ELEMENTS:
        what = f"of {x.dtype}" if kind is np.ndarray else f"a {kind.__name__} ({x.dtype})"
        raise TypeError(
            f"the input {name!r} is {what}: expected numbers or arrays of {ELEMENTS_TEXT}"
        )
    return native(x)


def _gpu_of(values: Iterable[Any]) -> int:
    return next((x._ordinal for x in values if isinstance(x, Array)), -1)


def broadcast_inputs(names: Sequence[str], values: Sequence[Any]) -> tuple[int, ...]:
    """Returns the shape to which inputs broadcast; an error tells their shapes."""
    try:
        return broadcast_shapes(*(np.shape(x) for x in values))
    except ValueError:
        shapes = ", ".join(f"{n} {np.shape(x)}" for n, x in zip(names, values, strict=True))
        raise ValueError(f"the shapes of the inputs do not broadcast: {shapes}") from None


def _choose_order(name: str, order: str, values: Iterable[Any]) -> str:
    order = order_of(name, order)
    if order != "A":
        return order
    flags = [
        x._is_f_contiguous if isinstance(x, Array) else x.flags.f_contiguous
        for x in values
        if isinstance(x, Array | np.ndarray)
    ]
    return "F" if all(flags) else "C"


def _check_casting(name: str, casting: Any) -> None:
    if casting not in CASTINGS:
        allowed = ", ".join(map(repr, CASTINGS))
        raise ValueError(f"{name}(): casting must be one of {allowed}, not {casting!r}")


def _open_out(name: str, out: Any) -> Any:
    found = open_out(name, out)
    check_dtype(name, found.dtype)
    return found.view(np.ndarray) if isinstance(found, np.memmap) else found


# ---- Programs of an expression ----


class _Region:
    """The nodes that are Python numbers if certain inputs are; Python computes them."""

    def __init__(self, graph: Graph, is_weak: Sequence[bool]) -> None:
        weak: set[int] = set()
        frontier: set[int] = set()
        #: By node: the numbers of the text, and the inputs that are numbers.
        self._known: dict[int, Any] = {}
        self._inputs: dict[int, int] = {}
        #: Exponents that come with the call; a program needs their values.
        self.exponents: set[int] = set()
        #: Nodes that Python computes, in their order.
        self.inside: dict[int, Sequence[Any]] = {}
        for k, node in enumerate(graph.nodes):
            parts = set(operands(node))
            if node[0] == "number":
                self._known[k] = node[1]
            elif node[0] == "input":
                if is_weak[node[1]]:
                    self._inputs[k] = node[1]
                    weak.add(k)
            elif node[0] != "where" and parts & weak and parts <= weak | self._known.keys():
                self.inside[k] = node
                weak.add(k)
            else:
                frontier |= parts & weak
                if node[0] == "raised" and graph.nodes[node[2]][0] not in ("number", "value"):
                    self.exponents.add(node[2])
        self.frontier = sorted(frontier)
        #: All nodes that are Python numbers.
        self.weak = frozenset(weak | self._known.keys())

    def numbers(self, values: Sequence[Any], compute: Callable[..., Any]) -> dict[int, Any]:
        known = self._known | {k: values[i] for k, i in self._inputs.items()}
        for k, (function, *parts) in self.inside.items():
            known[k] = compute(function, *(known[j] for j in parts))
        return {k: known[k] for k in self.frontier}

    def sources(
        self, graph: Graph, kinds: Mapping[int, type], nodes: Sequence[int], *values: Any
    ) -> tuple[Any, ...] | None:
        """Returns the values of `nodes`, or None if a number is of another kind."""
        numbers = self.numbers(values, on_numbers)
        if {k: type(numbers[k]) for k in kinds} != kinds:
            return None
        return tuple(numbers[k] if k in numbers else values[graph.nodes[k][1]] for k in nodes)


class _Part(NamedTuple):
    """An operand of a node `complex`: its node, its own graph, and the inputs that it needs."""

    node: int
    graph: Graph
    inputs: tuple[int, ...]

    @classmethod
    def of(cls, graph: Graph, k: int) -> _Part:
        part = needed(graph.inputs, graph.nodes, k)
        return cls(k, part, tuple(map(graph.inputs.index, part.inputs)))


class _Call:
    """One call of an expression: its prepared inputs, and the kinds of the graph's nodes.

    The values of samples do not matter.  `ordinal` is the device for host arrays.
    """

    def __init__(
        self,
        expression: Expression,
        inputs: Sequence[Any],
        ordinal: int = -1,
        order: str = "K",
        casting: str = "safe",
        are_samples: bool = False,
    ) -> None:
        self.expression = expression
        self.ordinal, self.order, self.casting = ordinal, order, casting
        self.graph = graph = expression._graph
        self.names: Sequence[str] = graph.inputs
        self.values = list(inputs)
        self.has_values = False
        self.region = expression._region(tuple(map(is_number, self.values)))
        self.nodes: dict[int, Any] = {
            k: self.values[node[1]] for k, node in enumerate(graph.nodes) if node[0] == "input"
        }
        if self.region.frontier:
            # Beside an array a number is weak, or the scalar that NumPy makes of it.
            compute = on_samples if are_samples else on_numbers
            for k, x in self.region.numbers(self.values, compute).items():
                self.nodes[k] = np.bool_(x) if type(x) is bool else type_number(x)
        self.kinds: dict[int, Any] = {
            k: type(x) if is_number(x) else x.dtype for k, x in self.nodes.items()
        }
        for k in () if are_samples else self.region.exponents & self.nodes.keys():
            x = self.nodes[k]
            if type(x) in WEAK:
                if is_by_products(x):
                    self.kinds[k] = Static(x)
            elif np.ndim(x) == 0 and x.dtype.kind in "biuf" and is_by_products(x.item()):
                self.kinds[k] = Static(x.item(), x.dtype)
        #: The parts of each node `complex`, operands first: numbers, and calls of their own.
        self.pairs: dict[int, list[Any]] = {}
        for k, parts in expression._pairs.items():
            if k not in self.region.weak:
                pair = [self._part(part) for part in parts]
                self.kinds[k] = self._type_of_pair(pair)
                self.pairs[k] = [x if isinstance(x, _Call) else float(x) for x in pair]

    def _part(self, part: _Part) -> Any:
        if part.node in self.region.weak:
            return self.nodes.get(part.node, self.graph.nodes[part.node][1])
        if not part.inputs:  # a choice among numbers, which `where` gives a type
            number = of_numbers(part.graph, ())
            return np.asarray(number, type(number))[()]
        call = copy(self)
        call.graph = self.graph._replace(root=part.node, reduction=None)
        call.names = [self.names[i] for i in part.inputs]
        call.values = [self.values[i] for i in part.inputs]
        call.kinds, call.pairs = self.kinds.copy(), {}
        call.order, call.casting = "K", "same_kind"
        return call

    @staticmethod
    def _type_of_pair(parts: Iterable[Any]) -> Any:
        """A Python number takes the type of the other part."""
        kinds = [x.lower()[0].dtype if isinstance(x, _Call) else type(x) for x in parts]
        check_parts(*kinds)
        return np.result_type(
            np.complex64, *(kind(0) if isinstance(kind, type) else kind for kind in kinds)
        )

    def _make_pairs(self) -> None:
        """Computes the nodes `complex`, each once: a new array, with a pass for each part."""
        for k, parts in self.pairs.items():
            used = sorted({i for part in self.expression._pairs[k] for i in part.inputs})
            values = [self.values[i] for i in used]
            shape = broadcast_inputs([self.names[i] for i in used], values)
            place = _gpu_of(values)
            if place < 0:
                result = empty_like_all(values, shape, self.kinds[k])
            else:
                is_fortran = _choose_order("evaluate", "A", values) == "F"
                result = core.empty(shape, self.kinds[k], place, is_fortran)
            for part, half in zip(parts, (result.real, result.imag), strict=True):
                if not isinstance(part, _Call):
                    half[...] = part
                elif place != _gpu_of(part.values):
                    part.ordinal = -1
                    half[...] = part.run(None)  # without dimensions
                else:
                    part.run(half)
            self.nodes[k] = result

    @property
    def calls(self) -> list[_Call]:
        """This call, and those of the parts of its nodes `complex`."""
        parts = (part for pair in self.pairs.values() for part in pair)
        return [self, *(part for part in parts if isinstance(part, _Call))]

    def _key(self, out_dtype: Any) -> tuple[Any, ...]:
        kinds = (
            (k, type(x.number), x.number if type(x.number) is int else repr(x.number), x.dtype)
            if isinstance(x, Static)
            else (k, x)
            for k, x in self.kinds.items()
        )
        return (self.graph.root, out_dtype, *kinds)

    def lower(self, out_dtype: Any = None) -> tuple[Lowered, core.Program]:
        """Returns the program, which converts its result to `out_dtype` if that is given."""
        known = self.expression._programs
        key = self._key(out_dtype)
        found = known.get(key)
        if found is None:
            lowered = lower(self.graph, self.kinds, out_dtype)
            found = lowered, lowered.program(self.expression._caller)
            most = _MAX_PROGRAMS * (1 + 2 * len(self.expression._pairs))
            with _lock:
                while len(known) >= most:
                    del known[next(iter(known))]
                known[key] = found
        return found

    def with_values(self) -> None:
        """Makes the numbers part of the program: it depends on whether they fit their types."""
        self.has_values = True
        for k, x in self.nodes.items():
            if type(x) in WEAK:
                self.kinds[k] = Static(x)

    def sources(self, lowered: Lowered) -> tuple[Any, ...]:
        return tuple(self.nodes[node] for node, _ in lowered.sources)

    @property
    def shape(self) -> tuple[int, ...]:
        return broadcast_inputs(self.names, self.values)

    def run(self, target: Any) -> Any:
        self._make_pairs()
        try:
            return self._run(target)
        except core.OutOfRange:
            # An int is beyond its type: a comparison has an answer, anything else raises again.
            self.with_values()
            return self._run(target)

    def _run(self, target: Any) -> Any:
        if self.graph.reduction is not None:
            return self._reduce(target)
        lowered, program = self.lower()
        place = _gpu_of(self.values)
        if target is not None:
            name = self.expression._caller
            check_out(name, target, self.shape, lowered.dtype, place, self.casting)
            native = target.dtype.newbyteorder("=")
            if native != lowered.dtype:
                lowered, program = self.lower(native)
        inputs = self.sources(lowered)
        if place < 0 and not all(
            x.dtype.isnative for x in (*inputs, target) if isinstance(x, np.ndarray)
        ):
            return self._run_converting(lowered, program, inputs, target)
        if target is None:
            return self._run_to_new(program, inputs)
        if call_for_user(program.call, self.ordinal, self.order, target, inputs) is NotImplemented:
            store(target, self._run_to_new(program, inputs))  # of another shape
        return target

    def _run_to_new(self, program: core.Program, inputs: Any) -> Any:
        """Returns a new array; raises ValueError for shapes that do not broadcast."""
        result = call_for_user(program.call, self.ordinal, self.order, None, inputs)
        if result is NotImplemented:
            self.shape  # noqa: B018  tells which shapes do not broadcast
            raise ValueError("the shape of an operand changed during the computation")
        return result

    def _run_converting(
        self, lowered: Lowered, program: core.Program, inputs: Any, target: Any
    ) -> Any:
        """For arrays in the other byte order, which it converts piece by piece."""
        self.shape  # noqa: B018  tells which shapes do not broadcast
        try:
            arrays = [
                x if isinstance(x, np.ndarray) else call_for_user(np.asarray, x, dtype)
                for x, (_, dtype) in zip(inputs, lowered.sources, strict=True)
            ]
        except OverflowError as error:
            raise core.OutOfRange(str(error)) from None
        elementwise: Any = "overlap_assume_elementwise"
        op_flags = [["readonly", elementwise]] * len(arrays)
        options: Any = {
            "flags": ["external_loop", "buffered", "zerosize_ok", "copy_if_overlap"],
            "order": self.order,
            "casting": "equiv",
            "buffersize": _PIECE if self.ordinal < 0 else _GPU_PIECE,
        }
        dtypes = [dtype for _, dtype in lowered.sources]
        if lowered.may_refuse:
            # A negative exponent has to be found before any piece is written.
            with np.nditer(arrays, op_flags=op_flags, op_dtypes=dtypes, **options) as iterator:
                for parts in iterator if iterator.itersize else ():
                    with np.errstate(all="ignore"):
                        program.call(
                            self.ordinal, "C", None, parts if len(arrays) > 1 else (parts,)
                        )
        iterator = np.nditer(
            [target, *arrays],
            op_flags=[["writeonly", "allocate", "no_broadcast", elementwise], *op_flags],
            op_dtypes=[lowered.dtype, *dtypes],
            **options,
        )
        with iterator:
            result = iterator.operands[0]
            for out, *pieces in iterator if iterator.itersize else ():
                program.call(self.ordinal, "C", out, tuple(pieces))
        return result if target is not None or result.ndim else result[()]

    def _reduce(self, target: Any) -> Any:
        assert self.graph.reduction is not None
        name, axis, keepdims = self.graph.reduction
        lowered, program = self.lower(np.dtype(np.bool_) if name in TRUTHS else None)
        inputs = tuple(
            in_native_order(x) if isinstance(x, np.ndarray) else x for x in self.sources(lowered)
        )
        ordinal = self.ordinal if _gpu_of(self.values) >= 0 else -1
        values = _reductions.Values(program, inputs, self.shape, ordinal)
        device = None if ordinal >= 0 else device_name(self.ordinal)
        result = _reductions.reduce_slowly(name, values, axis, keepdims=keepdims, device=device)
        return finish(self.expression._caller, result, target, self.casting, exact=True)


# ---- Expressions ----


class _OfInstances:
    """A property of instances that the class itself lacks: `inspect.signature` asks both."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __get__(self, x: Any, kind: Any = None) -> Any:
        if x is None:
            raise AttributeError("only instances have this attribute")
        return self._function(x)


class Expression(core.ExpressionBase):
    """An expression over arrays that a call computes in one pass, without temporaries.

    ``text`` is Python's arithmetic: names, numbers, ``+ - * / // % ** & | ^ ~ << >>``, comparisons,
    ``where(condition, x, y)``, ``abs`` and the package's operations (``sqrt``, ``minimum``,
    ``divide``, ...); and outermost ``sum``, ``prod``, ``min``, ``max``, ``mean``, ``any``, ``all``
    or ``count_nonzero``, with ``axis=`` and ``keepdims=``.  Other texts raise SyntaxError, with the
    place; no text is ever run.

    A call takes the inputs by position, in the order in which they appear, or by name: NumPy arrays
    and anything that NumPy accepts as one, Arrays, foreign GPU arrays, and numbers.  The result has
    the type, shape and bits that the operations give one after the other, on every device.  Python
    computes the parts that consist only of Python numbers: exactly, with its errors.

    >>> import numpy as np
    >>> e = Expression("(a - b) / (a + b)")
    >>> e.inputs
    ('a', 'b')
    >>> e(np.array([3.0, 1.0]), 1)
    array([0.5, 0. ])
    >>> e(b=1, a=3)
    0.5

    Further arguments of a call, by name only: ``out``, an array for the result, to whose type it
    must cast by the rule ``casting`` (see `numpy.can_cast`), or one of h5py or Zarr, which is
    computed and written in pieces; ``order`` of a new result, "C", "F", "A" or "K"; ``device`` for
    host arrays.

    Its ``__name__`` is "expression", or that of the fused function.  Many threads may call it.
    """

    __slots__ = (
        *("__name__", "__qualname__", "__weakref__"),
        *("_graph", "_is_traced", "_pairs", "_programs", "_regions", "_text"),
    )

    @in_default_mode
    def __init__(self, text: str) -> None:
        if hasattr(self, "_graph"):
            raise TypeError("an Expression is immutable: make a new one")
        if not isinstance(text, str):
            raise TypeError(f"an expression is a str, not {type(text).__name__}")
        self._set(text.strip(), parse(text), False)

    def _set(self, text: str, graph: Graph, is_traced: bool, name: str = "expression") -> None:
        # Dask and xarray build names of tasks from it, and split it where it is not an identifier.
        self.__name__ = self.__qualname__ = name if name.isidentifier() else "expression"
        self._text = text
        self._graph = graph
        self._pairs = {
            k: [_Part.of(graph, j) for j in operands(node)]
            for k, node in enumerate(graph.nodes)
            if node[0] == "complex"
        }
        self._is_traced = is_traced
        self._programs: dict[Any, tuple[Lowered, core.Program]] = {}
        self._regions: dict[tuple[bool, ...], _Region] = {}

    @property
    def text(self) -> str:
        """The text of the expression."""
        return self._text

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the text; of a fused function its arguments."""
        return self._graph.inputs

    @property
    def _caller(self) -> str:
        return "evaluate" if self.__name__ == "expression" else self.__name__

    def _region(self, is_weak: tuple[bool, ...]) -> _Region:
        region = self._regions.get(is_weak)
        if region is None:
            region = _Region(self._graph, is_weak)
            with _lock:
                if len(self._regions) >= _MAX_PROGRAMS:
                    self._regions.clear()
                self._regions[is_weak] = region
        return region

    def _bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = self.inputs
        if not named and len(args) == len(names):
            return list(args)
        unknown = [name for name in named if name not in names[len(args) :]]
        missing = [name for name in names[len(args) :] if name not in named]
        if len(args) > len(names) or unknown or missing:
            wanted = ", ".join(names) or "none"
            problem = (
                f"{len(args)} were given by position"
                if len(args) > len(names)
                else f"{', '.join(map(repr, unknown))} is none of them, or given twice"
                if unknown
                else f"{', '.join(map(repr, missing))} is missing"
            )
            raise TypeError(f"the inputs of the expression are {wanted}: {problem}")
        return [*args, *(named[name] for name in names[len(args) :])]

    def _call(self, /, *args: Any, **named: Any) -> Any:
        """Computes a call that `core.ExpressionBase` leaves."""
        # A name belongs to an input unless that input is given by position.
        open_names = self.inputs[len(args) :]
        given = {name: named.pop(name) for name in named.keys() & OPTIONS.keys() - {*open_names}}
        inputs = self._bind(args, named)
        try:
            return self._compute(inputs, **{**OPTIONS, **given})
        except TypeError:
            stand_in: Any = next((x for x in inputs if hasattr(type(x), "_replay")), None)
            if stand_in is None:
                raise
        # The call is part of a function that is being fused.
        odd = [name for name, x in given.items() if repr(x) != repr(OPTIONS[name])]
        if odd:
            raise TypeError(f"{self._caller}() takes no {', '.join(odd)} in a fused function")
        return stand_in._replay(self._graph, inputs)

    def _compute(
        self, inputs: Sequence[Any], out: Any, order: str, casting: str, device: str | None
    ) -> Any:
        name = self._caller
        out = unwrap_out(name, out)
        if is_dataset(out):
            compute = partial(self._compute, order=order, casting=casting, device=device)
            return self._fill(inputs, out, compute)
        values = list(map(take, self.inputs, inputs))
        ordinal = find_place(name, values, device)
        order = _choose_order(name, order, values)
        _check_casting(name, casting)
        target = None if out is None else _open_out(name, out)
        if self._is_of_numbers(values):
            result = self._of_numbers(values, ordinal, target, casting)
        else:
            call = _Call(self, values, ordinal, order, casting)
            result = call.run(target)
            self._note(call, inputs)
        return result if out is None else out

    def _is_of_numbers(self, values: Sequence[Any]) -> bool:
        nodes = self._graph.nodes
        return all(map(is_number, values)) and not any(node[0] == "value" for node in nodes)

    def _of_numbers(self, values: Sequence[Any], ordinal: int, target: Any, casting: Any) -> Any:
        """Computes with Python numbers alone, as Python does, but reduces in NumPy's type."""
        if ordinal >= 0:
            core.check_device(ordinal)
        result = of_numbers(self._graph, values)
        reduction = self._graph.reduction
        if reduction is None and target is None:
            return result
        typed = np.asarray(result, type(result))  # or OverflowError
        if reduction is not None:
            name, axis, keepdims = reduction
            typed = _reductions.reduce_slowly(name, typed, axis, keepdims=keepdims)
        return finish(self._caller, typed, target, casting, exact=reduction is not None)

    def _fill(self, inputs: Sequence[Any], out: Any, compute: Callable[..., Any]) -> Any:
        if self._graph.reduction is None:
            values = self._take(inputs)
            calls = self._calls_like(values)
            shape = broadcast_inputs(self.inputs, values)
            may_refuse = any(call.lower()[0].may_refuse for call in calls)
            fill(self._caller, out, values, shape, compute, may_refuse)
        else:
            target = np.empty(out.shape, check_dtype(self._caller, np.dtype(out.dtype)))
            compute(inputs, target)
            out[...] = target
        return out

    def _take(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns the inputs as `take` does; those in files stay there."""
        return [
            x if is_dataset(x) else take(name, x)
            for name, x in zip(self.inputs, inputs, strict=True)
        ]

    def _calls_like(self, values: Sequence[Any]) -> list[_Call]:
        """Returns the calls with arrays like these and with these numbers."""
        if self._is_of_numbers(values):
            return []
        samples = [x if np.ndim(x) == 0 else np.ones(1, x.dtype) for x in values]
        return _Call(self, list(map(take, self.inputs, samples))).calls

    def _check(self, inputs: Sequence[Any]) -> None:
        """Raises the errors of a call that do not depend on elements; computes numbers alone."""
        values = self._take(inputs)
        find_place(self._caller, values)
        if self._is_of_numbers(values):
            result = self._of_numbers(values, -1, None, "safe")
            np.asarray(result, type(result) if is_number(result) else None)  # or OverflowError
        for call in self._calls_like(values):
            call.with_values()
            call.lower()

    def _note(self, call: _Call, inputs: Sequence[Any]) -> None:
        graph, region = self._graph, call.region
        if self._pairs or region.exponents or call.has_values:
            return
        name, axis, keepdims = graph.reduction or ("", None, False)
        lowered, program = call.lower(np.dtype(np.bool_) if name in TRUTHS else None)
        kinds = {
            k: bool if isinstance(x, np.bool_) else type(x)
            for k, x in call.nodes.items()
            if k in region.inside
        }
        used = [k for k, _ in lowered.sources]
        sources: Any = tuple(graph.nodes[k][1] for k in used)
        if kinds:
            sources = partial(region.sources, graph, kinds, used)
        number = REDUCTIONS.get(name, getattr(core, name.upper(), -1))
        self._remember(self.inputs, tuple(inputs), sources, program, number, axis, keepdims)

    # ---- About it ----

    def _samples(self, dtypes: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Returns inputs of types alone; int, float, ... stand for Python numbers."""
        samples = [
            kind(1)
            if isinstance(kind, type) and kind in (bool, *WEAK)  # a dtype may be equal to one
            else np.ones(1, np.dtype(kind).newbyteorder("="))
            for kind in self._bind(dtypes, named)
        ]
        return list(map(take, self.inputs, samples))

    def dtype_for(self, /, *dtypes: Any, **named: Any) -> np.dtype[Any]:
        """Returns the type of the result for types of the inputs, by position or name.

        `bool`, `int`, `float` and `complex` stand for Python numbers; ``2 ** n`` is then an int.

        >>> import numpy as np
        >>> Expression("a / b").dtype_for(np.int32, b=np.float32)
        dtype('float64')
        """
        samples = self._samples(dtypes, named)
        if self._is_of_numbers(samples):
            dtype: np.dtype[Any] = np.dtype(type(of_numbers(self._graph, samples, on_samples)))
        else:
            dtype = _Call(self, samples, are_samples=True).lower()[0].dtype
        reduction = self._graph.reduction
        return dtype if reduction is None else reduction_type(reduction.name, dtype)

    def disassemble(self, /, *dtypes: Any, **named: Any) -> str:
        """Returns the program for types of the inputs, one step on a line; see `dtype_for`.

        >>> print(Expression("a * b + 1").disassemble("float32", "int16"))
        a: float32
        b: int16
        %0 = multiply float32 a, b
        %1 = add float32 %0, 1.0
        -> float32
        """
        samples = self._samples(dtypes, named)
        if self._is_of_numbers(samples):
            samples = [np.asarray(x)[()] for x in samples]  # NumPy's types for Python's numbers
        lowered, _ = _Call(self, samples, are_samples=True).lower()
        text = describe(self._graph, lowered)
        reduction = self._graph.reduction
        if reduction is None:
            return text
        axis = "" if reduction.axis is None else f", axis={reduction.axis}"
        dtype = reduction_type(reduction.name, lowered.dtype)
        return f"{text}\n{reduction.name}{axis}\n-> {dtype}"

    @_OfInstances
    def __signature__(self) -> inspect.Signature:
        parameters = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.inputs
        ]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in OPTIONS.items()
            if name not in self.inputs
        ]
        return inspect.Signature(parameters)

    def __repr__(self) -> str:
        return f"Expression({self._text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self._graph.key() == other._graph.key()

    def __hash__(self) -> int:
        return hash(self._graph.key())

    def __reduce__(self) -> Any:
        if self._is_traced:
            return of_graph, (self._graph, self.__name__)
        return Expression, (self._text,)


def named(name: str, text: str) -> Expression:
    """Returns the expression of a text, whose errors name the function `name`."""
    expression = Expression.__new__(Expression)
    expression._set(text, parse(text), False, name)
    return expression


#: Returns what computes the power of an Array; an int and an equal float are two exponents.
core.slow_paths["raised"] = lru_cache(maxsize=None, typed=True)(
    lambda exponent: named("power", f"x ** {exponent!r}")
)


def of_graph(graph: Graph, name: str = "expression") -> Expression:
    expression = Expression.__new__(Expression)
    expression._set(text_of(graph), graph, True, name)
    return expression


# ---- evaluate ----


#: Returns the expression of a text; caches the last ones.
of_text: Callable[[str], Expression] = lru_cache(maxsize=256)(Expression)


@overload
def evaluate(
    expr: str | Expression,
    local_dict: Any = ...,
    global_dict: Mapping[str, Any] | None = ...,
    *,
    out: _Out,
    order: str = ...,
    casting: str = ...,
    device: str | None = ...,
) -> _Out: ...
@overload
def evaluate(
    expr: str | Expression,
    local_dict: Any = ...,
    global_dict: Mapping[str, Any] | None = ...,
    out: Any = ...,
    order: str = ...,
    casting: str = ...,
    device: str | None = ...,
) -> Any: ...
def evaluate(
    expr: str | Expression,
    local_dict: Any = None,
    global_dict: Mapping[str, Any] | None = None,
    out: Any = None,
    order: str = "K",
    casting: str = "safe",
    device: str | None = None,
) -> Any:
    """Computes an expression over arrays in one pass; see `Expression`.

    Looks names up in `local_dict` and `global_dict`, or in the caller's local and global variables.
    `local_dict` may be a table, such as a pandas DataFrame, an xarray Dataset, a structured array
    or a group of HDF5 or Zarr: an expression computes with the elements of its columns.
    Raises SyntaxError if the text is not an expression, NameError for an unknown name.  Parsed
    expressions are cached.

    >>> import numpy as np
    >>> a, b = np.arange(3.0), np.array([2.0, 3.0, 4.0])
    >>> evaluate("(a * b + 1) / 2")
    array([0.5, 2. , 4.5])
    >>> evaluate("sum(a * b)")
    np.float64(11.0)
    """
    if isinstance(expr, Expression):
        expression = expr
    elif isinstance(expr, str):
        expression = of_text(expr)
    else:
        raise TypeError(f"an expression is a str or an Expression, not {type(expr).__name__}")
    values = look_up(expression.inputs, local_dict, global_dict, 1)
    if order == "K" and device is None and casting == "safe":
        return expression(*values) if out is None else expression(*values, out=out)
    return expression(*values, out=out, order=order, casting=casting, device=device)
