"""Arrays of other libraries on a GPU, and ours for them: pointers, lifetimes, order of streams.

The other libraries are played by small classes here; the real ones are in test_libraries.py.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as pointer
from typing import Any

import cases
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import pkg as pcd
from pkg import _interop, core

pytestmark = pytest.mark.gpu

# ---- DLPack's structures, and what a C library does with capsules ----


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", pointer),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, pointer)


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", pointer), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", pointer),
        ("deleter", DELETER),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


def _api(name: str, restype: Any, *argtypes: Any) -> Any:
    return ctypes.PYFUNCTYPE(restype, *argtypes)((name, ctypes.pythonapi))


DESTRUCTOR = ctypes.PYFUNCTYPE(None, pointer)
new_capsule = _api("PyCapsule_New", ctypes.py_object, pointer, c_char_p, DESTRUCTOR)
get_name = _api("PyCapsule_GetName", c_char_p, ctypes.py_object)
set_name = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, c_char_p)
get_pointer = _api("PyCapsule_GetPointer", pointer, ctypes.py_object, c_char_p)


class Consumer:
    """Takes a capsule as a library would; `release` calls the deleter."""

    def __init__(self, capsule: Any) -> None:
        self.name = get_name(capsule)
        self.is_versioned = self.name == b"dltensor_versioned"
        self.address = get_pointer(capsule, self.name)
        kind = Versioned if self.is_versioned else Plain
        self.managed = kind.from_address(self.address)
        self.tensor = self.managed.tensor
        ndim = self.tensor.ndim
        self.shape = tuple(self.tensor.shape[:ndim])
        self.strides = tuple(self.tensor.strides[:ndim])
        self.used_name = b"used_" + self.name
        set_name(capsule, self.used_name)

    def release(self) -> None:
        self.managed.deleter(self.address)  # ctypes gives the GIL away for the call


#: What capsules point to: it outlives the objects that made them, as in C.
_managed: list[Any] = []


class Foreign:
    """An array of another library, over the memory of one of ours; counts what is done to it."""

    device_type = 2

    def __init__(self, array: Any, is_versioned: bool = True, **changes: Any) -> None:
        self.array, self.is_versioned, self.changes = array, is_versioned, changes
        self.asked: list[Any] = []
        self.deleted = 0
        self.sources: list[Consumer] = []

    def release_all(self) -> None:
        """The producer keeps memory that was refused."""
        while self.sources:
            self.sources.pop().release()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.array._ordinal

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        self.asked.append((stream, kwargs))
        if kwargs and not self.is_versioned:
            raise TypeError("unexpected keyword argument")
        ndim = self.array.ndim
        source = Consumer(core.to_dlpack(self.array, True))

        def delete(address: int) -> None:
            self.deleted += 1
            source.release()

        managed = Versioned(1, 0) if self.is_versioned else Plain()
        managed.deleter = DELETER(delete)
        ctypes.pointer(managed.tensor)[0] = source.tensor
        strides = (c_int64 * ndim)(*source.strides)
        managed.tensor.strides = strides
        kept = [managed, strides]
        for name, value in self.changes.items():
            owner = managed if hasattr(managed, name) and name != "strides" else managed.tensor
            if isinstance(value, tuple):
                value = (c_int64 * len(value))(*value)
                kept.append(value)
            setattr(owner, name, POINTER(c_int64)() if (name, value) == ("shape", None) else value)
        self.sources.append(source)
        _managed.append(kept)
        name = b"dltensor_versioned" if self.is_versioned else b"dltensor"
        return new_capsule(ctypes.addressof(managed), name, DESTRUCTOR())


class Exporter:
    """An array with our functions as methods, as pkg.Array has them."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return _interop.dlpack(self.array, **kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _interop.dlpack_device(self.array)


class Interface:
    """An array of a library that has the CUDA array interface only."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**_interop.cuda_array_interface(self.array), **self.changes}


def _both(x: Any) -> list[Any]:
    """The same foreign memory, taken twice by each protocol."""
    return [pcd.asarray(other) for other in (Interface(x), Interface(x), Foreign(x), Foreign(x))]


def gpu(values: Any, dtype: Any = None, ordinal: int = 0) -> core.ArrayBase:
    return pcd.asarray(values, dtype, f"cuda:{ordinal}")


def readonly(array: core.ArrayBase) -> core.ArrayBase:
    return core.wrap(
        array._pointer, array._ordinal, array.dtype, array.shape, array.strides, True, array, None
    )


@pytest.fixture(autouse=True)
def no_leak() -> Iterator[None]:
    """All GPU memory is given back."""
    gc.collect()
    before = [pcd.memory_info(f"cuda:{i}").used for i in range(pcd.device_count())]
    yield
    gc.collect()
    _managed.clear()
    after = [pcd.memory_info(f"cuda:{i}").used for i in range(pcd.device_count())]
    assert after == before


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Records (waiting stream, stream that it waits for), as handles."""
    log: list[tuple[int, int]] = []

    def wait(ordinal: int, stream: Any, other: Any) -> None:
        handles = (_interop._handle(stream), _interop._handle(other))
        if handles[0] != handles[1]:
            log.append(handles)

    monkeypatch.setattr(_interop, "_wait", wait)
    return log


