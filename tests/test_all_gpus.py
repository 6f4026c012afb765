"""Host arrays on all GPUs at once, device="cuda:all": the bits, errors and flags of one device.

Three arrays of eight bytes an element have the 32 MiB from which on all GPUs compute.  With one GPU
all of it holds too.
"""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle
import pytest

import pkg as pcd
from pkg import core

Python = Callable[..., str]
Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 1600, 1500
N = ROWS * COLUMNS
ONE = ("cuda", "cuda:all")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """A thread for each GPU, whatever the machine has: fewer would use fewer GPUs."""
    before = pcd.set_num_threads(8)
    yield
    pcd.set_num_threads(before)


def _numbers(dtype: Any, shape: Any = (ROWS, COLUMNS), seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x: Array = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    else:
        x = rng.standard_normal(shape).astype(dtype)
        if dtype.kind == "c":
            x.imag = rng.standard_normal(shape)
    return x


# ---- The same bits ----

LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "c": lambda x: x,
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1],
    "columns": lambda x: x[:, 1:-1],
    "every second": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "one row": lambda x: np.broadcast_to(x[0], x.shape),
    "one column": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "a number": lambda x: np.broadcast_to(x[3, 4], x.shape),
    "three axes": lambda x: x.reshape(40, -1, 20).transpose(2, 0, 1),
    "unaligned": lambda x: np.frombuffer(b"1" + x.tobytes(), x.dtype, x.size, 1).reshape(x.shape),
}


@pytest.mark.gpu
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    a, b = (_numbers("f8", seed=seed) for seed in (1, 2))
    x = LAYOUTS[layout](a)
    y = b.ravel()[: x.size].reshape(x.shape)
    with np.errstate(all="ignore"):
        for p, q in ((x, y), (y, x), (x, x)):
            got = pcd.divide(p, q, device="cuda:all")
            oracle.assert_same(got, pcd.divide(p, q))
            assert got.strides == pcd.divide(p, q, device="cuda").strides
        expression = pcd.Expression("where(x > y, x * y - 1, sqrt(x)) + y")
        oracle.assert_same(expression(x, y, device="cuda:all"), expression(x, y))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_types(dtype: str) -> None:
    n = (34 << 20) // np.dtype(dtype).itemsize // 3
    x, y = (_numbers("i1", n, seed).astype(dtype) for seed in (1, 2))
    with np.errstate(all="ignore"):
        for operation in (pcd.add, pcd.divide, pcd.less):
            if dtype == "?" and operation is pcd.divide:
                continue
            oracle.assert_same(operation(x, y, device="cuda:all"), operation(x, y))


@pytest.mark.gpu
def test_conversions_and_numbers() -> None:
    x, y = _numbers("i4"), _numbers("f4")
    swapped = y.astype(">f4")
    for call in (
        lambda **d: pcd.add(x, y, **d),
        lambda **d: pcd.multiply(y, 2.5, **d),
        lambda **d: pcd.add(swapped, x[0], **d),
        lambda **d: pcd.add(x, y, dtype="f8", **d),
        lambda **d: pcd.add(x, x, casting="unsafe", dtype="f4", **d),
        lambda **d: pcd.evaluate("x * 2 + y", {"x": x, "y": y}, **d),
        lambda **d: pcd.evaluate("(x * y)", {"x": x, "y": y}, order="F", **d),
        lambda **d: pcd.power(abs(x % 7), 3, **d),
    ):
        oracle.assert_same(call(device="cuda:all"), call())


@pytest.mark.gpu
def test_out_where_and_casting() -> None:
    x, y, mask = _numbers("f8"), _numbers("f8", seed=2), _numbers("f8", seed=3) > 0
    results: dict[str, list[Array]] = {}
    for device in ("cpu", *ONE):
        out = np.full((ROWS, 2 * COLUMNS), 7.0)[:, ::2]
        assert pcd.add(x, y, out=out, device=device) is out
        narrow = np.full(x.shape, 7, "f4")
        pcd.subtract(x, y, out=narrow, casting="same_kind", device=device)
        chosen = np.full(x.shape, 7.0)
        pcd.multiply(x, y, out=chosen, where=mask, device=device)
        whole = np.full(x.shape, 7, "i4")
        pcd.evaluate("x * y * 1e3", {"x": x, "y": y}, out=whole, casting="unsafe", device=device)
        results[device] = [out.base, narrow, chosen, whole]
        with pytest.raises(TypeError):
            pcd.add(x, y, out=np.empty(x.shape, "i4"), device=device)
    for device in ONE:
        for got, right in zip(results[device], results["cpu"], strict=True):
            oracle.assert_same(got, right)


