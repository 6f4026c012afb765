"""Streams, and the memory of GPUs: whose stream is current, what is kept alive, what is refused."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import pkg as pcd
from pkg import core

pytestmark = pytest.mark.gpu


class Foreign:
    """A stream of another library."""

    def __init__(self, handle: int, **attributes: Any) -> None:
        self.handle = handle
        self.__dict__.update(attributes)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class Bare:
    """A stream of another library, older than the protocol."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def _current() -> core.Stream | None:
    return core.current_stream.get(None)


def _empty(n: int = 4) -> core.ArrayBase:
    return core.empty((n,), "f8", 0, False)


def test_a_stream() -> None:
    s = pcd.Stream()
    assert s.device == "cuda:0" and s.handle > 2 and s.__cuda_stream__() == (0, s.handle)
    assert repr(s) == f"<pkg.Stream {s.handle:#x} of cuda:0>"
    assert s == s and s != pcd.Stream() and s != s.handle and len({s, s}) == 1
    s.synchronize()
    for other in (pcd.Stream(), s, 1, 2, Foreign(s.handle)):
        s.wait(other)
    assert pcd.Stream("cuda:0").device == "cuda:0"
    alive = weakref.ref(s)
    del s
    gc.collect()
    assert alive() is None


def test_no_stream() -> None:
    with pytest.raises(ValueError, match="expected a GPU"):
        pcd.Stream("cpu")
    with pytest.raises(pcd.CudaError):
        pcd.Stream("cuda:999")
    for wrong in (None, "cuda", 1.5, True, object(), Bare(ptr="1")):
        with pytest.raises(TypeError, match="expected a Stream, an object with __cuda_stream__"):
            pcd.stream(wrong)
    with pytest.raises(ValueError, match="negative"):
        pcd.stream(-1)
    for malformed in ((0,), None, 5, (0, 1, 2), "ab"):
        with pytest.raises(TypeError, match="__cuda_stream__ of Bare|expected a Stream"):
            pcd.stream(Bare(__cuda_stream__=malformed))
    newer = Bare(__cuda_stream__=(1, 5))
    with pytest.raises(TypeError, match=r"a version, 0, .*not \(1, 5\)"):
        pcd.stream(newer)
    with pytest.raises(TypeError):
        pcd.Stream().wait("a stream")


def test_the_current_stream_is_restored() -> None:
    s, t = pcd.Stream(), pcd.Stream()
    assert _current() is None
    with pcd.stream(s) as given:
        assert given == s and _current().handle == s.handle
        with pcd.stream(t):
            assert _current().handle == t.handle
        assert _current().handle == s.handle
    twice = pcd.stream(s)
    with twice, pcd.stream(t), twice:
        assert _current().handle == s.handle
    assert _current() is None
    with pytest.raises(ZeroDivisionError), pcd.stream(s):
        raise ZeroDivisionError
    assert _current() is None


@pytest.mark.parametrize(
    "kind",
    [
        lambda handle: handle,
        Foreign,
        lambda handle: Bare(__cuda_stream__=(0, handle)),
        lambda handle: Bare(cuda_stream=handle, device_index=0),
        lambda handle: Bare(ptr=handle, device_id=-1),
    ],
    ids=["int", "protocol", "attribute", "PyTorch", "CuPy"],
)
def test_foreign_streams(kind: Any) -> None:
    s = pcd.Stream()
    with pcd.stream(kind(s.handle)) as given:
        assert given.handle == s.handle and given.device == "cuda:0"
        assert core.streams_of(_empty()) == (_current(),)
    with pcd.stream(kind(1)) as given:  # the legacy default stream
        assert given.handle == 0
        assert core.streams_of(_empty()) == (None,)
    with pcd.stream(kind(2)) as given:
        assert given.handle == 2


def test_the_gpu_of_a_foreign_stream() -> None:
    for foreign in (
        Bare(cuda_stream=2, device_index=1),
        Foreign(2, device=Bare(index=1)),
        Bare(ptr=2, device_id=1),
        Foreign(2, device=Bare(device_id=1)),
    ):
        assert pcd.stream(foreign).stream.device == "cuda:1"
        assert pcd.stream(foreign, "cuda:0").stream.device == "cuda:0"
    assert pcd.stream(2, "cuda:1").stream.device == "cuda:1"
    with pcd.default_device("cuda:0"):
        assert pcd.stream(2).stream.device == "cuda:0"