VIEWS = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "strided": lambda a: a[::2, 1::3],
    "reversed": lambda a: a[::-1, ::-1],
    "one row": lambda a: a[2:3],
    "one element": lambda a: a[2, 3, ...],
    "nothing": lambda a: a[:0, 3:],
    "broadcast": lambda a: as_strided(a, (3, *a.shape[1:]), (0, *a.strides[1:])),
    "new axis": lambda a: a[:, None, ::-1],
}
each_view = pytest.mark.parametrize("of", VIEWS.values(), ids=VIEWS)
each_kind = pytest.mark.parametrize("is_versioned", [False, True], ids=["0.x", "1.x"])

# ---- Ours for others: capsules ----


@each_kind
@pytest.mark.parametrize("dtype", cases.WITH_BOOL, ids=str)
def test_a_capsule_describes_the_array(dtype: np.dtype, is_versioned: bool) -> None:
    array = gpu(np.arange(12).reshape(3, 4).astype(dtype))
    c = Consumer(core.to_dlpack(array, is_versioned))
    t = c.tensor
    code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[dtype.kind]
    assert (t.code, t.bits, t.lanes) == (code, 8 * dtype.itemsize, 1)
    assert (t.data, t.byte_offset, t.device_type, t.device_id) == (array._pointer, 0, 2, 0)
    assert c.shape == (3, 4) and c.strides == (4, 1) and c.is_versioned is is_versioned
    if is_versioned:
        assert (c.managed.major, c.managed.minor, c.managed.flags) == (1, 1, 0)
    c.release()


@each_view
@each_kind
def test_a_capsule_of_a_view(of: Any, is_versioned: bool) -> None:
    values = np.arange(48.0).reshape(6, 8)
    part = core.view(gpu(values), of)
    c = Consumer(core.to_dlpack(part, is_versioned))
    assert c.shape == part.shape
    if part.size:
        assert c.tensor.data == part._pointer
        used = [n > 1 for n in part.shape]
        assert [s for s, u in zip(c.strides, used, strict=True) if u] == [
            s // 8 for s, u in zip(part.strides, used, strict=True) if u
        ]
    else:
        assert c.tensor.data is None
    c.release()


def test_a_capsule_that_nobody_consumes() -> None:
    for is_versioned in (False, True):
        array = gpu([1.0])
        used = pcd.memory_info().used
        capsule = core.to_dlpack(array, is_versioned)
        del array
        assert pcd.memory_info().used == used
        del capsule
        assert pcd.memory_info().used < used


@each_kind
def test_memory_lives_until_the_consumer_is_done(is_versioned: bool) -> None:
    array = gpu([1.0, 2.0])
    used = pcd.memory_info().used
    capsule = core.to_dlpack(array, is_versioned)
    consumers = [Consumer(capsule), Consumer(core.to_dlpack(array, is_versioned))]
    del array, capsule
    gc.collect()
    assert pcd.memory_info().used == used
    consumers[0].release()
    assert pcd.memory_info().used == used
    thread = threading.Thread(target=consumers[1].release)
    thread.start()
    thread.join()
    assert pcd.memory_info().used < used


def test_strides_that_are_no_whole_elements() -> None:
    raw = gpu(np.zeros(64, "i1"))
    for strides, shape in (((12, 8), (3, 2)), ((-12,), (3,))):
        array = core.wrap(raw._pointer + 24, 0, "f8", shape, strides, False, raw, None)
        with pytest.raises(BufferError, match="12 bytes in dimension 0"):
            core.to_dlpack(array, True)
    unused = core.wrap(raw._pointer, 0, "f8", (1, 3), (12, 8), False, raw, None)
    c = Consumer(core.to_dlpack(unused, True))
    assert c.strides == (1, 1)
    c.release()


def test_read_only_arrays() -> None:
    array = readonly(gpu([1.0]))
    with pytest.raises(BufferError, match="read-only"):
        core.to_dlpack(array, False)
    with pytest.raises(BufferError, match="read-only"):
        Exporter(array).__dlpack__()
    c = Consumer(core.to_dlpack(array, True))
    assert c.managed.flags == 1
    c.release()
    c = Consumer(Exporter(array).__dlpack__(copy=True, max_version=(1, 0)))
    assert c.managed.flags == 2 and c.tensor.data != array._pointer
    c.release()
    assert pcd.from_dlpack(Exporter(array))._is_readonly
    assert _interop.cuda_array_interface(array)["data"] == (array._pointer, True)
    assert pcd.from_dlpack(Interface(array))._is_readonly


def test_which_version_the_consumer_gets() -> None:
    array = gpu([1.0])
    for version, name in (
        (None, b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 0), b"dltensor_versioned"),
        ((1, 5), b"dltensor_versioned"),
        ((2, 0), b"dltensor_versioned"),
    ):
        assert get_name(_interop.dlpack(array, max_version=version)) == name
    assert get_name(_interop.dlpack(array)) == b"dltensor"


