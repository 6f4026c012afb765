"""The ufuncs come from the library's table."""

from typing import Any, Final

import numpy as np

add: Final[np.ufunc]
subtract: Final[np.ufunc]
multiply: Final[np.ufunc]
trunc_divide: Final[np.ufunc]
floor_divide: Final[np.ufunc]
remainder: Final[np.ufunc]
minimum: Final[np.ufunc]
maximum: Final[np.ufunc]
negative: Final[np.ufunc]
absolute: Final[np.ufunc]
square: Final[np.ufunc]
sqrt: Final[np.ufunc]
equal: Final[np.ufunc]
not_equal: Final[np.ufunc]
less: Final[np.ufunc]
less_equal: Final[np.ufunc]
greater: Final[np.ufunc]
greater_equal: Final[np.ufunc]

__all__ = [
    "add",
    "subtract",
    "multiply",
    "trunc_divide",
    "floor_divide",
    "remainder",
    "minimum",
    "maximum",
    "negative",
    "absolute",
    "square",
    "sqrt",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
]

def __getattr__(name: str) -> np.ufunc: ...
def on_device(operation: Any, ordinal: int) -> np.ufunc: ...
