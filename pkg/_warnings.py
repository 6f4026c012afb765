"""Warnings that name the line outside this package that caused them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from . import core


def warn(message: str, category: type[Warning]) -> None:
    """Warns, on behalf of the nearest caller outside the package."""
    level, frame = 1, sys._getframe().f_back
    while frame and (frame.f_globals.get("__package__") or "").split(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1 if frame else 1)


def report_flags(name: str, flags: int) -> None:
    """Lets `np.errstate` act on floating-point flags that a computation has raised."""
    modes: Any = np.geterr()
    raised = [(modes[kind], text) for kind, text, flag in core.flags if flags & flag]
    if not {mode for mode, _ in raised} <= {"warn", "ignore"}:
        core.report_flags(name, flags)
        return
    for mode, text in raised:
        if mode == "warn":
            warn(f"{text} encountered in {name}", RuntimeWarning)


core.slow_paths["report_flags"] = report_flags