@pytest.mark.gpu
@pytest.mark.parametrize("shift", [0, 1, -1, COLUMNS])
def test_an_out_that_overlaps(shift: int) -> None:
    """`out` is exactly an input, or partly overlaps it: the result is one GPU's, and NumPy's."""
    for code in ("add", "expression"):
        results = []
        for device in ("numpy", *ONE):
            memory = _numbers("f8", N + 2 * COLUMNS)
            x, out = memory[COLUMNS:-COLUMNS], memory[COLUMNS + shift :][:N]
            if device == "numpy":
                np.add(x, 0.5, out=out)
            elif code == "add":
                pcd.add(x, 0.5, out=out, device=device)
            else:
                pcd.evaluate("x + 0.25 + 0.25", {"x": x}, out=out, device=device)
            results.append(memory)
        if code == "add":
            oracle.assert_same(results[1], results[0])
        oracle.assert_same(results[2], results[1])


@pytest.mark.gpu
def test_little_and_nothing() -> None:
    """Small calls use one GPU: numbers, arrays without dimensions or elements, small arrays."""
    for device in ONE:
        assert pcd.add(1, 2, device=device) == 3 and pcd.divide(1.0, 4, device=device) == 0.25
        assert pcd.multiply(2j, 3, device=device) == 6j
        one = pcd.add(np.float32(1), np.array(2.0), device=device)
        assert one == 3 and type(one) is np.float64
        assert pcd.add(np.ones((3, 0)), 1, device=device).shape == (3, 0)
        assert pcd.add([1, 2], [3, 4], device=device).tolist() == [4, 6]
        assert pcd.evaluate("a + 1", {"a": 2}, device=device) == 3
        assert pcd.sum(np.zeros((0, 3)), axis=0, device=device).tolist() == [0, 0, 0]


@pytest.mark.gpu
def test_reductions() -> None:
    """One GPU computes reductions."""
    x, y = _numbers("f4"), _numbers("f4", seed=2)
    for call in (
        lambda **d: pcd.sum(x, **d),
        lambda **d: pcd.max(x, axis=0, **d),
        lambda **d: pcd.mean(x, axis=1, dtype="f8", **d),
        lambda **d: pcd.any(x > 100, **d),
        lambda **d: pcd.count_nonzero(x, axis=1, **d),
        lambda **d: pcd.dot(x[0], y[0], **d),
        lambda **d: pcd.trace(x, **d),
        lambda **d: pcd.evaluate("sum(x * y)", {"x": x, "y": y}, **d),
        lambda **d: pcd.evaluate("mean(x * y, axis=0)", {"x": x, "y": y}, **d),
    ):
        oracle.assert_same(np.asarray(call(device="cuda:all")), np.asarray(call()))


class _Own(np.ndarray[Any, Any]):
    """Has rules of its own, so a ufunc computes it."""


@pytest.mark.gpu
def test_operands_with_rules_of_their_own() -> None:
    x = _numbers("f8").view(_Own)
    result = pcd.add(x, 1, device="cuda:all")
    assert type(result) is _Own
    oracle.assert_same(np.asarray(result), np.asarray(x) + 1)
    ufunc = pcd.ufuncs.add_cudaall
    assert pickle.loads(pickle.dumps(ufunc)) is ufunc


# ---- Errors and flags ----


