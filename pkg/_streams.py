"""Streams of GPUs, and their memory."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import core
from ._device import Setting
from ._operands import integer

#: The legacy default stream, as CUDA's runtime and DLPack number it; 0 in `core`.
LEGACY = 1


def gpu_ordinal(device: str | None) -> int:
    """The ordinal of the GPU `device`; of the default device, or cuda:0 if that is the CPU."""
    ordinal = core.parse_device(device)
    if ordinal < 0 and device is not None:
        raise ValueError(f'expected a GPU ("cuda", "cuda:N") or None, not "{device}"')
    return max(ordinal, 0)


def _foreign_ordinal(stream: Any) -> int | None:
    """The GPU of a stream of PyTorch (`device_index`), CuPy (`device_id`) or cuda.core."""
    for owner in (stream, getattr(stream, "device", None)):
        for name in ("device_index", "device_id", "index"):
            ordinal = getattr(owner, name, None)
            if isinstance(ordinal, int) and ordinal >= 0:
                return ordinal
    return None


def core_stream(stream: Any, ordinal: int | None = None) -> core.Stream:
    """What `core` takes for any kind of stream; `ordinal` where the stream does not know its GPU.

    Streams of other libraries are kept alive by the result.
    """
    if isinstance(stream, Stream):
        return stream._stream
    if isinstance(stream, core.Stream):
        return stream
    owner: Any = None
    handle: Any = None
    if isinstance(stream, int) and not isinstance(stream, bool):
        handle = stream
    else:
        owner = stream
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            version, handle = protocol() if callable(protocol) else protocol
            if version != 0:
                raise TypeError(
                    f"__cuda_stream__ of {type(stream).__name__} is of version {version}; "
                    "version 0 is understood"
                )
        else:
            # PyTorch, CuPy: the protocol is younger than they are.
            handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
        if not isinstance(handle, int):
            raise TypeError(
                "expected a Stream, an object with __cuda_stream__, or a cudaStream_t as an int, "
                f"not {type(stream).__name__}"
            )
    if not 0 <= handle < 2**64:
        problem = "be negative" if handle < 0 else "have more than 64 bits"
        raise ValueError(f"a stream's handle cannot {problem}: {handle}")
    if ordinal is None:
        ordinal = _foreign_ordinal(stream) if owner is not None else None
    if ordinal is None:
        ordinal = gpu_ordinal(None)
    return core.Stream(ordinal, handle=0 if handle == LEGACY else handle, owner=owner)


class Stream:
    """A stream of a GPU: its work is done in order, and may overlap with that of other streams.

    ``Stream()`` makes one on the first GPU, ``Stream("cuda:1")`` on another.  Operations go to the
    default stream, except in a `with` block of `stream`.  Any library that knows
    ``__cuda_stream__`` takes it for a stream of its own.
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
        """The stream's GPU, as ``"cuda:0"``."""
        return f"cuda:{self._stream.ordinal}"

    def synchronize(self) -> None:
        """Waits until the stream has done all its work; CudaError if some of it failed."""
        self._stream.synchronize()

    def wait(self, other: Any) -> None:
        """What this stream is given from now on waits for what `other` has been given so far.

        `other` is any kind of stream that `stream` takes.  The call itself does not wait.
        """
        self._stream.wait(core_stream(other))

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


class stream(Setting):  # noqa: N801  a context manager is named like a function
    """Within ``with stream(s):`` operations on the GPU of `s` are given to `s`.

    `s` is a `Stream`, any object with ``__cuda_stream__`` (streams of PyTorch, CuPy, cuda.core), or
    a ``cudaStream_t`` as an int, which must outlive all that uses it; `device` names the GPU of a
    stream that does not know it.  The setting belongs to the context: other threads and other
    asyncio tasks do not see it.  Streams are not ordered among each other: `Stream.wait` does that.
    """

    def __init__(self, s: Any, device: str | None = None) -> None:
        self.stream = Stream._of(core_stream(s, None if device is None else gpu_ordinal(device)))

    def __enter__(self) -> Stream:
        self._enter(core.current_stream, self.stream._stream)
        return self.stream


def synchronize(device: str | None = None) -> None:
    """Waits until a GPU has done what it was given on the current stream and on the default one.

    `device` is ``"cuda"`` or ``"cuda:N"``; None for the GPU of the current stream, or the default
    device, or cuda:0.  CudaError when some of the work failed.
    """
    current = core.current_stream.get(None)
    ordinal = current.ordinal if device is None and current is not None else gpu_ordinal(device)
    if current is not None and current.ordinal == ordinal and current.handle:
        current.synchronize()
    core.Stream(ordinal, handle=0).synchronize()


class MemoryInfo(NamedTuple):
    """The memory of a GPU, in bytes; the first three count what this package has allocated."""

    #: Of arrays that are alive.
    used: int
    #: Taken from the driver: `used`, and what is kept for later arrays.
    held: int
    #: What `used` may not exceed, or None.
    limit: int | None
    #: Of the whole GPU, as the driver says.
    free: int
    total: int


def memory_info(device: str | None = None) -> MemoryInfo:
    """How much memory of a GPU is used, held, and free; None for the default device, or cuda:0."""
    return MemoryInfo(*core.memory_info(gpu_ordinal(device)))


def set_memory_limit(nbytes: int | None, device: str | None = None) -> None:
    """Allocating more than `nbytes` on a GPU raises MemoryError; None takes the limit away."""
    limit = None if nbytes is None else integer("set_memory_limit", "nbytes", nbytes)
    if limit is not None and not 0 <= limit < 2**64:
        raise ValueError(f"set_memory_limit(): nbytes must be from 0 to 2**64 - 1, not {limit}")
    core.set_memory_limit(gpu_ordinal(device), limit)


def free_cached_memory() -> None:
    """Gives back the memory that is kept for speed: of GPUs, and buffers for transfers.

    Later calls get it again when they need it.
    """
    core.free_cached()
