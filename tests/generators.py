"""The one generator of arrays: lengths, values and layouts, and hypothesis strategies made of them.

Everything is a function of its arguments, seeds included, so that a failure is found again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

#: Around every boundary: of vectors, unrolled loops, blocks of f16 and blocks in the L1 cache.
LENGTHS = (
    *(0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129),
    *(511, 512, 513, 1000, 4095, 4096, 4097, 8191, 8192, 8193),
)

#: Large enough for threads, whatever the type; the last also for several per core.
LARGE_LENGTHS = (65_537, 2**20 + 4099)

#: Each byte of an output before the computation; as a float not NaN, nor a usual value.
POISON = 0xA5


# ---- Values ----


def _real_specials(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, 10, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
        if dtype.kind == "i":
            values += [-1, -2, -3, -7, -10, info.min // 2]
        return values
    finfo = np.finfo(dtype)
    positive = [0.0, finfo.smallest_subnormal, finfo.tiny - finfo.smallest_subnormal, finfo.tiny]
    positive += [finfo.eps, 0.5, 1.0, 1 + finfo.eps, 1.5, 2.0, 3.0, 7.25, 1 / 3, finfo.max, np.inf]
    # Halves of the mantissa's range: squares and products are exact there, and just beyond.
    positive += [2.0 ** ((finfo.nmant + 1) // 2) + 1, 2.0**finfo.nmant]
    return [np.nan, *positive, *(-value for value in positive)]


@cache
def specials(dtype: np.dtype[Any]) -> Array:
    """The values at which arithmetic of a type has edges; read-only."""
    dtype = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            finfo = np.finfo(part)
            parts = [np.nan, 0.0, 1.0, 2.5, finfo.tiny, finfo.max, np.inf, finfo.smallest_subnormal]
            parts += [-value for value in parts[1:]]
            pairs = np.array([(re, im) for re in parts for im in parts], part)
            values = pairs.view(dtype)[:, 0]
        else:
            values = np.array(_real_specials(dtype), dtype)
    values.flags.writeable = False
    return values


def special_pairs(dtype: np.dtype[Any], nin: int) -> list[Array]:
    """Inputs that pair each special with each: nin arrays of one dimension."""
    values = specials(dtype)
    if nin == 1:
        return [values.copy()]
    return [np.repeat(values, values.size), np.tile(values, values.size)]


def values(dtype: np.dtype[Any], n: int, seed: int = 0) -> Array:
    """n values: a third random bits, a third specials, a third of everyday size."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng((seed, n))
    bits = np.frombuffer(rng.bytes(n * dtype.itemsize), dtype)
    everyday = moderate(dtype, n, seed)
    special = rng.choice(specials(dtype), n)
    return np.asarray(np.choose(rng.integers(0, 3, n), [bits, everyday, special]), dtype)


def moderate(dtype: np.dtype[Any], n: int = 12, seed: int = 0) -> Array:
    """n finite values of everyday size, not 0: their quotients and squares are normal numbers.

    Bools are of both values.
    """
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.arange(n) % (2 + seed) == 0
    rng = np.random.default_rng((seed, n, 1))
    if dtype.kind in "iu":
        return rng.integers(1, 100, n).astype(dtype) * rng.choice(
            np.array([1, -1] if dtype.kind == "i" else [1]).astype(dtype), n
        )
    sign = rng.choice([-1.0, 1.0], n)
    if dtype.kind == "f":
        return np.asarray(sign * rng.uniform(0.01, 10, n)).astype(dtype)
    return (sign * rng.uniform(0.01, 10, n) + 1j * rng.uniform(-10, 10, n)).astype(dtype)


def poisoned(shape: Any, dtype: np.dtype[Any]) -> Array:
    """An output in which every unwritten element shows."""
    size = int(np.prod(shape, dtype=np.int64))
    return np.full(size * np.dtype(dtype).itemsize, POISON, np.uint8).view(dtype).reshape(shape)