def test_a_bare_handle_is_waited_for_on_the_gpu_of_the_waiting_stream() -> None:
    if pcd.device_count() < 2:
        pytest.skip("needs two GPUs")
    s = pcd.Stream("cuda:1")
    t = pcd.Stream("cuda:1")
    for other in (1, 2, t.handle, Foreign(t.handle)):
        s.wait(other)
    t = pcd.Stream("cuda:0")
    s.wait(Foreign(t.handle, device_index=0))


def test_a_stream_is_kept_while_it_is_needed() -> None:
    theirs = pcd.Stream()
    foreign = Foreign(theirs.handle)
    alive = weakref.ref(foreign)
    with pcd.stream(foreign):
        array = _empty()
    del foreign
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None

    s = pcd.Stream()
    with pcd.stream(s):
        array = _empty()
    alive = weakref.ref(core.streams_of(array)[0])
    del s
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None


def test_users_of_memory_are_counted_once() -> None:
    array, s = _empty(), pcd.Stream()
    for _ in range(3):
        with pcd.stream(s.handle):  # another object each time
            core.copy(array, array)
        with pcd.stream(pcd.Stream()):
            pass
    own, user = core.streams_of(array)
    assert own is None and user is not None and user.handle == s.handle


def test_an_array_of_another_gpu_is_not_on_the_current_stream() -> None:
    with pcd.stream(2, "cuda:1"):
        assert core.streams_of(_empty()) == (None,)


def test_memory_of_a_threads_default_stream_may_be_freed_by_another_thread() -> None:
    """Handle 2 is another stream in each thread: the legacy default stream orders them all."""
    with pcd.stream(2):
        array = _empty()
    other = _empty()
    with pcd.stream(2):
        core.copy(other, array)
    assert core.streams_of(array) == core.streams_of(other) == (None,)


def test_threads_and_tasks_have_their_own() -> None:
    s, seen = pcd.Stream(), []
    with pcd.stream(s):
        thread = threading.Thread(target=lambda: seen.append(_current()))
        thread.start()
        thread.join()
    assert seen == [None]

    async def task(stream: pcd.Stream) -> bool:
        with pcd.stream(stream):
            await asyncio.sleep(0)
            return _current().handle == stream.handle

    async def both() -> list[bool]:
        return await asyncio.gather(task(pcd.Stream()), task(pcd.Stream()))

    assert asyncio.run(both()) == [True, True]


def test_synchronize() -> None:
    pcd.synchronize()
    pcd.synchronize("cuda:0")
    with pcd.stream(pcd.Stream()):
        pcd.synchronize()
    with pcd.default_device("cpu"):
        pcd.synchronize()
    with pytest.raises(ValueError, match="expected a GPU"):
        pcd.synchronize("cpu")
    with pytest.raises(pcd.CudaError):
        pcd.synchronize("cuda:999")


# ---- Memory ----


@pytest.fixture
def limited() -> Iterator[None]:
    yield
    pcd.set_memory_limit(None)


def test_memory_info() -> None:
    gc.collect()
    before = pcd.memory_info()
    assert before.limit is None and 0 <= before.used <= before.held <= before.total
    array = _empty(100_000)
    during = pcd.memory_info("cuda:0")
    assert during.used >= before.used + array.nbytes and during.held >= during.used
    del array
    pcd.synchronize()
    assert pcd.memory_info().used == before.used
    pcd.free_cached_memory()
    assert pcd.memory_info().held <= during.held
    with pytest.raises(ValueError, match="expected a GPU"):
        pcd.memory_info("cpu")


def test_the_limit(limited: None) -> None:
    used = pcd.memory_info().used
    pcd.set_memory_limit(used + 100_000)
    assert pcd.memory_info().limit == used + 100_000
    array = _empty(1000)
    with pytest.raises(MemoryError):
        _empty(1_000_000)
    del array
    with pytest.raises((OverflowError, TypeError, ValueError)):
        pcd.set_memory_limit(-1)
    pcd.set_memory_limit(None, "cuda:0")
    assert pcd.memory_info().limit is None
    _empty(1_000_000)


def test_garbage_is_collected_before_memory_is_said_to_be_full(limited: None) -> None:
    gc.collect()
    threshold = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        pcd.set_memory_limit(pcd.memory_info().used + 1_000_000)
        cycle: list[Any] = [core.empty((900_000,), "i1", 0, False)]
        cycle.append(cycle)
        del cycle
        assert core.empty((900_000,), "i1", 0, False).size == 900_000
    finally:
        gc.set_threshold(*threshold)
