"""Operands for every layout, what NumPy computes with them, and the comparison of results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pkg._docs import ELEMENTARY


def type_name(char: str) -> str:
    """NumPy's type character as the library's name of the type: ``"d"`` is ``"f64"``."""
    dtype = np.dtype(char)
    return f"{dtype.kind}{8 * dtype.itemsize}"


def type_chars(operation: Any) -> dict[str, str]:
    """The input types of an operation: the library's names and NumPy's characters."""
    return {type_name(types[0]): types[0] for types in operation.types if types[0] != "?"}


# ---- Values ----


@functools.cache
def _block(char: str, is_second: bool, is_radicand: bool) -> np.ndarray:
    """Values to repeat: defined for every operation, without overflow of floats or NaN."""
    size = 65537  # odd, so that repeating it does not align the values with anything
    rng = np.random.default_rng([ord(char), is_second])
    dtype = np.dtype(char)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not is_second:
            return rng.integers(info.min, info.max, size, dtype, endpoint=True)
        # From 2 on: MIN / -1 overflows, and dividing by 1 is no work.
        values = rng.integers(2, min(info.max, 1000), size, dtype, endpoint=True)
        return np.where(rng.random(size) < 0.5, -values, values) if dtype.kind == "i" else values
    values = rng.uniform(1, 100, size)
    if not is_second and not is_radicand:
        values = values * rng.choice([-1, 1], size)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-100, 100, size)
    return values.astype(dtype)


@dataclass(frozen=True)
class Maker:
    """Makes arrays of one operation and type."""

    operation: Any
    char: str

    def __call__(self, *shape: int, second: bool = False) -> np.ndarray:
        name = self.operation.__name__
        block = _block(self.char, second, name == "sqrt" or name in ELEMENTARY)
        if self.is_of_small_numbers():
            block = (block / 128).astype(block.dtype)
        if second and name == "power":
            block = abs(block).astype(block.dtype)  # integers have no negative powers
        return np.resize(block, math.prod(shape)).reshape(shape)

    def is_of_small_numbers(self) -> bool:
        """Numbers below 1 are in the domain of all elementary functions but one."""
        return self.operation.__name__ in ELEMENTARY - {"arccosh"}

    def number(self) -> Any:
        """A Python number of the kind of the type."""
        if self.is_of_small_numbers() and np.dtype(self.char).kind not in "iu":
            return 0.5
        return {"i": 3, "u": 3, "f": 1.5, "c": 1.5 + 0.5j}[np.dtype(self.char).kind]

    def scalar(self) -> Any:
        """A NumPy scalar of the type."""
        return np.dtype(self.char).type(self.number())


# ---- Layouts ----


def _near_square(n: int) -> tuple[int, int]:
    rows = max(1, math.isqrt(n))
    return rows, max(1, n // rows)


def _contiguous(m: Maker, n: int) -> list[Any]:
    return [m(n), m(n, second=True)]


def _matrices(make: Callable[[Maker, int, int], list[Any]]) -> Callable[[Maker, int], list[Any]]:
    return lambda m, n: make(m, *_near_square(n))


#: What an operand can look like; `TWO_OPERANDS` and `OUT_ONLY` say more.
LAYOUTS: dict[str, Callable[[Maker, int], list[Any]]] = {
    "contiguous": _contiguous,
    "in place": _contiguous,
    "strided": lambda m, n: [x[::2] for x in _contiguous(m, 2 * n)],
    "strided out": _contiguous,
    "reversed": lambda m, n: [m(n)[::-1], m(n, second=True)],
    "columns": _matrices(
        lambda m, r, c: [m(r, c + 8, second=k)[:, 3 : c + 3] for k in (False, True)]
    ),
    "transposed": lambda m, n: [m(*[math.isqrt(n)] * 2).T, m(*[math.isqrt(n)] * 2, second=True)],
    "fortran": _matrices(lambda m, r, c: [m(c, r).T, m(c, r, second=True).T]),
    "row": _matrices(lambda m, r, c: [m(r, c), m(c, second=True)]),
    "column": _matrices(lambda m, r, c: [m(r, c), m(r, 1, second=True)]),
    "outer": _matrices(lambda m, r, c: [m(r, 1), m(c, second=True)]),
    "number": lambda m, n: [m(n), m.number()],
    "number first": lambda m, n: [m.number(), m(n, second=True)],
    "scalar": lambda m, n: [m(n), m.scalar()],
}

#: Layouts that say how two operands differ.
TWO_OPERANDS = ("row", "column", "outer", "number", "number first", "scalar")

#: Layouts that say something of the output.
OUT_ONLY = ("in place", "strided out")


def make_operands(operation: Any, char: str, layout: str, n: int) -> tuple[list[Any], np.ndarray]:
    """The inputs, and an output filled with something else than the result."""
    inputs = LAYOUTS[layout](Maker(operation, char), n)[: operation.nin]
    out_char = next(types[-1] for types in operation.types if types[0] == char)
    shape = np.broadcast_shapes(*[np.shape(x) for x in inputs])
    if layout == "strided out":
        out = np.full(2 * n, 113, out_char)[::2]
    else:
        # NumPy's own choice: the order of the inputs where they agree, else C.
        out = np.full(shape, 113, out_char, order="F" if layout == "fortran" else "C")
    if layout == "in place" and out.dtype == inputs[0].dtype:
        out[...] = inputs[0]
        inputs[0] = out
    return inputs, out


def bytes_moved(inputs: list[Any], out: np.ndarray) -> int:
    """Each element of each operand, once."""
    return sum(x.nbytes for x in [*inputs, out] if isinstance(x, np.ndarray))


# ---- NumPy as the oracle ----


def _truncated(a: Any, b: Any) -> Any:
    """Division as the package defines it: as in C for integers, and of their type."""
    if np.result_type(a, b).kind not in "iu":
        return np.divide(a, b)
    quotient, remainder = np.divmod(a, b)
    return quotient + ((remainder != 0) & (np.less(a, 0) != np.less(b, 0))).astype(quotient.dtype)


def _erf(x: Any) -> Any:
    """The C library's, in the type in which NumPy computes functions."""
    x = np.asarray(x)
    dtype = np.cbrt(x.reshape(-1)[:0]).dtype
    return np.array([math.erf(v) for v in x.reshape(-1).tolist()], dtype).reshape(x.shape)[()]


