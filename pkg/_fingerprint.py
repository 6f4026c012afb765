"""`fingerprint`: one number for the shape, the type and the bits of an array, wherever it lives.

An element counts as ``f(bits ^ key)``, whose key is made from its indices; the fingerprint is the
sum of these over all elements, modulo 2**64, computed twice with other keys.  Parts may be computed
in any order.  Hashes of this form are Zobrist's (1970); Bellare and Micciancio (1997) examine the
sum.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import core
from ._creation import arange
from ._manipulation import concatenate
from ._operands import describe, device_name, gpu_of, plain
from ._pieces import piece_shape, pieces, region
from ._table import ELEMENTS, ELEMENTS_TEXT
from .expressions import datasets
from .expressions.expression import Expression

#: Elements computed at once: on the CPU they fit its caches, on a GPU they are worth a launch.
_CPU_COUNT, _GPU_COUNT = 1 << 20, 1 << 24

_MASK = 2**64 - 1

#: 2**64 divided by the golden ratio, and the steps of `f`: those of SplitMix64 (Steele, Lea and
#: Flood, 2014).
_GOLDEN = 0x9E3779B97F4A7C15
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31

#: Indices are split into digits below this number, so that few keys are needed at once.
_DIGIT = 1 << 14


def _f(x: int) -> int:
    for shift, factor in _STEPS:
        x = (x ^ x >> shift) * factor & _MASK
    return x ^ x >> _LAST_SHIFT


def _f_text(text: str) -> str:
    for shift, factor in _STEPS:
        text = f"(({text}) ^ ({text}) >> {shift}) * {factor}"
    return f"({text}) ^ ({text}) >> {_LAST_SHIFT}"


@functools.cache
def _expressions() -> tuple[Expression, Expression, Expression]:
    """Returns Expressions: parts of keys from digits, and sums of floats and of other types."""

    def sum_of(bits: str) -> Expression:
        return Expression(f"sum({_f_text(f'{bits} ^ (lead + last)')})")

    keys = Expression(_f_text(f"digit * {_GOLDEN} + seed"))
    return keys, sum_of("where(x == x, bits, nan)"), sum_of("bits")


def _seed(lane: int, axis: int, place: int) -> int:
    return _f(((2 * axis + lane) * 2 + place + 1) * _GOLDEN & _MASK)


def _key(lane: int, axis: int, index: int) -> int:
    """Returns the key of an index along an axis: the sum of those of its two digits."""
    digits = (index % _DIGIT, index // _DIGIT)
    return sum(_f(n * _GOLDEN + _seed(lane, axis, k) & _MASK) for k, n in enumerate(digits))


def _digit_keys(lane: int, axis: int, place: int, begin: int, count: int, ordinal: int) -> Any:
    """Returns the keys of `count` digits, the low ones (`place` 0) or the high ones."""
    device = device_name(ordinal)
    digit = arange(begin, begin + count, dtype=np.uint64, device=device)
    return _expressions()[0](digit, _seed(lane, axis, place), device=device)


def _runs(begin: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yields beginning, rows and columns of runs of indices with the same low digits."""
    end = begin + count
    while begin < end:
        low = begin % _DIGIT
        rows = (end - begin) // _DIGIT if low == 0 and end - begin >= _DIGIT else 1
        columns = min(_DIGIT - low, end - begin)
        yield begin, rows, columns
        begin += rows * columns


def _sum_of_bits(x: Any, lead: Any, last: Any, ordinal: int) -> int:
    device = device_name(ordinal)
    if x.dtype == np.bool_:
        return int(_expressions()[2](x, lead, last, device=device))
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits = core.view(x, np.ndarray.view, unsigned) if ordinal >= 0 else x.view(unsigned)
    if x.dtype.kind != "f":
        return int(_expressions()[2](bits, lead, last, device=device))
    nan = int(np.array(np.inf, x.dtype).view(unsigned)) + 1
    return int(_expressions()[1](x, bits, nan, lead, last, device=device))


