"""Looks names up in variables, dicts, and tables such as a DataFrame or a group of HDF5.

The columns of a table share its labels, so an expression needs only their elements.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np

from .. import core
from .._operands import has_own_rules

#: Objects with items that have no names.
_UNNAMED = (Sequence, Set, np.ndarray)

#: The references to a frame's copy of its variables while only the frame and `look_up` have it.
_OF_FRAME = 3

_OF_FUNCTION = inspect.CO_OPTIMIZED


def _library(x: Any) -> str:
    return type(x).__module__.split(".")[0]


def _keys(what: str, mapping: Any) -> Container[str]:
    kind = type(mapping)
    if isinstance(mapping, np.ndarray) and mapping.dtype.names is not None:
        return frozenset(mapping.dtype.names)
    if hasattr(kind, "__getitem__") and not isinstance(mapping, _UNNAMED):
        if hasattr(kind, "__contains__"):
            keys: Container[str] = mapping
            return keys
        if callable(getattr(mapping, "keys", None)):
            return set(mapping.keys())
    raise TypeError(f"{what} is a mapping of names to values, not {kind.__name__}")


def _column(table: Any, name: str) -> Any:
    """Returns a value of a mapping: the elements of a table's column, which shares its labels."""
    x = table[name]
    if not has_own_rules(x) or _library(x) != _library(table) or not hasattr(x, "to_numpy"):
        return x
    if type(x) is type(table):
        raise TypeError(f"several columns of the {type(table).__name__} have the name {name!r}")
    graph = getattr(x, "__dask_graph__", None)
    if graph is not None and graph() is not None:
        return x
    data = x.data if _library(x) == "xarray" else None
    return data if isinstance(data, np.ndarray | core.ArrayBase) else x.to_numpy()


def _check_dimensions(dimensions: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises ValueError unless NumPy broadcasts variables with these dimensions by their names."""
    longest = max(dimensions, key=lambda name: len(dimensions[name]), default="")
    for name, dims in dimensions.items():
        whole = dimensions[longest]
        if dims != whole[len(whole) - len(dims) :]:
            raise ValueError(
                f"the variable {longest!r} has the dimensions {whole} and {name!r} has {dims}: "
                "they broadcast by position, so transpose them to one order"
            )


def values_of(what: str, mapping: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns the values of the names that a mapping has."""
    keys = _keys(what, mapping)
    if hasattr(mapping, "dims"):
        _check_dimensions({name: mapping[name].dims for name in names if name in keys})
    values = {}
    for name in names:
        if name in keys:
            values[name] = _column(mapping, name)
        elif hasattr(type(mapping), "__missing__"):  # a default, as of a defaultdict
            with suppress(KeyError):
                values[name] = mapping[name]
    return values


def look_up(
    names: Sequence[str], local_dict: Any, global_dict: Mapping[str, Any] | None, depth: int
) -> list[Any]:
    """Returns the values of names, for None from the frame `depth` calls above the caller.

    Without such a frame, as in a thread that runs no function of Python, there are no variables.
    Raises NameError for an unknown name.
    """
    frame, hint = None, ""
    if local_dict is None or global_dict is None:
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            hint = ", and no function of Python is the caller: give local_dict"
        if global_dict is None:
            global_dict = frame.f_globals if frame is not None else {}
        if local_dict is None:
            local_dict = frame.f_locals if frame is not None else {}
        else:
            frame = None
    if type(local_dict) is not dict or type(global_dict) is not dict:
        local_dict, global_dict = (
            x if type(x) is dict else values_of(what, x, names)
            for what, x in (("local_dict", local_dict), ("global_dict", global_dict))
        )
    values = []
    for name in names:
        if name in local_dict:
            values.append(local_dict[name])
        elif name in global_dict:
            values.append(global_dict[name])
        else:
            raise NameError(f"name {name!r} of the expression is not defined{hint}", name=name)
    if (
        frame is not None
        and type(local_dict) is dict
        and frame.f_code.co_flags & _OF_FUNCTION
        and sys.getrefcount(local_dict) <= _OF_FRAME
    ):
        local_dict.clear()  # until Python 3.12 the frame keeps this copy of its variables
    return values
