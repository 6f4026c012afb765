"""`fuse`: makes an Expression of a Python function by calling it once with stand-ins.

A stand-in records the operations on it; it knows no types or shapes.  Whatever needs a value
(``if x > 0``, ``x[0]``, ``len(x)``) raises TypeError.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from .. import core
from .._call import normalize
from .._devices import default_device
from .._operands import axis_or_axes, limits_of
from .._table import OPERATIONS, REDUCTION_OF, UFUNCS
from .expression import OPTIONS, of_graph
from .graph import REDUCTIONS, Builder, Graph, Reduction

_F = TypeVar("_F", bound=Callable[..., Any])

#: NumPy's functions that are not ufuncs, and their counterparts here.
_FUNCTIONS: dict[Any, str] = {
    np.clip: "clip",
    np.round: "round",
    np.around: "round",
    np.ones_like: "ones_like",
    np.real: "real",
    np.imag: "imag",
    **{getattr(np, name): name for name in REDUCTIONS},
    np.amin: "min",
    np.amax: "max",
}


def _refusal(what: str, advice: str = "") -> Callable[..., Any]:
    def refuse(self: Traced, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{what} while a function is fused: its inputs have no values then"
            + (f"; {advice}" if advice else "")
        )

    return refuse


def _operator(function: str) -> Callable[[Traced, Any], Any]:
    return lambda self, other: _apply(function, (self, other))


def _operators(function: str) -> tuple[Callable[[Traced, Any], Any], Callable[[Traced, Any], Any]]:
    """Returns an operator, and the one with its operands reflected."""
    return _operator(function), lambda self, other: _apply(function, (other, self))


def _unary(function: str) -> Callable[[Traced], Any]:
    return lambda self: _apply(function, (self,))


def _sum(name: str) -> Callable[..., Traced]:

    def reduce(
        self: Traced, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> Traced:
        return self._reduce(name, axis, keepdims, dtype=dtype, out=out)

    reduce.__qualname__ = f"Traced.{name}"
    return reduce


def _choice(name: str) -> Callable[..., Traced]:

    def reduce(self: Traced, axis: Any = None, out: Any = None, keepdims: Any = False) -> Traced:
        return self._reduce(name, axis, keepdims, out=out)

    reduce.__qualname__ = f"Traced.{name}"
    return reduce


class Traced:
    """Stands for an input, or for a value computed from inputs, while a function is traced."""

    __slots__ = ("_builder", "_node", "_reduction")

    def __init__(self, builder: Builder, node: int, reduction: Reduction | None = None) -> None:
        self._builder = builder
        self._node = node
        self._reduction = reduction

    def __repr__(self) -> str:
        return "<a value of a function that is being fused>"

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __truediv__, __rtruediv__ = _operators("true_divide")
    __floordiv__, __rfloordiv__ = _operators("floor_divide")
    __mod__, __rmod__ = _operators("remainder")
    _, __rpow__ = _operators("raised")
    __and__, __rand__ = _operators("bitwise_and")
    __or__, __ror__ = _operators("bitwise_or")
    __xor__, __rxor__ = _operators("bitwise_xor")
    __lshift__, __rlshift__ = _operators("left_shift")
    __rshift__, __rrshift__ = _operators("right_shift")
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")
    __pos__, __neg__ = _unary("positive"), _unary("negative")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    __hash__ = None  # type: ignore[assignment]

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            raise TypeError("pow() with three arguments cannot be fused: use x ** y % z")
        return _apply("raised", (self, exponent))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the attribute {name!r} is not known while a function is fused: its inputs have no "
            "values then"
        )

    @property
    def real(self) -> Any:
        return _apply("real", (self,))

    @property
    def imag(self) -> Any:
        return _apply("imag", (self,))

    __bool__ = _refusal(
        "a condition cannot be tested",
        "use where(condition, x, y), and minimum(a, b) and maximum(a, b) for min() and max()",
    )
    __len__ = _refusal("len() is not known")
    __iter__ = _refusal("there is nothing to iterate over", "pkg.sum(x) and x.sum() are sums")
    __getitem__ = _refusal("indexing is not possible")
    __setitem__ = _refusal("assignment to elements is not possible")
    __int__ = __float__ = __complex__ = __index__ = _refusal("there is no number")
    __array__ = _refusal("this function of arrays is not possible")
    __round__ = _refusal("Python's round() is not possible", "use pkg.round(x)")
    __matmul__ = __rmatmul__ = _refusal("the operator @ is not possible")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        reduction = REDUCTION_OF.get(UFUNCS.get(ufunc, ""))
        if method == "reduce" and reduction in REDUCTIONS:
            return self._reduce(reduction, **{"axis": 0, **kwargs})
        if method != "__call__" or ufunc not in UFUNCS:
            name, gpu, _ = ufunc.__name__.partition("_cuda")
            _refuse_options(name, ["device"] if gpu else [])  # a ufunc of one GPU
            what = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise TypeError(f"the function {what} cannot be fused")
        name = UFUNCS[ufunc]
        inputs, options = normalize(OPERATIONS[name], inputs, kwargs)
        _refuse_options(ufunc.__name__, options)
        return _apply(name, inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3:
            return _apply("where", args)
        name = _FUNCTIONS.get(function)
        if name is None:
            raise TypeError(f"the function {function.__name__} cannot be fused")
        signature = inspect.signature(function)
        given = {
            key: x
            for key, x in signature.bind(*args, **kwargs).arguments.items()
            if x is not signature.parameters[key].default
        }
        x = given.pop(next(iter(given)))
        if name in REDUCTIONS and isinstance(x, Traced):
            return x._reduce(name, **given)
        if name == "round" and operator.index(given.get("decimals", 1)) == 0:
            del given["decimals"]
        limits = {}
        if name == "clip":
            bounds = zip(("maximum", "minimum"), limits_of(given), strict=True)
            limits = {limit: bound for limit, bound in bounds if bound is not None}
        _refuse_options(name, given)
        if name != "clip" or len(limits) == 2:
            return _apply(name, (x, *limits.values()))
        for limit, bound in limits.items():
            x = _apply(limit, (x, bound))
        return x

    def _reduce(self, name: str, axis: Any = None, keepdims: Any = False, **options: Any) -> Traced:
        _refuse_options(name, [key for key, x in options.items() if x is not None])
        kept = bool(operator.index(keepdims))
        reduction = Reduction(name, axis_or_axes(name, axis), kept)
        return Traced(self._builder, _operand(self, self), reduction)

    def _replay(self, graph: Graph, inputs: Any) -> Traced:
        builder, nodes = self._builder, list[int]()
        for kind, *parts in graph.nodes:
            if kind == "input":
                nodes.append(_operand(self, inputs[parts[0]]))
            elif kind in ("number", "value"):
                nodes.append(builder.number(parts[0]))
            else:
                nodes.append(builder.call(kind, *(nodes[k] for k in parts)))
        return Traced(builder, nodes[graph.root], graph.reduction)

    sum, prod, mean = _sum("sum"), _sum("prod"), _sum("mean")
    min, max = _choice("min"), _choice("max")
    any, all = _choice("any"), _choice("all")


def _refuse_options(name: str, options: Iterable[str]) -> None:
    given = ", ".join(options)
    if given:
        raise TypeError(f"{name}() takes no {given} in a fused function")


def _operand(of: Traced, x: Any) -> int:
    if isinstance(x, Traced):
        if x._builder is not of._builder:
            raise TypeError("a value of another function, which is being fused, was used")
        if x._reduction is not None:
            raise TypeError(
                f"{x._reduction.name}() can only be the result of a fused function, not an operand"
            )
        return x._node
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    is_number = isinstance(x, int | float | complex)
    if not is_number and not (isinstance(x, np.generic) and x.dtype.kind in "biufc"):
        raise TypeError(
            f"an operand is a {type(x).__name__}: arrays have to be arguments of a fused function"
        )
    return of._builder.number(x)


def _apply(function: str, operands: tuple[Any, ...]) -> Traced:
    of = next(x for x in operands if isinstance(x, Traced))
    return Traced(of._builder, of._builder.call(function, *(_operand(of, x) for x in operands)))


def fuse(function: _F) -> _F:
    """Makes a function of arrays compute in one pass, as an `Expression`; a decorator.

    `fuse` calls the function once with stand-ins for its arguments.  What it does with them becomes
    the expression, the attribute ``expression`` of the result.  The function may use operators, the
    package's operations, NumPy's functions of the same names, ``abs``, ``where``, loops, helper
    functions, Expressions and, for the result, the reductions of an Expression, but nothing that
    depends on values.  Calls take the arguments of the function, and those of an Expression.

    >>> import numpy as np
    >>> @fuse
    ... def ndvi(nir, red, scale=1):
    ...     return (nir - red) / (nir + red) * scale
    >>> ndvi(np.array([3.0, 1.0]), red=1.0)
    array([0.5, 0. ])
    >>> ndvi.expression
    Expression('((nir - red) / (nir + red)) * scale')
    """
    kind = type(function).__name__
    try:
        if isinstance(function, np.ufunc | core.Operation):  # its signature has all options
            raise TypeError
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(
            f"fuse(): function must be a Python function with a signature, not a {kind}"
        ) from None
    name_of_function = getattr(function, "__name__", kind)  # functools.partial has none
    builder = Builder()
    stand_ins: dict[str, Traced] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"a fused function has named arguments only, not *{name}")
        stand_ins[name] = Traced(builder, builder.input(name))
    stood: Any = stand_ins
    bound = inspect.BoundArguments(signature, stood)
    if core.parse_device(None) < 0:  # the CPU
        result = function(*bound.args, **bound.kwargs)
    else:
        with default_device("cpu"):  # for tracing: functions of a GPU take only arrays
            result = function(*bound.args, **bound.kwargs)
    if not isinstance(result, Traced) or result._builder is not builder:
        raise TypeError(
            f"{name_of_function}() returned a {type(result).__name__}, not a value computed from "
            "its arguments"
        )
    graph = builder.graph(result._node, result._reduction)
    expression = of_graph(graph, name_of_function)
    names = tuple(stand_ins)
    used = expression.inputs
    is_direct = used == names and not any(
        parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.parameters.values()
    )
    options = OPTIONS.keys() - set(names)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_direct and not kwargs and len(args) == len(names):
            return expression(*args)
        given = {name: kwargs.pop(name) for name in options & kwargs.keys()}
        arguments = signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        return expression(*(arguments.arguments[name] for name in used), **given)

    call.__dict__["expression"] = expression
    return call  # type: ignore[return-value]
