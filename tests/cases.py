"""The one list of cases: every operation of the table, with every element type, on every device.

It is read from the library's own table, so that a new row is covered without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pkg as pcd


@dataclass(frozen=True)
class Case:
    """One operation for one element type on one device; calling it computes there."""

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
        if self.device != "cpu":
            kwargs["device"] = self.device
        return self.operation(*args, **kwargs)

    def on(self, device: str) -> Case:
        """The same case on another device."""
        return Case(self.operation, self.dtype, self.result_dtype, device)


def _all(device: str) -> list[Case]:
    return [
        Case(operation, np.dtype(types[0]), np.dtype(types[-1]), device)
        for operation in pcd.core.operations
        for types in operation.types
    ]


#: Every operation and type on the CPU.
CPU = _all("cpu")

#: Every operation and type on the first GPU; tests of these have the marker gpu.
CUDA = _all("cuda")

#: Every element type, in the order of the table.
DTYPES = list(dict.fromkeys(case.dtype for case in CPU))

INTEGERS = [dtype for dtype in DTYPES if dtype.kind in "iu"]
FLOATS = [dtype for dtype in DTYPES if dtype.kind == "f"]
COMPLEX = [dtype for dtype in DTYPES if dtype.kind == "c"]

Mark = Callable[[Callable[..., Any]], Callable[..., Any]]


def each(*, cuda: bool = True, where: Callable[[Case], bool] = lambda case: True) -> Mark:
    """Runs a test with an argument `case` for each case that `where` accepts."""
    params = [pytest.param(case, id=str(case)) for case in CPU if where(case)]
    if cuda:
        params += [
            pytest.param(case, id=str(case), marks=pytest.mark.gpu) for case in CUDA if where(case)
        ]
    return pytest.mark.parametrize("case", params)


def each_device(name: str = "device") -> Mark:
    """Runs a test on the CPU and on the first GPU."""
    return pytest.mark.parametrize(name, ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def each_dtype(dtypes: Iterable[Any], name: str = "dtype") -> Mark:
    return pytest.mark.parametrize(name, list(dtypes), ids=lambda dtype: np.dtype(dtype).name)
