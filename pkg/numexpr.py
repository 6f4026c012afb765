"""numexpr's functions, computed by this package: ``import pkg.numexpr as ne``.

The arguments, the defaults and the errors are those of numexpr 2.14.  Types and values are
NumPy's, as in `pkg.evaluate`; docs/numexpr.md lists what differs.

>>> import numpy as np
>>> import pkg.numexpr as ne
>>> a, b = np.arange(3.0), np.array([2.0, 3.0, 4.0])
>>> ne.evaluate("2 * a + 3 * b")
array([ 6., 11., 16.])
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ._array import Array
from ._convert import convert
from ._devices import get_num_threads as get_num_threads
from ._devices import set_num_threads as set_num_threads
from ._operands import NUMBERS, is_number, type_number
from ._table import check_dtype, dtype_of
from .expressions.columns import look_up
from .expressions.expression import Expression, of_text, take

__all__ = [
    "NumExpr",
    "detect_number_of_cores",
    "evaluate",
    "get_num_threads",
    "re_evaluate",
    "set_num_threads",
    "use_vml",
    "validate",
]

#: Intel's VML is not used.
use_vml = False

#: numexpr's codes of element types.
_CODES = {
    **{"bool": "b", "int32": "i", "int64": "l"},
    **{"float32": "f", "float64": "d", "complex128": "c"},
}

#: A quoted string, and a number with its decimal point: no attributes.
_LITERAL = re.compile(
    r"'[^']*'|\"[^\"]*\"|(?<!\w)(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[+-]?\d+)?j?", re.I
)

_FORBIDDEN = re.compile(r"[;:\[]|(?<!\w)__\w+__(?!\w)|\.\s*(?!(real|imag)\b)\w")


@lru_cache(maxsize=256)
def _check_text(text: str) -> None:
    found = _FORBIDDEN.search(_LITERAL.sub(" ", text))
    if found:
        raise ValueError(
            f"{found[0]!r} in the expression {text!r}: ';', ':', '[', names such as "
            "__class__, and attributes other than .real and .imag are forbidden"
        )


def _expression(text: Any, sanitize: bool | None, optimization: str, truediv: Any) -> Expression:
    if not isinstance(text, str):
        raise ValueError(f"an expression is a str, not {type(text).__name__}")
    for name, value, allowed in (
        ("optimization", optimization, ("none", "moderate", "aggressive")),
        ("truediv", truediv, (False, True, "auto")),
    ):
        if value not in allowed:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
            )
    if sanitize is None:
        sanitize = os.environ.get("NUMEXPR_SANITIZE", "1") != "0"
    if sanitize:
        _check_text(text)
    return of_text(text)


class _Call(NamedTuple):
    """An expression and how it is computed, which `re_evaluate` repeats."""

    expression: Expression
    #: A weak reference, or None.
    out: weakref.ref[Any] | None
    #: None is the order "K".
    order: str | None
    casting: str

    @classmethod
    def of(cls, expression: Expression, out: Any, order: str | None, casting: str) -> _Call:
        try:
            kept = None if out is None else weakref.ref(out)
        except TypeError:  # a list, or another object that is not an array: the call says so
            kept = None
        return cls(expression, kept, order, casting)

    def find(self, local_dict: Any, global_dict: Mapping[str, Any] | None, depth: int) -> list[Any]:
        """Returns the values of the names; KeyError, as in numexpr, for one that is unknown."""
        try:
            return look_up(self.expression.inputs, local_dict, global_dict, depth + 1)
        except NameError as error:
            raise KeyError(error.name) from None

    def compute(
        self,
        local_dict: Any,
        global_dict: Mapping[str, Any] | None,
        depth: int,
        out: Any,
        is_last: bool = False,
    ) -> Any:
        """Returns the result as an array, 0-d for a number; `re_evaluate` repeats the last call."""
        values = self.find(local_dict, global_dict, depth + 1)
        if is_last:
            _last.set(self)
        if out is None and self.order == "K" and self.casting == "same_kind":
            result = self.expression(*values)
        else:
            order = "K" if self.order is None else self.order
            result = self.expression(*values, out=out, order=order, casting=self.casting)
        if isinstance(result, NUMBERS):
            return np.asarray(result, type(result))  # or OverflowError
        return np.asarray(result) if isinstance(result, np.generic) else result


#: The call that `re_evaluate` repeats.
_last: ContextVar[_Call | None] = ContextVar("pkg.numexpr", default=None)


# ---- numexpr's functions ----


def evaluate(
    ex: str,
    local_dict: Any = None,
    global_dict: Mapping[str, Any] | None = None,
    out: Any = None,
    order: str | None = "K",
    casting: str = "same_kind",
    sanitize: bool | None = None,
    _frame_depth: int = 3,
    disable_cache: bool = False,
    *,
    optimization: str = "aggressive",
    truediv: bool | str = "auto",
) -> Any:
    """Computes an expression over arrays, as numexpr's `evaluate`; see `pkg.evaluate`.

    Returns an array, 0-d for a single number.  Raises KeyError for an unknown name, and
    ValueError for what `sanitize` refuses (``; : [``, ``__names__``, attributes other than
    ``.real`` and ``.imag``), unless it is False, or None while NUMEXPR_SANITIZE is 0; then such a
    text raises SyntaxError, and no text is ever run.  `optimization` and `truediv` change nothing:
    the bits are those of the single operations, and ``/`` is the true division.  With
    `disable_cache` the next `re_evaluate` computes the expression before this one.
    """
    call = _Call.of(_expression(ex, sanitize, optimization, truediv), out, order, casting)
    return call.compute(local_dict, global_dict, _frame_depth - 2, out, not disable_cache)


def validate(
    ex: str,
    local_dict: Any = None,
    global_dict: Mapping[str, Any] | None = None,
    out: Any = None,
    order: str | None = "K",
    casting: str = "safe",
    _frame_depth: int = 2,
    sanitize: bool | None = None,
    *,
    optimization: str = "aggressive",
    truediv: bool | str = "auto",
) -> Exception | None:
    """Returns the exception that a text, its names or their types raise, or None.

    Computes only the parts that consist of Python numbers.  After None, `re_evaluate` computes the
    expression.

    >>> import pkg.numexpr as ne
    >>> ne.validate("2 * a", {"a": 1.5}), ne.validate("2 * b", {"a": 1.5})
    (None, KeyError('b'))
    """
    try:
        call = _Call.of(_expression(ex, sanitize, optimization, truediv), out, order, casting)
        call.expression._check(call.find(local_dict, global_dict, _frame_depth - 1))
        _last.set(call)
    except Exception as error:
        return error
    return None


def re_evaluate(
    local_dict: Any = None, global_dict: Mapping[str, Any] | None = None, _frame_depth: int = 2
) -> Any:
    """Computes the last expression of `evaluate` or `validate` again, with their arguments.

    It is the last one of this thread or asynchronous task.  Its `out` is used if it still exists.
    """
    last = _last.get()
    if last is None:
        raise RuntimeError("no expression yet: call evaluate() or validate() before re_evaluate()")
    out = None if last.out is None else last.out()
    return last.compute(local_dict, global_dict, _frame_depth - 1, out)


class NumExpr:
    """An expression with the types of its inputs, which a call takes by position.

    `signature` has (name, type) for each input, in the order of the arguments.  As in numexpr,
    `float` stands for float32, an input that it lacks is float64, and without a signature the
    inputs are in alphabetical order.  A call converts its arguments to these types by `casting`.

    >>> import numpy as np
    >>> import pkg.numexpr as ne
    >>> f = ne.NumExpr("2 * b + a", [("a", np.float64), ("b", np.float64)])
    >>> f(np.arange(3), 10)
    array([20., 21., 22.])
    """

    def __init__(
        self,
        ex: str,
        signature: Iterable[tuple[str, Any]] = (),
        sanitize: bool = True,
        *,
        optimization: str = "aggressive",
        truediv: bool | str = "auto",
    ) -> None:
        self._expression = _expression(ex, sanitize, optimization, truediv)
        types = [
            (name, check_dtype("NumExpr", dtype_of("NumExpr", np.float32 if x is float else x)))
            for name, x in signature
        ]
        names = sorted(self._expression.inputs)
        if types and sorted(name for name, _ in types) != names:
            raise ValueError(
                f"the signature has the inputs {', '.join(name for name, _ in types)}, and the "
                f"expression {', '.join(names) or 'none'}"
            )
        self._types = dict(types) or dict.fromkeys(names, np.dtype(np.float64))
        #: The names of the inputs, in the order of the arguments.
        self.input_names = tuple(self._types)
        #: numexpr's codes of their types; "n" for a type that numexpr lacks.
        self.signature = "".join(_CODES.get(x.name, "n") for x in self._types.values()).encode()
        nodes = self._expression._graph.nodes
        #: The numbers of the expression.
        self.constants = tuple(node[1] for node in nodes if node[0] in ("number", "value"))

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        order: str | None = "K",
        casting: str = "safe",
        ex_uses_vml: bool = False,
    ) -> Any:
        """Computes the expression; `ex_uses_vml` changes nothing."""
        if len(args) != len(self._types):
            wanted = ", ".join(self.input_names) or "none"
            raise ValueError(f"the inputs are {wanted}: {len(args)} were given")
        values = {
            name: _as_type(name, x, dtype, casting)
            for x, (name, dtype) in zip(args, self._types.items(), strict=True)
        }
        return _Call(self._expression, None, order, casting).compute(values, {}, 0, out)

    run = __call__

    def __repr__(self) -> str:
        types = ", ".join(f"({name!r}, {x.name!r})" for name, x in self._types.items())
        return f"NumExpr({self._expression.text!r}, [{types}])"


def _as_type(name: str, x: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    x = type_number(take(name, x))
    if not isinstance(x, Array):
        x = np.asarray(x, type(x) if is_number(x) else None)  # or OverflowError
    if x.dtype == dtype:
        return x
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(
            f"the input {name!r} is of {x.dtype}, which casting {casting!r} does not convert to "
            f"{dtype}"
        )
    return convert(x, dtype)


def detect_number_of_cores() -> int:
    """Returns the number of processors of this machine."""
    return os.cpu_count() or 1
