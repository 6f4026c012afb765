"""Defines a case: how it is prepared, and the goals that belong to it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import ceilings, contenders
from .measuring import Timer

OURS = "pkg"
CEILING = "ceiling"
LAUNCH = "launch+sync"
ONE_GPU = "one GPU"


@dataclass(frozen=True)
class Goal:
    """`reference` takes at least `ratio` times as long, or we need `at_most` (seconds or bytes)."""

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

    def add(self, name: str, make: Callable[..., Timer], *args: Any) -> None:
        """Adds a contender; a peer that cannot do this is left out, and the report says why."""
        try:
            self.timers[name] = make(*args)
        except Exception as error:
            if name == OURS:
                raise
            self.lacking[name] = failure(error)

    def add_with_cupy(
        self, environment: Environment, name: str, make: Callable[..., Timer], *args: Any
    ) -> None:
        """Adds what CuPy's module measures: `make` takes it, and then `args`."""
        if "CuPy" in environment.gpu_peers:
            self.add(name, make, environment.gpu_peers["CuPy"].api, *args)
        else:
            self.lacking[name] = "measured with CuPy, which is not there"

    def add_ceiling(
        self, environment: Environment, inputs: Sequence[np.ndarray], out: np.ndarray
    ) -> None:
        """Adds the CPU's ceiling: as many streams of as many bytes, and additions."""
        if environment.library is None:
            self.lacking[CEILING] = environment.lacking[CEILING]
        elif any(x.nbytes != out.nbytes for x in inputs) or out.nbytes < 8:
            self.lacking[CEILING] = "operands of different sizes"
        else:
            addresses = [x.ctypes.data for x in inputs]
            self.timers[CEILING] = contenders.Statement(
                "f(n, o, x, k, threads)",
                f=environment.library.ceiling_add,
                n=out.nbytes // 8,
                o=out.ctypes.data,
                x=(ctypes.c_void_p * len(inputs))(*addresses),
                k=len(inputs),
                threads=environment.threads,
                keep=(inputs, out),
            )

    def add_launch(self, environment: Environment) -> None:
        """Adds the launch of an empty kernel."""
        if environment.library is None:
            self.lacking[LAUNCH] = environment.lacking[CEILING]
        else:
            self.add(LAUNCH, ceilings.LaunchTimer, environment.library)


def failure(error: Exception) -> str:
    """Returns the first line of what an error says."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


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
