"""Exchanges GPU arrays with other libraries (PyTorch, CuPy, Numba, ...) without copies.

The protocols are DLPack and the CUDA array interface.  Work on different streams is ordered:

- a stream waits for the stream that wrote the memory before it uses the memory;
- the owner's stream waits for ours before the owner gets the memory back (in C, when the last
  reference to the memory is dropped).

This file never imports PyTorch or CuPy, but uses their current streams if they are imported.
"""

from __future__ import annotations

import sys
from operator import index
from typing import Any

import numpy as np

from . import core
from ._convert import copied
from ._devices import LEGACY, gpu_ordinal
from ._operands import PLAIN, copies, device_name, has_own_rules, one_device, refusal

#: DLPack's kinds of devices.
_CPU, _CUDA, _CUDA_MANAGED = 1, 2, 13

#: The newest supported version of DLPack.
_MAX_VERSION = (1, 1)


# ---- Streams ----

# None stands for the legacy default stream.
_streams: dict[tuple[int, int], core.Stream] = {}


def _stream(ordinal: int, handle: int) -> core.Stream:
    """Returns a stream that lives for ever: a default stream, or one of PyTorch's pool."""
    stream = _streams.get((ordinal, handle))
    if stream is None:
        stream = _streams[ordinal, handle] = core.Stream(ordinal, handle=handle)
    return stream


def _handle(stream: core.Stream | None) -> int:
    return 0 if stream is None else stream.handle


def _current(ordinal: int) -> core.Stream | None:
    stream = core.current_stream.get(None)
    return stream if stream is not None and stream.ordinal == ordinal and stream.handle else None


def _wait(ordinal: int, stream: core.Stream | None, other: core.Stream | None) -> None:
    if stream is not other and _handle(stream) != _handle(other):
        (stream or _stream(ordinal, 0)).wait(other or _stream(ordinal, 0))


def _torch_stream(torch: Any, ordinal: int) -> core.Stream | None:
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # saves a microsecond
    handle = raw(ordinal) if raw is not None else torch.cuda.current_stream(ordinal).cuda_stream
    return _stream(ordinal, handle) if handle else None


def _cupy_stream(cupy: Any, ordinal: int) -> core.Stream | None:
    stream = cupy.cuda.get_current_stream(ordinal)
    if stream.ptr in (0, LEGACY):
        return None
    return core.Stream(ordinal, handle=stream.ptr, owner=stream)


def _lasting_stream(ordinal: int, handle: int) -> core.Stream | None:
    """Returns the stream with this handle if it certainly outlives our use of it."""
    if handle == 2:  # the default stream of each thread
        return _stream(ordinal, handle)
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    candidates = [_current(ordinal)]
    if torch is not None and torch.cuda.is_initialized():
        candidates.append(_torch_stream(torch, ordinal))
    if cupy is not None:
        candidates.append(_cupy_stream(cupy, ordinal))
    return next((stream for stream in candidates if _handle(stream) == handle), None)


# ---- Our arrays for other libraries ----


def dlpack_device(array: core.ArrayBase) -> tuple[int, int]:
    return _CUDA, array._ordinal


def _make_ready(array: core.ArrayBase, stream: core.Stream | None) -> None:
    for other in core.streams_of(array):
        _wait(array._ordinal, stream, other)


def _hand_over(array: core.ArrayBase, stream: Any) -> None:
    """Makes the consumer's `stream`, a number as DLPack counts, wait for our work."""
    if stream is None:
        stream = LEGACY
    if not isinstance(stream, int):
        raise TypeError(f"stream must be an int or None, not {type(stream).__name__}")
    if stream < -1:
        raise ValueError(f"stream must be -1 (no ordering), 1, 2 or a cudaStream_t, not {stream}")
    if stream == -1:
        return
    ordinal = array._ordinal
    if stream in (0, LEGACY):  # the standard forbids 0, PyTorch sends it
        _make_ready(array, None)
        core.note_use(array, None)
        return
    # The stream of a handle may be destroyed before the memory is freed.
    lasting = _lasting_stream(ordinal, stream)
    _make_ready(array, lasting or core.Stream(ordinal, handle=stream))
    if lasting is not None:
        core.note_use(array, lasting)


def _pair(what: str, x: Any) -> tuple[int, int] | None:
    try:
        return None if x is None else (index(x[0]), index(x[1]))
    except (TypeError, IndexError):
        raise TypeError(f"__dlpack__(): {what} must be a tuple of two ints, not {x!r}") from None


