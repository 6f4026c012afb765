"""Types that tell type checkers what a function returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from typing import overload as overload
else:

    def overload(function):
        """Does nothing: `typing.overload` would keep an unused module alive."""


Cpu = Literal["cpu"]
Gpu = Literal[
    "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"
]

#: An array on the CPU.  Type checkers take the default device for the CPU.
Host = np.ndarray[Any, np.dtype[Any]]
