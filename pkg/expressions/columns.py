"""Mappings of names to values: dicts, and tables such as a DataFrame, a Dataset or a group of HDF5.

The columns of one table share its labels, so an expression computes with their elements alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np

from .. import core
from .._operands import has_own_rules

#: Objects with items that have no names.
_UNNAMED = (Sequence, Set, np.ndarray)


def _library(x: Any) -> str:
    return type(x).__module__.split(".")[0]


def _keys(what: str, mapping: Any) -> Container[str]:
    """Returns what holds the names of a mapping; raises TypeError if it is none."""
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
    """Returns the values of those of the names that a mapping has; a table's columns are arrays.

    Raises TypeError for an object that is no mapping, and ValueError for columns whose dimensions
    have names that are not in one order.
    """
    keys = _keys(what, mapping)
    values = {}
    for name in names:
        if name in keys:
            values[name] = _column(mapping, name)
        elif hasattr(type(mapping), "__missing__"):  # a default, as of a defaultdict
            with suppress(KeyError):
                values[name] = mapping[name]
    if hasattr(mapping, "dims"):
        _check_dimensions({name: mapping[name].dims for name in values})
    return values
