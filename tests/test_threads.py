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
    """Each thread has its own arrays and type; all use the same operations."""
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
    """An error has the text of its own thread."""
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


@pytest.mark.gpu
def test_threads_that_share_an_array_on_streams() -> None:
    """The streams that have used a memory are recorded by all threads."""
    shared = pcd.ones(8, device="cuda")
    streams = [pcd.Stream() for _ in range(4)]
    pcd.synchronize()  # the streams do not wait for the default one, which makes the array
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


@pytest.mark.gpu
def test_threads_that_wait_for_results() -> None:
    """More threads poll than buffers are kept; each gets its own numbers."""
    start = threading.Barrier(12)

    def work(number: int) -> None:
        array = pcd.full(1000, number, "f8", device="cuda")
        start.wait(30)
        for k in range(100):
            assert float(array.sum()) == 1000 * number
            assert pcd.add(number, k, device="cuda") == number + k
            assert (pcd.asnumpy(array[: k + 1]) == number).all()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))


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
    assert [int(threads) for _, threads in results] == [1, 2, 3, 7]


_SMALL_STACK = """
import threading
import numpy as np
import pkg as pcd
fused = pcd.fuse(lambda a, b: pcd.sum(pcd.exp(a) * b + 1))

def compute():
    for dtype in ("f8", "f4", "f2", "i8", "u1", "c16", "?"):
        x = np.ones((300, 400), dtype)
        for op in pcd.core.operations:
            for operand in (x, x[:, ::2], x[:5, :7]):
                try:
                    op(*[operand] * op.nin)
                except (TypeError, ValueError):
                    pass  # not defined for the type
        for name in ("sum", "prod", "min", "max", "any", "all", "count_nonzero", "mean"):
            for axis in (None, 0, 1):
                for operand in (x, x[:, ::2], x.T):
                    try:
                        getattr(pcd, name)(operand, axis=axis)
                    except TypeError:
                        pass
    x = np.ones(100_000)
    names = [f"v{i}" for i in range(32)]
    total = "+".join(names)
    for text in (total, f"sum({total})", "sin(v0) * v1 / v2", "sum(v0 * v1)"):
        pcd.evaluate(text, dict.fromkeys(names, x))
    fused(x, x)
    print("good")

threading.stack_size(65536)
thread = threading.Thread(target=compute)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_thread_with_a_small_stack(threads: str, python: Python) -> None:
    """64 KB are enough, as for NumPy."""
    assert python(_SMALL_STACK, OMP_NUM_THREADS=threads).strip() == "good"


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_keeps_the_number_of_threads(python: Python) -> None:
    """The child may set another number without changing the parent's."""
    child = """
    good = pcd.set_num_threads(2) == 3 and np.array_equal(pcd.multiply(a, a), a * a)
    good = good and pcd.get_num_threads() == 2"""
    code = _FORK.format(before="pcd.set_num_threads(3); pcd.add(a, a)", child=child)
    code += "assert pcd.get_num_threads() == 3"
    assert python(code, OMP_NUM_THREADS="1").strip() == "good"


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
    """A child may, if the parent has not used it."""
    code = _FORK.format(
        before="pass", child="good = np.array_equal(pcd.add(a, a, device='cuda'), a + a)"
    )
    assert python(code).strip() == "good"


@pytest.mark.parametrize(
    ("value", "threads"), [("3", 3), ("4,2", 4), (" 5 ", 5), ("junk", 0), ("-2", 0), ("9999", 256)]
)
def test_omp_num_threads(value: str, threads: int, python: Python) -> None:
    code = """
import os, pkg as pcd
print(pcd.get_num_threads(), len(os.sched_getaffinity(0)))
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # as a launcher may bind the process
pcd.set_num_threads(None)
print(pcd.get_num_threads())"""
    found, processors, bound = map(int, python(code, OMP_NUM_THREADS=value).split())
    assert found == threads if threads else 1 <= found <= processors
    assert bound == (threads or 1)


