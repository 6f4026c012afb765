"""Settings that several threads and tasks enter at once, through one object."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import numpy as np
import pytest

import pkg as pcd
from pkg import core


def _device() -> tuple[Callable[[], Any], Callable[[], Any], Any]:
    return lambda: pcd.default_device("cpu"), lambda: core.default_device.get(None), "cpu"


def _stream() -> tuple[Callable[[], Any], Callable[[], Any], Any]:
    s = pcd.Stream()
    return lambda: pcd.stream(s), lambda: core.current_stream.get(None), s._stream


SETTINGS = pytest.mark.parametrize(
    "setting",
    [
        pytest.param(_device, id="default_device"),
        pytest.param(_stream, id="stream", marks=pytest.mark.gpu),
    ],
)


@SETTINGS
def test_one_object_in_two_threads(setting: Any) -> None:
    """The first to enter leaves first, while the other is inside."""
    make, current, wanted = setting()
    shared = make()
    steps = threading.Barrier(2)

    def work(number: int) -> None:
        for _ in range(20):
            if number:
                steps.wait(30)
            with shared:
                if not number:
                    steps.wait(30)
                steps.wait(30)
                assert current() == wanted
                if number:
                    steps.wait(30)
            assert current() is None
            if not number:
                steps.wait(30)
            steps.wait(30)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))


@SETTINGS
def test_one_object_in_many_tasks(setting: Any) -> None:
    make, current, wanted = setting()
    shared = make()

    async def work(number: int) -> None:
        for k in range(3):
            await asyncio.sleep(0.001 * ((number * 7 + k) % 5))
            with shared:
                await asyncio.sleep(0.001 * ((number * 3 + k) % 4))
                with shared:
                    await asyncio.sleep(0)
                assert current() == wanted
            assert current() is None

    async def all_tasks() -> None:
        await asyncio.gather(*(work(number) for number in range(8)))

    asyncio.run(all_tasks())


@SETTINGS
def test_leaving_without_having_entered(setting: Any) -> None:
    make, current, wanted = setting()
    shared = make()
    with pytest.raises(RuntimeError, match="has not entered"):
        shared.__exit__(None, None, None)
    with shared:
        with pytest.raises(RuntimeError, match="has not entered"):
            Context().run(shared.__exit__, None, None, None)
        with pytest.raises(ValueError, match="Context"):
            copy_context().run(shared.__exit__, None, None, None)
        assert current() == wanted
    assert current() is None


def test_settings_that_are_left_in_another_order() -> None:
    first, second = pcd.default_device("cpu"), pcd.default_device("cpu")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert core.default_device.get(None) == "cpu"
    second.__exit__(None, None, None)
    assert core.default_device.get(None) is None


def test_an_expression_does_not_change() -> None:
    e = pcd.Expression("a + b")
    a = np.arange(3.0)
    assert (e(a, a) == 2 * a).all()
    for text in ("a + b", "a * b * c", "d"):
        with pytest.raises(TypeError, match="is immutable"):
            e.__init__(text)  # type: ignore[misc]
    assert e.text == "a + b"
    assert (e(a, a) == 2 * a).all()
    fused = pcd.fuse(lambda x: x + 1)
    assert (fused(a) == a + 1).all()


@pytest.mark.gpu
@pytest.mark.no_emulated_gpu
def test_creation_does_not_wait() -> None:
    """Creating a stream does not wait for a GPU that is busy on the default stream."""
    x = pcd.ones(1 << 27, "f8", device="cuda")
    out = pcd.empty_like(x)
    e = pcd.Expression(" + ".join(["sqrt(x)"] * 20))
    e(x, out=out)
    pcd.synchronize()
    begin = time.perf_counter()
    for _ in range(100):
        e(x, out=out)
    enqueued = time.perf_counter()
    pcd.empty(3, device="cuda")
    with pcd.default_device("cuda"):
        pass
    created = time.perf_counter()
    pcd.synchronize()
    finished = time.perf_counter()
    assert finished - begin > 0.02, "the GPU was not busy long enough for this test"
    assert created - enqueued < (finished - begin) / 4