@pytest.mark.gpu
@pytest.mark.parametrize("at", [0, N // 2 + 1, N - 1])
def test_flags_of_one_element(at: int) -> None:
    """np.errstate reports it once, whichever GPU computes the element."""
    x, y = np.ones((ROWS, COLUMNS)), np.ones((ROWS, COLUMNS))
    y.flat[at] = 0
    for device in ONE:
        with np.errstate(divide="raise"):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                pcd.divide(x, y, device=device)
            assert pcd.divide(y, x, device=device).sum() == N - 1  # nothing is left behind
        with np.errstate(divide="warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = pcd.divide(x, y, device=device)
        assert len(caught) == 1 and "divide by zero" in str(caught[0].message)
        assert result.flat[at] == np.inf
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            pcd.divide(x, y, device=device)


@pytest.mark.gpu
def test_a_negative_exponent_is_found_before_anything_is_written() -> None:
    x, y = _numbers("i8"), np.ones((ROWS, COLUMNS), "i8")
    y[-1, -1] = -1
    out = np.full(x.shape, 7)
    with pytest.raises(ValueError, match="negative"):
        pcd.power(x, y, out=out, device="cuda:all")
    assert (out == 7).all()


def _long_text() -> str:
    """An expression whose temporary values take GPU memory."""
    text = "x"
    for k in range(60):
        text = f"({text} + {k}.5) / (x * x + y * y + {k}.25)"
    return text


@pytest.fixture
def several() -> int:
    if (count := pcd.device_count()) < 2:
        pytest.skip("needs two GPUs")
    return count


@pytest.mark.gpu
def test_an_error_of_any_gpu(several: int) -> None:
    """The error is raised once, names its GPU, and leaves nothing behind; the next call works."""
    expression, x, y = pcd.Expression(_long_text()), _numbers("f8"), _numbers("f8", seed=2)
    right = expression(x, y)
    oracle.assert_same(expression(x, y, device="cuda:all"), right)
    pcd.free_cached_memory()
    used = [pcd.memory_info(f"cuda:{k}").used for k in range(several)]
    for gpu in range(several):
        pcd.set_memory_limit(used[gpu], f"cuda:{gpu}")
        found = ""
        try:
            for _ in range(20):  # the GPU's thread may come when the others have done all
                try:
                    expression(x, y, device="cuda:all")
                except MemoryError as error:
                    found = str(error)
                    break
        finally:
            pcd.set_memory_limit(None, f"cuda:{gpu}")
        assert f"cuda:{gpu}:" in found
        assert used == [pcd.memory_info(f"cuda:{k}").used for k in range(several)]
        oracle.assert_same(expression(x, y, device="cuda:all"), right)


@pytest.mark.gpu
def test_calls_from_many_threads(several: int) -> None:
    """Calls for all GPUs and for one of them wait for each other without a deadlock."""
    x, y = _numbers("f8"), _numbers("f8", seed=2)
    right = x + y
    wrong: list[str] = []

    def work(device: str) -> None:
        for _ in range(3):
            if not (pcd.add(x, y, device=device) == right).all():
                wrong.append(device)

    devices = ["cuda:all", "cuda:0", f"cuda:{several - 1}", "cuda:all"]
    workers = [threading.Thread(target=work, args=(device,)) for device in devices]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive()
    assert not wrong


@pytest.mark.gpu
def test_one_thread_computes_too() -> None:
    x = _numbers("f8")
    pcd.set_num_threads(1)
    oracle.assert_same(pcd.add(x, x, device="cuda:all"), x + x)


# ---- The device ----


@pytest.mark.gpu
def test_as_the_default_device() -> None:
    """For host arrays; Arrays stay on their GPUs, and functions that make them need a device."""
    x, array = _numbers("f8"), pcd.ones(3, device="cuda")
    with pcd.default_device("cuda:all") as name:
        assert name == pcd.get_default_device() == "cuda:all"
        oracle.assert_same(pcd.add(x, 1), x + 1)
        oracle.assert_same(pcd.evaluate("x + 1 + 1", {"x": x}), x + 1 + 1)
        assert pcd.sum(x) == pcd.sum(x, device="cpu") and pcd.add(1, 2) == 3
        assert (array + 1).device == pcd.asarray(array).device == "cuda:0"
        assert pcd.zeros_like(array).device == "cuda:0" and pcd.sum(array) == 3
        for make in (lambda: pcd.ones(3), lambda: pcd.asarray(x), pcd.synchronize):
            with pytest.raises(ValueError, match="the default device is 'cuda:all': all GPUs"):
                make()
        assert pcd.ones(3, device="cuda").device == "cuda:0"
    pcd.set_default_device("cuda:all")
    try:
        assert pcd.get_default_device() == "cuda:all"
        oracle.assert_same(pcd.add(x, 1), x + 1)
    finally:
        pcd.set_default_device(None)


@pytest.mark.gpu
def test_in_the_environment(python: Python) -> None:
    code = "import pkg; print(pkg.get_default_device(), pkg.add([1.5], 1))"
    assert python(code, MYLIB_DEFAULT_DEVICE="cuda:all").strip() == "cuda:all [2.5]"


@pytest.mark.gpu
def test_an_array_lives_on_one_gpu() -> None:
    """The error says what was given, what was expected and why."""
    x, array = np.ones(3), pcd.ones(3, device="cuda")
    for make in (
        lambda: pcd.ones(3, device="cuda:all"),
        lambda: pcd.empty(0, device="cuda:all"),
        lambda: pcd.arange(3, device="cuda:all"),
        lambda: pcd.linspace(0, 1, 3, device="cuda:all"),
        lambda: pcd.full_like(x, 2, device="cuda:all"),
        lambda: pcd.asarray(x, device="cuda:all"),
        lambda: pcd.asarray(array, device="cuda:all"),
        lambda: array.to_device("cuda:all"),
        lambda: pcd.from_dlpack(x, device="cuda:all"),
        lambda: pcd.Stream("cuda:all"),
        lambda: pcd.synchronize("cuda:all"),
        lambda: pcd.memory_info("cuda:all"),
        lambda: pcd.set_memory_limit(1, "cuda:all"),
    ):
        with pytest.raises(ValueError, match=r'all GPUs.*belong to one; expected "cpu", "cuda" or'):
            make()
    with pytest.raises(ValueError, match=r"operand is on cuda:0 and device is 'cuda:all'.*move"):
        pcd.add(array, 1, device="cuda:all")
    with pytest.raises(TypeError, match="out is on cuda:0, but no operand is"):
        pcd.add(x, 1, out=array, device="cuda:all")
    for call in (
        lambda: core.memory_info(core.ALL_GPUS),
        lambda: core.device_info(core.ALL_GPUS),
        lambda: core.empty((3,), np.dtype("f8"), core.ALL_GPUS, False),
        lambda: core.Stream(core.ALL_GPUS),
    ):
        with pytest.raises(ValueError, match=r'all GPUs \("cuda:all", MYLIB_ALL_GPUS\).*name it'):
            call()
