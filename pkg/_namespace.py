"""The Python array API standard, with `pkg` as its namespace: versions, types, capabilities.

The package has a part of the standard; `__array_namespace_info__` describes that part.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from . import core
from ._operands import device_name, has_own_rules, refusal
from ._table import DTYPES

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

__array_api_version__ = _VERSIONS[-1]

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def namespace_of(api_version: str | None) -> ModuleType:
    """Returns the namespace for a version of the standard; raises ValueError if it is unknown."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"unknown version {api_version!r} of the array API; known are {', '.join(_VERSIONS)}"
        )
    return importlib.import_module(__package__)


def _letters(kind: Any) -> str:
    """Returns NumPy's letters for a kind of types; raises ValueError if it is unknown."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(
            f"unknown kind {kind!r} of types; known are {', '.join(map(repr, _KINDS))}"
        )
    return _KINDS[kind]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Tells whether a type is of a kind (``"integral"``, ...), equals a type, or is in a tuple.

    >>> isdtype("float32", "real floating")
    True
    """
    dtype = np.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):  # not the name of a type: "float" would be float64 alone
        return dtype.kind in _letters(kind)
    return bool(dtype == np.dtype(kind))


def _dtype(x: Any) -> Any:
    if isinstance(x, core.ArrayBase):
        return x.dtype
    if has_own_rules(x):
        if not isinstance(getattr(x, "dtype", None), np.dtype):
            raise refusal("an operand", x)
        return x.dtype
    return x


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Returns the type to which NumPy promotes the operands."""
    result: np.dtype[Any] = np.result_type(*map(_dtype, arrays_and_dtypes))
    return result


def can_cast(from_: Any, to: Any, /) -> bool:
    """Tells whether a type, or the type of an array, casts to another without loss."""
    return np.can_cast(_dtype(from_), to)


class _Info:
    """The optional parts of the standard that `pkg` has, its devices and its types."""

    def capabilities(self) -> dict[str, Any]:
        """Says that boolean indexing and shapes that depend on data are not supported."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        """Returns the device on which functions make arrays without ``device=``."""
        return device_name(core.parse_device(None))

    def devices(self) -> list[str]:
        """Returns the CPU and all GPUs."""
        return ["cpu", *(f"cuda:{ordinal}" for ordinal in range(core.device_count()[0]))]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """Returns the types that Python numbers become."""
        core.parse_device(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Returns the element types that the standard has, all or those of a kind."""
        core.parse_device(device)
        kinds = kind if isinstance(kind, tuple) else tuple(_KINDS) if kind is None else (kind,)
        letters = "".join(map(_letters, kinds))
        # The standard has no float16, and wants no types here that it does not have.
        return {
            name: dtype
            for name, dtype in DTYPES.items()
            if dtype.char != "e" and dtype.kind in letters
        }


def __array_namespace_info__() -> _Info:
    """Describes the namespace, as the array API standard requires."""
    return _Info()
