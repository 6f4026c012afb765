"""Memory, threads, processes, several GPUs: nothing leaks, nothing hangs, nothing is mixed up."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import generators
import numpy as np
import oracle
import pytest
from shared import fails, references_kept, resident_bytes

import pkg as pcd

Python = Callable[..., str]

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("quiet")]


def _is_emulated() -> bool:
    return bool(pcd.core.device_info(0)["name"] == "emulated GPU")


def _used() -> int:
    gc.collect()
    pcd.synchronize()
    return pcd.memory_info().used


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    """limited(nbytes) allows so many more bytes until the test ends."""
    yield lambda nbytes: pcd.set_memory_limit(_used() + nbytes)
    pcd.set_memory_limit(None)


# ---- Memory ----


def test_a_million_temporaries() -> None:
    """Fewer on an emulated GPU."""
    x = pcd.ones((10, 10), device="cuda")
    row, n = x[0], 50_000 if _is_emulated() else 1_000_000
    steps: list[Callable[[], Any]] = [
        lambda: x + row, lambda: x[::2, 1:] * 2.0, lambda: x.T - x, lambda: -x, lambda: x < 0.5,
        lambda: (x + 1).reshape(100)[3:7].sum(), lambda: x.copy(), lambda: np.add(x, x),
        lambda: pcd.where(x, x, 0), lambda: x / 3,
    ]  # fmt: skip
    for step in steps:
        for _ in range(20):
            step()
    used = _used()
    resident = resident_bytes()
    for _ in range(n // len(steps)):
        for step in steps:
            step()
    assert _used() == used
    assert resident_bytes() - resident < 10 * n


def test_failures_leak_nothing() -> None:
    """Failures leak neither GPU memory nor references."""
    x, y = pcd.ones((10, 10), device="cuda"), pcd.ones(7, device="cuda")
    host, index = np.ones(3), pcd.asarray(1.5, device="cuda")
    calls = [
        fails(ValueError, lambda: x + y), fails(TypeError, lambda: x + host),
        fails(TypeError, lambda: x + "a"), fails(TypeError, lambda: np.asarray(x)),
        fails(IndexError, lambda: x[index]), fails(IndexError, lambda: x[99]),
        fails(ValueError, lambda: x.reshape(7)), fails(ValueError, bool, x),
        fails(OverflowError, lambda: pcd.ones(3, "i1", "cuda") + 1000),
        fails(TypeError, lambda: pcd.add(x, x, out=host)),
        fails(ValueError, lambda: pcd.sum(x, out=y)), fails(TypeError, lambda: np.spacing(x)),
        fails(TypeError, lambda: pcd.asarray(["a"], device="cuda")),
        fails(ValueError, x.__setitem__, 0, y), fails(TypeError, lambda: x ** "a"),
        fails(MemoryError, pcd.empty, (2**50,), device="cuda"),
        fails(ValueError, pcd.empty, (2**62, 2**62), device="cuda"),
    ]  # fmt: skip
    used = _used()
    assert not any(references_kept(calls, (x, y, host, index, x._memory)))
    assert _used() == used


def test_operands_are_given_back() -> None:
    x, y, out = (pcd.ones((4, 4), device="cuda") for _ in range(3))
    calls: list[Callable[[], Any]] = [
        lambda: x + y, lambda: x + 1, lambda: 1 + x, lambda: x == y, lambda: pcd.add(x, y, out=out),
        lambda: pcd.add(x, x.T, out=out), lambda: out.__iadd__(x), lambda: x[0], lambda: x.T.mT,
        lambda: x.__setitem__(0, y[0]), lambda: pcd.asnumpy(x), lambda: x.sum(axis=0, out=out[0]),
        lambda: pcd.concatenate([x, y]), lambda: pcd.where(x, y, out), lambda: x.dot, lambda: x**3,
        lambda: repr(x), lambda: list(x), lambda: x.astype("f4"), lambda: x.flags,
    ]  # fmt: skip
    assert not any(references_kept(calls, (x, y, out, x._memory, y._memory, out._memory)))


def test_out_of_memory(limited: Any) -> None:
    """Raises MemoryError with the sizes; later calls work."""
    x = pcd.ones(1000, device="cuda")
    used = pcd.memory_info().used
    with pytest.raises(MemoryError, match=f"8796093022208.*cuda:0: {used} are in use"):
        pcd.empty(2**40, device="cuda")
    limited(4_500_000)
    kept = []
    with pytest.raises(MemoryError, match="1000000"):
        for _ in range(10):
            kept.append(pcd.empty(1_000_000, "i1", "cuda"))
    assert 3 <= len(kept) <= 5
    with pytest.raises(MemoryError):
        pcd.broadcast_to(x[:1], (1000, 1000)).copy()
    with pytest.raises(MemoryError):
        pcd.broadcast_to(x, (1000, 1000)) + 1
    with pytest.raises(MemoryError):
        pcd.asarray(np.ones(1_000_000), device="cuda")
    assert (x + x).tolist() == [2] * 1000
    kept.clear()
    assert pcd.empty(4_000_000, "i1", "cuda").size == 4_000_000


def test_out_of_memory_without_automatic_collection(limited: Any) -> None:
    """Cycles are collected even if the program has disabled that."""
    limited(1_500_000)
    gc.disable()
    try:
        for _ in range(3):
            cycle: list[Any] = [pcd.empty(1_000_000, "i1", "cuda")]
            cycle.append(cycle)
            del cycle
    finally:
        gc.enable()


def test_nothing_always_fits() -> None:
    """An array without elements fits under a limit below the memory in use."""
    kept = pcd.ones(1000, device="cuda")
    pcd.set_memory_limit(_used() - kept.nbytes)
    try:
        assert pcd.zeros(0, device="cuda").size == kept[:0].copy().size == 0
        with pytest.raises(MemoryError):
            pcd.zeros(1, device="cuda")
    finally:
        pcd.set_memory_limit(None)


def test_views_keep_the_memory() -> None:
    used = _used()
    x = pcd.zeros(1_000_000, "i1", "cuda")
    view = x[10:20:2].T[None]
    del x
    assert _used() >= used + 1_000_000
    assert view.tolist() == [[0] * 5]
    del view
    assert _used() == used


# ---- Threads ----


@pytest.mark.parametrize("n", [10, 5000, 200_000])
def test_threads_that_read_one_array(n: int) -> None:
    a = generators.moderate(np.dtype("f4"), n)
    x = pcd.asarray(a, device="cuda")
    wanted = a * 2 + a[::-1]
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        start.wait(30)
        for _ in range(max(3, 20_000 // n)):
            result = x * 2 + x[::-1]
            oracle.assert_same(pcd.asnumpy(result), wanted)
            assert len(repr(x)) > 5 and x.sum().size == 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sys.getrefcount(x) < 10


def test_threads_that_write_parts_of_one_array() -> None:
    x = pcd.zeros((4, 10_000), "i4", "cuda")

    def work(row: int) -> None:
        part = x[row]
        for _ in range(300):
            part += row + 1
            x[row, ::2] = x[row, ::2]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert (pcd.asnumpy(x) == 300 * np.arange(1, 5)[:, None]).all()


def test_threads_that_make_and_drop() -> None:
    used = _used()

    def work(seed: int) -> int:
        total = 0
        for n in range(300):
            x = pcd.arange(n, device="cuda")
            total += int((x[::-1] + x).sum())
        return total

    with ThreadPoolExecutor(4) as pool:
        totals = list(pool.map(work, range(4)))
    assert totals == [sum(n * (n - 1) for n in range(300))] * 4
    assert _used() == used


def test_arrays_that_die_in_another_thread() -> None:
    used = _used()
    made: list[Any] = [pcd.ones(1000, device="cuda") for _ in range(100)]
    thread = threading.Thread(target=made.clear)
    thread.start()
    thread.join()
    assert _used() == used


# ---- Processes ----

_EXIT = """
import threading, time
import pkg as pcd
x = pcd.ones((100, 100), device="cuda")
cycle = [x[::2]]
cycle.append(cycle)
keep = threading.local()