def dlpack(
    array: core.ArrayBase,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    copy = copies("__dlpack__", copy)
    dl_device, max_version = _pair("dl_device", dl_device), _pair("max_version", max_version)
    if dl_device is not None and dl_device != (_CUDA, array._ordinal):
        if dl_device != (_CPU, 0):
            raise BufferError(
                f"an array on {array.device} can be exported there, and as a copy to the CPU, not "
                f"to DLPack's device {dl_device}"
            )
        if copy is False:
            raise BufferError(f"the array is on {array.device}: the CPU can only have a copy of it")
        host = copied(array, -1, order="C")
        try:
            return host.__dlpack__(max_version=max_version)
        except TypeError:  # NumPy 2.0
            return host.__dlpack__()
    if copy:
        array = copied(array, array._ordinal, order="C")
    _hand_over(array, stream)
    is_versioned = max_version is not None and max_version[0] >= 1
    return core.to_dlpack(array, is_versioned, bool(copy))


def cuda_array_interface(array: core.ArrayBase) -> dict[str, Any]:
    """Returns ``Array.__cuda_array_interface__``: version 3, ready on the current stream."""
    stream = _current(array._ordinal)
    _make_ready(array, stream)
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array._pointer if array.size else 0, array._is_readonly),
        "strides": None if array._is_c_contiguous else array.strides,
        "stream": _handle(stream) or LEGACY,
        "version": 3,
    }


# ---- Other libraries' arrays for us ----

#: An Array, and the stream on which its contents are ready.
_Ready = tuple[core.ArrayBase, "core.Stream | None"]


def _take(x: Any) -> _Ready | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        return _take_tensor(torch, x)
    kind: Any = type(x)
    if hasattr(kind, "__dlpack_device__") and hasattr(kind, "__dlpack__"):
        place, ordinal = x.__dlpack_device__()
        return _take_dlpack(x, ordinal) if place in (_CUDA, _CUDA_MANAGED) else None
    interface = getattr(x, "__cuda_array_interface__", None)
    return _take_interface(x, interface) if isinstance(interface, dict) else None


def _take_tensor(torch: Any, x: Any) -> _Ready | None:
    if not x.is_cuda:
        return None
    if x.is_neg():
        raise BufferError("the tensor is negated lazily: take x.resolve_neg()")
    if type(x) is not torch.Tensor or x.requires_grad or x.is_conj():
        capsule = x.__dlpack__(stream=-1)  # or PyTorch's error
    else:
        capsule = torch.utils.dlpack.to_dlpack(x)
    stream = _torch_stream(torch, x.get_device())
    return core.from_dlpack(capsule, stream, True), stream


def _take_dlpack(x: Any, ordinal: int) -> _Ready:
    cupy = sys.modules.get("cupy")
    known: Any = getattr(cupy, "ndarray", ())
    if isinstance(x, known):
        stream = _cupy_stream(cupy, ordinal)
        if any(step < 0 for step in x.strides):  # wrong in CuPy's capsules
            return _take_interface(x, x.__cuda_array_interface__)
        return core.from_dlpack(x.__dlpack__(stream=-1), stream, True), stream
    # The producer makes our stream wait; we do not know the stream on which it uses the memory.
    stream = _current(ordinal)
    handle = _handle(stream) or LEGACY
    try:
        capsule = x.__dlpack__(stream=handle, max_version=_MAX_VERSION)
    except TypeError:  # before DLPack 1.0
        capsule = x.__dlpack__(stream=handle)
    return core.from_dlpack(capsule, stream, False), stream


def _parse_interface(x: Any, interface: dict[str, Any]) -> tuple[Any, ...]:
    name = f"the __cuda_array_interface__ of {type(x).__name__}"
    missing = [key for key in ("shape", "typestr", "data", "version") if key not in interface]
    if missing:
        raise BufferError(f"{name} lacks {' and '.join(map(repr, missing))}")
    version = interface["version"]
    if version not in (2, 3):
        raise BufferError(f"{name} is of version {version}; versions 2 and 3 are understood")
    if interface.get("mask") is not None:
        raise BufferError(f"masks are not supported, and {type(x).__name__} has one")
    shape: Any
    shape, strides, handle = (interface.get(key) for key in ("shape", "strides", "stream"))
    try:
        pointer, is_readonly = interface["data"]
        pointer = 0 if pointer is None else index(pointer)
        shape = tuple(map(index, shape))
        strides = None if strides is None else tuple(map(index, strides))
        # Version 2 has no streams; None means the same: use the memory at once.
        if handle is not None and index(handle) == 0:
            raise BufferError(f"{name} has stream 0, which is not allowed: 1 is the default stream")
        handle = 0 if handle is None else index(handle)
        dtype = np.dtype(interface["typestr"])
        good = isinstance(interface["typestr"], str) and pointer >= 0 and handle >= 0
    except (TypeError, ValueError) as error:
        raise BufferError(f"{name} is malformed: {error}") from error
    if not good:
        raise BufferError(f"{name} is malformed: {interface}")
    return pointer, shape, strides, dtype, bool(is_readonly), handle


