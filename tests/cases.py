"""The one list of cases: every operation of the table, with every element type, in every place.

It is read from the library's own table, so that a new row is covered without a change here.  The
places are "cpu", "cuda" (host arrays, streamed through the first GPU) and "array": the operands are
moved to the first GPU as Arrays of the same layout, and the written ones back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pkg as pcd

# ---- Arrays on a GPU ----


def _root(x: np.ndarray) -> np.ndarray:
    """The array that owns the memory of `x`, or the nearest to it."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def steps(x: Any) -> list[int]:
    """The strides that matter: along a size of 1 there is no step."""
    return [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1]


class Movers:
    """Moves NumPy arrays to a GPU: views of one memory become views of one memory."""

    def __init__(self) -> None:
        self.memories: dict[int, tuple[np.ndarray, Any]] = {}
        self.arrays: dict[int, Any] = {}
        self.copied: set[int] = set()  # those that do not share the memory of their root
        self.hosts: list[np.ndarray] = []  # keeps the keys above unique

    def _memory(self, root: np.ndarray) -> Any:
        """The bytes of `root`; aligned for any element, and not more."""
        if id(root) not in self.memories:
            flat = root.reshape(-1, order="A").view(np.uint8)
            room = pcd.core.empty((flat.size + 16,), np.uint8, 0, False)
            pcd.core.copy(room[16:], flat)
            self.memories[id(root)] = root, room[16:]
            self.hosts.append(root)
        return self.memories[id(root)][1]

    def move(self, x: np.ndarray) -> Any:
        """An Array with the elements and the strides of `x`."""
        if id(x) in self.arrays:
            return self.arrays[id(x)]
        self.hosts.append(x)
        root = _root(x)
        native = x.dtype.newbyteorder("=")
        offset = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        is_plain = root.flags.forc and not root.dtype.hasobject and root.size > 0
        is_aligned = all(step % x.itemsize == 0 for step in (offset, *steps(x)))
        if x.size == 0 or not (is_plain and is_aligned and x.dtype.isnative):
            # Aligned only to its elements, as badly as a GPU array can be.
            room = pcd.core.empty((x.size + 1,), native, 0, False)
            array = room[1:].reshape(x.shape)
            pcd.core.copy(array, np.array(x, native))
            self.copied.add(id(x))
        else:
            memory = self._memory(root)
            array = pcd.core.wrap(
                memory._pointer + offset, 0, native, x.shape, x.strides,
                not x.flags.writeable, memory, None,
            )  # fmt: skip
        self.arrays[id(x)] = array
        return array

    def fetch(self, x: np.ndarray) -> None:
        """Moves the memory of `x`, all of it, back."""
        if id(x) in self.copied:
            x[...] = pcd.asnumpy(self.arrays[id(x)])
        else:
            root = _root(x)
            pcd.core.copy(root.reshape(-1, order="A").view(np.uint8), self._memory(root))


def to_host(array: Any) -> np.ndarray:
    """A NumPy array with the elements of an Array, and the order of its axes in memory."""
    assert isinstance(array, pcd.Array), f"{type(array)}, not an Array"
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    host = np.empty([array.shape[d] for d in order], array.dtype)
    pcd.core.copy(host, array.transpose(order))
    return host.transpose(np.argsort(order))


def on_arrays(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function` with all NumPy arrays moved to a GPU; its result, or `out`, as NumPy has it."""
    movers = Movers()
    out = kwargs.get("out")
    if not any(type(x) is np.ndarray for x in args):
        args = tuple(np.asarray(x) if isinstance(x, np.generic) else x for x in args)
    if np.ndim(kwargs.get("where", True)):
        kwargs["where"] = movers.move(np.asarray(kwargs["where"]))
    moved = [movers.move(x) if isinstance(x, np.ndarray) else x for x in args]
    if out is None:
        result = function(*moved, **kwargs)
        return to_host(result)[()] if isinstance(result, pcd.Array) else result
    kwargs["out"] = movers.move(out)
    assert function(*moved, **kwargs) is kwargs["out"]
    movers.fetch(out)
    return out


def call(operation: Any, place: str, *args: Any, **kwargs: Any) -> Any:
    """The operation in a place; NumPy arrays in and out."""
    if place == "array":
        return on_arrays(operation, *args, **kwargs)
    return (
        operation(*args, **kwargs) if place == "cpu" else operation(*args, device=place, **kwargs)
    )


# ---- Cases ----


@dataclass(frozen=True)
class Case:
    """One operation for one element type in one place; calling it computes there."""

    operation: Any
    dtype: np.dtype[Any]
    result_dtype: np.dtype[Any]
    device: str

    @property
    def name(self) -> str:
        return str(self.operation.__name__)

    @property
    def nin(self) -> int:
        return int(self.operation.nin)

    def __str__(self) -> str:
        return f"{self.name}-{self.dtype.name}-{self.device}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self.operation, self.device, *args, **kwargs)


def _all(device: str) -> list[Case]:
    return [
        Case(operation, np.dtype(types[0]), np.dtype(types[-1]), device)
        for operation in pcd.core.operations
        for types in operation.types
        # Without comparisons of int64 with uint64 and of bool, which are no types to compute in,
        # the second name of int64, and powers that test_powers.py has: of signed integers, which
        # not all exponents have, and of complex numbers, which NumPy computes too roughly.
        if len(set(types[: operation.nin])) == 1
        and types[0] not in "?qQ"
        and not (operation.__name__ == "power" and np.dtype(types[0]).kind in "ic")
    ]


#: The operations that are defined for float64.
OF_FLOATS = [op for op in pcd.core.operations if any(types[0] == "d" for types in op.types)]

#: Every operation and type on the CPU.
CPU = _all("cpu")

#: Every operation and type on the first GPU; tests of these have the marker gpu.
CUDA = _all("cuda")

#: Every operation and type on Arrays.
ARRAY = _all("array")

#: Every element type, in the order of the table.
DTYPES = list(dict.fromkeys(case.dtype for case in CPU))

#: And bool, in which few operations compute.
WITH_BOOL = [np.dtype(bool), *DTYPES]

INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]
FLOATS = [dtype for dtype in DTYPES if dtype.kind == "f"]
COMPLEX = [dtype for dtype in DTYPES if dtype.kind == "c"]

Mark = Callable[[Callable[..., Any]], Callable[..., Any]]


def each(
    *,
    cuda: bool = True,
    array: bool | None = None,
    where: Callable[[Case], bool] = lambda case: True,
) -> Mark:
    """Runs a test with an argument `case` for each case that `where` accepts.

    `cuda`: also on the first GPU; `array`: also on Arrays, as `cuda` unless given.
    """
    params = [pytest.param(case, id=str(case)) for case in CPU if where(case)]
    for cases, is_wanted in ((CUDA, cuda), (ARRAY, cuda if array is None else array)):
        params += [
            pytest.param(case, id=str(case), marks=pytest.mark.gpu)
            for case in cases
            if is_wanted and where(case)
        ]
    return pytest.mark.parametrize("case", params)


def each_place() -> Mark:
    """Runs a test on the CPU, on the first GPU, and on Arrays; see `call`."""
    gpu = [pytest.param(place, marks=pytest.mark.gpu) for place in ("cuda", "array")]
    return pytest.mark.parametrize("place", ["cpu", *gpu])


def each_device() -> Mark:
    """Runs a test on the CPU and on the first GPU."""
    return pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def each_dtype(dtypes: Iterable[Any], name: str = "dtype") -> Mark:
    return pytest.mark.parametrize(name, list(dtypes), ids=lambda dtype: np.dtype(dtype).name)