#: Where NumPy's function of the same name computes something else, or is absent.
ORACLES: dict[str, Callable[..., Any]] = {"divide": _truncated, "erf": _erf}


def oracle(name: str) -> Callable[..., Any]:
    """Returns a function with the right results of an operation, or raises AttributeError."""
    return ORACLES.get(name) or getattr(np, name)


def nearest(name: str, char: str) -> np.ufunc:
    """NumPy's function that does the same amount of work (to time, not to compare with)."""
    if name == "divide" and np.dtype(char).kind in "iu":
        return np.floor_divide
    function: np.ufunc = getattr(np, name)
    return function


#: Units in the last place between our elementary functions and NumPy's.
ELEMENTARY_ULPS = 5

#: Complex results that are promised to a bound instead of to the bit.
BOUNDED = ("multiply", "divide", "square", "absolute", "sqrt", "sign")


class WrongResult(Exception):
    """A result that is not NumPy's: it is not timed."""


def check(name: str, got: Any, want: Any, is_complex: bool) -> None:
    """Raises WrongResult unless `got` is `want` to the bit, or within `BOUNDED`; NaN equals NaN."""
    if type(got) is not type(want):
        raise WrongResult(f"{type(got).__name__} instead of {type(want).__name__}")
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        raise WrongResult(
            f"{got.dtype} of shape {got.shape} instead of {want.dtype} of shape {want.shape}"
        )
    if is_complex and name in BOUNDED:
        bad = ~(np.abs(got - want) <= 16 * np.finfo(want.dtype).eps * np.abs(want))
    elif name in ELEMENTARY:
        size = np.abs(want)
        if is_complex and name == "log1p":
            size = np.maximum(size, 1)  # NumPy's cancels near 0.
        near = np.abs(got - want) <= ELEMENTARY_ULPS * np.spacing(size)
        bad = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
    elif want.dtype.kind in "fc":
        if np.array_equal(_bits(got), _bits(want)):
            return
        bad = (_bits(got) != _bits(want)) & ~(np.isnan(_parts(got)) & np.isnan(_parts(want)))
    else:
        bad = got != want
    count = np.count_nonzero(bad)
    if count:
        raise WrongResult(f"{count} of {bad.size} elements differ from NumPy's")


def _parts(x: np.ndarray) -> np.ndarray:
    """The real numbers of an array: complex ones become two."""
    x = np.ascontiguousarray(x)
    return x.view(x.real.dtype)


def _bits(x: np.ndarray) -> np.ndarray:
    parts = _parts(x)
    return parts.view(f"u{parts.dtype.itemsize}")