def test_set_num_threads() -> None:
    before, a = pcd.get_num_threads(), np.arange(500_000.0)
    try:
        last = before
        for n in (1, 3, np.int64(2)):
            assert pcd.set_num_threads(n) == last
            assert pcd.get_num_threads() == n == pcd.config()["threads"]
            assert np.array_equal(pcd.add(a, a), 2 * a)
            last = int(n)
        pcd.set_num_threads(None)
        assert pcd.get_num_threads() >= 1
        for wrong in (0, -1, -(2**70)):
            with pytest.raises(ValueError, match="threads must be 1 or more, not"):
                pcd.set_num_threads(wrong)
        for untyped in ("2", 2.0):
            with pytest.raises(TypeError):
                pcd.set_num_threads(untyped)  # type: ignore[arg-type]
        pcd.set_num_threads(2**70)
        assert pcd.get_num_threads() == 256
    finally:
        pcd.set_num_threads(before)


linux = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")

_POOL = """
import os, resource, threading, time
import numpy as np
import pkg as pcd
def tasks():
    return {int(name) for name in os.listdir("/proc/self/task")}
a = np.arange(1_000_000.0)
out, wanted = np.empty_like(a), a + a
before = tasks()
"""


@linux
def test_callers_share_the_threads(python: Python) -> None:
    """Twenty threads that compute at once share three workers; they do not have three each."""
    code = """
most = [0]
def work():
    mine = np.empty_like(a)
    for _ in range(5):
        pcd.add(a, a, out=mine)
        most[0] = max(most[0], len(tasks() - before))
        assert np.array_equal(mine, wanted)
callers = [threading.Thread(target=work) for _ in range(20)]
for caller in callers: caller.start()
for caller in callers: caller.join()
end = time.monotonic() + 10
while len(left := tasks() - before) > 3 and time.monotonic() < end:
    time.sleep(0.01)  # threads are there for a moment after join()
blocked = [int(line.split()[1], 16) for task in left
           for line in open(f"/proc/self/task/{task}/status") if line.startswith("SigBlk")]
print(most[0], len(left), all(mask & 1 << 14 and mask & 1 << 1 for mask in blocked))
"""
    most, left, blocked = python(_POOL + code, OMP_NUM_THREADS="4").split()
    assert int(most) <= 20 + 3
    assert int(left) == 3, "the workers stay"
    assert blocked == "True", "a worker takes signals that are for the program"


@linux
def test_idle_threads_do_not_burn(python: Python) -> None:
    code = """
pcd.add(a, a, out=out)
start = time.process_time()
time.sleep(0.5)
print(time.process_time() - start, len(tasks() - before))
"""
    seconds, workers = python(_POOL + code, OMP_NUM_THREADS="2").split()
    assert int(workers) == 1
    assert float(seconds) < 0.1


@linux
def test_where_no_thread_can_be_made(python: Python) -> None:
    """The caller computes alone, and with workers once they can be started."""
    code = """
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**20, hard))
pcd.add(a, a, out=out)
workers = len(tasks() - before)
right, total = np.array_equal(out, wanted), pcd.sum(a)
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
time.sleep(1.1)
pcd.add(a, a, out=out)
print(workers, right, total == a.sum(), len(tasks() - before), np.array_equal(out, wanted))
"""
    text = python(_POOL + code, OMP_NUM_THREADS="4")
    assert text.split() == ["0", "True", "True", "3", "True"]


def test_forks_while_others_compute(python: Python) -> None:
    """A child of a thread that forks while jobs are open has a pool of its own."""
    code = """
import signal
stop = threading.Event()
def work():
    mine = np.empty_like(a)
    while not stop.is_set():
        pcd.add(a, a, out=mine)
callers = [threading.Thread(target=work) for _ in range(3)]
for caller in callers: caller.start()
statuses = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        pcd.add(a, a, out=out)
        os._exit(0 if np.array_equal(out, wanted) else 1)
    statuses.append(os.waitpid(child, 0)[1])
stop.set()
for caller in callers: caller.join()
print(*statuses)
"""
    assert python(_POOL + code, OMP_NUM_THREADS="3").split() == ["0"] * 20