# ---- Layouts ----


def _within(shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of a shape, each step-th element of a poisoned one that is larger on both sides."""
    larger = tuple(size * abs(step) + 2 for size, step in zip(shape, steps, strict=True))
    window = tuple(
        slice(1, 1 + size * step, step) if step > 0 else slice(size * -step, 0, step)
        for size, step in zip(shape, steps, strict=True)
    )
    return poisoned(larger, dtype)[(*window, ...)]


def _transposed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The last two axes exchanged; differs from Fortran order from three dimensions on."""
    if len(shape) < 2:
        return LAYOUTS["strided"](shape, dtype)
    return poisoned((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)


def _unaligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return poisoned(nbytes + 1, np.dtype(np.uint8))[1:].view(dtype).reshape(shape)


Make = Callable[[tuple[int, ...], "np.dtype[Any]"], Array]

#: Writable layouts: name -> a function that makes a poisoned array of a shape and type.
LAYOUTS: dict[str, Make] = {
    "contiguous": poisoned,
    "strided": lambda shape, dtype: _within(shape, (*[1] * len(shape), 3)[1:], dtype),
    "window": lambda shape, dtype: _within(shape, (1,) * len(shape), dtype),
    "reversed": lambda shape, dtype: _within(shape, (-1,) * len(shape), dtype),
    "reversed_strided": lambda shape, dtype: _within(shape, (-2,) * len(shape), dtype),
    "fortran": lambda shape, dtype: poisoned(shape[::-1], dtype).T,
    "transposed": _transposed,
    "unaligned": _unaligned,
    "swapped": lambda shape, dtype: poisoned(shape, dtype.newbyteorder("S")),
}

#: Layouts of inputs only: one line, one column or one element repeated, and read-only memory.
INPUT_LAYOUTS = (*LAYOUTS, "repeated_row", "repeated_column", "repeated_scalar", "read_only")


def laid_out(data: Array, layout: str) -> Array:
    """`data`, or for the repeated layouts its first row, column or element, in a layout."""
    if layout == "repeated_row":
        return np.broadcast_to(data[:1].copy(), data.shape) if data.ndim else data.copy()
    if layout == "repeated_column":
        return np.broadcast_to(data[..., :1].copy(), data.shape) if data.ndim else data.copy()
    if layout == "repeated_scalar":
        first = data.reshape(-1)[:1] if data.size else np.zeros(1, data.dtype)
        return np.broadcast_to(first.reshape(()).copy(), data.shape)
    array = LAYOUTS["contiguous" if layout == "read_only" else layout](data.shape, data.dtype)
    array[...] = data
    if layout == "read_only":
        array.flags.writeable = False
    return array


def surroundings(array: Array) -> Array:
    """A copy of the memory that `array` is a view of, its own elements set to 0."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    memory = base.view(np.uint8).reshape(-1).copy()
    if array.size:
        own = np.ndarray(array.shape, f"V{array.itemsize}", memory, start, array.strides)
        own[...] = np.zeros((), own.dtype)
    return memory


# ---- Strategies ----

seeds = st.integers(0, 2**32 - 1)
input_layouts = st.sampled_from(INPUT_LAYOUTS)
output_layouts = st.sampled_from(list(LAYOUTS))


@st.composite
def operands(draw: Any, dtype: np.dtype[Any], nin: int) -> tuple[list[Array], tuple[int, ...]]:
    """nin inputs whose shapes broadcast, each in its own layout; and the shape of the result."""
    shapes = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=nin, min_side=0, max_side=9, max_dims=4)
    )
    arrays = []
    for shape in shapes.input_shapes:
        data = values(dtype, int(np.prod(shape, dtype=np.int64)), draw(seeds)).reshape(shape)
        arrays.append(laid_out(data, draw(input_layouts)))
    return arrays, shapes.result_shape
