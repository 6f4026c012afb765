"""Devices, their streams and memory, and the description of the installation."""

from __future__ import annotations

import os.path
import sys
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

import numpy as np

from . import core
from ._operands import device_name, integer, one_device

#: The number of the legacy default stream in CUDA's runtime and DLPack; `core` uses 0.
LEGACY = 1

#: The settings that this context has entered and not yet left, in order.
_entered: ContextVar[tuple[Token[Any], ...]] = ContextVar("pkg.entered", default=())


class Setting:
    """A context manager that gives a context variable a value.

    Threads and tasks may enter one object at once: every context keeps the values that it restores.
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


class default_device(Setting):
    """Makes operations in a `with` block compute on `device` unless they name another.

    `device` is ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"cuda:all"``, which computes host arrays on
    all GPUs at once; functions that make Arrays then need a `device` of their own.  The setting
    belongs to the context: other threads and other asyncio tasks do not see it;
    `set_default_device` is for all of them.  Raises ValueError for an unknown device and CudaError
    for a missing GPU.

    >>> import pkg as pcd
    >>> with pcd.default_device("cpu"):
    ...     pcd.add(1, 2)
    3
    """

    def __init__(self, device: str) -> None:
        if device is None:
            raise TypeError(
                'device must be a string ("cpu", "cuda", "cuda:N", "cuda:all"), not None'
            )
        self.device = device_name(usable_ordinal(device))

    def __enter__(self) -> str:
        self._enter(core.default_device, self.device)
        return self.device


def usable_ordinal(device: str | None) -> int:
    ordinal = core.parse_device(device)
    if ordinal >= 0:
        core.check_device(ordinal)
    return ordinal


def set_default_device(device: str | None) -> None:
    """Makes the operations of all threads compute on `device` unless they name another.

    `device` is that of `default_device`.  None restores the initial device: that of the environment
    variable ``MYLIB_DEFAULT_DEVICE`` when the package was imported, else the CPU.  The setting
    belongs to the process; ``device=`` and a block of `default_device` override it.  Threads and
    tasks see it at once, and forked children keep it.

    Raises ValueError for an unknown device and CudaError for a missing GPU.  The variable is
    checked when a call first needs it, and the same errors then name it.

    >>> set_default_device("cpu")
    >>> get_default_device()
    'cpu'
    """
    core.set_process_device(None if device is None else usable_ordinal(device))


def get_default_device() -> str:
    """Returns the current device of calls without ``device=``, such as ``"cuda:0"``."""
    return device_name(core.parse_device(None))


# ---- Streams and memory ----


def gpu_ordinal(device: str | None) -> int:
    """Returns the number of a GPU; None is the default device, or cuda:0 if that is the CPU."""
    ordinal = one_device(device)
    if ordinal < 0 and device is not None:
        raise ValueError(f'expected a GPU ("cuda", "cuda:N") or None, not "{device}"')
    return max(ordinal, 0)


def _foreign_ordinal(stream: Any) -> int | None:
    """Returns the GPU of a stream of PyTorch (`device_index`), CuPy (`device_id`) or cuda.core."""
    for owner in (stream, getattr(stream, "device", None)):
        for name in ("device_index", "device_id", "index"):
            ordinal = getattr(owner, name, None)
            if isinstance(ordinal, int) and ordinal >= 0:
                return ordinal
    return None


def _foreign_handle(stream: Any) -> int:
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:  # versions of PyTorch and CuPy that predate the protocol
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    else:
        given = protocol() if callable(protocol) else protocol
        if not isinstance(given, tuple | list) or len(given) != 2 or given[0] != 0:
            raise TypeError(
                f"__cuda_stream__ of {type(stream).__name__} must be a version, 0, and a handle, "
                f"not {given!r}"
            )
        handle = given[1]
    if not isinstance(handle, int):
        raise TypeError(
            "expected a Stream, an object with __cuda_stream__, or a cudaStream_t as an int, "
            f"not {type(stream).__name__}"
        )
    return handle


def core_stream(stream: Any, ordinal: int | None = None) -> core.Stream:
    """Returns any kind of stream as one of `core`; `ordinal` is its GPU if it tells none."""
    if isinstance(stream, Stream):
        return stream._stream
    if isinstance(stream, core.Stream):
        return stream
    owner = None if isinstance(stream, int) and not isinstance(stream, bool) else stream
    handle: int = _foreign_handle(stream) if owner is stream else stream
    if not 0 <= handle < 2**64:
        problem = "be negative" if handle < 0 else "have more than 64 bits"
        raise ValueError(f"a stream's handle cannot {problem}: {handle}")
    if ordinal is None:
        ordinal = _foreign_ordinal(owner)
    if ordinal is None:
        ordinal = gpu_ordinal(None)
    return core.Stream(ordinal, handle=0 if handle == LEGACY else handle, owner=owner)


class Stream:
    """A stream of a GPU.  Its work runs in order, and may overlap with that of other streams.

    ``Stream()`` makes one on the first GPU, ``Stream("cuda:1")`` on another.  Operations go to the
    default stream, except in a `with` block of `stream`.  Any library that supports
    ``__cuda_stream__`` accepts it as a stream.
    """

    __slots__ = ("__weakref__", "_stream")

    _stream: core.Stream

    def __init__(self, device: str = "cuda") -> None:
        self._stream = core.Stream(gpu_ordinal(device))

    @classmethod
    def _of(cls, stream: core.Stream) -> Stream:
        self = cls.__new__(cls)
        self._stream = stream
        return self

    @property
    def handle(self) -> int:
        """The ``cudaStream_t``; 0 is the default stream."""
        return self._stream.handle

    @property
    def device(self) -> str:
        """The GPU of the stream, as ``"cuda:0"``."""
        return f"cuda:{self._stream.ordinal}"

    def synchronize(self) -> None:
        """Waits until the stream has done all its work.  Raises CudaError if some of it failed."""
        self._stream.synchronize()

    def wait(self, other: Any) -> None:
        """Makes later work of this stream wait for the present work of `other`.

        `other` is any stream that `stream` takes, of this GPU if it does not tell its own.
        """
        ordinal = _foreign_ordinal(other)
        self._stream.wait(core_stream(other, self._stream.ordinal if ordinal is None else ordinal))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.handle) == (other.device, other.handle)

    def __hash__(self) -> int:
        return hash((self.device, self.handle))

    def __repr__(self) -> str:
        return f"<pkg.Stream {self.handle:#x} of {self.device}>"


class stream(Setting):
    """Makes operations in a `with` block use the stream `s` if they are on its GPU.

    `s` is a `Stream`, any object with ``__cuda_stream__`` (streams of PyTorch, CuPy, cuda.core), or
    a ``cudaStream_t`` as an int, which must outlive its users; `device` names the GPU of a
    stream that does not tell it.  The setting belongs to the context: other threads and other
    asyncio tasks do not see it.  Streams are not ordered among each other; use `Stream.wait`.
    """

    def __init__(self, s: Any, device: str | None = None) -> None:
        self.stream = Stream._of(core_stream(s, None if device is None else gpu_ordinal(device)))

    def __enter__(self) -> Stream:
        self._enter(core.current_stream, self.stream._stream)
        return self.stream


def synchronize(device: str | None = None) -> None:
    """Waits until a GPU has done the work of the current stream and of the default stream.

    `device` is ``"cuda"`` or ``"cuda:N"``; None is the GPU of the current stream, or the default
    device, or cuda:0.  Raises CudaError if some of the work failed.
    """
    current = core.current_stream.get(None)
    ordinal = current.ordinal if device is None and current is not None else gpu_ordinal(device)
    if current is not None and current.ordinal == ordinal and current.handle:
        current.synchronize()
    core.Stream(ordinal, handle=0).synchronize()


class MemoryInfo(NamedTuple):
    """The memory of a GPU, in bytes.  The first three count the allocations of this package."""

    #: Memory of live arrays.
    used: int
    #: Memory taken from the driver: `used`, and memory kept for later arrays.
    held: int
    #: The limit on `used`, or None.
    limit: int | None
    #: Memory of the whole GPU, as the driver says.
    free: int
    total: int


def memory_info(device: str | None = None) -> MemoryInfo:
    """Returns the use of a GPU's memory; None is the default device, or cuda:0."""
    return MemoryInfo(*core.memory_info(gpu_ordinal(device)))


