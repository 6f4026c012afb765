"""Runs functions in the default floating-point mode, whatever mode the caller's thread has.

The library itself enters the default mode.  This file is for computations in Python and NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from . import core

_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_default_mode(function: _Function) -> _Function:
    """Makes a function run in the default mode; it always restores the caller's mode."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return core.call_in_mode(function, *args, **kwargs)

    return cast(_Function, call)
