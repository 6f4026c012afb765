"""Devices, and the description of the installation."""

from __future__ import annotations

import sys
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any

import numpy as np

from . import core
from ._operands import integer

#: The settings that this context has entered and not left yet, the latest last.
_entered: ContextVar[tuple[Token[Any], ...]] = ContextVar("pkg.entered", default=())


class Setting:
    """A context manager that gives a context variable a value.

    An object may be entered again, and by several threads and tasks at once: what a context
    restores is kept in that context.
    """

    def _enter(self, variable: ContextVar[Any], value: Any) -> None:
        _entered.set((*_entered.get(), variable.set(value)))

    def __exit__(self, *exc_info: object) -> None:
        entered = _entered.get()
        if not entered:
            raise RuntimeError(
                f"this thread or task leaves a {type(self).__name__} that it has not entered"
            )
        entered[-1].var.reset(entered[-1])
        _entered.set(entered[:-1])


class default_device(Setting):  # noqa: N801  a context manager is named like a function
    """Within ``with default_device(device):`` operations compute on `device` unless told otherwise.

    `device` is ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.  The setting belongs to the context: other
    threads and other asyncio tasks do not see it.  ValueError for an unknown device, CudaError for
    one that is not there.

    >>> with default_device("cpu"):
    ...     core.operations[0](1, 2)
    3
    """

    def __init__(self, device: str) -> None:
        if device is None:
            raise TypeError('device must be a string ("cpu", "cuda", "cuda:N"), not None')
        ordinal = core.parse_device(device)
        if ordinal >= 0:
            core.check_device(ordinal)
        self.device = "cpu" if ordinal < 0 else f"cuda:{ordinal}"

    def __enter__(self) -> str:
        self._enter(core.default_device, self.device)
        return self.device


def device_count() -> int:
    """The number of CUDA GPUs that can be used; 0 without a GPU, a driver, or a build with CUDA."""
    return core.device_count()[0]


def cuda_is_available() -> bool:
    """Whether ``device="cuda"`` works here.  `show_config` tells why it does not."""
    return device_count() > 0


def get_include() -> str:
    """The folder of ``mylib.h``, for programs that are compiled against this installation."""
    return str(Path(__file__).parent / "include")


def get_library_dir() -> str:
    """The folder of ``libmylib.so``, for programs that are linked against this installation."""
    return str(Path(__file__).parent)


def config() -> dict[str, Any]:
    """How the library was built and what it found here.

    ``cuda_available`` is false where ``cuda_reason`` says why; ``gpus`` has one dict for each GPU.
    """
    count, reason = core.device_count()
    return {
        **core.config(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "cuda_available": count > 0,
        "cuda_reason": reason,
        "gpus": [core.device_info(ordinal) for ordinal in range(count)],
    }


def get_num_threads() -> int:
    """How many threads a large operation on the CPU uses at most; see `set_num_threads`."""
    threads: int = core.config()["threads"]
    return threads


def set_num_threads(threads: int | None) -> None:
    """Sets how many threads a large operation on the CPU uses at most, in the whole process.

    None is the default: ``OMP_NUM_THREADS`` from the environment, or one thread for each processor
    that the process may use.  Results do not depend on it.  Calls from several threads share the
    library's, so that there are never more than this number besides their own.
    """
    count = 0 if threads is None else integer("set_num_threads", "threads", threads)
    if threads is not None and count < 1:
        raise ValueError(f"set_num_threads(): threads must be 1 or more, not {threads}")
    core.set_threads(count)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def show_config() -> None:
    """Prints the version, how it was built, the CPU and the GPUs, and why there is none if so."""
    c = config()
    lines = [
        ("pipcudemo", c["version"]),
        ("Python, NumPy", f"{c['python']}, {c['numpy']}"),
        ("library", f"{get_library_dir()}, built by {c['compiler']}"),
        (
            "CPU",
            f"{c['cpu_level']}, {c['threads']} thread{'s' if c['threads'] > 1 else ''}",
        ),
    ]
    if c["has_cuda"]:
        lines.append(
            ("CUDA", f"toolkit {c['cuda_version']}, for architectures {c['cuda_architectures']}")
        )
    else:
        lines.append(("CUDA", f"built without; looked in: {c['cuda_searched']}"))
    for ordinal, gpu in enumerate(c["gpus"]):
        gib = gpu["total_nbytes"] / 2**30
        lines.append(
            (
                f"cuda:{ordinal}",
                f"{gpu['name']}, compute capability {gpu['compute_capability']}, {gib:.1f} GiB, "
                f"driver for CUDA {_cuda_version(gpu['driver_version'])}",
            )
        )
    if not c["gpus"]:
        lines.append(("GPU", f"none: {c['cuda_reason']}"))
    for name, text in lines:
        print(f"{name + ':':15} {text}")