def _sum(
    x: Any, axes: Sequence[int], begin: Sequence[int], lane: int, key: int, ordinal: int
) -> int:
    """Returns the sum for a piece of real numbers, which begins at these indices along its axes.

    `key` is a part of all keys.
    """
    given = list(zip(axes, begin, x.shape, strict=True))
    key += sum(_key(lane, axis, i) for axis, i, n in given if n == 1)
    given = [one for one in given if one[2] != 1]
    x = x.reshape([n for *_, n in given] or [1])
    if not given:
        return _sum_of_bits(x, np.uint64(key & _MASK), np.uint64(0), ordinal)
    lead: Any = np.uint64(key & _MASK)
    for d, (axis, i, n) in enumerate(given[:-1]):
        parts = [
            _digit_keys(lane, axis, 0, at % _DIGIT, columns, ordinal)
            + _digit_keys(lane, axis, 1, at // _DIGIT, rows, ordinal).reshape(-1, 1)
            for at, rows, columns in _runs(i, n)
        ]
        keys = parts[0] if len(parts) == 1 else concatenate([part.reshape(-1) for part in parts])
        lead = lead + keys.reshape((n,) + (1,) * (len(given) - d))
    axis, i, n = given[-1]
    total = 0
    for at, rows, columns in _runs(i, n):
        part = x[..., at - i : at - i + rows * columns].reshape((*x.shape[:-1], rows, columns))
        high = _digit_keys(lane, axis, 1, at // _DIGIT, rows, ordinal).reshape(rows, 1)
        last = _digit_keys(lane, axis, 0, at % _DIGIT, columns, ordinal)
        total += _sum_of_bits(part, lead + high, last, ordinal)
    return total


def _add(sums: list[int], x: Any, axes: Sequence[int], begin: Sequence[int], ordinal: int) -> None:
    """Adds the sums of a piece; complex numbers are pairs of floats along one more axis."""
    for lane in range(len(sums)):
        if x.dtype.kind != "c":
            sums[lane] += _sum(x, axes, begin, lane, 0, ordinal)
            continue
        for k, part in enumerate((x.real, x.imag)):
            sums[lane] += _sum(part, axes, begin, lane, _key(lane, len(axes), k), ordinal)


def _host(x: Any) -> Any:
    """Returns a piece in host memory in native byte order, at an address that suits its type."""
    native = x.dtype.newbyteorder("=")
    return x if x.dtype == native and x.flags.aligned else x.astype(native)


def fingerprint(x: Any) -> str:
    """Returns a hash of the shape, the element type and the bits of an array: 32 hex digits.

    It is the same for a NumPy array, in any layout and byte order, and for an array on a GPU,
    so that two machines can prove that they have computed the same.  It is computed where the
    array is, in pieces.  `x` may also be a dataset of h5py or an array of Zarr.  All NaNs count
    as one; 0.0 and -0.0 differ, and so do equal numbers of different types.

    Arrays that differ in one element always have different fingerprints.  Others, unless made for
    it, collide as random numbers of 128 bits do: two arrays with a probability of 2**-128, any two
    of n arrays with n**2 / 2**129.  This is not proved for the function used, and it is not
    cryptographic: two arrays with one fingerprint can be constructed.

    Raises TypeError for unsupported types, and for operands with rules of their own, such as masked
    arrays.

    >>> fingerprint([0.0, 1.0, 2.0])
    'bebd358d2ff2d87c5b94799586d495e9'
    >>> fingerprint([0, 1, 2])
    '0f2fa6ba5ea7657306a69e63609b437e'
    """
    x = core.as_array(x)
    is_dataset = datasets.is_dataset(x)
    given = x
    if not is_dataset and not isinstance(x, core.ArrayBase):
        x = plain("the operand of fingerprint()", x)
    dtype = np.dtype(x.dtype)
    if dtype.char not in ELEMENTS:
        raise TypeError(f"fingerprint() takes arrays of {ELEMENTS_TEXT}, not {describe(given)}")
    shape: tuple[int, ...] = tuple(x.shape)
    axes = list(range(len(shape)))
    ordinal = gpu_of(x)
    if is_dataset:
        step = datasets.step_of(x)
    else:  # in the order of memory
        axes.sort(key=lambda axis: -abs(x.strides[axis]))
        x = x.transpose(axes)
        step = piece_shape(x.shape, _CPU_COUNT if ordinal < 0 else _GPU_COUNT, False)
    sums = [0, 0]
    for begin, piece in pieces(x.shape, step):
        part = x[region(begin, piece)]
        _add(sums, _host(np.asarray(part)) if ordinal < 0 else part, axes, begin, ordinal)
    for n in (ord(dtype.kind) << 8 | dtype.itemsize, len(shape), *shape):
        sums = [_f((total ^ n) + _seed(lane, 64, 0) & _MASK) for lane, total in enumerate(sums)]
    return "".join(f"{total:016x}" for total in sums)
