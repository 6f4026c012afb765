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
rint: Final[Operation]
floor: Final[Operation]
ceil: Final[Operation]
trunc: Final[Operation]
sign: Final[Operation]
signbit: Final[Operation]
copysign: Final[Operation]
nextafter: Final[Operation]
reciprocal: Final[Operation]
positive: Final[Operation]
fmod: Final[Operation]
fmin: Final[Operation]
fmax: Final[Operation]
isnan: Final[Operation]
isinf: Final[Operation]
isfinite: Final[Operation]
conjugate: Final[Operation]
real: Final[Operation]
imag: Final[Operation]
sin: Final[Operation]
cos: Final[Operation]
tan: Final[Operation]
deg2rad: Final[Operation]
rad2deg: Final[Operation]
exp: Final[Operation]
exp2: Final[Operation]
expm1: Final[Operation]
arcsin: Final[Operation]
arccos: Final[Operation]
arctan: Final[Operation]
arctan2: Final[Operation]
log: Final[Operation]
log2: Final[Operation]
log10: Final[Operation]
log1p: Final[Operation]
cbrt: Final[Operation]
hypot: Final[Operation]
sinh: Final[Operation]
cosh: Final[Operation]
tanh: Final[Operation]
arcsinh: Final[Operation]
arccosh: Final[Operation]
arctanh: Final[Operation]
power: Final[Operation]
logaddexp: Final[Operation]
erf: Final[Operation]
abs: Final[Operation]
acos: Final[Operation]
acosh: Final[Operation]
asin: Final[Operation]
asinh: Final[Operation]
atan: Final[Operation]
atan2: Final[Operation]
atanh: Final[Operation]
bitwise_invert: Final[Operation]
bitwise_left_shift: Final[Operation]
bitwise_not: Final[Operation]
bitwise_right_shift: Final[Operation]
conj: Final[Operation]
degrees: Final[Operation]
mod: Final[Operation]
pow: Final[Operation]
radians: Final[Operation]
trunc_divide: Final[Operation]

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
    "rint",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "signbit",
    "copysign",
    "nextafter",
    "reciprocal",
    "positive",
    "fmod",
    "fmin",
    "fmax",
    "isnan",
    "isinf",
    "isfinite",
    "conjugate",
    "real",
    "imag",
    "sin",
    "cos",
    "tan",
    "deg2rad",
    "rad2deg",
    "exp",
    "exp2",
    "expm1",
    "arcsin",
    "arccos",
    "arctan",
    "arctan2",
    "log",
    "log2",
    "log10",
    "log1p",
    "cbrt",
    "hypot",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "power",
    "logaddexp",
    "erf",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_right_shift",
    "conj",
    "degrees",
    "mod",
    "pow",
    "radians",
    "trunc_divide",
]