def test_export_to_the_cpu() -> None:
    values = np.arange(6.0).reshape(2, 3)
    array = gpu(values)
    assert np.array_equal(np.from_dlpack(Exporter(array), device="cpu"), values)
    copy = np.from_dlpack(Exporter(readonly(array)), device="cpu")
    assert np.array_equal(copy, values)
    with pytest.raises(BufferError, match="only have a copy"):
        _interop.dlpack(array, dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"\(4, 0\)"):
        _interop.dlpack(array, dl_device=(4, 0))
    with pytest.raises(BufferError, match=r"\(2, 7\)"):
        _interop.dlpack(array, dl_device=(2, 7))
    _interop.dlpack(array, dl_device=(2, 0), copy=False)
    for what in ("dl_device", "max_version"):
        for wrong in (3, (1,), ("a", 0), "ab"):
            with pytest.raises(TypeError, match=f"{what} must be a tuple of two ints"):
                _interop.dlpack(array, **{what: wrong})


def test_export_orders_streams(waits: list[Any]) -> None:
    own, other = pcd.Stream(), pcd.Stream()
    array = gpu([1.0])
    for stream in (None, 0, 1, -1):
        _interop.dlpack(array, stream=stream)
    assert waits == [] and core.streams_of(array) == (None,)
    _interop.dlpack(array, stream=other.handle)
    _interop.dlpack(array, stream=2)
    assert waits == [(other.handle, 0), (2, 0)]
    # A handle of unknown lifetime is not kept; the default stream stands for those of threads.
    assert core.streams_of(array) == (None,)

    with pcd.stream(own):
        array = gpu([1.0])
    with pcd.stream(other):
        core.copy(array, array)
    for stream, waited in (
        (None, [(0, own.handle), (0, other.handle)]),
        (own.handle, [(own.handle, other.handle), (own.handle, 0)]),
        (-1, []),
    ):
        waits.clear()
        _interop.dlpack(array, stream=stream)
        assert waits == waited
    with pcd.stream(other):  # the consumer is on our current stream
        _interop.dlpack(array, stream=other.handle)
    assert len(core.streams_of(array)) == 3
    waits.clear()
    _interop.dlpack(array, stream=1, copy=True)
    assert waits == []  # the copy was made on the default stream


def test_streams_that_are_no_streams() -> None:
    for wrong, error in (("1", TypeError), (1.0, TypeError), (-2, ValueError)):
        with pytest.raises(error, match="stream must be"):
            _interop.dlpack(gpu([1.0]), stream=wrong)


# ---- Ours for others: the CUDA array interface ----


@each_view
def test_interface_round_trips(of: Any) -> None:
    for dtype in cases.WITH_BOOL:
        _interface_round_trip(of, dtype)


def _interface_round_trip(of: Any, dtype: np.dtype) -> None:
    values = np.arange(48).reshape(6, 8).astype(dtype)
    part = core.view(gpu(values), of)
    interface = _interop.cuda_array_interface(part)
    assert interface["version"] == 3 and interface["shape"] == part.shape
    assert interface["typestr"] == dtype.str and interface["stream"] == 1
    assert (interface["strides"] is None) == part._is_c_contiguous
    assert interface["data"] == (part._pointer if part.size else 0, False)
    again = pcd.from_dlpack(Interface(part))
    assert again.shape == part.shape and again.dtype == dtype
    assert part.size == 0 or again._pointer == part._pointer
    assert np.array_equal(pcd.asnumpy(again), of(values))


def test_interface_and_streams(waits: list[Any]) -> None:
    s = pcd.Stream()
    with pcd.stream(s):
        array = gpu([1.0])
    assert _interop.cuda_array_interface(array)["stream"] == 1
    assert waits == [(0, s.handle)]
    with pcd.stream(s):
        assert _interop.cuda_array_interface(array)["stream"] == s.handle
    assert len(waits) == 1
    for stream, handle in ((s.handle, s.handle), (1, 0), (2, 2), (None, 0)):
        waits.clear()
        again = pcd.from_dlpack(Interface(gpu([1.0]), stream=stream))
        assert waits == ([(0, handle)] if handle else [])
        assert _interop._handle(core.streams_of(again)[0]) == (0 if handle == 2 else handle)
    waits.clear()
    with pcd.stream(s):
        pcd.from_dlpack(Interface(gpu([1.0]), stream=1))
    assert (s.handle, 0) in waits


def test_an_interface_that_the_object_holds_itself() -> None:
    class Holder:
        pass

    holder: Any = Holder()
    holder.array = gpu([1.0, 2.0])
    holder.__cuda_array_interface__ = _interop.cuda_array_interface(holder.array)
    for taken in (pcd.asarray(holder), pcd.from_dlpack(holder), pcd.sqrt(holder)):
        assert taken.device == "cuda:0" and taken.shape == (2,)


