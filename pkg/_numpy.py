"""NumPy's functions on `Array`s, for ``Array.__array_function__``."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _creation, _elementwise, _manipulation, _namespace, _reductions, core
from ._array import NUMPY_FUNCTIONS, Array
from ._convert import array_of_number, check_cast
from ._operands import is_scalar, limits_of, normalize_axes

# ---- Functions with arguments of their own ----


def _copyto(dst: Any, src: Any, casting: str = "same_kind") -> None:
    if not isinstance(dst, Array):
        raise TypeError("copyto(): the source is on a GPU: use pkg.asnumpy(x, out=dst)")
    src = core.as_array(src)
    if isinstance(src, Array):
        check_cast("copyto", src.dtype, dst.dtype, casting)
    elif is_scalar(src) and casting != "unsafe":  # NumPy decides which numbers are weak
        np.copyto(np.empty(0, dst.dtype), src, casting=casting)  # type: ignore[arg-type]
    dst[...] = array_of_number(src, dst.dtype)


def _clip(
    a: Any,
    a_min: Any = np._NoValue,
    a_max: Any = np._NoValue,
    out: Any = None,
    *,
    min: Any = np._NoValue,
    max: Any = np._NoValue,
) -> Any:
    limits = {"a_min": a_min, "a_max": a_max, "min": min, "max": max}
    given = {name: x for name, x in limits.items() if x is not np._NoValue}
    return _elementwise.clip(a, *limits_of(given), out)


def _size(a: Any, axis: Any = None) -> int:
    axes = range(a.ndim) if axis is None else normalize_axes("size", axis, a.ndim)
    return math.prod(a.shape[d] for d in axes)


def _share(a: Any, b: Any, max_work: Any = None) -> bool:
    return isinstance(a, Array) and isinstance(b, Array) and core.shares_memory(a, b)


def _written(write: Callable[[Any], str]) -> Callable[..., str]:

    def call(
        a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None
    ) -> str:
        with np.printoptions(
            linewidth=max_line_width, precision=precision, suppress=suppress_small
        ):
            return write(a)

    return call


def _of_the_same_name(module: Any, names: str) -> dict[Any, Callable[..., Any]]:
    return {getattr(np, name): getattr(module, name) for name in names.split()}


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **_of_the_same_name(_reductions, "sum prod min max mean any all count_nonzero dot trace"),
    **_of_the_same_name(_manipulation, "concatenate stack where reshape transpose squeeze flip"),
    **_of_the_same_name(_manipulation, "matrix_transpose moveaxis expand_dims broadcast_to"),
    **_of_the_same_name(_creation, "empty_like zeros_like ones_like full_like"),
    np.amin: _reductions.min,
    np.amax: _reductions.max,
    np.clip: _clip,
    np.round: _elementwise.round,
    np.around: _elementwise.round,
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
    np.ravel: lambda a: a.ravel(),
    np.copy: lambda a, order="K": a.copy(order),
    np.copyto: _copyto,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: _size,
    np.may_share_memory: _share,
    np.can_cast: lambda from_, to, casting="safe": np.can_cast(from_.dtype, to, casting),
    np.array_repr: _written(repr),
    np.array_str: _written(str),
}


# ---- NumPy's arguments ----

#: Arguments that Arrays ignore, whatever their values.
_MEANINGLESS = frozenset({"subok", "max_work"})

#: Arguments of functions without a signature before NumPy 2.4, if they differ from ours.
_ARGUMENTS: dict[Any, Callable[..., Any]] = {
    np.concatenate: lambda arrays, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    np.copyto: lambda dst, src, casting="same_kind", where=True: None,
    np.empty_like: lambda a, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
}


class _Binding(NamedTuple):
    leading: tuple[str, ...]  # passed on unchanged, by position
    names: tuple[str, ...]  # of arguments that may be positional
    defaults: dict[str, Any]
    ours: frozenset[str]


@functools.cache
def _bind(function: Any, ours: Callable[..., Any]) -> _Binding:
    try:
        signature = inspect.signature(function)
    except ValueError:
        signature = inspect.signature(_ARGUMENTS.get(function, ours))
    given = signature.parameters.values()
    by_position = [x for x in given if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    is_leading = [x.kind == x.POSITIONAL_ONLY or x.default is x.empty for x in by_position]
    leading = [x.name for x, leads in zip(by_position, is_leading, strict=True) if leads]
    taken = inspect.signature(ours).parameters.values()
    return _Binding(
        tuple(leading),
        tuple(x.name for x in by_position),
        {x.name: x.default for x in given},
        frozenset(x.name for x in taken if x.kind != x.POSITIONAL_ONLY),
    )


def _equals(x: Any, default: Any, name: str) -> bool:
    if name == "where":
        return x is True or x is np.True_
    return isinstance(default, int | str) and np.isscalar(x) and bool(x == default)


def _with_numpys_arguments(function: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `ours` take NumPy's arguments, and passes on all but its defaults."""

    def call(*args: Any, **kwargs: Any) -> Any:
        leading, names, defaults, known = _bind(function, ours)
        if not kwargs and len(args) <= len(leading):
            return ours(*args)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        first = [given.pop(name) for name in leading if name in given]
        rest, refused = {}, []
        for name, x in given.items():
            default = defaults.get(name, call)
            if x is default or name in _MEANINGLESS:
                continue
            if name in known:
                rest[name] = x
            elif not _equals(x, default, name):
                refused.append(name)
        if refused:
            raise TypeError(
                f"numpy.{function.__name__}(): {', '.join(refused)} must have its default with "
                "arrays on a GPU"
            )
        return ours(*first, **rest)

    return call


if hasattr(np, "astype"):  # since NumPy 2.1
    _FUNCTIONS[np.astype] = _creation.astype
NUMPY_FUNCTIONS[np.result_type] = _namespace.result_type
for _function, _ours in _FUNCTIONS.items():
    NUMPY_FUNCTIONS[_function] = _with_numpys_arguments(_function, _ours)