def _take_interface(x: Any, interface: dict[str, Any]) -> _Ready:
    pointer, shape, strides, dtype, is_readonly, handle = _parse_interface(x, interface)
    if 0 in shape:
        ordinal = gpu_ordinal(None)
        core.check_device(ordinal)
    else:
        ordinal = core.pointer_device(pointer) if pointer else -1
        if ordinal < 0:
            raise BufferError(
                f"the __cuda_array_interface__ of {type(x).__name__} points to {pointer:#x}, which "
                "is not GPU memory"
            )
        used = [stride for stride, n in zip(strides or (), shape, strict=False) if n > 1]
        if any(offset % dtype.itemsize for offset in (pointer, *used) if dtype.itemsize):
            raise BufferError(
                f"elements of {dtype} at {pointer:#x} with strides of {used} bytes are not aligned"
            )
    stream = None
    if handle not in (0, LEGACY):
        stream = core.Stream(ordinal, handle=handle, owner=x)
    return core.wrap(pointer, ordinal, dtype, shape, strides, is_readonly, x, stream), stream


def _move(array: core.ArrayBase, ordinal: int, copy: bool | None) -> Any:
    if ordinal == array._ordinal and not copy:
        return array
    if copy is False:
        place = device_name(ordinal)
        raise BufferError(f"the array is on {array.device}: moving it to {place} makes a copy")
    return copied(array, ordinal, order="C")


def from_foreign(x: Any, device: str | None = None) -> Any:
    """Returns an Array over the GPU memory of `x` that the current stream may use at once.

    Copies only if `device` names another place.  Returns None if `x` is not an array on a CUDA GPU.
    """
    found = _take(x)
    if found is None:
        return None
    array, ready = found
    _wait(array._ordinal, _current(array._ordinal), ready)
    return array if device is None else _move(array, core.parse_device(device), None)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Any:
    """Returns the elements of `x` without a copy: an Array from a GPU, a NumPy array from the CPU.

    `x` has ``__dlpack__`` or ``__cuda_array_interface__``: a tensor of PyTorch, an array of CuPy,
    Numba, JAX, NumPy, ...  The result shares the memory and keeps it alive.  `device` (``"cpu"``,
    ``"cuda"`` or ``"cuda:N"``) moves it if it is elsewhere.  If `copy` is true, the result is
    always a copy; if it is false, a needed copy raises BufferError.
    """
    copy, ordinal = copies("from_dlpack", copy), None if device is None else one_device(device)
    array = x if isinstance(x, core.ArrayBase) else from_foreign(x)
    if array is not None:
        return _move(array, array._ordinal if ordinal is None else ordinal, copy)
    if has_own_rules(x):
        raise refusal("the operand of from_dlpack()", x)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            "from_dlpack(): x must have __dlpack__ or __cuda_array_interface__, and "
            f"{type(x).__name__} has neither"
        )
    host = np.from_dlpack(x)
    if ordinal is not None and ordinal >= 0:
        if copy is False:
            raise BufferError(f"the array is on the CPU: moving it to {device} makes a copy")
        return copied(host, ordinal, order="C")
    return host.copy() if copy else host


# ---- Operations ----


def _operand(x: Any, foreign: list[_Ready]) -> Any:
    """Returns `x`, or if it is foreign GPU memory an Array over it, which it adds to `foreign`."""
    if type(x) in PLAIN or isinstance(x, core.ArrayBase):
        return x
    one = _take(x)
    if one is None:
        return x
    foreign.append(one)
    return one[0]


def call_foreign(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Computes a call in which an operand is foreign GPU memory; returns NotImplemented for others.

    The arguments come from `_call.normalize`.  Outside ``with pkg.stream(...)`` the operation uses
    the stream of the first such operand, so that no stream has to wait.
    """
    foreign: list[_Ready] = []
    arrays = [_operand(x, foreign) for x in args]
    kwargs, out = {**kwargs}, kwargs.get("out")
    for name in ("out", "where"):
        if name in kwargs:
            kwargs[name] = _operand(kwargs[name], foreign)
    if not foreign:
        return NotImplemented

    first, stream = foreign[0]
    ordinal = first._ordinal
    current = core.current_stream.get(None)
    is_ours = current is not None and current.ordinal == ordinal
    if is_ours:
        stream = current
    elif stream is not None and any(isinstance(x, core.ArrayBase) for x in (*args, out)):
        _wait(ordinal, stream, None)
    for _, ready in foreign:
        if ready is not stream:
            _wait(ordinal, stream, ready)
    is_foreign_out = kwargs.get("out") is not out
    if is_ours or stream is None:
        result = operation(*arrays, **kwargs)
    else:
        token = core.current_stream.set(stream)
        try:
            result = operation(*arrays, **kwargs)
        finally:
            core.current_stream.reset(token)
        if not is_foreign_out:
            _wait(ordinal, None, stream)
    return out if is_foreign_out else result