def test_interface_of_version_2() -> None:
    array = gpu([1.0, 2.0])

    class Old:
        __cuda_array_interface__ = {
            "shape": (2,),
            "typestr": "<f8",
            "data": (array._pointer, False),
            "version": 2,
        }

    assert pcd.asnumpy(pcd.from_dlpack(Old())).tolist() == [1, 2]
    assert pcd.asnumpy(pcd.add(Old(), Old())).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"version": 1}, BufferError, "version 1"),
        ({"version": 4}, BufferError, "version 4"),
        ({"mask": object()}, BufferError, "mask"),
        ({"typestr": ">f8"}, TypeError, "not dtype"),
        ({"typestr": "|V8"}, TypeError, "not dtype"),
        ({"typestr": "<M8[s]"}, TypeError, "not dtype"),
        ({"strides": (12,)}, BufferError, "not aligned"),
        ({"strides": (8, 8)}, ValueError, "differ in length"),
        ({"shape": (-1,)}, ValueError, "negative size"),
        ({"shape": (2**60, 2**60)}, ValueError, "out of range"),
        ({"shape": (2,), "strides": (2**63 - 8,)}, ValueError, "out of range"),
        ({"strides": (2**70,)}, OverflowError, "too (big|large)"),
        ({"shape": None}, BufferError, "malformed"),
        ({"shape": 2}, BufferError, "malformed"),
        ({"shape": (2.0,)}, BufferError, "malformed"),
        ({"shape": "ab"}, BufferError, "malformed"),
        ({"shape": (1,) * 65}, ValueError, "65 dimensions"),
        ({"strides": 8}, BufferError, "malformed"),
        ({"stream": 0}, BufferError, "stream 0, which is not allowed"),
        ({"strides": (None,)}, BufferError, "malformed"),
        ({"typestr": None}, BufferError, "malformed"),
        ({"typestr": 7}, BufferError, "malformed"),
        ({"typestr": "no type"}, BufferError, "malformed"),
        ({"typestr": "|V0"}, TypeError, "not dtype"),
        ({"data": None}, BufferError, "malformed"),
        ({"data": 16}, BufferError, "malformed"),
        ({"data": (16,)}, BufferError, "malformed"),
        ({"data": ("16", False)}, BufferError, "malformed"),
        ({"data": (None, False)}, BufferError, "not GPU memory"),
        ({"data": (0, False)}, BufferError, "not GPU memory"),
        ({"data": (-8, False)}, BufferError, "malformed"),
        ({"data": (2**70, False)}, OverflowError, "too (big|large)"),
        ({"version": None}, BufferError, "version None"),
        ({"stream": "1"}, BufferError, "malformed"),
        ({"stream": -5}, BufferError, "malformed"),
    ],
)
def test_interfaces_that_are_refused(changes: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        pcd.from_dlpack(Interface(gpu([1.0, 2.0]), **changes))


@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_interfaces_that_lack_something(key: str) -> None:
    class Lacks:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            described = _interop.cuda_array_interface(gpu([1.0]))
            del described[key]
            return described

    for call in (pcd.from_dlpack, pcd.asarray, lambda x: pcd.add(x, 1), pcd.sum):
        with pytest.raises(BufferError, match=f"lacks '{key}'"):
            call(Lacks())


def test_an_empty_interface_of_a_gpu_that_is_not_there(python: Callable[..., str]) -> None:
    """An array without elements has no pointer that would tell its GPU."""
    code = """
import pkg as pcd
class Empty:
    __cuda_array_interface__ = {
        "shape": (0, 3), "typestr": "<f8", "data": (0, False), "version": 3
    }
assert pcd.from_dlpack(Empty()).shape == (0, 3)
def missing(ordinal):
    raise pcd.CudaError("there is no GPU")
pcd.core.check_device = missing
try:
    pcd.from_dlpack(Empty())
except pcd.CudaError as error:
    print(error)
"""
    assert python(code).strip() == "there is no GPU"


def test_interfaces_with_pointers_that_are_refused() -> None:
    array, memory = gpu([1.0, 2.0, 3.0]), np.zeros(3)
    with pytest.raises(BufferError, match="not aligned"):
        pcd.from_dlpack(Interface(array, data=(array._pointer + 4, False), shape=(2,)))
    with pytest.raises(BufferError, match="not GPU memory"):
        pcd.from_dlpack(Interface(array, data=(memory.ctypes.data, False)))


def test_the_interface_keeps_its_owner() -> None:
    foreign = Interface(gpu([1.0]))
    alive = weakref.ref(foreign)
    array = pcd.from_dlpack(foreign)
    part = array[0, ...]
    del foreign, array
    gc.collect()
    assert alive() is not None
    del part
    gc.collect()
    assert alive() is None


# ---- Others for us: capsules ----


@each_kind
@each_view
def test_capsule_round_trips(of: Any, is_versioned: bool) -> None:
    for dtype in cases.WITH_BOOL:
        _capsule_round_trip(of, dtype, is_versioned)


def _capsule_round_trip(of: Any, dtype: np.dtype, is_versioned: bool) -> None:
    values = np.arange(48).reshape(6, 8).astype(dtype)
    part = core.view(gpu(values), of)
    foreign = Foreign(part, is_versioned)
    array = pcd.from_dlpack(foreign)
    assert array.shape == part.shape and array.dtype == dtype and array.device == "cuda:0"
    assert part.size == 0 or array._pointer == part._pointer
    assert np.array_equal(pcd.asnumpy(array), of(values)) and not array._is_readonly
    assert foreign.asked[0] == (1, {"max_version": (1, 1)})
    assert len(foreign.asked) == (1 if is_versioned else 2)
    del part
    gc.collect()
    assert np.array_equal(pcd.asnumpy(array), of(values)) and foreign.deleted == 0
    del array
    assert foreign.deleted == 1


def test_strides_offsets_and_managed_memory() -> None:
    values = np.arange(12.0).reshape(3, 4)
    for changes, wanted in (
        ({"strides": None}, values),
        ({"byte_offset": 16}, (values.ravel() + 2).reshape(3, 4)),
        ({"device_type": 13}, values),
        ({"minor": 9}, values),
        ({"flags": 1}, values),
    ):
        memory = gpu(np.arange(14.0))
        array = pcd.from_dlpack(Foreign(memory[:12].reshape(3, 4), **changes))
        assert np.array_equal(pcd.asnumpy(array), wanted)
        assert array._is_readonly == ("flags" in changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"major": 2}, r"DLPack 2\.0"),
        ({"device_type": 1}, "type 1"),
        ({"device_type": 10}, "type 10"),
        ({"ndim": 65}, "65 dimensions"),
        ({"ndim": -1}, "-1 dimensions"),
        ({"lanes": 2}, "2 lanes"),
        ({"code": 4, "bits": 16}, "code 4, 16 bits"),
        ({"code": 2, "bits": 8}, "code 2, 8 bits"),
        ({"code": 3}, "code 3"),
        ({"byte_offset": 4}, "not aligned"),
        ({"shape": (-1,)}, "dimension 0"),
        ({"shape": (2**40, 2**40), "ndim": 2}, "dimension 0"),
        ({"strides": (2**61,)}, "dimension 0"),
        ({"strides": (-(2**60),)}, "dimension 0"),
        ({"shape": (2**62,), "strides": (2,)}, "dimension 0"),
        ({"shape": (2**62, 4, 0), "ndim": 3, "strides": (2**62, 1, 1)}, "dimension 0"),
        ({"shape": None}, "shape is NULL"),
        ({"shape": None, "ndim": 64}, "shape is NULL"),
        ({"ndim": 2**31 - 1}, "2147483647 dimensions"),
        ({"ndim": -(2**31)}, "-2147483648 dimensions"),
        ({"lanes": 0}, "0 lanes"),
        ({"device_id": -1}, "there is no cuda:-1"),
        ({"device_id": 4711}, "there is no cuda:4711"),
        ({"device_id": -1, "shape": (0,)}, "there is no cuda:-1"),
        ({"byte_offset": 2**64 - 8}, "is no address"),
        ({"data": None}, "is no address"),
    ],
    ids=str,
)
def test_capsules_that_are_refused(changes: dict[str, Any], match: str) -> None:
    foreign = Foreign(gpu([1.0, 2.0]), **changes)
    capsule = foreign.__dlpack__()
    with pytest.raises(BufferError, match=match):
        core.from_dlpack(capsule, None, True)
    # It still belongs to whoever made it.
    assert get_name(capsule) == b"dltensor_versioned" and foreign.deleted == 0
    Versioned.from_address(get_pointer(capsule, b"dltensor_versioned")).deleter(0)


