"""Defines a case: how it is prepared, and the goals that belong to it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

from . import contenders
from .measuring import Timer

OURS = "pkg"
CEILING = "ceiling"
LAUNCH = "launch+sync"
ONE_GPU = "one GPU"


@dataclass(frozen=True)
class Goal:
    """`reference` takes at least `ratio` times as long, or we take `at_most` (seconds or bytes)."""

    reference: str = ""
    ratio: float = 0.0
    at_most: float = 0.0

    def __str__(self) -> str:
        return (
            f">= {self.ratio:.2f} x {self.reference}" if self.reference else f"<= {self.at_most:g}"
        )


@dataclass
class Environment:
    """Holds the values with which cases are prepared."""

    cpu_peers: dict[str, contenders.Peer]
    gpu_peers: dict[str, contenders.Peer]
    library: ctypes.CDLL | None
    threads: int
    lacking: dict[str, str] = field(default_factory=dict)


@dataclass
class Prepared:
    """Holds the calls to time, or `values` if there is nothing to time."""

    timers: dict[str, Timer] = field(default_factory=dict)
    nbytes: int = 0
    values: dict[str, float] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One row of the results."""

    group: str
    name: str
    repeats: int = 9
    goals: tuple[Goal, ...] = ()
    device: str = "cpu"
    unit: str = "s"

    def prepare(self, environment: Environment) -> Prepared:
        """Makes the operands, checks our result (WrongResult), and tells what to time."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Describes the case for the report."""
        return {"group": self.group, "name": self.name, "device": self.device, "unit": self.unit}


@dataclass(frozen=True)
class Sizes:
    """Numbers of elements."""

    small: tuple[int, ...] = (1000,)
    large: tuple[int, ...] = (2**22,)
    layouts: tuple[int, ...] = (1000, 2**20)
    bandwidth: tuple[int, ...] = (2**24, 2**27)
    transfer: tuple[int, ...] = (2**27,)
    sweep: tuple[int, ...] = tuple(2**k for k in range(4, 27, 2))
    expressions: tuple[int, ...] = (1000, 2**20, 2**24, 2**27)
    #: Of each array in chains of many operations, on the CPU.
    chains: int = 2**22
    #: Bytes of an array that lives on the GPU.
    gpu_nbytes: int = 2**30

    @classmethod
    def only(cls, sizes: tuple[int, ...]) -> Sizes:
        return cls(sizes, (), sizes, sizes, sizes, sizes, sizes, max(sizes))

    @classmethod
    def quick(cls) -> Sizes:
        return cls((64,), (), (60,), (4096,), (4096,), (16, 1024), (64, 4096), 4096, 2**16)


#: From here on one sample is long enough to measure with few of them.
LARGE = 2**19

CPU_PEERS = ("NumPy", "numexpr", "PyTorch")
GPU_PEERS = ("CuPy", "PyTorch")
