"""Warnings that name the line outside this package that caused them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from . import core

_CALL = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


@lru_cache(1024)
def _call_at(filename: str, line: int | None) -> CodeType:
    return _CALL.replace(co_filename=filename, co_firstlineno=line or 1)


def call_for_user(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function that may warn, on behalf of the nearest caller outside the package.

    A warning names the line of the Python function that called into C.  So this function makes one
    at the caller's line.
    """
    frame: Any = sys._getframe().f_back
    while frame and (frame.f_globals.get("__package__") or "").split(".")[0] == __package__:
        frame = frame.f_back
    if frame is None:
        return function(*args, **kwargs)
    code = _call_at(frame.f_code.co_filename, frame.f_lineno)
    return FunctionType(code, frame.f_globals)(function, args, kwargs)


def warn(message: str, category: type[Warning]) -> None:
    """Warns, on behalf of the nearest caller outside the package."""
    call_for_user(warnings.warn, message, category)


def report_flags(name: str, flags: int) -> None:
    call_for_user(core.report_flags, name, flags)


core.slow_paths["report_flags"] = report_flags