@each_kind
def test_a_capsule_is_consumed_once(is_versioned: bool) -> None:
    capsule = core.to_dlpack(gpu([1.0]), is_versioned)
    array = core.from_dlpack(capsule, None, True)
    assert get_name(capsule).startswith(b"used_dltensor")
    with pytest.raises(ValueError, match="only once"):
        core.from_dlpack(capsule, None, True)
    del capsule
    gc.collect()
    assert pcd.asnumpy(array).tolist() == [1]


def test_no_capsule() -> None:
    for wrong in (None, 1, gpu([1.0]), new_capsule(1, None, DESTRUCTOR())):
        with pytest.raises(ValueError, match="expected a capsule named"):
            core.from_dlpack(wrong, None, True)


def test_a_deleter_may_be_missing() -> None:
    foreign = Foreign(gpu([1.0]), deleter=DELETER())
    assert pcd.asnumpy(pcd.from_dlpack(foreign)).tolist() == [1] and foreign.deleted == 0
    foreign.release_all()


def test_an_exception_survives_a_deleter() -> None:
    """Releasing memory while an exception is set keeps the exception."""
    foreign = Foreign(gpu([1.0]))

    def fails() -> None:
        array = pcd.from_dlpack(foreign)
        assert array.size == 1
        raise KeyError("this one")

    with pytest.raises(KeyError, match="this one"):
        fails()
    gc.collect()
    assert foreign.deleted == 1


def test_views_share_the_owner() -> None:
    foreign = Foreign(gpu([1.0, 2.0, 3.0]))
    array = pcd.from_dlpack(foreign)
    parts = [array[i, ...] for i in range(3)]
    del array
    assert [pcd.asnumpy(x).item() for x in parts] == [1, 2, 3]
    while parts:
        assert foreign.deleted == 0
        parts.pop()
    assert foreign.deleted == 1


