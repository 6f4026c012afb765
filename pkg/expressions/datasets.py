"""Arrays in files: datasets of h5py and arrays of Zarr, read and written part by part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._operands import broadcasts, has_own_rules
from .._pieces import pieces, region, whole_chunks
from .._table import check_dtype

#: Bytes of a piece: large beside the cost of a call, small beside memory.
_PIECE_NBYTES = 1 << 25


def is_dataset(x: Any) -> bool:
    """Tells whether `x` is an array in a file that can be read and written in parts."""
    return (
        all(hasattr(x, name) for name in ("dtype", "chunks"))
        and getattr(x, "shape", None) is not None  # a null dataspace of HDF5
        and hasattr(type(x), "__getitem__")
        and hasattr(type(x), "__setitem__")
        and not has_own_rules(x)  # objects of xarray, arrays of Dask
    )


def chunk_of(x: Any) -> Any:
    """Returns the shape of the units of reading and writing: shards or chunks; or None."""
    return getattr(x, "shards", None) or x.chunks


def step_of(x: Any) -> tuple[int, ...]:
    return whole_chunks(tuple(x.shape), chunk_of(x), max(1, _PIECE_NBYTES // x.dtype.itemsize))


def part_of(x: Any, begin: Sequence[int], piece: Sequence[int]) -> Any:
    shape = np.shape(x)
    if not shape:
        return x[()] if is_dataset(x) else x
    first = len(begin) - len(shape)
    return x[
        tuple(
            slice(0, 1) if n == 1 else slice(i, i + k)
            for n, i, k in zip(shape, begin[first:], piece[first:], strict=True)
        )
    ]


def fill(
    name: str,
    out: Any,
    inputs: Sequence[Any],
    result: tuple[int, ...],
    compute: Callable[[list[Any], Any], Any],
    may_refuse: bool,
) -> None:
    """Computes the parts of the inputs piece by piece, and writes the results to `out`.

    The inputs broadcast to the shape `result`.  `compute` stores the result for parts of the inputs
    in a host array.  If it `may_refuse` elements, all pieces are computed before one is written.
    """
    shape: tuple[int, ...] = tuple(out.shape)
    dtype = check_dtype(name, np.dtype(out.dtype))
    if not broadcasts(result, shape):
        raise ValueError(
            f"{name}(): out has shape {shape}, but the result has {result}, which does not "
            "broadcast into it"
        )
    step = step_of(out)
    room = np.empty(math.prod(step), dtype)
    for writes in (False, True) if may_refuse else (True,):
        for begin, piece in pieces(shape, step) if 0 not in shape else [((0,) * len(shape), shape)]:
            target = room[: math.prod(piece)].reshape(piece)
            with np.errstate() if writes else np.errstate(all="ignore"):
                compute([part_of(x, begin, piece) for x in inputs], target)
            if target.size and writes:
                out[region(begin, piece)] = target
