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
logical_and: Final[Operation]
logical_or: Final[Operation]
logical_xor: Final[Operation]
logical_not: Final[Operation]
bitwise_and: Final[Operation]
bitwise_or: Final[Operation]
bitwise_xor: Final[Operation]
invert: Final[Operation]
left_shift: Final[Operation]
right_shift: Final[Operation]
abs: Final[Operation]
bitwise_invert: Final[Operation]
bitwise_left_shift: Final[Operation]
bitwise_not: Final[Operation]
bitwise_right_shift: Final[Operation]
mod: Final[Operation]

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
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "abs",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_right_shift",
    "mod",
]