def test_an_import_of_an_export() -> None:
    """Memory can pass through several libraries and back."""
    array = x = gpu([1.0, 2.0])
    for _ in range(5):
        x = pcd.from_dlpack(Foreign(pcd.from_dlpack(Exporter(pcd.from_dlpack(Interface(x))))))
    assert x._pointer == array._pointer
    del array
    assert pcd.asnumpy(x).tolist() == [1, 2]


def test_no_references_are_lost() -> None:
    array, foreign = gpu([1.0, 2.0]), Foreign(gpu([1.0, 2.0]))
    interface = Interface(array)
    refused = Foreign(gpu([1.0]), lanes=2)
    calls: list[Callable[[], Any]] = [
        lambda: _interop.dlpack(array),
        lambda: Consumer(_interop.dlpack(array, max_version=(1, 0))).release(),
        lambda: pcd.from_dlpack(foreign),
        lambda: pcd.from_dlpack(interface),
        lambda: pcd.add(foreign, interface),
        lambda: pcd.add(foreign, interface, out=foreign),
        lambda: pytest.raises(BufferError, pcd.from_dlpack, refused),
    ]
    watched = (array, foreign, interface, refused)
    for call in calls:
        call()
    gc.collect()
    before, used = [sys.getrefcount(x) for x in watched], pcd.memory_info().used
    for _ in range(50):
        for call in calls[:2] + calls[3:4]:
            call()
    gc.collect()
    assert [sys.getrefcount(x) for x in watched] == before
    for call in calls:
        call()
    assert pcd.memory_info().used >= used
    assert foreign.deleted == len(foreign.asked)
    refused.release_all()


# ---- from_dlpack ----


def test_from_dlpack_of_the_cpu() -> None:
    values = np.arange(3.0)
    shared = pcd.from_dlpack(values)
    assert isinstance(shared, np.ndarray) and np.shares_memory(shared, values)
    assert pcd.from_dlpack(values, device="cpu", copy=False) is not None
    assert not np.shares_memory(pcd.from_dlpack(values, copy=True), values)
    moved = pcd.from_dlpack(values, device="cuda")
    assert isinstance(moved, core.ArrayBase) and pcd.asnumpy(moved).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="copy"):
        pcd.from_dlpack(values, device="cuda", copy=False)
    for wrong in ([1.0], "text", None):
        with pytest.raises((TypeError, AttributeError)):
            pcd.from_dlpack(wrong)
    with pytest.raises(ValueError, match="unknown device"):
        pcd.from_dlpack(values, device="gpu")


def test_from_dlpack_of_a_gpu() -> None:
    for make in (lambda x: x, Foreign, Interface, Exporter):
        source = gpu([1.0, 2.0])
        x = make(source)
        for kwargs in ({}, {"device": "cuda"}, {"device": "cuda:0", "copy": False}):
            assert pcd.from_dlpack(x, **kwargs)._pointer == source._pointer
        copy = pcd.from_dlpack(x, copy=True)
        assert copy._pointer != source._pointer and pcd.asnumpy(copy).tolist() == [1, 2]
        there = pcd.from_dlpack(x, device="cpu")
        assert isinstance(there, np.ndarray) and there.tolist() == [1, 2]
        with pytest.raises(BufferError, match="moving it to cpu makes a copy"):
            pcd.from_dlpack(x, device="cpu", copy=False)


def test_from_dlpack_to_another_gpu() -> None:
    if pcd.device_count() < 2:
        pytest.skip("needs two GPUs")
    there = pcd.from_dlpack(Foreign(gpu([1.0, 2.0])), device="cuda:1")
    assert there.device == "cuda:1" and pcd.asnumpy(there).tolist() == [1, 2]
    with pytest.raises(BufferError, match="moving it to cuda:0 makes a copy"):
        pcd.from_dlpack(there, device="cuda:0", copy=False)
    back = pcd.from_dlpack(Foreign(there))
    assert back.device == "cuda:1" and back._pointer == there._pointer
    assert pcd.from_dlpack(Interface(there)).device == "cuda:1"


def test_from_foreign() -> None:
    array = gpu([1.0])
    assert _interop.from_foreign(Foreign(array))._pointer == array._pointer
    assert _interop.from_foreign(Foreign(array), "cuda:0")._pointer == array._pointer
    assert isinstance(_interop.from_foreign(Foreign(array), "cpu"), np.ndarray)
    for nothing in (np.zeros(3), [1], 2.0, "text", None, np.float32(1)):
        assert _interop.from_foreign(nothing) is None

    class OnTheCpu(Foreign):
        device_type = 1

    assert _interop.from_foreign(OnTheCpu(array)) is None


def test_a_producer_is_told_our_stream(waits: list[Any]) -> None:
    s, foreign = pcd.Stream(), Foreign(gpu([1.0]))
    with pcd.stream(s):
        array = pcd.from_dlpack(foreign)
    assert foreign.asked[0][0] == s.handle and waits == []
    assert core.streams_of(array)[0].handle == s.handle
    with pcd.stream(2, "cuda:1"):
        pcd.from_dlpack(foreign)
    assert foreign.asked[1][0] == 1