def work():
    keep.x = pcd.ones(1000, device="cuda")
    with pcd.stream(pcd.Stream()):
        keep.y = keep.x + 1
    time.sleep(60)

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
class AtExit:
    def __del__(self):
        self.x + 1
late = AtExit()
late.x = x
pcd.kept = x + x
print("good", flush=True)
"""


def test_exit_with_arrays_alive(python: Python) -> None:
    assert python(_EXIT, PYTHONWARNINGS="ignore").strip() == "good"


@pytest.mark.no_emulated_gpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child(python: Python) -> None:
    """CUDA does not survive a fork: the child gets errors, does not hang, and exits cleanly."""
    code = """
import os, signal
import pkg as pcd
x = pcd.ones(1000, device="cuda")
y = x + x
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    good = True
    for call in (lambda: x + y, lambda: x.tolist(), lambda: pcd.ones(3, device="cuda"),
                 lambda: x.sum()):
        try:
            call()
            good = False
        except pcd.CudaError as error:
            good = good and "fork" in str(error)
    del x, y
    os._exit(0 if good else 1)
_, status = os.waitpid(pid, 0)
assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, status
assert (x + y).tolist() == [3] * 1000
print("good")
"""
    assert python(code).strip() == "good"


def test_a_child_that_is_spawned(python: Python, tmp_path: Path) -> None:
    """Arrays travel as pickles."""
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing, operator\n"
        "import pkg as pcd\n"
        "if __name__ == '__main__':\n"
        "    x = pcd.ones(5, device='cuda')\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        y = pool.apply(operator.add, (x, x))\n"
        "    assert y.device == 'cuda:0' and y.tolist() == [2] * 5\n"
        "    print('good')\n"
    )
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    assert python(code, str(script)).strip() == "good"


# ---- Several GPUs ----


@pytest.fixture
def two() -> tuple[Any, Any]:
    if pcd.device_count() < 2:
        pytest.skip("needs two GPUs")
    host = np.arange(12.0).reshape(3, 4)
    return pcd.asarray(host, device="cuda:0"), pcd.asarray(host, device="cuda:1")


def test_each_gpu_computes_its_own(two: tuple[Any, Any]) -> None:
    """The GPU of the operands computes, whatever the default device; other GPUs are left alone."""
    for device in ("cpu", "cuda:0", "cuda:1"):
        with pcd.default_device(device):
            for x in two:
                results = (
                    x + x, x * 2, x[1:], x.T.copy(), x.sum(), x > 3, -x, x**2, x.mean(axis=0),
                    pcd.where(x, x, 0), pcd.zeros_like(x), pcd.concatenate([x, x]), x.astype("f4"),
                    x.reshape(12, copy=True), x[0].dot(x[1]), abs(x), x.trace(), x.max(axis=1),
                )  # fmt: skip
                assert all(result.device == x.device for result in results)
                oracle.assert_same(pcd.asnumpy(x + x.sum()), pcd.asnumpy(x) + 66)
    assert pcd.ones(3, device="cuda:1").device == "cuda:1"
    assert "device='cuda:1'" in repr(two[1])


def test_two_gpus_in_one_call(two: tuple[Any, Any]) -> None:
    """Arrays on two GPUs raise an error that names both."""
    x, y = two
    for call in (
        lambda: x + y, lambda: y < x, lambda: x.__iadd__(y), lambda: pcd.add(x, x, out=y),
        lambda: pcd.where(x, x, y), lambda: pcd.concatenate([x, y]), lambda: pcd.stack([y, x]),
        lambda: pcd.dot(x[0], y[0]), lambda: np.add(x, y), lambda: x.__setitem__(0, y[0]),
        lambda: pcd.add(x, 1, out=y), lambda: np.where(y, x, 0), lambda: pcd.sqrt(x, out=y),
        lambda: pcd.sum(x, axis=0, out=y[0]), lambda: pcd.add(x, x, where=y > 0),
        lambda: np.copyto(x, y), lambda: x ** y[0, 2], lambda: x.__ipow__(y[0, 2]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"cuda:0.*cuda:1|cuda:1.*cuda:0"):
            call()
    for call in (lambda: pcd.add(y, y, device="cuda:0"), lambda: pcd.sum(y, device="cuda:0")):
        with pytest.raises(ValueError, match=r"cuda:1.*cuda:0"):
            call()


def test_between_gpus(two: tuple[Any, Any]) -> None:
    host = pcd.asnumpy(two[0])
    for source, target in itertools.permutations(("cuda:0", "cuda:1")):
        x = pcd.asarray(host, device=source)
        for view in (lambda a: a, lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[:0]):
            for moved in (view(x).to_device(target), pcd.asarray(view(x), device=target)):
                assert moved.device == target
                oracle.assert_same(pcd.asnumpy(moved), view(host))
        assert pcd.asarray(x, "f4", target).dtype == np.float32
        assert x.to_device(source) is x


def test_memory_of_each_gpu(two: tuple[Any, Any]) -> None:
    before = [pcd.memory_info(f"cuda:{n}").used for n in range(2)]
    x = pcd.ones(1_000_000, "i1", "cuda:1")
    after = [pcd.memory_info(f"cuda:{n}").used for n in range(2)]
    assert after[0] == before[0] and after[1] >= before[1] + x.nbytes
    pcd.set_memory_limit(after[1] + 1000, "cuda:1")
    try:
        with pytest.raises(MemoryError, match="cuda:1"):
            x.copy()
        pcd.ones(1_000_000, "i1", "cuda:0")
    finally:
        pcd.set_memory_limit(None, "cuda:1")


def test_streams_of_each_gpu(two: tuple[Any, Any]) -> None:
    x, y = two
    with pcd.stream(pcd.Stream("cuda:1")):
        a, b = x + 1, y + 1
    oracle.assert_same(pcd.asnumpy(a), pcd.asnumpy(b))


def test_both_gpus_order_a_copy(two: tuple[Any, Any]) -> None:
    """The streams that are current on both GPUs have the copy, and memory knows only its GPU's."""
    x = two[0]
    for ordinal in range(2):
        with pcd.stream(pcd.Stream(f"cuda:{ordinal}")) as current:
            y = x.to_device("cuda:1")
        for array, device in ((x, "cuda:0"), (y, "cuda:1")):
            handles = [0 if s is None else s.handle for s in pcd.core.streams_of(array)]
            assert (current.handle in handles) == (device == current.device)


