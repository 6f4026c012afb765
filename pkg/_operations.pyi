"""Written by scripts/make_stubs.py: do not edit."""

from typing import Final

from .core import Operation

add: Final[Operation]
subtract: Final[Operation]
multiply: Final[Operation]
divide: Final[Operation]
floor_divide: Final[Operation]
remainder: Final[Operation]
minimum: Final[Operation]
maximum: Final[Operation]
negative: Final[Operation]
absolute: Final[Operation]
square: Final[Operation]
sqrt: Final[Operation]
equal: Final[Operation]
not_equal: Final[Operation]
less: Final[Operation]
less_equal: Final[Operation]
greater: Final[Operation]
greater_equal: Final[Operation]
abs: Final[Operation]

__all__ = [
    "add",
    "subtract",
    "multiply",
    "divide",
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
    "abs",
]