# ---- Operations ----


@pytest.mark.parametrize("kind", [Foreign, Interface], ids=["DLPack", "interface"])
def test_operations_on_foreign_arrays(kind: Any) -> None:
    values = np.arange(1.0, 7).reshape(2, 3)
    a, b, c = (gpu(values + i) for i in range(3))
    result = pcd.multiply(kind(a), kind(b))
    assert isinstance(result, core.ArrayBase)
    assert np.array_equal(pcd.asnumpy(result), values * (values + 1))
    assert np.array_equal(pcd.asnumpy(pcd.subtract(kind(a), b)), values - (values + 1))
    assert np.array_equal(pcd.asnumpy(pcd.subtract(b, kind(a))), (values + 1) - values)
    assert np.array_equal(pcd.asnumpy(pcd.add(kind(a), 2.5)), values + 2.5)
    assert np.array_equal(pcd.asnumpy(pcd.divide(1, kind(a))), 1 / values)
    assert np.array_equal(pcd.asnumpy(pcd.negative(kind(a))), -values)

    out = kind(c)
    for call in (
        lambda: pcd.add(kind(a), kind(b), out=out),
        lambda: pcd.add(kind(a), kind(b), out),
        lambda: pcd.add(a, b, out=out),
        lambda: pcd.add(a, b, out=(out,)),
    ):
        core.copy(c, np.zeros((2, 3)))
        assert call() is out
        assert np.array_equal(pcd.asnumpy(c), values + values + 1)
    assert pcd.add(out, 1, out=out) is out
    assert np.array_equal(pcd.asnumpy(c), values + values + 2)
    mine = gpu(np.zeros((2, 3)))
    assert pcd.add(kind(a), kind(b), out=mine) is mine
    assert np.array_equal(pcd.asnumpy(mine), values + values + 1)


def test_cpu_tensors_stay_on_the_cpu() -> None:
    """NumPy handles DLPack objects whose memory is not on a GPU."""

    class Tensor:
        def __init__(self, values: Any) -> None:
            self.values = np.asarray(values)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.values

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.values.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return self.values.__dlpack_device__()

    x = Tensor([1.0, 2.0])
    assert pcd.add(x, x).tolist() == [2, 4]
    assert pcd.add(x, 1, device="cpu").tolist() == [2, 3]
    assert pcd.add(x, np.ones(2), out=np.empty(2)).tolist() == [2, 3]


def test_operations_that_cannot_be() -> None:
    a = gpu([1.0, 2.0])
    refused = Foreign(a, lanes=2)
    with pytest.raises(BufferError, match="2 lanes"):
        pcd.add(refused, 1)
    refused.release_all()
    with pytest.raises(OverflowError):
        pcd.add(Foreign(gpu([1], "i1")), 1000)
    if pcd.device_count() > 1:
        with pytest.raises(ValueError, match="cuda:0 and cuda:1"):
            pcd.add(Foreign(a), Foreign(gpu([1.0, 2.0], ordinal=1)))
    assert core.current_stream.get(None) is None


@pytest.mark.parametrize("of", [Foreign, Interface])
def test_expressions(of: Any) -> None:
    """Foreign GPU memory is used in place, as input and as output."""
    a = np.arange(6.0)
    x, out = gpu(a), gpu(np.zeros(6))
    foreign, target = of(x), of(out)
    result = pcd.evaluate("x * 2 + y", {"x": foreign, "y": x})
    assert isinstance(result, pcd.Array)
    assert (pcd.asnumpy(result) == a * 2 + a).all()
    assert pcd.evaluate("x * 3", {"x": foreign}, out=target) is target
    assert (pcd.asnumpy(out) == a * 3).all()
    with pytest.raises(TypeError, match="in host memory"):
        pcd.evaluate("x * y", {"x": foreign, "y": a})


# ---- Libraries whose current stream is known ----


class FakeLibrary:
    """Stands for torch and cupy, as far as pkg._interop looks at them."""

    def __init__(self) -> None:
        self.streams = [pcd.Stream(), pcd.Stream()]
        self.current = 0
        self.released: list[str] = []
        library = self

        class Array(Foreign):
            is_cuda = True
            requires_grad = False
            negated = conjugated = False

            @property
            def strides(self) -> tuple[int, ...]:
                return self.array.strides

            def get_device(self) -> int:
                return self.array._ordinal

            def is_neg(self) -> bool:
                return self.negated

            def is_conj(self) -> bool:
                return self.conjugated

            def __dlpack__(self, **kwargs: Any) -> Any:
                if self.requires_grad:
                    raise BufferError("requires grad")
                return super().__dlpack__(**kwargs)

        self.Array = Array
        self.torch: Any = types.ModuleType("torch")
        self.torch.Tensor = Array
        self.torch._C = types.SimpleNamespace(
            _cuda_getCurrentRawStream=lambda ordinal: library.current
        )
        self.torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
        self.torch.utils = types.SimpleNamespace(
            dlpack=types.SimpleNamespace(to_dlpack=lambda x: Foreign.__dlpack__(x))
        )
        self.cupy: Any = types.ModuleType("cupy")
        self.cupy.ndarray = Array
        self.cupy.cuda = types.SimpleNamespace(
            get_current_stream=lambda ordinal=-1: types.SimpleNamespace(ptr=library.current)
        )