def test_a_copy_waits_for_the_stream_of_the_source(two: tuple[Any, Any]) -> None:
    if not _is_emulated():
        pytest.skip("a stream that is no more crashes a real GPU's driver")
    with pcd.stream(pcd.Stream("cuda:0").handle, "cuda:0"), pytest.raises(pcd.CudaError):
        two[0].to_device("cuda:1")


@pytest.mark.no_emulated_gpu
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::-1]], ids=["direct", "packed"])
def test_a_copy_runs_in_the_order_of_both_gpus(two: tuple[Any, Any], view: Any) -> None:
    """The source is complete before the copy, and neither changed nor reused before its end."""
    n = 1 << 26
    for target in ("default", "own"):
        own = pcd.stream(pcd.Stream("cuda:1")) if target == "own" else contextlib.nullcontext()
        with own:
            x = pcd.zeros(n, device="cuda:0")
            warm = view(x).to_device("cuda:1")
            for _ in range(40):
                x += 1
            y = view(x).to_device("cuda:1")
            x += 1000
            z = view(x).to_device("cuda:1")
            del x
            other = pcd.full(n, -1.0, device="cuda:0")
            assert (y.min().item(), y.max().item()) == (40, 40)
            assert (z.min().item(), z.max().item()) == (1040, 1040)
            del warm, other
