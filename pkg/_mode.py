"""The floating-point mode in which this package computes, whatever mode the caller's thread has.

The library enters the default mode by itself.  What Python and NumPy compute for the package (a
conversion, a mean's quotient, the constants of an expression's text) does so in here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from . import core

_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_default_mode(function: _Function) -> _Function:
    """The function, called in the default mode; the caller's mode comes back in any case."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return core.call_in_mode(function, *args, **kwargs)

    return cast(_Function, call)