@pytest.fixture(params=["torch", "cupy"])
def library(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeLibrary]:
    fake = FakeLibrary()
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, request.param, getattr(fake, request.param))
    yield fake
    _interop._streams.clear()


def test_on_the_default_stream_nobody_waits(library: FakeLibrary, waits: list[Any]) -> None:
    a, b = library.Array(gpu([1.0, 2.0])), library.Array(gpu([3.0, 4.0]))
    assert pcd.asnumpy(pcd.add(a, b)).tolist() == [4, 6]
    assert pcd.add(a, b, out=a) is a
    assert pcd.asnumpy(pcd.add(a, gpu([1.0, 1.0]))).tolist() == [5, 7]
    assert waits == []


def test_on_the_librarys_stream(library: FakeLibrary, waits: list[Any]) -> None:
    """Without a stream of ours the library's is used; with its own output, nobody waits."""
    a, b, out = (library.Array(gpu([float(i), 2.0])) for i in range(3))
    library.current = handle = library.streams[0].handle
    assert pcd.add(a, b, out=out) is out
    assert waits == [] and core.streams_of(out.array) == (None,)
    assert core.current_stream.get(None) is None
    result = pcd.add(a, b)
    assert waits == [(0, handle)]
    assert [s.handle for s in core.streams_of(result)] == [handle]
    waits.clear()
    mine = gpu([1.0, 1.0])
    pcd.add(a, mine)
    assert waits == [(handle, 0), (0, handle)]
    assert handle in [s.handle for s in core.streams_of(mine) if s is not None]


def test_on_our_stream(library: FakeLibrary, waits: list[Any]) -> None:
    a, b, out = (library.Array(gpu([float(i), 2.0])) for i in range(3))
    s = pcd.Stream()
    for theirs in (0, library.streams[0].handle):
        library.current = theirs
        waits.clear()
        with pcd.stream(s):
            pcd.add(a, b, out=out)
            assert waits and set(waits) == {(s.handle, theirs)}
            waits.clear()
            result = pcd.add(a, b)
            assert core.streams_of(result)[0].handle == s.handle
            assert set(waits) == {(s.handle, theirs)}
    library.current = s.handle
    waits.clear()
    with pcd.stream(s):
        pcd.add(a, b, out=out)
    assert waits == []


def test_an_array_of_a_library_remembers_its_stream(library: FakeLibrary, waits: list[Any]) -> None:
    a = library.Array(gpu([1.0]))
    library.current = handle = library.streams[0].handle
    array = pcd.from_dlpack(a)
    assert waits == [(0, handle)] and core.streams_of(array)[0].handle == handle
    core.copy(array, array)
    assert [_interop._handle(s) for s in core.streams_of(array)] == [handle, 0]
    del array
    assert a.deleted == 1


def test_a_librarys_current_stream_is_a_user(library: FakeLibrary, waits: list[Any]) -> None:
    """Exported memory is not reused while the consumer may use it."""
    array = gpu([1.0])
    library.current = library.streams[0].handle
    _interop.dlpack(array, stream=library.streams[0].handle)
    _interop.dlpack(array, stream=library.streams[1].handle)
    handles = [_interop._handle(s) for s in core.streams_of(array)]
    assert handles == [0, library.streams[0].handle]
    assert waits == [(s.handle, 0) for s in library.streams] + [
        (library.streams[1].handle, library.streams[0].handle)
    ]


def test_tensors_that_cannot_be_shared(library: FakeLibrary) -> None:
    if "torch" not in sys.modules:
        pytest.skip("PyTorch only")
    a = library.Array(gpu([1.0]))
    a.requires_grad = True
    with pytest.raises(BufferError, match="requires grad"):
        pcd.add(a, a)
    a.requires_grad, a.negated = False, True
    with pytest.raises(BufferError, match="resolve_neg"):
        pcd.add(a, a)
    a.is_cuda = False
    assert _interop.from_foreign(a) is None


@pytest.mark.gpu
def test_memory_that_is_taken_twice_is_one() -> None:
    """An assignment between two Arrays over it reads before it writes, as NumPy's does."""
    for k, n in itertools.permutations(range(4), 2):
        arrays = _both(gpu(np.arange(10.0)))
        x, y = arrays[k], arrays[n]
        assert x._memory is not y._memory
        assert np.may_share_memory(x, y) and np.may_share_memory(x[:6], y[5:])
        assert not np.may_share_memory(x[:5], y[5:]) and not np.may_share_memory(x[:0], y)
        x[1:] = y[:-1]
        assert pcd.asnumpy(x).tolist() == [0, *range(9)]
        x[::-1] = y
        assert pcd.asnumpy(y).tolist() == [*range(8, -1, -1), 0]
        mask, flags = (a == 4 for a in (x, y))
        assert not np.may_share_memory(mask, flags)
