"""Helpers that several test files share: arrays on a GPU beside the host's, bits, libraries."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

import pkg as pcd


def on_gpu(x: Any) -> Any:
    """Returns a NumPy array as an Array; anything else as it is."""
    return pcd.asarray(x, device="cuda") if isinstance(x, np.ndarray) else x


def in_place(place: str, host: Any) -> Any:
    """Returns an array in one of the places of `cases`."""
    return on_gpu(host) if place == "array" else host


def how(place: str) -> dict[str, Any]:
    """Returns the keyword arguments of a call in one of these places."""
    return {"device": "cuda"} if place == "cuda" else {}


def fetched(x: Any) -> Any:
    """Returns an Array as a NumPy array; anything else as it is."""
    return pcd.asnumpy(x) if isinstance(x, pcd.Array) else x


def pair(shape: Any = (4, 5, 6), dtype: str = "f4") -> tuple[np.ndarray, Any]:
    """Returns equal arrays on the host and on a GPU."""
    host = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    return host, on_gpu(host)


def assert_array(array: Any, wanted: Any, note: str = "", name: str = "") -> None:
    """Asserts an Array with the type, shape and bits of NumPy's."""
    assert isinstance(array, pcd.Array), f"{type(array)}, not an Array {note}"
    oracle.assert_same(pcd.asnumpy(array), wanted, note, name=name)


def assert_bits(got: Any, wanted: Any) -> None:
    """Asserts the same element type, shape and bytes."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


def names() -> list[str]:
    """The names in the current folder."""
    return sorted(os.listdir())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def library(name: str) -> Any:
    """Imports a library, without its warnings; skips the test if it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def fails(
    errors: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., Any],
    *args: Any,
    **more: Any,
) -> Callable[[], None]:
    """Returns a call that must fail; `pytest.raises` would keep the exception, and its frames."""

    def failing() -> None:
        try:
            call(*args, **more)
        except errors:
            return
        raise AssertionError("it did not fail")

    return failing


def references_kept(calls: Sequence[Callable[[], Any]], watched: Sequence[Any]) -> list[int]:
    """Returns how many references to each of the watched objects 50 rounds of calls leave."""
    for call in calls:
        call()
    gc.collect()
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(50):
        for call in calls:
            call()
    gc.collect()
    after = [sys.getrefcount(x) for x in watched]
    return [n - m for n, m in zip(after, before, strict=True)]
