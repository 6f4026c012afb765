"""Cuts arrays that may be larger than memory into pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence


def piece_shape(shape: tuple[int, ...], limit: int, is_mixed: bool) -> tuple[int, ...]:
    """Returns the shape of pieces of at most `limit` elements, or one.

    Pieces are contiguous in C order.  For files in different orders they are nearly square, so that
    each file is read in long runs of elements.
    """
    piece = list(shape)
    if is_mixed:
        while math.prod(piece) > max(limit, 1):
            longest = piece.index(max(piece))
            piece[longest] = -(-piece[longest] // 2)
        return tuple(piece)
    for d in range(len(piece)):
        if math.prod(piece) <= limit:
            break
        piece[d] = max(1, limit // math.prod(piece[d + 1 :]))
    return tuple(piece)


def whole_chunks(
    shape: tuple[int, ...], chunk: tuple[int, ...] | None, limit: int
) -> tuple[int, ...]:
    """Returns the shape of pieces of whole chunks, of at most `limit` elements, or one chunk."""
    if chunk is None:
        return piece_shape(shape, limit, False)
    counts = tuple(-(-n // max(k, 1)) for n, k in zip(shape, chunk, strict=True))
    counts = piece_shape(counts, max(1, limit // max(1, math.prod(chunk))), False)
    return tuple(
        min(n, max(1, count * k)) for n, count, k in zip(shape, counts, chunk, strict=True)
    )


def pieces(
    shape: tuple[int, ...], piece: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yields the beginning and the shape of each piece; pieces at the ends are smaller."""
    if 0 in shape:
        return
    for begin in itertools.product(
        *(range(0, n, step) for n, step in zip(shape, piece, strict=True))
    ):
        yield (
            begin,
            tuple(min(step, n - i) for i, n, step in zip(begin, shape, piece, strict=True)),
        )


def region(begin: Sequence[int], piece: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(i, i + k) for i, k in zip(begin, piece, strict=True))
