"""Threads that call at once, forked children, and numbers of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cases
import generators
import numpy as np
import oracle
import pytest

import pkg as pcd

Python = Callable[..., str]


@cases.each_device()
@pytest.mark.parametrize("n", [10, 5000, 300_000])
def test_threads_that_call_at_once(n: int, device: str) -> None:
    """Each with arrays and a type of its own, all through the same operations."""
    start = threading.Barrier(4)

    def work(seed: int) -> int:
        dtype = [np.dtype(code) for code in ("i4", "f8", "f2", "c8")][seed]
        a, b = generators.moderate(dtype, n, seed), generators.moderate(dtype, n, seed + 10)
        wanted = {op: oracle.expected(op, a, b) for op in ("add", "multiply", "divide", "minimum")}
        start.wait(30)
        count = 0
        for _ in range(max(3, 30_000 // n)):
            for name, result in wanted.items():
                oracle.assert_same(getattr(pcd, name)(a, b, device=device), result, name, [a, b])
                count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_errors_belong_to_their_threads() -> None:
    """The text of an error is the one of the thread that failed."""
    start = threading.Barrier(3)

    def work(n: int) -> None:
        start.wait(30)
        for _ in range(2000):
            with pytest.raises(
                ZeroDivisionError, match="remainder by zero" if n % 2 else "divide by zero"
            ):
                (pcd.remainder if n % 2 else pcd.divide)(1, 0)
            with np.errstate(divide="raise" if n % 2 else "ignore"):
                if n % 2:
                    with pytest.raises(FloatingPointError):
                        pcd.divide(np.ones(2), np.zeros(2))
                else:
                    pcd.divide(np.ones(2), np.zeros(2))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))


@pytest.mark.parametrize(
    "compute", [pcd.remainder, pcd.Expression("x % a + a")], ids=["operation", "expression"]
)
def test_other_threads_run_meanwhile(compute: Callable[..., Any]) -> None:
    """The GIL is released while a large array is computed."""
    a = np.linspace(1, 2, 200_000)
    out = np.empty_like(a)
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        most = 0
        for _ in range(10):
            before = ticks[0]
            compute(1e60, a, out=out)  # slow: the quotient has 200 bits
            most = max(most, ticks[0] - before)
    finally:
        done.set()
        thread.join()
    assert most > 1000, "no other thread ran during a call of many milliseconds"


def test_threads_that_share_an_expression() -> None:
    """More combinations of types than it remembers: each call replaces what others may be using."""
    e = pcd.Expression("a * b + a")
    codes = "bhilBHILefd"
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait(30)
        for _ in range(400):
            x, y = (np.arange(1, 9).astype(codes[k]) for k in rng.integers(len(codes), size=2))
            if rng.integers(4) == 0:
                y = 3
            result = e(x, y)
            assert result.dtype == (x * y + x).dtype
            assert (result == np.arange(1, 9) * (y + 1)).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.gpu
def test_threads_that_share_an_array_on_streams() -> None:
    """The streams that have used a memory are recorded by all threads."""
    shared = pcd.ones(8, device="cuda")
    streams = [pcd.Stream() for _ in range(4)]
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait(30)
        for k in range(200):
            with pcd.stream(streams[(number + k) % 4]):
                assert (pcd.asnumpy(shared + number) == 1 + number).all()
                assert 1 <= len(pcd.core.streams_of(shared)) <= 5

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(pcd.core.streams_of(shared)) == 5


_BITS = """
import hashlib, numpy as np, pkg as pcd
rng = np.random.default_rng(1)
digest = hashlib.sha256()
for dtype in ("i4", "f4", "f8", "c16", "f2"):
    a, b = (rng.uniform(1, 100, 400_001).astype(dtype) for _ in range(2))
    for name in ("add", "divide", "multiply", "square"):
        operation = getattr(pcd, name)
        digest.update(operation(*(a, b)[: operation.nin]))
    digest.update(pcd.add.reduce(a))
    digest.update(pcd.trace(a[:400_000].reshape(1000, 400).repeat(3, 1)))
print(digest.hexdigest(), pcd.config()["threads"])
"""


def test_the_number_of_threads_changes_no_bit(python: Python) -> None:
    results = [python(_BITS, OMP_NUM_THREADS=str(n)).split() for n in (1, 2, 3, 7)]
    assert len({digest for digest, _ in results}) == 1
    if pcd.config()["has_openmp"]:
        assert [int(threads) for _, threads in results] == [1, 2, 3, 7]


_FORK = """
import os, signal, sys, warnings
import numpy as np
import pkg as pcd
warnings.simplefilter("ignore")
a = np.arange(1_000_000.0)
{before}
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # a child that hangs is killed
    {child}
    os._exit(0 if good else 1)
_, status = os.waitpid(pid, 0)
assert os.WIFEXITED(status), f"the child died of signal {{os.WTERMSIG(status)}}"
assert os.WEXITSTATUS(status) == 0, "the child's results are wrong"
assert np.array_equal(pcd.add(a, a), 2 * a)
print("good")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "before", ["pcd.add(a, a)", "pass"], ids=["after threads", "before threads"]
)
def test_a_forked_child_computes(before: str, python: Python) -> None:
    code = _FORK.format(before=before, child="good = np.array_equal(pcd.multiply(a, a), a * a)")
    assert python(code, OMP_NUM_THREADS="2").strip() == "good"


@pytest.mark.gpu
@pytest.mark.no_emulated_gpu
def test_a_forked_child_of_a_user_of_cuda(python: Python) -> None:
    """CUDA does not survive a fork: the child gets an error, no hang; the CPU still computes."""
    child = """
    try:
        pcd.add(a, a, device="cuda")
        good = False
    except pcd.CudaError as error:
        good = "fork" in str(error)
    good = good and np.array_equal(pcd.multiply(a, a), a * a)"""
    before = "assert np.array_equal(pcd.add(a, a, device='cuda'), a + a)"
    assert python(_FORK.format(before=before, child=child)).strip() == "good"


@pytest.mark.gpu
def test_a_forked_child_may_use_cuda_first(python: Python) -> None:
    """When the parent has not used it before."""
    code = _FORK.format(
        before="pass", child="good = np.array_equal(pcd.add(a, a, device='cuda'), a + a)"
    )
    assert python(code).strip() == "good"