def set_memory_limit(nbytes: int | None, device: str | None = None) -> None:
    """Makes allocations beyond `nbytes` on a GPU raise MemoryError; None removes the limit."""
    limit = None if nbytes is None else integer("set_memory_limit", "nbytes", nbytes)
    if limit is not None and not 0 <= limit < 2**64:
        raise ValueError(f"set_memory_limit(): nbytes must be from 0 to 2**64 - 1, not {limit}")
    core.set_memory_limit(gpu_ordinal(device), limit)


def free_cached_memory() -> None:
    """Returns memory that is cached for speed, on GPUs and in buffers for transfers, to the system.

    Later calls allocate it again when they need it.
    """
    core.free_cached()


# ---- The installation ----


def device_count() -> int:
    """Returns the number of usable CUDA GPUs: 0 without a GPU, a driver, or a build with CUDA."""
    return core.device_count()[0]


def cuda_is_available() -> bool:
    """Tells whether ``device="cuda"`` works here.  `show_config` says why it does not."""
    return device_count() > 0


def get_include() -> str:
    """Returns the folder of ``mylib.h``, for programs compiled against this installation."""
    return os.path.join(get_library_dir(), "include")


def get_library_dir() -> str:
    """Returns the folder of ``libmylib.so``, for programs linked against this installation."""
    return os.path.dirname(__file__)


def config() -> dict[str, Any]:
    """Describes how the library was built and what it found here.

    If ``cuda_available`` is false, ``cuda_reason`` says why.  ``gpus`` has one dict for each GPU.
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
    """Returns how many threads a large operation on the CPU may use; see `set_num_threads`."""
    return core.get_num_threads()


def set_num_threads(threads: int | None) -> int:
    """Sets how many threads a large operation on the CPU may use; returns the previous number.

    It applies to the whole process, and to its forked children.  None is the default:
    ``OMP_NUM_THREADS`` from the environment, or one thread for each processor that the process may
    use.  At most 256 are used.  Results do not depend on the number.  It is a limit for calls from
    several threads together.  threadpoolctl does not control the threads, which are not OpenMP's.
    """
    count = 0 if threads is None else integer("set_num_threads", "threads", threads)
    if threads is not None and count < 1:
        raise ValueError(f"set_num_threads(): threads must be 1 or more, not {threads}")
    return core.set_num_threads(min(count, 2**31 - 1))


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def show_config() -> None:
    """Prints the version, the build, the CPU and the GPUs, or why no GPU is usable."""
    c = config()
    lines = [
        ("pipcudemo", c["version"]),
        ("Python, NumPy", f"{c['python']}, {c['numpy']}"),
        ("library", f"{get_library_dir()}, built by {c['compiler']}"),
        ("CPU", f"{c['cpu_level']}, {c['threads']} thread{'s' if c['threads'] > 1 else ''}"),
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
